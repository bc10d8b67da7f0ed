package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// apply applies one item to memory. Its answer is sent after the commit.
func (w *writer) apply(it *item) {
	w.tx.rows += rowsPerItem
	a, known := w.asked(it)
	switch {
	case known:
	case it.submit != nil:
		a = w.submit(it)
	case it.define != nil:
		a = w.defs.define(it.define)
	case it.ask != nil:
		a.err = it.ask(w)
	case it.op != nil:
		a = it.op(w)
	default:
		a = w.event(it)
	}
	if it.req != nil && !known && a.err == nil && a.verdict <= dag.Duplicate {
		it.req.Created = w.tx.now.Wall
		w.tx.batch.Requests = append(w.tx.batch.Requests, *it.req)
	}
	// a duplicate changes nothing, so it gets no audit row
	if it.note != nil && !known && a.err == nil && a.verdict == dag.Accepted && !a.existing {
		w.tx.batch.Audit = append(w.tx.batch.Audit, *it.note)
	}
	w.tx.answers = append(w.tx.answers, a)
}

// asked reports whether the answer for the item's idempotency key is already stored.
func (w *writer) asked(it *item) (a answer, known bool) {
	if it.req == nil {
		return a, false
	}
	was, err := w.request(it.req.Scope, it.req.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return a, false
	case err != nil:
		return answer{run: it.run, err: errkind.FromStore("look for the idempotency key", err)}, true
	}
	return answer{run: it.run, verdict: dag.Duplicate, existing: true, err: sameBody(was.Hash, it.req.Hash)}, true
}

func (w *writer) request(scope, key string) (store.Request, error) {
	for _, r := range w.tx.batch.Requests {
		if r.Scope == scope && r.Key == key {
			return r, nil
		}
	}
	return w.e.store.Request(context.Background(), scope, key)
}

// submit makes a run from a submission, or finds the run that the same submission has made before. accept,
// which begins the run, is in fire.go.
func (w *writer) submit(it *item) answer {
	s := it.submit
	if a, known := w.known(it); known {
		return a
	}
	wf, err := w.defs.workflow(s.Workflow.ID)
	if err == nil {
		err = w.here(wf.Shard)
	}
	if err != nil {
		return answer{err: err}
	}
	if wf.State != store.WorkflowActive {
		return answer{err: notActive(&wf)}
	}
	if r := w.coalesced(wf.ID); r != nil {
		return answer{run: r.ID, existing: true}
	}
	if err := w.quotas.room(&wf, begins); err != nil {
		return answer{err: err}
	}
	r := dag.NewRun(s.header(&wf, w.tx.now.Wall))
	if err := w.addRun(r, true, nil); err != nil {
		w.broken(err)
		return answer{err: err}
	}
	w.quotas.checked(r)
	if s.Key != "" {
		w.tx.keys[keyOf{wf.ID, s.Key}] = r
	}
	a := answer{run: r.ID}
	if s.View {
		a.view = &inspect.RunView{Workflow: wf}
		w.tx.shown++
	}
	return a
}

// keyOf is an idempotency key in its scope.
type keyOf struct {
	workflow dag.WorkflowID
	key      string
}

// known finds the run that an earlier delivery of the submission has made. It searches for the key. It also
// searches for the id, if the caller chose the id, or if a transaction with an unknown outcome may have
// applied the submission.
func (w *writer) known(it *item) (answer, bool) {
	s := it.submit
	if r := w.runs[s.ID]; r != nil {
		return sameRun(s, &r.Header), true
	}
	if s.named || it.again {
		if row, err := w.e.store.Run(context.Background(), s.ID); err == nil {
			return sameRun(s, &row.Header), true
		} else if !errors.Is(err, store.ErrNotFound) {
			return answer{err: errkind.FromStore("look for the run", err)}, true
		}
	}
	if s.Key == "" {
		return answer{}, false
	}
	k := keyOf{s.Workflow.ID, s.Key}
	if r := w.tx.keys[k]; r != nil {
		return sameRun(s, &r.Header), true
	}
	if f := w.flying; f != nil && f.keys[k] != nil {
		return sameRun(s, &f.keys[k].Header), true
	}
	if h, looked := w.tx.looked[k]; looked {
		if h == nil {
			return answer{}, false
		}
		return sameRun(s, h), true
	}
	row, err := store.RunByKey(context.Background(), w.e.store, s.Workflow.ID, s.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return answer{}, false
	case err != nil:
		return answer{err: errkind.FromStore("look for the key", err)}, true
	}
	return sameRun(s, &row.Header), true
}

// lookForKeys reads the runs for the keys of all submissions at once. If that fails, known reads each key
// separately.
func (w *writer) lookForKeys(items []item) {
	clear(w.tx.looked) // an earlier result may be out of date
	keys := w.asks[:0]
	for i := range items {
		if s := items[i].submit; s != nil && s.Key != "" {
			keys = append(keys, store.RunKey{Workflow: s.Workflow.ID, Key: s.Key})
		}
	}
	if w.asks = keys; len(keys) < 2 {
		return
	}
	rows, err := w.e.store.RunsByKeys(context.Background(), keys)
	if err != nil {
		return
	}
	if w.tx.looked == nil {
		w.tx.looked = map[keyOf]*dag.Header{}
	}
	for i := range keys {
		w.tx.looked[keyOf{keys[i].Workflow, keys[i].Key}] = nil
	}
	for i := range rows {
		w.tx.looked[keyOf{rows[i].Workflow, rows[i].Key}] = &rows[i].Header
	}
}

