package engine_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// TestAhead makes a transaction while the previous one is being written. The previous one ends in each
// possible way. No caller learns of the second one before it is written itself. Nothing is lost or done
// twice, and no slot is lost.
func TestAhead(t *testing.T) {
	for name, outcome := range map[string]memory.Outcome{"committed": memory.OK, "failed": memory.FailBefore, "refused": memory.Refuse,
		"unknown, written": memory.UnknownWritten, "unknown, lost": memory.UnknownLost} {
		for _, report := range []bool{false, true} {
			t.Run(name, func(t *testing.T) { aheadOf(t, outcome, report, store.Quotas{}) })
		}
	}
}

// TestAheadOfOtherQuotas: a quota of another namespace does not prevent transactions that are made ahead.
func TestAheadOfOtherQuotas(t *testing.T) {
	for _, report := range []bool{false, true} {
		aheadOf(t, memory.OK, report, store.Quotas{Runs: 1, RunsPerHour: 1})
	}
}

// underWay is a store in which the commit that follows armed waits until it is released, and then has a
// given outcome. A test must defer the release. Otherwise a failed test waits for its engine for ever.
func underWay(t *testing.T, outcome memory.Outcome) (st *memory.Store, armed *atomic.Bool, under chan struct{}, goOn func()) {
	on := make(chan struct{})
	armed, under, goOn = new(atomic.Bool), make(chan struct{}), sync.OnceFunc(func() { close(on) })
	at := memory.CommitBefore
	if outcome == memory.UnknownWritten {
		at = memory.CommitAfter
	}
	st = memory.New(memory.Options{Fault: func(op memory.Op) memory.Outcome {
		if op.Kind != at || !armed.CompareAndSwap(true, false) {
			return memory.OK
		}
		under <- struct{}{}
		<-on
		return outcome
	}})
	t.Cleanup(func() { _ = st.Close() })
	return st, armed, under, goOn
}

// aheadOf keeps the transaction of a submission under way until another submission or a report has arrived.
func aheadOf(t *testing.T, outcome memory.Outcome, report bool, others store.Quotas) {
	st, armed, under, goOn := underWay(t, outcome)
	defer goOn()
	h := newHands(t)
	h.held = true
	n := start(t, st, h, bounded, func(c *engine.Config) { c.AheadRows = 1 })
	if others != (store.Quotas{}) {
		if _, err := engine.NamespacesOf(n.Engine).Set(t.Context(), "other", others, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	w := n.apply("w", graph(t, "a; b: a"))
	n.submit(w)
	first := h.holding(1)[0]

	var wg sync.WaitGroup
	accepted := atomic.Int64{}
	submit := func() {
		switch _, err := n.Submit(t.Context(), submission(w)); {
		case err == nil:
			accepted.Add(1)
		case !errors.Is(err, errkind.ErrUnavailable):
			t.Errorf("submit: %v", err)
		}
	}
	armed.Store(true)
	wg.Go(submit)
	<-under
	if report {
		h.end(first, dag.Result{State: dag.AttemptSucceeded})
		eventually(t, "the report is taken", func() bool { return n.Waiting() == 0 })
	} else {
		wg.Go(submit)
		eventually(t, "the submission has a slot", func() bool { return n.Free() == n.slots-3 })
	}
	if h.starts() != 1 || accepted.Load() != 0 {
		t.Errorf("%d attempts were started and %d submissions answered before anything was written", h.starts(), accepted.Load())
	}
	goOn()
	wg.Wait()
	submit()
	runs := 1 + int(accepted.Load())
	if !report {
		h.end(first, dag.Result{State: dag.AttemptSucceeded})
	}
	h.holding(runs) // b of the first, a of the others
	n.sound()
	for _, k := range h.holding(runs) {
		h.end(k, dag.Result{State: dag.AttemptSucceeded})
	}
	for _, k := range h.holding(runs - 1) {
		h.end(k, dag.Result{State: dag.AttemptSucceeded})
	}
	n.quiet()
	if is := n.Stats().RunsAccepted.Load(); is != int64(runs) {
		t.Errorf("%d runs were accepted, %d submissions were told so", is, runs)
	}
	if outcome == memory.OK && n.Stats().Ahead.Load() == 0 {
		t.Error("no transaction was made ahead")
	}
}

// TestAheadIncidents: a transaction that changes an incident is being written while the next one changes it
// again. Whatever the outcome of either, the incident counts each failure once.
func TestAheadIncidents(t *testing.T) {
	for name, outcomes := range map[string][2]memory.Outcome{"committed": {}, "failed": {memory.FailBefore}, "refused": {memory.Refuse},
		"unknown, lost": {memory.UnknownLost}, "the second refused": {memory.OK, memory.Refuse}, "the second failed": {memory.OK, memory.FailBefore}} {
		t.Run(name, func(t *testing.T) {
			under, on := make(chan struct{}), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(on) })
			defer goOn()
			armed, commits := atomic.Bool{}, 0
			st := memory.New(memory.Options{Fault: func(op memory.Op) memory.Outcome {
				if op.Kind != memory.CommitBefore || !armed.Load() || commits == len(outcomes) {
					return memory.OK
				}
				if commits++; commits == 1 {
					under <- struct{}{}
					<-on
				}
				return outcomes[commits-1]
			}})
			t.Cleanup(func() { _ = st.Close() })
			h := newHands(t)
			h.held = true
			n := start(t, st, h, bounded, func(c *engine.Config) { c.AheadRows, c.Rules = 1, alert.Rules })
			wf := n.applyWatched("w", watched(`"failed"`))
			fail := func(k attempt) {
				h.end(k, dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1})
			}
			for range 4 {
				n.submit(wf)
			}
			all := h.holding(4)
			fail(all[0])
			n.ends(all[0].run, dag.RunFailed)
			armed.Store(true)
			fail(all[1])
			<-under
			fail(all[2])
			eventually(t, "the next report is taken", func() bool { return n.Waiting() == 0 })
			goOn()
			fail(all[3])
			for _, k := range all {
				n.ends(k.run, dag.RunFailed)
			}
			n.quiet()
			wantIncidents(t, st, "open 4"+toldOpened)
			if n.Stats().Ahead.Load() == 0 && outcomes[0] == memory.OK {
				t.Error("no transaction was made ahead")
			}
		})
	}
}

