package alert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Change is the result of a step. If Incident is nil, nothing changes.
type Change struct {
	Incident *Incident // the incident in its new revision
	Notices  []store.Notice
}

// Step applies an event to a rule. is is the incident of the rule that has not ended, or nil. Step does not
// change is.
func Step(r *Rule, is *Incident, h *Happening) Change {
	switch {
	case !r.Covers(h.Origin, h.Tags):
		return Change{}
	case slices.Contains(r.On, Recovered):
		return r.recovers(is, h)
	case h.Success && is != nil && !slices.Contains(r.On, Orphan):
		return Close(is, Word{Run: h.Run, At: h.At})
	case !r.watches(h):
		return Change{}
	case r.Each || h.Success:
		n := begin(r, h)
		n.Detail.OpenedAt = h.At
		return n.told(KindEvent, store.IncidentResolved, h.At)
	case is == nil:
		return r.opened(begin(r, h), h)
	case h.Task != "" && is.counts(h.Run): // the tasks of one run count once
		return Change{}
	case h.Run != "" && is.counts(h.Run): // the run was recovered, and has ended in the same way again
		next := *is
		next.Detail.Runs = is.runsBefore(h)
		next.Detail.Last = *h
		next.put(is.State, h.At)
		return Change{Incident: &next}
	}
	next := *is
	next.Detail.Runs = is.runsBefore(h)
	next.Detail.Last = *h
	next.Detail.Count += max(h.Instants, 1)
	if is.State == store.IncidentCounting {
		next.Detail.To, next.Detail.Severity, next.Detail.Message = r.To, r.Severity, r.Message
		return r.opened(&next, h)
	}
	next.put(is.State, h.At)
	return Change{Incident: &next}
}

// begin makes the incident that an event begins. The incident is not open yet.
func begin(r *Rule, h *Happening) *Incident {
	return &Incident{
		Incident: store.Incident{ID: h.ID, Shard: h.Of.Shard, Workflow: h.Of.Workflow, Namespace: h.Of.Namespace, Rule: r.Name, Created: h.At},
		Detail:   Detail{Name: h.Of.Name, Of: r.of, GroupBy: r.GroupBy, Severity: r.Severity, To: r.To, Message: r.Message, Count: max(h.Instants, 1), First: *h, Last: *h},
	}
}

// opened opens an incident if there were enough events in a row for it.
func (r *Rule) opened(n *Incident, h *Happening) Change {
	if n.Detail.Count < r.After {
		n.put(store.IncidentCounting, h.At)
		return Change{Incident: n}
	}
	return r.open(n, h)
}

// open opens an incident.
func (r *Rule) open(n *Incident, h *Happening) Change {
	n.Detail.OpenedAt = h.At
	r.climbs(n, h.At)
	return n.told(KindOpened, store.IncidentOpen, h.At)
}

// told moves the incident to a state, and adds the notices about this transition.
func (n *Incident) told(kind, state string, at dag.Micros) Change {
	n.Detail.Seq++
	d := &n.Detail
	if store.IncidentOver(state) {
		d.EscalateAt = 0
	}
	n.put(state, at)
	body := Notice{Kind: kind, Incident: n.ID.String(), Seq: d.Seq, Namespace: n.Namespace, Workflow: d.Name, Rule: n.RuleName(), Severity: d.Severity,
		Message: d.Message, Event: d.Last, Count: d.Count, At: at, OpenedAt: d.OpenedAt, ResolvedBy: d.Resolved}
	body.Text = body.line()
	data, _ := json.Marshal(&body) // the fields are texts and numbers, so there is no error
	c := Change{Incident: n}
	to := d.channels(d.Seq)
	for i, name := range to {
		if slices.Contains(to[:i], name) {
			continue
		}
		c.Notices = append(c.Notices, store.Notice{Incident: n.ID, Seq: d.Seq, Channel: name, Namespace: n.Namespace, Shard: n.Shard, Workflow: n.Workflow,
			State: store.NoticePending, Due: at, Created: at, Data: data})
	}
	return c
}

