package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// carryOut writes the decisions of a trigger in the transaction being made: the changed row, the lines of the
// ledger, and the runs. t is the trigger's row as this transaction leaves it.
func (s *schedule) carryOut(t *store.Trigger, p *Plan) error {
	if p.idle(t) {
		return nil
	}
	next := *t
	for i := range p.Lines {
		line := p.Lines[i]
		line.Workflow, line.Trigger = t.Workflow, t.Name
		if err := s.line(line); err != nil {
			return err
		}
	}
	if len(p.Starts) > 0 {
		pol, err := s.planner.Policy(t)
		if err != nil {
			return fmt.Errorf("trigger %s: %w", t.Name, err)
		}
		f := firing{s: s, t: t, pol: &pol}
		for i := range p.Starts {
			if i > 0 && p.Data == nil && p.Starts[i].Key == "" && s.expr.full() {
				p = p.upTo(i)
				break
			}
			o, err := f.start(&p.Starts[i])
			if err != nil {
				return fmt.Errorf("trigger %s: %w", t.Name, err)
			}
			if !o.Existing && !o.Run.IsZero() {
				next.Fired++
			}
		}
	}
	next.Next, next.Decided = p.Next, max(p.Decided, t.Decided)
	if p.State != "" {
		next.State, next.Reason = p.State, p.Reason
	}
	if p.Data != nil {
		next.Data = p.Data
	}
	s.putTrigger(next)
	s.txn().batch.Watermark = max(s.txn().batch.Watermark, p.Decided)
	// The plan was made by a clock that may be ahead of the clock of this transaction. So a trigger that is
	// declared later in this transaction must begin after the decided instants.
	s.txn().due = max(s.txn().due, p.Decided)
	return nil
}

// upTo returns the part of the plan with its first i starts. The next plan has the others. All starts of the
// plan must be for instants, in the order of time.
func (p *Plan) upTo(i int) *Plan {
	cut := *p
	cut.Starts, cut.Decided, cut.Next = p.Starts[:i], p.Starts[i-1].Instant, p.Starts[i].Instant
	cut.State, cut.Reason = "", ""
	return &cut
}

// idle reports whether a plan would change nothing.
func (p *Plan) idle(t *store.Trigger) bool {
	return len(p.Starts) == 0 && len(p.Lines) == 0 && p.Data == nil && p.Next == t.Next && p.Decided <= t.Decided &&
		(p.State == "" || p.State == t.State && p.Reason == t.Reason)
}

// firing starts the runs of one trigger.
type firing struct {
	s     *schedule
	t     *store.Trigger
	pol   *Policy
	actor string // the person who fires the trigger
}

// start decides one instant or event. It starts a run, or writes a ledger line with the reason why none
// starts.
func (f *firing) start(is *Start) (Occurred, error) {
	k := keyOfTrigger(f.t)
	f.s.txn().rows += rowsPerItem
	at := is.Instant
	if is.Key != "" {
		was, err := f.s.firedBefore(k, is.Key)
		if err != nil || was != nil {
			return was.occurred(), err
		}
	}
	line := store.Fire{Workflow: f.t.Workflow, Trigger: f.t.Name, At: at, Key: is.Key, Last: at, Count: 1,
		Outcome: store.OutcomeFired, Reason: is.Reason}
	if is.Late {
		line.Outcome = store.OutcomeLate
	}
	wf, err := f.s.defs.workflow(f.t.Workflow)
	if err != nil {
		return Occurred{}, err
	}
	switch why, err := f.refused(&wf, is); {
	case err != nil:
		return Occurred{}, err
	case why != "":
		line.Outcome, line.Reason = store.OutcomeSkipped, why
		if f.actor != "" {
			line.Reason = line.Reason.And("", store.Because("asked", f.actor))
		}
	default:
		run, why, err := f.run(&wf, is)
		if err != nil {
			return Occurred{}, err
		}
		if line.Run = run; why != "" {
			line.Outcome, line.Reason = store.OutcomeMissed, why
		}
	}
	err = f.s.line(line)
	return Occurred{Run: line.Run, Outcome: line.Outcome, Reason: line.Reason}, err
}

