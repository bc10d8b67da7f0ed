package engine

import (
	"context"
	"errors"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// sweeper is the actor of sweeps in the history of a run.
const sweeper = SystemNamespace + "/" + RecoveryName

// CheckAll makes the writer compare runs of owned shards with their rows and repair differences. It returns
// the number of repaired runs. A second call finds nothing to repair.
func (e *Engine) CheckAll(ctx context.Context, list []Suspect) (repaired int, err error) {
	return ask(ctx, e.writer.inbox, func(w *writer) (repaired int, err error) {
		for i := range list {
			fixed, err := w.suspected(&list[i])
			if err != nil {
				return repaired, err
			}
			if fixed {
				repaired++
			}
		}
		return repaired, nil
	})
}

// suspected checks one suspected run.
func (w *writer) suspected(s *Suspect) (fixed bool, err error) {
	before := w.runs[s.Run]
	switch {
	case w.bad[s.Run] != "": // the fault is known already
		return false, nil
	case s.Fault == FaultCircle:
		return w.breakCircle(s)
	case s.Fault == FaultUnsubmitted && before != nil && before.Queued(): // the run is queued, so it is right that it waits
		return false, nil
	}
	page, err := w.e.store.Load(context.Background(), store.LoadQuery{IDs: []dag.RunID{s.Run}})
	if err != nil {
		return false, errkind.FromStore("run "+s.Run.String(), err)
	}
	if len(page) == 0 || page[0].Bad == nil && page[0].Run.State.Terminal() {
		w.leave(s.Run)
		return before != nil, nil
	}
	if page[0].Bad == nil {
		if err := w.here(page[0].Run.Shard); err != nil {
			return false, err
		}
	}
	w.leave(s.Run)
	var f found
	r, err := w.takeUp(&page[0], &f)
	if err != nil {
		w.unsure = errors.Join(w.unsure, err) // the run was dropped and could not be loaded
		return false, err
	}
	if r == nil {
		w.e.stats.Faults[faults-1].Add(1)
		return true, nil
	}
	if err := w.certain(context.Background(), &f); err != nil {
		w.unsure = errors.Join(w.unsure, err)
		return false, err
	}
	fault, why := w.fault(s, before, r, &f)
	if fault != "" { // the fault is recorded first, because the next steps may end the run
		w.todo.push(item{run: r.ID, ev: &dag.Event{Kind: dag.EvCheck, Fault: fault, Actor: sweeper, Reason: why}})
	}
	for _, h := range s.Lost {
		if holds(r, &h) {
			w.todo.push(item{run: r.ID, ev: &dag.Event{Kind: dag.EvLost, Task: h.Task, Token: h.Token, Handler: h.Handler, Here: true, Reason: "its node does not have it"}})
		}
	}
	w.rouse(r)
	if err := w.takeOver(context.Background(), &f); err != nil {
		w.unsure = errors.Join(w.unsure, err)
		return false, err
	}
	return fault != "", nil
}

// breakCircle ends a run that waits in a cycle, unless the run's wait has changed since.
func (w *writer) breakCircle(s *Suspect) (fixed bool, err error) {
	r := w.runs[s.Run]
	if r == nil {
		row, err := w.e.store.Run(context.Background(), s.Run)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err == nil {
			err = w.here(row.Shard)
		}
		if err != nil {
			return false, errkind.FromStore("run "+s.Run.String(), err)
		}
		if r, err = w.fetch(s.Run); err != nil || r == nil {
			return false, err
		}
	}
	is := store.Standing{State: r.State, Created: r.Created, Claim: r.Claim}
	if r.Intent != dag.IntentRun || inspect.WaitsSince(&is) == 0 || inspect.WaitsSince(&is) != s.Since {
		return false, nil
	}
	w.step(&item{run: r.ID, ev: &dag.Event{Kind: dag.EvCheck, Fault: FaultCircle, Actor: sweeper, Reason: s.Why}}, r)
	w.limits.deny(r, &admission.Denial{Cause: dag.CauseCycle, Why: clean("it waited in a circle: " + s.Why)})
	return true, nil
}

func holds(r *dag.Run, h *Held) bool {
	by, token, held := r.Holder(h.Task)
	return held && by == h.Handler && token == h.Token
}

// fault describes the fault of a run that was just loaded. The parameter before is the run as it was in
// memory.
func (w *writer) fault(s *Suspect, before, r *dag.Run, f *found) (fault, why string) {
	for i := range s.Lost {
		if holds(r, &s.Lost[i]) {
			return FaultReportLost, "the holder of an attempt does not know it"
		}
	}
	idle := r.Active() == 0
	switch {
	case len(f.lost) > 0:
		return FaultHandlerGone, "the holder of an attempt is gone"
	case len(w.unsent(f.mine)) > 0:
		return FaultUnclaimed, "an assigned attempt does not run; it is dispatched again"
	case idle && r.State > dag.RunWaiting && (r.Unsettled() == 0 && r.Graph != nil || r.Intent >= dag.IntentStop):
		return FaultUnfinalised, "nothing was left to do, and the run had not ended"
	case idle && (r.State == dag.RunSubmitted || r.State == dag.RunSplitting):
		return FaultUnsubmitted, "no handler was splitting the run"
	case before == nil:
		return FaultUnsubmitted, "its owner did not know it"
	}
	diff := ""
	if p := errkind.Guarded(func() { diff = dag.Diff(before, r) }); p != nil || diff != "" {
		w.e.log.Error("the memory of a run differs from its rows; the node loads the run again; report this bug with the log", "code", "memory_differs", "run", r.ID.String(), "diff", diff, "err", p)
		return FaultUnsubmitted, "its owner had it otherwise than its rows"
	}
	if idle && r.Unsettled() > 0 && s.Fault == FaultUnsubmitted && r.State == dag.RunRunning {
		return FaultUnsubmitted, "a task was ready, and no attempt was made"
	}
	return "", ""
}