// TestAheadQueue makes a transaction ahead in a queue of two slots. The transaction under way has granted the
// first slots. Whatever its outcome, two runs at a time have a slot, and no slot is lost.
func TestAheadQueue(t *testing.T) {
	for name, outcome := range map[string]memory.Outcome{"committed": memory.OK, "failed": memory.FailBefore, "refused": memory.Refuse,
		"unknown, written": memory.UnknownWritten, "unknown, lost": memory.UnknownLost} {
		t.Run(name, func(t *testing.T) { aheadThrough(t, outcome) })
	}
}

func aheadThrough(t *testing.T, outcome memory.Outcome) {
	st, armed, under, goOn := underWay(t, outcome)
	defer goOn()
	h := newHands(t)
	h.held = true
	n := start(t, st, h, naming, func(c *engine.Config) { c.AheadRows = 1 })
	n.queue("q", 2)
	w := n.naming("w", names{Queue: "q"})
	var wg sync.WaitGroup
	var accepted atomic.Int64
	submit := func() {
		switch _, err := n.Submit(t.Context(), submission(w)); {
		case err == nil:
			accepted.Add(1)
		case !errors.Is(err, errkind.ErrUnavailable):
			t.Errorf("submit: %v", err)
		}
	}
	armed.Store(true)
	wg.Go(submit)
	<-under
	wg.Go(submit)
	eventually(t, "the second has the other place", func() bool { return n.Waiting() == 0 && n.Free() == n.slots-2 })
	wg.Go(submit)
	eventually(t, "the third has come, and is taken when the first is over", func() bool { return n.Waiting() == 1 })
	goOn()
	wg.Wait()
	for accepted.Load() < 4 {
		submit()
	}
	ids := map[dag.RunID]bool{}
	for left := 4; left > 0; left-- {
		live := h.holding(min(2, left))
		for _, k := range live {
			ids[k.run] = true
		}
		n.sound()
		h.end(live[0], dag.Result{State: dag.AttemptSucceeded, Exited: true})
	}
	n.quiet()
	n.free()
	if is := n.Stats().RunsAccepted.Load(); is != 4 || len(ids) != 4 {
		t.Errorf("%d runs were accepted and %d had an attempt, of 4 that were answered", is, len(ids))
	}
	if outcome == memory.OK && n.Stats().Ahead.Load() == 0 {
		t.Error("no transaction was made ahead")
	}
}
