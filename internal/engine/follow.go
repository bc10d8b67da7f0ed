package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// follow applies the consequences of the runs that ended in the transaction being made: ledger lines, further
// runs of a backfill, reactions of triggers, and the admission of waiting runs by gates.
func (w *writer) follow() {
	for done, orphans, notes := 0, 0, 0; ; {
		if err := errors.Join(w.calls.orders(), w.calls.errands()); err != nil {
			w.broken(err)
			return
		}
		for ; orphans < len(w.tx.fx.Orphans); orphans++ {
			if err := w.alerts.orphaned(&w.tx.fx.Orphans[orphans]); err != nil {
				w.broken(err)
				return
			}
		}
		for ; notes < len(w.tx.fx.Notes); notes++ { // before the ends of their runs
			if err := tasked(&w.alerts, &w.tx.fx.Notes[notes]); err != nil {
				w.broken(err)
				return
			}
		}
		for ; done < len(w.tx.ended); done++ {
			if err := w.followOne(w.tx.ended[done]); err != nil {
				w.broken(err)
				return
			}
		}
		if w.flying == nil { // a transaction that is made ahead must not read the store
			w.schedule.retryHeld()
		}
		if err := w.schedule.refill(); err != nil {
			w.broken(err)
			return
		}
		if err := w.limits.letThrough(); err != nil {
			w.broken(err)
			return
		}
		if err := w.limits.serve(); err != nil {
			w.broken(err)
			return
		}
		w.limits.serveTasks()
		if done == len(w.tx.ended) && notes == len(w.tx.fx.Notes) && len(w.tx.fx.Orders)+len(w.tx.fx.Errands) == 0 {
			return
		}
	}
}

func (w *writer) followOne(r *dag.Run) error {
	if err := w.alerts.ended(r); err != nil {
		return err
	}
	if f := r.Fire; f != nil {
		if r.State == dag.RunSkipped && r.Cause == dag.CauseMissed && f.Backfill == 0 {
			if err := w.schedule.missed(r); err != nil {
				return err
			}
		}
		if f.Backfill != 0 {
			if err := w.schedule.backfilled(r); err != nil {
				return err
			}
		}
	}
	if err := w.calls.tellParent(r); err != nil || w.e.cfg.Planner == nil {
		return err
	}
	return w.schedule.tell(r)
}

// hearingMax bounds the triggers that may react to one workflow.
const hearingMax = 1000

// tell makes triggers react to the end of a run.
func (s *schedule) tell(r *dag.Run) error {
	if !s.alone && s.clock().Sub(s.triggers.heardSince) > heardFor {
		clear(s.triggers.heard)
		s.triggers.heardSince = s.clock()
	}
	if heard, known := s.triggers.heard[r.Workflow]; known && !heard {
		return nil
	}
	wf, err := s.defs.workflow(r.Workflow)
	if err != nil {
		return err
	}
	name := wf.Namespace + "/" + wf.Name
	keys, err := s.store.Listening(context.Background(), name, hearingMax)
	if err != nil {
		return errkind.FromStore("read the followers of "+name, err)
	}
	if len(keys) > 0 || len(s.txn().written) == 0 { // a trigger that begins to react in this transaction is not in the store yet
		s.triggers.heard[r.Workflow] = len(keys) > 0
	}
	for _, k := range keys {
		t, err := s.listener(k)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		ended := Ended{Run: r.ID, Workflow: name, State: r.State, Instant: r.Instant(), Finished: r.FinishedAt,
			Successor: r.Fire != nil && r.Workflow == k.Workflow && r.Fire.Trigger == k.Name}
		if r.Workflow != k.Workflow { // otherwise a workflow that reacts to its own runs would stay in one trace for ever
			ended.Trace = dag.FollowTrace(&r.Header)
			if ended.Refused, err = s.notOffered(&wf, k.Workflow); err != nil {
				return err
			}
		}
		if s.held(t.Shard) == nil {
			s.txn().letters[t.Shard] = append(s.txn().letters[t.Shard], letter{Trigger: k, Ended: ended})
		} else if err := s.hear(t, &ended); err != nil {
			return err
		}
	}
	return nil
}

// notOffered returns the reason why a workflow may not react to the ends of another one's runs, or "". It
// reads a definition only if the two workflows are in different namespaces.
func (s *schedule) notOffered(of *store.Workflow, listener dag.WorkflowID) (refusal string, err error) {
	by, err := s.defs.workflow(listener)
	if err != nil || by.Namespace == of.Namespace {
		return "", err
	}
	version, err := s.startVersion(of)
	if err != nil {
		return "", err
	}
	refusal, err = s.planner.Offered(context.Background(), of.ID, version, by.Namespace)
	return refusal, err
}

func sortedRuns(m map[dag.RunID]*dag.Run) []*dag.Run {
	return slices.SortedFunc(maps.Values(m), func(a, b *dag.Run) int { return slices.Compare(a.ID[:], b.ID[:]) })
}