// line returns a line of text that names what a notice is about.
func (b *Notice) line() string {
	name := b.Namespace + "/" + b.Workflow
	if b.Workflow == "" {
		name = "cluster"
		if b.Kind == KindResolved {
			name += ": " + b.Event.condition()
		}
	} else if b.Event.Subject != "" {
		name += " (" + b.Event.Subject + ")"
	}
	if b.Kind == KindResolved {
		switch w := b.ResolvedBy; {
		case w.Run != "":
			return fmt.Sprintf("%s is resolved: run %s succeeded", name, w.Run)
		case w.By != "":
			return fmt.Sprintf("%s is resolved by %s", name, w.By)
		default:
			return fmt.Sprintf("%s is resolved: %s", name, w.Reason)
		}
	}
	text := ""
	switch h := &b.Event; {
	case b.Kind == KindMessage:
		first, _, _ := strings.Cut(b.Message, "\n")
		return name + ": " + first
	case b.Workflow == "":
		text = name + ": " + h.condition()
	case h.Event == Late && h.Run == "":
		text = fmt.Sprintf("%s: trigger %s is late", name, h.Trigger)
	case h.Event == Late:
		text = fmt.Sprintf("%s: run %s is late", name, h.Run)
	case h.Event == Slow:
		text = fmt.Sprintf("%s: run %s takes longer than usual", name, h.Run)
	case h.Task != "" || h.Event == Poison || h.Event == Lost:
		text = name + ": " + h.taskText()
	case h.Event == Recovered:
		text = fmt.Sprintf("%s: run %s succeeded again", name, h.Run)
	case h.Event == Quarantined:
		text = fmt.Sprintf("%s: run %s was quarantined", name, h.Run)
	case h.Event == Orphan:
		text = fmt.Sprintf("%s: run %s has left work outside of its processes", name, h.Run)
	case h.Event == Missed && h.Instants > 1:
		text = fmt.Sprintf("%s: trigger %s missed %d instants", name, h.Trigger, h.Instants)
	case h.Event == Missed && h.Run == "":
		text = fmt.Sprintf("%s: trigger %s missed an instant", name, h.Trigger)
	case h.Event == Missed:
		text = fmt.Sprintf("%s: run %s of trigger %s began too late", name, h.Run, h.Trigger)
	default:
		text = fmt.Sprintf("%s: run %s %s", name, h.Run, map[Event]string{Failed: "failed", Stopped: "was stopped", Skipped: "was skipped", Succeeded: "succeeded"}[h.Event])
	}
	if b.Event.Message != "" {
		text += ": " + b.Event.Message
	}
	if b.Kind == KindEscalate {
		text += " (not acknowledged)"
	}
	if b.Count > 1 && b.Event.Instants <= 1 {
		text += fmt.Sprintf(b.counted(), b.Count)
	}
	return text
}

// counted returns the unit of an incident's count, in words.
func (b *Notice) counted() string {
	if b.Event.Event == Late || b.Event.Event == Slow {
		return " (%d since then)"
	}
	if b.Event.Event == Recovered {
		return " (after %d failures)"
	}
	return " (%d in a row)"
}

// Close ends an incident that has not ended. If no channel was notified of its opening, none is notified of
// its end.
func Close(is *Incident, why Word) Change {
	next := *is
	next.Detail.Resolved = &why
	if is.State == store.IncidentCounting {
		next.put(store.IncidentPassed, why.At)
		return Change{Incident: &next}
	}
	if is.Detail.Silenced != nil && is.Detail.Seq == 0 { // no channel was notified of it
		next.put(store.IncidentResolved, why.At)
		return Change{Incident: &next}
	}
	return next.told(KindResolved, store.IncidentResolved, why.At)
}

// Acknowledge records that a person takes care of an open incident. No channel is notified of that.
func Acknowledge(is *Incident, who Word) Change {
	next := *is
	next.Detail.Acknowledged = &who
	next.put(store.IncidentAcknowledged, who.At)
	return Change{Incident: &next}
}