// refused returns the reason why no run may start now. It returns "" if one may.
func (f *firing) refused(wf *store.Workflow, is *Start) (why store.Reason, err error) {
	if is.Refused != "" {
		return is.Refused, nil
	}
	if wf.State != store.WorkflowActive {
		return store.Because("workflow_state", wf.State), nil
	}
	if r := f.s.coalesced(wf.ID); r != nil {
		return store.Because("overlap_waits", r.ID.String()), nil
	}
	if err := f.s.limits.quotas.roomAbout(wf); err != nil {
		return quotaReason(err), nil
	}
	g, full, err := f.full()
	if err != nil || !full || f.actor != "" {
		return "", err
	}
	switch f.pol.Overlap {
	case OverlapSkip:
		return store.Because("overlap_skip", oldest(g).String(), store.Number(int64(f.pol.MaxRuns))), nil
	case OverlapQueue, OverlapAllow:
		if g.waiting.Len() >= int(f.pol.QueueMax) {
			return store.Because("overlap_queue", store.Number(int64(g.waiting.Len()))), nil
		}
	case OverlapCancel:
		f.s.limits.cancelMembers(g, "overlap: cancel_running, a newer run takes over")
	}
	return "", nil
}

// quotaReason returns the reason of a fire that finds no room in a quota.
func quotaReason(err error) store.Reason {
	var over *store.QuotaError
	if errors.As(err, &over) {
		return store.Because("quota", over.Quota, over.Namespace, store.Number(over.Used), store.Number(over.Bound))
	}
	return store.Said(err.Error())
}

// full reports whether the trigger already has its maximum of unfinished runs.
func (f *firing) full() (g *gate, full bool, err error) {
	k := keyOfTrigger(f.t)
	// the trigger has room now, so its runs do not wait; but after a reload, all of them are at the first
	// gate
	if f.s.limits.gates.open[k] {
		delete(f.s.limits.gates.open, k)
		if err := f.s.limits.letAt(k, func() bool { return false }); err != nil {
			return nil, false, err
		}
	}
	g = f.s.limits.gates.of[k]
	return g, g != nil && f.pol.MaxRuns != 0 && len(g.members) >= int(f.pol.MaxRuns), nil
}

// oldest returns the active run that a person should examine.
func oldest(g *gate) dag.RunID {
	var first *dag.Run
	for _, r := range g.members {
		if first == nil || r.Created < first.Created || r.Created == first.Created && string(r.ID[:]) < string(first.ID[:]) {
			first = r
		}
	}
	return first.ID
}

// run makes the run of an instant or event. why is the reason if its parameters cannot be made.
func (f *firing) run(wf *store.Workflow, is *Start) (id dag.RunID, why store.Reason, err error) {
	version, err := f.s.startVersion(wf)
	if err != nil {
		return id, "", err
	}
	params, err := f.s.expr.plannedParams(ParamsQuery{Workflow: wf.ID, Version: version, Given: f.pol.Params, Instant: is.Instant, Event: is.Event})
	switch {
	case errors.Is(err, errkind.ErrInvalid):
		return id, store.Because("parameters", clean(err.Error())), nil
	case err != nil:
		return id, "", err
	}
	origin := dag.OriginSchedule
	switch {
	case f.actor != "":
		origin = dag.OriginManual
	case is.Key != "":
		origin = dag.OriginSensor
	}
	r := dag.NewRun(dag.Header{
		ID: dag.RunID(f.s.newID()), Shard: wf.Shard, Workflow: wf.ID, Version: version, Priority: f.pol.Priority, Origin: origin,
		User: f.actor, Params: params, Created: f.s.txn().now.Wall,
		Fire: &dag.Fire{Trigger: f.t.Name, Instant: is.Instant, StartBy: is.StartBy, Key: is.Key, FailLost: f.pol.FailLost, Trace: is.Trace, Tags: wf.Tags},
	})
	if err := f.s.addRun(r, is.Key == "", nil); err != nil {
		return r.ID, "", err
	}
	f.s.limits.quotas.checked(r)
	return r.ID, "", nil
}

// startVersion returns the version for a run that starts now. In a transaction that makes another version
// current, it is the previous version. The reason is that an edit decides the due instants by the old
// declaration, and that the new version cannot be read yet.
func (s *schedule) startVersion(wf *store.Workflow) (int32, error) {
	same := func(o store.Workflow) bool { return o.ID == wf.ID }
	if !slices.ContainsFunc(s.txn().batch.WorkflowUpdates, same) {
		return wf.Version, nil
	}
	is, err := s.store.WorkflowByID(context.Background(), wf.ID)
	if errors.Is(err, store.ErrNotFound) {
		return wf.Version, nil // the workflow is new
	}
	return is.Version, errkind.FromStore("read the current version", err)
}

// firedBefore finds the line of an event.
func (s *schedule) firedBefore(k store.TriggerKey, key string) (*fireLine, error) {
	for i := range s.txn().batch.Fires {
		if l := &s.txn().batch.Fires[i]; l.Workflow == k.Workflow && l.Trigger == k.Name && l.Key == key {
			return (*fireLine)(l), nil
		}
	}
	l, err := s.store.FireByKey(context.Background(), k, 0, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, errkind.FromStore("look for the event", err)
	}
	return (*fireLine)(&l), nil
}

