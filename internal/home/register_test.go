package home

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// TestLateLogs: if more than engine.LateMax has passed since the end of an attempt, its log is too late. The
// register holds a bounded number of attempts, and forgets the oldest first.
func TestLateLogs(t *testing.T) {
	r, now := newRegister(2), time.Now()
	at := func(task int) key { return key{task: dag.TaskID(task), token: 1} }
	check := func(task int, after time.Duration, wantKnown, wantLate bool) {
		t.Helper()
		n, known, late := r.of(at(task), now.Add(after))
		if known != wantKnown || late != wantLate || known && n.Task != "t" {
			t.Errorf("%d after %v: %+v %v %v", task, after, n, known, late)
		}
	}
	r.ended(at(1), now)
	check(1, 0, false, false)
	r.add(at(1), Names{Task: "t"}, now)
	check(1, engine.LateMax, true, false)
	check(1, engine.LateMax+1, false, false) // the rows are read again
	r.ended(at(1), now)
	check(1, engine.LateMax, true, false)
	check(1, engine.LateMax+1, true, true)
	for task := 2; task < 4; task++ {
		r.add(at(task), Names{Task: "t"}, now)
	}
	check(1, 0, false, false)
	check(3, 0, true, false)
}

// TestBusyNodePutsWorkersOff: if a registration would wait too long, the answer says when to register again.
// A registration whose caller has gone is not processed.
func TestBusyNodePutsWorkersOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{Directory: nowhere{}})
		var leaves []func()
		for range registersMax {
			leave, err := h.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		began := time.Now()
		_, err := h.enter(t.Context())
		var is *connect.Error
		if !errors.As(err, &is) || !strings.HasPrefix(is.Message(), Busy.String()+":") || is.Meta().Get("Retry-After") != "2" || time.Since(began) != enterMax {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if h.Stats.Rejected(Busy) != 1 {
			t.Errorf("it was counted %d times", h.Stats.Rejected(Busy))
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := h.enter(over); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that nobody waits for: %v", err)
		}
		leaves[0]()
		if _, err := h.enter(t.Context()); err != nil {
			t.Errorf("after another one: %v", err)
		}
	})
}