// sameRun answers a submission with the existing run.
func sameRun(s *Submission, was *dag.Header) answer {
	a := answer{run: was.ID, existing: true, err: sameBody(was.KeyHash, s.KeyHash)}
	if was.Workflow != s.Workflow.ID {
		a.err = fmt.Errorf("%w: run %s belongs to another workflow", errkind.ErrConflict, was.ID)
	}
	return a
}

func sameBody(was, is []byte) error {
	if string(was) != string(is) {
		return fmt.Errorf("%w: another request used this idempotency key before", errkind.ErrConflict)
	}
	return nil
}

// event steps the run of an event.
func (w *writer) event(it *item) answer {
	ev := it.ev
	k := dag.KeyOf(it.run, ev.Task, ev.Token)
	switch {
	case ev.Kind == dag.EvReport || it.gone: // the attempt has ended, so this transaction can use its slot
		w.e.slots.unbook(k)
		delete(w.leading, k)
	case ev.Kind == dag.EvSplit:
		delete(w.leading, k)
	case ev.Kind == dag.EvRecover || ev.Kind == dag.EvMark:
		return w.verb(it)
	}
	r, err := w.called(w.runs[it.run], it)
	if err != nil {
		w.broken(err)
		return answer{run: it.run, err: err}
	}
	if r == nil && w.e.cluster != nil {
		if err := w.moved(it); err != nil {
			return answer{run: it.run, err: err}
		}
	}
	if r == nil {
		if why, bad := w.bad[it.run]; bad && it.done != nil {
			return answer{run: it.run, err: fmt.Errorf("%w: run %s is quarantined: %s", errkind.ErrConflict, it.run, why)}
		}
		w.score(ev.Kind, dag.RunEnded)
		return answer{run: it.run, verdict: dag.RunEnded}
	}
	return w.step(it, r)
}

// step steps a run that is in memory.
func (w *writer) step(it *item, r *dag.Run) answer {
	w.tx.current = r
	ev, gated, err := w.waits(r, it.ev)
	if err != nil {
		w.broken(err)
		return answer{run: it.run, err: err}
	}
	v := r.Step(ev, w.tx.now, &w.tx.fx)
	if gated && v == dag.Accepted && r.State == dag.RunWaiting && r.Claim != nil {
		r.PutClaim(nil) // the run asks for its claim once it has passed its gates, like a new run
	}
	// the run continues after its end; it may have ended again in the same step
	if r.Gate == gateNone && (r.Unfinished() || v == dag.Accepted) {
		if w.limits.count(r); r.Gate != gateNone {
			w.quotas.revived(r)
		}
	}
	if it.again && v == dag.Stale {
		v = dag.Duplicate
	}
	if ev.Kind == dag.EvCheck && r.Pending() > 0 {
		w.tx.tally.repaired++
		if i := slices.Index(Faults(), ev.Fault); i >= 0 {
			w.tx.tally.faults[i]++
		}
	}
	if it.ev.Kind == dag.EvReport && v == dag.Accepted {
		w.quotas.logged(r, it.ev.Result.Logged)
	}
	w.score(ev.Kind, v)
	if r.Pending() > 0 || v == dag.Accepted {
		w.touch(r)
	}
	w.tx.current = nil
	if v == dag.Accepted && r.Claim != nil {
		if err := w.limits.anew(r, ev); err != nil {
			w.broken(err)
			return answer{run: it.run, err: err}
		}
	}
	return answer{run: it.run, verdict: v}
}

// waits moves a run that another transaction inserted through its gates. It returns the event for the run,
// completed with the reason if the run has to wait. For a recovered run it only finds out whether the run has
// to wait; gated says so.
func (w *writer) waits(r *dag.Run, ev *dag.Event) (_ *dag.Event, gated bool, err error) {
	switch {
	case ev.Kind == dag.EvSubmit && r.Gate == gateNone:
		if deny, err := w.quotas.beyondQuota(r); deny != nil || err != nil {
			return deny, false, err
		}
		why, d, err := w.limits.enter(r)
		if d != nil {
			denied := denial(d)
			return &denied, false, err
		}
		w.quotas.checked(r)
		ev.Wait = why
		return ev, false, err
	case ev.Kind == dag.EvRecover || ev.Kind == dag.EvMark && r.State.Terminal():
		if ev.Wait, err = w.limits.shut(r); ev.Wait == "" && r.Claim != nil {
			ev.Wait = "it asks again for " + r.Claim.What()
			return ev, false, err
		}
	}
	return ev, ev.Wait != "", err
}

// called loads a run for a command such as stop, if the run is queued and therefore not in memory.
func (w *writer) called(r *dag.Run, it *item) (*dag.Run, error) {
	switch {
	case r != nil || w.bad[it.run] != "":
		return r, nil
	case it.ev.Kind == dag.EvIntent || it.ev.Kind == dag.EvCheck:
		return w.fetch(it.run)
	}
	return nil, nil
}

func (w *writer) score(kind dag.EventKind, v dag.Verdict) {
	switch {
	case kind == dag.EvReport && v == dag.Accepted:
		w.tx.tally.attemptsEnded++
	case kind == dag.EvReport:
		w.tx.tally.rejected++
	case kind == dag.EvLost && v == dag.Accepted:
		w.tx.tally.lost++
	}
}

// alert notifies the operator of tasks that were lost too often, because they may have ended their workers.
func (w *writer) alert(poisoned []dag.Poisoned) {
	for _, p := range poisoned {
		w.e.stats.Poisoned.Add(1)
		w.e.log.Error("a task failed as poison, because its attempts were lost too often; look at what it does to its worker, then run skein run recover", "code", "task_poisoned", "run", p.Run.String(), "task", p.Task)
	}
}