type fireLine store.Fire

func (l *fireLine) occurred() Occurred {
	if l == nil {
		return Occurred{}
	}
	return Occurred{Run: l.Run, Outcome: l.Outcome, Reason: l.Reason, Existing: true}
}

// line writes a line of the ledger. If the last line has the same outcome, line adds the instants to it.
func (s *schedule) line(l store.Fire) error {
	l.Decided = s.txn().now.Wall
	l.Reason = cleanReason(l.Reason)
	s.txn().draft.fired(&l, s.txn().now.Wall)
	if err := s.alerts.missed(&l); err != nil {
		return err
	}
	k := store.TriggerKey{Workflow: l.Workflow, Name: l.Trigger}
	if l.Run.IsZero() && l.Key == "" {
		last, err := s.lastLine(k)
		if err != nil {
			return err
		}
		if last != nil && last.Run.IsZero() && last.Key == "" && last.Outcome == l.Outcome && last.Reason == l.Reason && last.Last < l.At {
			s.prolong(k, last, &l)
			return nil
		}
	}
	s.txn().batch.Fires = append(s.txn().batch.Fires, l)
	s.txn().lines[k] = lineAt{inserted: true, i: len(s.txn().batch.Fires) - 1}
	return nil
}

// lineAt locates the newest ledger line of a trigger in the batch.
type lineAt struct {
	inserted bool
	i        int
}

func (s *schedule) lastLine(k store.TriggerKey) (*store.Fire, error) {
	if at, ok := s.txn().lines[k]; ok && at.inserted {
		return &s.txn().batch.Fires[at.i], nil
	} else if ok {
		return &s.txn().batch.FireUpdates[at.i].Fire, nil
	}
	l, err := s.store.LastFire(context.Background(), k.Workflow, k.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, errkind.FromStore("read the ledger", err)
	}
	return &l, nil
}

func (s *schedule) prolong(k store.TriggerKey, last, by *store.Fire) {
	_, here := s.txn().lines[k]
	was := *last
	last.Last, last.Decided = by.Last, by.Decided
	last.Count += by.Count
	if here {
		return // the changed line is a new row of the batch
	}
	s.txn().batch.FireUpdates = append(s.txn().batch.FireUpdates, store.FireUpdate{Fire: *last, WasOutcome: was.Outcome, WasCount: was.Count})
	s.txn().lines[k] = lineAt{i: len(s.txn().batch.FireUpdates) - 1}
}

// missed changes the ledger's outcome for a run that did not begin in time.
func (s *schedule) missed(r *dag.Run) error {
	k := store.TriggerKey{Workflow: r.Workflow, Name: r.Fire.Trigger}
	why := store.Because("not_begun", r.Fire.StartBy.Time().Format("2006-01-02T15:04:05Z07:00"))
	for i := range s.txn().batch.Fires {
		if l := &s.txn().batch.Fires[i]; l.Run == r.ID { // the line was written in this transaction
			l.Outcome, l.Reason = store.OutcomeMissed, why
			return nil
		}
	}
	l, err := s.store.FireByKey(context.Background(), k, r.Fire.Instant, r.Fire.Key)
	if errors.Is(err, store.ErrNotFound) {
		return nil // the run has waited for longer than the ledger keeps its lines
	}
	if err != nil {
		return errkind.FromStore("read the ledger", err)
	}
	if l.Run != r.ID {
		return nil
	}
	u := store.FireUpdate{Fire: l, WasOutcome: l.Outcome, WasCount: l.Count}
	s.txn().draft.fires[store.OutcomeMissed]++
	u.Outcome, u.Reason, u.Decided = store.OutcomeMissed, why, s.txn().now.Wall
	s.txn().batch.FireUpdates = append(s.txn().batch.FireUpdates, u)
	return nil
}

// Occur records an event of a sensor, or a person's request to fire. The outcome is durable when it returns.
// Two calls with the same key make one fire.
func (e *Engine) Occur(ctx context.Context, k store.TriggerKey, o Occurrence) (Occurred, error) {
	if err := checkTexts("event id", o.Key, "actor", o.Actor, "reason", o.Reason.String()); err != nil {
		return Occurred{}, err
	}
	o.Reason = cleanReason(o.Reason) // the answer has the reason of the ledger
	if o.Key == "" && o.Filtered == "" {
		return Occurred{}, fmt.Errorf("%w: the event has no id", errkind.ErrInvalid)
	}
	a, err := e.operated(ctx, nil, func(w *writer) answer { return w.schedule.occur(k, &o) })
	return a.result().occurred, err
}

