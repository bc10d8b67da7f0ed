package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"skein.dev/skein/internal/cron"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// NextFilter selects coming instants.
type NextFilter struct {
	N    int    `query:"n" minimum:"1" maximum:"1000" default:"20" doc:"How many."`
	From string `query:"from" doc:"RFC 3339: instants strictly after it. Absent: all that are not decided yet."`
}

// upcoming holds the coming instants of one trigger.
type upcoming struct {
	w    *store.Workflow
	t    *store.Trigger
	decl *workflow.Trigger
	when *cron.Schedule
	// pauses are the planned pauses, whose instants are left out.
	pauses []engine.PlannedPause
	after  time.Time // the last returned instant
	left   int64     // the number of fires that the key count still allows; -1 means no limit
	next   time.Time
}

// upcomingOf returns the coming instants of a trigger after from. If from is 0, it begins after the last
// decided instant or, if the trigger is paused, after now. It returns nil if the instants of the trigger do
// not follow from the clock.
func upcomingOf(w *store.Workflow, t *store.Trigger, from, now dag.Micros) (*upcoming, error) {
	u := &upcoming{w: w, t: t, left: -1}
	var err error
	if u.decl, err = workflow.DecodeTrigger(t.Spec); err == nil && t.Kind != workflow.KindAbsent {
		u.when, err = u.decl.Schedule()
	}
	if err != nil {
		return nil, fmt.Errorf("trigger %s of %s: %w", t.Name, fullName(w.Namespace, w.Name), err)
	}
	if u.when == nil || t.State == store.TriggerEnded {
		return nil, nil
	}
	if u.pauses, err = trigger.Pauses(t); err != nil {
		return nil, err
	}
	if u.decl.Count > 0 {
		u.left = max(u.decl.Count-t.Fired, 0)
	}
	switch {
	case from != 0:
	case t.State == store.TriggerActive:
		from = t.Decided
	default:
		from = now
	}
	u.after = from.Time()
	return u, nil
}

// find finds the next instant. It returns false if there is none.
func (u *upcoming) find() bool {
	if u.left == 0 {
		return false
	}
	next, ok := u.when.Next(u.after)
	for ok {
		p := trigger.PauseAt(u.pauses, dag.Micro(next))
		if p == nil {
			break
		}
		next, ok = u.when.Next((p.Until - 1).Time())
	}
	u.next = next
	return ok
}

// take returns the next instant and moves past it.
func (u *upcoming) take() api.Instant {
	if u.after = u.next; u.left > 0 {
		u.left--
	}
	return api.Instant{Workflow: fullName(u.w.Namespace, u.w.Name), Namespace: u.w.Namespace, Trigger: u.t.Name,
		Time: api.Time{Time: u.next}, Local: u.next.Format(time.RFC3339)}
}

// shifts returns the clock changes that affect the trigger in a span.
func (u *upcoming) shifts(from, to time.Time) []api.ClockChange {
	out := []api.ClockChange{}
	for _, c := range u.when.Shifts(from, to) {
		out = append(out, api.ClockChange{Workflow: fullName(u.w.Namespace, u.w.Name), Namespace: u.w.Namespace, Trigger: u.t.Name,
			At: api.Time{Time: c.At}, Local: c.At.Format(time.RFC3339), From: offset(c.From), To: offset(c.To), Effect: c.Effect})
	}
	return out
}

func offset(d time.Duration) string {
	return time.Time{}.In(time.FixedZone("", int(d/time.Second))).Format("-07:00")
}

type scheduleNextIn struct {
	TriggerPath
	NextFilter
}

func (s *Server) nextOfSchedule(ctx context.Context, in *scheduleNextIn) (*jsonOut[api.NextFires], error) {
	from, err := instantOf("from", in.From)
	if err != nil {
		return nil, err
	}
	w, t, err := s.trigger(ctx, &in.TriggerPath)
	if err != nil {
		return nil, err
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return nil, err
	}
	u, err := upcomingOf(&w, &t, from, now)
	if err != nil || u == nil {
		return nextFires(nil, 0), err
	}
	return nextFires([]*upcoming{u}, in.N), nil
}

type allNextIn struct {
	TriggerFilter
	NextFilter
	Include []string `query:"include" maxItems:"1" enum:"deadlines" doc:"deadlines: with the first deadline of each instant."`
}

// nextOfAll returns the next instants of active triggers, because other triggers do not fire.
func (s *Server) nextOfAll(ctx context.Context, in *allNextIn) (*jsonOut[api.NextFires], error) {
	from, err := instantOf("from", in.From)
	if err != nil {
		return nil, err
	}
	var rows []dueRow
	if from == 0 && in.Workflow == "" && in.Namespace == "" {
		rows, err = s.soonestOfAll(ctx, in)
	} else {
		rows, err = s.soonestOf(ctx, in, from)
	}
	if err != nil {
		return nil, err
	}
	all := make([]*upcoming, 0, len(rows))
	for i := range rows {
		u, err := upcomingOf(rows[i].w, &rows[i].t, from, from)
		if err != nil {
			return nil, err
		}
		if u != nil {
			all = append(all, u)
		}
	}
	out := nextFires(all, in.N)
	if len(in.Include) > 0 {
		err = withDeadlines(ctx, s, all, out.Body.Items)
	}
	return out, err
}

