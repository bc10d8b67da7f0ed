package alert

import (
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Silenced is a silence in the form in which an incident stores it.
type Silenced struct {
	ID     string     `json:"id"`
	By     string     `json:"by"`
	Reason string     `json:"reason,omitempty"`
	Until  dag.Micros `json:"until"`
}

// Rung is one step of an escalation.
type Rung struct {
	After dag.Micros `json:"after"` // microseconds since the first notice
	To    []string   `json:"to"`
}

// Escalated is an escalation that has happened.
type Escalated struct {
	Seq int32    `json:"seq"`
	To  []string `json:"to"`
}

// Silence removes the notices of a change that opens an incident or reports an event, if a silence covers the
// incident. It does not alter other changes: channels that were notified of the beginning of an incident are
// also notified of its end.
func (c *Change) Silence(all []store.Silence, now dag.Micros) {
	if c.Incident == nil || len(c.Notices) == 0 || c.Incident.Detail.Seq != 1 {
		return
	}
	s := silencing(all, c.Incident, now)
	if s == nil {
		return
	}
	d := &c.Incident.Detail
	d.Seq, d.ToldAt, d.EscalateAt = 0, 0, 0
	d.Silenced = &Silenced{ID: s.ID.String(), By: s.By, Reason: s.Reason, Until: s.Until}
	c.Incident.stored()
	c.Notices = nil
}

// silencing returns the silence about an incident that lasts longest, or nil.
func silencing(all []store.Silence, n *Incident, now dag.Micros) (longest *store.Silence) {
	for i := range all {
		if s := &all[i]; s.Until > now && s.Matches(n.Namespace, n.Detail.Name, n.RuleName()) && (longest == nil || s.Until > longest.Until) {
			longest = s
		}
	}
	return longest
}

// RuleName returns the name of the rule, as people write it.
func (n *Incident) RuleName() string {
	if n.Detail.Of != "" {
		return n.Detail.Of
	}
	return n.Rule
}

// Silent reports whether the notices of an open incident are withheld because of a silence.
func (n *Incident) Silent() bool {
	return n.State == store.IncidentOpen && n.Detail.Silenced != nil && n.Detail.Seq == 0
}

// Speak notifies the channels of an incident whose silence has ended. If another silence applies now, Speak
// only notes that silence. If it was already noted, the change has no incident.
func (r *Rule) Speak(is *Incident, all []store.Silence, now dag.Micros) Change {
	next := *is
	if s := silencing(all, is, now); s != nil {
		if s.ID.String() == is.Detail.Silenced.ID && s.Until == is.Detail.Silenced.Until {
			return Change{}
		}
		next.Detail.Silenced = &Silenced{ID: s.ID.String(), By: s.By, Reason: s.Reason, Until: s.Until}
		next.put(is.State, now)
		return Change{Incident: &next}
	}
	r.climbs(&next, now)
	return next.told(KindOpened, is.State, now)
}

// climbs sets the time of the first escalation of an incident whose channels are notified now.
func (r *Rule) climbs(n *Incident, now dag.Micros) {
	n.Detail.ToldAt, n.Detail.EscalateAt = now, 0
	if len(r.Escalate) > 0 {
		n.Detail.EscalateAt = now + r.Escalate[0].After
	}
}

// Climb notifies the channels of the next step of the escalation of an incident that no person has
// acknowledged.
func (r *Rule) Climb(is *Incident, now dag.Micros) Change {
	next := *is
	d := &next.Detail
	at := len(d.Escalated)
	if d.EscalateAt = 0; at >= len(r.Escalate) { // an edit has removed the step
		next.put(is.State, now)
		return Change{Incident: &next}
	}
	if at+1 < len(r.Escalate) {
		d.EscalateAt = max(d.ToldAt+r.Escalate[at+1].After, now)
	}
	d.Escalated = append(slices.Clone(d.Escalated), Escalated{Seq: d.Seq + 1, To: r.Escalate[at].To})
	return next.told(KindEscalate, is.State, now)
}

// Climbs returns the time of the next escalation of an open incident, or 0 if there is none.
func (n *Incident) Climbs() dag.Micros {
	if n.State != store.IncidentOpen {
		return 0
	}
	return n.Detail.EscalateAt
}

// channels returns the names of the channels that the transition seq notifies. An escalation notifies its own
// channels. Every other transition notifies the channels of the rule and of all earlier escalations.
func (d *Detail) channels(seq int32) []string {
	all := d.To
	for i := range d.Escalated {
		if d.Escalated[i].Seq == seq {
			return d.Escalated[i].To
		}
		if d.Escalated[i].Seq < seq {
			all = append(slices.Clip(all), d.Escalated[i].To...)
		}
	}
	return all
}