func (s *schedule) occur(k store.TriggerKey, o *Occurrence) answer {
	t, err := s.owned(k)
	switch {
	case err != nil:
		return answer{err: err}
	case t.State != store.TriggerActive && o.Actor == "" && o.Filtered == "":
		return answer{err: errkind.Tell(fmt.Errorf("%w: trigger %s is %s", errkind.ErrConflict, k.Name, t.State), "trigger_state", "trigger", k.Name, "state", t.State)}
	}
	pol, err := s.planner.Policy(t)
	if err != nil {
		return answer{err: err}
	}
	f := firing{s: s, t: t, pol: &pol, actor: o.Actor}
	known, err := s.seen(k, o)
	switch {
	case errors.Is(err, errFiltered):
		return answer{more: &result{occurred: Occurred{Outcome: OutcomeFiltered, Reason: store.Said(err.Error())}}}
	case err != nil:
		return answer{err: err}
	case o.Filtered != "":
		if !known {
			s.remember(o, filteredBy(k))
		}
		return answer{more: &result{occurred: Occurred{Outcome: OutcomeFiltered, Reason: store.Said(o.Filtered)}}}
	}
	done, err := f.start(&Start{Instant: s.dueNow(), Key: o.Key, Reason: o.Reason, Event: o.Event, Trace: o.Trace})
	if err != nil {
		s.broken(err)
		return answer{err: err}
	}
	if !known {
		s.remember(o, firedBy(k))
	}
	if !done.Existing && !done.Run.IsZero() {
		next := *t
		next.Fired++
		s.putTrigger(next)
	}
	return answer{more: &result{occurred: done}}
}

// firedBy returns the record that an occurrence has fired a trigger.
func firedBy(k store.TriggerKey) []byte { return fmt.Appendf(nil, "%d/%s", k.Workflow, k.Name) }

// filteredBy returns the record that the filter of a trigger has rejected an occurrence.
func filteredBy(k store.TriggerKey) []byte { return append([]byte("filtered "), firedBy(k)...) }

// errFiltered says that the occurrence came before, and that the filter of the trigger rejected it.
var errFiltered = errors.New("the same call came before, and the trigger refused it")

// remember stores the result of an occurrence, so that the occurrence has no effect if it is delivered again.
func (s *schedule) remember(o *Occurrence, became []byte) {
	if o.Seen.Key != "" {
		s.txn().rows++
		s.txn().batch.Requests = append(s.txn().batch.Requests, store.Request{Scope: o.Seen.Scope, Key: o.Seen.Key, Answer: became, Created: s.txn().now.Wall})
	}
}

// seen reports whether an occurrence has fired this trigger before. It returns errFiltered if the filter of
// this trigger has rejected the occurrence. It returns errkind.ErrReplayed if the occurrence was sent to
// another trigger, or if the record of this trigger's fire was deleted.
func (s *schedule) seen(k store.TriggerKey, o *Occurrence) (bool, error) {
	if o.Seen.Key == "" {
		return false, nil
	}
	was, err := s.request(o.Seen.Scope, o.Seen.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, errkind.FromStore("look for the call", err)
	case bytes.Equal(was.Answer, filteredBy(k)):
		return false, errFiltered
	case !bytes.Equal(was.Answer, firedBy(k)):
		return false, fmt.Errorf("%w: it was sent to another trigger, or to a trigger of this name in a deleted workflow", errkind.ErrReplayed)
	case o.Filtered != "":
		return true, nil
	}
	line, err := s.firedBefore(k, o.Key)
	if err == nil && line == nil {
		err = fmt.Errorf("%w: this trigger has fired for the call, and the ledger line of that fire was deleted", errkind.ErrReplayed)
	}
	return err == nil, err
}

// Came informs a trigger of kind absent that the event whose absence it watches has happened at an instant.
func (e *Engine) Came(ctx context.Context, k store.TriggerKey, at dag.Micros) error {
	return e.operate(ctx, nil, func(w *writer) answer {
		t, err := w.schedule.trigger(k)
		switch {
		case err != nil:
			return answer{err: err}
		case t == nil || t.State != store.TriggerActive:
			return answer{} // the trigger no longer watches for the event
		case w.held(t.Shard) == nil:
			return answer{err: w.here(t.Shard)}
		}
		plan, err := w.e.cfg.Planner.Heard(t, &Ended{Finished: at}, w.schedule.dueNow())
		if err != nil {
			return answer{err: err}
		}
		if err := w.schedule.carryOut(t, &plan); err != nil {
			w.broken(err)
			return answer{err: err}
		}
		return answer{}
	})
}

// broken abandons the transaction being made. If the store could not be read, the writer takes the shards
// again and repeats the read. Any other error is a bug.
func (w *writer) broken(err error) {
	if errors.Is(err, errkind.ErrUnavailable) {
		w.unsure = errors.Join(w.unsure, err)
		return
	}
	panic(err)
}
