package trigger

import (
	"bytes"
	"cmp"
	"slices"

	"skein.dev/skein/internal/dag"
)

// The effects of an edit on a trigger.
const (
	ChangeAdded     = "added"
	ChangeRemoved   = "removed"
	ChangeChanged   = "changed"
	ChangeUnchanged = "unchanged"
)

// ScheduleChange is the effect of an edit on one trigger of its workflows.
type ScheduleChange struct {
	Workflow string       `json:"workflow"`
	Trigger  string       `json:"trigger"`
	Change   string       `json:"change"`
	Before   string       `json:"before"` // the earlier form as text; "" if the trigger is new
	After    string       `json:"after"`  // "" if the edit removes the trigger
	Fires    [2]int64     `json:"fires"`
	Gained   []dag.Micros `json:"gained"` // the first new instants
	Lost     []dag.Micros `json:"lost"`   // the first removed instants
}

// changes compares the workflows of the edit with their earlier versions.
func (s *simulation) changes() error {
	s.report.Changes = []ScheduleChange{}
	for i := range s.workflows {
		name := s.workflows[i].Name
		after := named(s.in.Edit, name)
		if after == nil {
			continue
		}
		before := named(s.in.Planned, name)
		var names []string
		for _, w := range []*PlannedWorkflow{before, after} {
			if w != nil {
				for _, t := range w.Triggers {
					names = append(names, t.Name)
				}
			}
		}
		slices.Sort(names)
		for _, trigger := range slices.Compact(names) {
			c, err := s.change(i, before.trigger(trigger), after.trigger(trigger))
			if err != nil {
				return err
			}
			c.Workflow, c.Trigger = name, trigger
			s.report.Changes = append(s.report.Changes, c)
		}
	}
	return nil
}

func named(list []PlannedWorkflow, name string) *PlannedWorkflow {
	i := slices.IndexFunc(list, func(w PlannedWorkflow) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

func (w *PlannedWorkflow) trigger(name string) *PlannedTrigger {
	if w == nil {
		return nil
	}
	i := slices.IndexFunc(w.Triggers, func(t PlannedTrigger) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &w.Triggers[i]
}

// change compares two triggers. One of them may be missing.
func (s *simulation) change(i int, before, after *PlannedTrigger) (ScheduleChange, error) {
	c := ScheduleChange{Change: ChangeChanged, Gained: []dag.Micros{}, Lost: []dag.Micros{}}
	var is [2]planned
	for n, t := range []*PlannedTrigger{before, after} {
		if t == nil {
			continue
		}
		var err error
		if is[n], err = s.planned(i, *t); err != nil {
			return c, err
		}
		c.Fires[n] = is[n].fires
	}
	switch {
	case before == nil:
		c.Change, c.After = ChangeAdded, is[1].words()
	case after == nil:
		c.Change, c.Before = ChangeRemoved, is[0].words()
	default:
		c.Before, c.After = is[0].words(), is[1].words()
		if before.Paused == after.Paused && bytes.Equal(before.Encode(), after.Encode()) {
			c.Change = ChangeUnchanged
			return c, nil
		}
	}
	if sameInstants(before, after) {
		return c, nil
	}
	c.compare(&is[0], &is[1], s)
	return c, nil
}

// sameInstants reports whether two triggers have the same instants, so that no comparison of instants is
// needed.
func sameInstants(a, b *PlannedTrigger) bool {
	return a != nil && b != nil && a.Paused == b.Paused && a.Fired == b.Fired && a.Count == b.Count && slices.Equal(a.Pauses, b.Pauses) && bytes.Equal(timing(a.Trigger), timing(b.Trigger))
}

// words returns a description of a trigger for people.
func (p *planned) words() string {
	text := p.Kind
	if p.when != nil {
		text = p.when.Describe()
	}
	if p.MaxConcurrent > 0 {
		text += ", overlap: " + p.Overlap
	}
	if p.Catchup != "" {
		text += ", catchup: " + p.Catchup
	}
	return text
}

// compare finds the first instants that only one of two schedules has.
func (c *ScheduleChange) compare(before, after *planned, s *simulation) {
	step := func(p *planned, at dag.Micros) dag.Micros {
		if p.declared == nil || p.fires == 0 {
			return 0
		}
		if next := p.next(at); next <= p.until {
			return next
		}
		return 0
	}
	a, b := step(before, s.before()), step(after, s.before())
	for steps := 0; a != 0 || b != 0; steps++ {
		if len(c.Gained) == examplesMax && len(c.Lost) == examplesMax || len(c.Gained) == examplesMax && a == 0 || len(c.Lost) == examplesMax && b == 0 {
			return
		}
		if steps == compareStepsMax {
			s.note("the instants before and after the edit of %s are compared up to %s only", cmp.Or(c.Trigger, "a trigger"), clock(max(a, b)))
			return
		}
		switch {
		case a == b:
			a, b = step(before, a), step(after, b)
		case b == 0 || a != 0 && a < b:
			c.Lost = keepFirst(c.Lost, a)
			a = step(before, a)
		default:
			c.Gained = keepFirst(c.Gained, b)
			b = step(after, b)
		}
	}
}

func keepFirst(list []dag.Micros, at dag.Micros) []dag.Micros {
	if len(list) < examplesMax {
		list = append(list, at)
	}
	return list
}