// soonestOfAll returns the triggers that fire first. It reads the index of next instants, so its cost does
// not depend on the number of triggers.
func (s *Server) soonestOfAll(ctx context.Context, in *allNextIn) ([]dueRow, error) {
	names, n := s.workflowNames(), in.N
	for limit := 2 * n; ; limit *= 4 {
		page, err := s.engine.Upcoming(ctx, limit)
		if err != nil {
			return nil, err
		}
		rows, open := make([]dueRow, 0, n), 0
		for i := 0; i < len(page) && open < n; i++ {
			if !isSchedule(&page[i]) { // a trigger that is no schedule, with a pending start
				continue
			}
			w, err := names.get(ctx, page[i].Workflow)
			if errors.Is(err, errkind.ErrNotFound) || err == nil && isSystem(w) && in.hides("", "") {
				continue
			}
			if err != nil {
				return nil, err
			}
			// A trigger with a paused instant fires later than its place in the index says.
			was := page[i].Next
			if page[i].Next, err = trigger.NextOpen(&page[i]); err != nil {
				return nil, err
			}
			if page[i].Next == was {
				open++
			}
			if page[i].Next != 0 {
				rows = append(rows, dueRow{w, page[i]})
			}
		}
		if open == n || len(page) < limit || limit >= triggersLookedAt {
			return soonest(rows, n), nil
		}
	}
}

// soonestOf reads the triggers of a namespace or a workflow. It reads all triggers if the instants begin at a
// time that the index does not cover.
func (s *Server) soonestOf(ctx context.Context, in *allNextIn, from dag.Micros) ([]dueRow, error) {
	var rows []dueRow
	more, err := s.scan(ctx, &in.TriggerFilter, store.TriggerQuery{State: store.TriggerActive, Limit: scanPage}, func(w *store.Workflow, t *store.Trigger) (bool, error) {
		if t.Next == 0 || !isSchedule(t) {
			return false, nil
		}
		row := dueRow{w, *t}
		var err error
		if row.t.Next, err = trigger.NextOpen(t); err != nil || row.t.Next == 0 {
			return false, err
		}
		if rows = append(rows, row); from == 0 && len(rows) >= 2*pageMax {
			rows = soonest(rows, in.N)
		}
		return false, nil
	})
	switch {
	case err != nil:
		return nil, err
	case more != nil:
		return nil, invalid("there are more than %d triggers: name a workflow, or a namespace with fewer triggers, or leave out from", triggersLookedAt)
	case from == 0:
		rows = soonest(rows, in.N)
	}
	return rows, nil
}

// dueRow is a trigger whose next instant is known.
type dueRow struct {
	w *store.Workflow
	t store.Trigger
}

// soonest keeps the n triggers that fire first. The first n instants all belong to these triggers.
func soonest(rows []dueRow, n int) []dueRow {
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].t.Next < rows[j].t.Next })
	for i := n; i < len(rows); i++ {
		rows[i] = dueRow{} // a declaration may be large
	}
	return rows[:min(len(rows), n)]
}

// nextFires merges the first n instants.
func nextFires(all []*upcoming, n int) *jsonOut[api.NextFires] {
	out := api.NextFires{Items: []api.Instant{}, Shifts: []api.ClockChange{}}
	began := make([]time.Time, len(all))
	var open []*upcoming
	for i, u := range all {
		began[i] = u.after
		if u.find() {
			open = append(open, u)
		}
	}
	byTime := func(a, b *upcoming) int { return a.next.Compare(b.next) }
	slices.SortStableFunc(open, byTime)
	for len(open) > 0 && len(out.Items) < n {
		u := open[0]
		open = open[1:]
		if out.Items = append(out.Items, u.take()); u.find() {
			i, _ := slices.BinarySearchFunc(open, u, byTime)
			for i < len(open) && open[i].next.Equal(u.next) {
				i++
			}
			open = slices.Insert(open, i, u)
		}
	}
	if len(out.Items) > 0 {
		end := out.Items[len(out.Items)-1].Time.Time
		for i, u := range all {
			if len(out.Shifts) < pageMax {
				out.Shifts = append(out.Shifts, u.shifts(began[i], end)...)
			}
		}
	}
	sort.SliceStable(out.Shifts, func(i, j int) bool { return out.Shifts[i].At.Before(out.Shifts[j].At.Time) })
	return &jsonOut[api.NextFires]{Body: out}
}
