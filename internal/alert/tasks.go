package alert

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The events of tasks.
const (
	TaskFailed  Event = "task_failed" // a task failed finally
	Retrying    Event = "retrying"    // an attempt failed, and the task is tried again
	Lost        Event = "lost"        // the worker or node of an attempt is gone
	Poison      Event = "poison"      // a task failed because it lost its worker too often
	Approval    Event = "approval"    // a task waits for a person
	Quarantined Event = "quarantined" // a run was quarantined, because its rows or events are invalid
	Recovered   Event = "recovered"   // a run succeeded after one that failed, or after a missed instant
	// Decided ends an incident about an approval. Rules do not name it.
	Decided Event = "decided"
)

// approvalsMax bounds the open incidents of one rule about approvals. Further approvals notify the channels,
// but their incidents end at once.
const approvalsMax = 1000

// runsMax bounds the runs that an incident remembers in addition to the last one. If more runs than that have
// events of tasks in turn, a run may count again.
const runsMax = 32

// counts reports whether the incident has counted a run.
func (n *Incident) counts(run string) bool {
	return run == n.Detail.Last.Run || slices.Contains(n.Detail.Runs, run)
}

// runsBefore returns the runs that the incident remembers after an event of another run. Only the events of
// tasks of several runs can come in turn.
func (n *Incident) runsBefore(h *Happening) []string {
	last := n.Detail.Last.Run
	if last == "" || last == h.Run || h.Task == "" && n.Detail.Last.Task == "" {
		return n.Detail.Runs
	}
	return append(slices.Clone(n.Detail.Runs[max(0, len(n.Detail.Runs)-runsMax+1):]), last)
}

// Aside reports whether an event says nothing about the times of a run.
func (h *Happening) Aside() bool {
	switch h.Event {
	case TaskFailed, Retrying, Lost, Poison, Approval, Decided, Quarantined, Orphan:
		return true
	}
	return false
}

// ofTask reports whether an event is about one of the tasks that the rule names.
func (r *Rule) ofTask(h *Happening) bool {
	switch {
	case len(r.Tasks) == 0:
		return true
	case h.Task != "":
		return r.names(h.Task)
	case h.Failures != nil:
		return h.Failures(r.names)
	}
	return h.Cause == string(dag.CauseTask) && r.names(strings.TrimPrefix(failedTask(h.Message), "task "))
}

// names reports whether the rule names a task. A name without an index covers all instances of a foreach.
func (r *Rule) names(task string) bool {
	name := withoutIndex(task)
	return slices.ContainsFunc(r.Tasks, func(glob string) bool {
		matches, _ := path.Match(glob, name) // the file was checked, so the pattern is valid
		return matches
	})
}

// fails reports whether a rule that watches recoveries counts an event.
func (r *Rule) fails(h *Happening) bool {
	return (h.Event == Failed || h.Event == Missed) && r.ofTask(h)
}

// recovers applies an event to a rule that watches recoveries. The rule counts failures without a notice. The
// next success notifies its channels.
func (r *Rule) recovers(is *Incident, h *Happening) Change {
	switch {
	case h.Success && is != nil && is.Detail.Count >= r.After:
		next := *is
		next.Detail.To, next.Detail.Severity, next.Detail.Message = r.To, r.Severity, r.Message
		next.Detail.Last, next.Detail.OpenedAt = *h, h.At
		next.Detail.Last.Event, next.Detail.Last.Subject = Recovered, is.Detail.Last.Subject
		return next.told(KindEvent, store.IncidentResolved, h.At)
	case h.Success && is != nil:
		return Close(is, Word{Run: h.Run, At: h.At})
	case !r.fails(h), is != nil && h.Run != "" && h.Run == is.Detail.Last.Run:
		return Change{}
	}
	next := begin(r, h)
	if is != nil {
		copied := *is
		next = &copied
		next.Detail.Last = *h
		next.Detail.Count += max(h.Instants, 1)
	}
	next.put(store.IncidentCounting, h.At)
	return Change{Incident: next}
}

// approvalKey returns the rule in the row of an incident about an approval.
func (r *Rule) approvalKey(h *Happening) string {
	return fmt.Sprintf("%s [task %s, run %s]", r.Name, h.Task, h.Run)
}

// ofApproval reports whether the incident is about an approval.
func (n *Incident) ofApproval() bool { return n.Detail.Of != "" && n.Detail.Last.Event == Approval }

// approvals applies an event to a rule about approvals. Each approval has an incident, which ends with the
// wait of its task.
func (r *Rule) approvals(open map[string]*Incident, h *Happening) (all []Change) {
	switch {
	case h.Event == Decided:
		if is := open[r.approvalKey(h)]; is != nil {
			return []Change{Close(is, Word{Reason: fmt.Sprintf("task %s of run %s no longer waits for an approval", h.Task, h.Run), At: h.At})}
		}
	case h.Over: // the run has ended, and so have its approvals
		for _, key := range keysOf(open) {
			if is := open[key]; is.Detail.Of == r.Name && is.Detail.Last.Run == h.Run {
				all = append(all, Close(is, Word{Reason: fmt.Sprintf("run %s has ended", h.Run), At: h.At}))
			}
		}
	case h.Event == Approval && r.watches(h):
		one, count := *r, 0
		one.of, one.Name = r.Name, r.approvalKey(h)
		for _, is := range open {
			if is.Detail.Of == r.Name {
				count++
			}
		}
		if one.Each = r.Each || count >= approvalsMax; open[one.Name] == nil {
			return []Change{Step(&one, nil, h)}
		}
	}
	return all
}

// taskText says in words what happened to a task.
func (h *Happening) taskText() string {
	what := fmt.Sprintf("task %s of run %s", h.Task, h.Run)
	if h.Task == "" {
		what = fmt.Sprintf("the split of run %s", h.Run)
	}
	return what + map[Event]string{TaskFailed: " failed", Retrying: " failed and is tried again", Lost: " lost its worker",
		Poison: " failed because it lost its worker too often", Approval: " waits for an approval"}[h.Event]
}
