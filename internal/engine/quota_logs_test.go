package engine_test

import (
	"errors"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestQuotaOfLogs: logs count when their attempts end, also after a restart. No run begins when the logs of
// the day have used up the quota, and runs that have begun succeed.
func TestQuotaOfLogs(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.held = true
			n := start(t, open(t), h, bounded)
			w := n.apply("w", graph(t, "a"))
			before := n.submit(w)
			n.quotas(store.Quotas{LogsPerDay: 100})
			logged := func(size int64) dag.Result { return dag.Result{State: dag.AttemptSucceeded, Logged: size} }
			end := func(run dag.RunID, size int64) {
				t.Helper()
				for _, a := range h.holding(1) {
					if a.run == run {
						h.end(a, logged(size))
					}
				}
				n.ends(run, dag.RunSucceeded)
			}
			end(before, 60)
			one, ok := n.tries(w, store.QuotaLogsPerDay)
			if !ok || n.uses().Logged != 60 {
				t.Fatalf("%v, %+v", ok, n.uses())
			}
			n.reloads()
			end(one, -7)
			two, ok := n.tries(w, store.QuotaLogsPerDay)
			if !ok || n.uses().Logged != 60 {
				t.Fatalf("%v, %+v", ok, n.uses())
			}
			end(two, 40)
			if _, ok := n.tries(w, store.QuotaLogsPerDay); ok || n.uses().Logged != 100 {
				t.Errorf("accepted: %v, %+v", ok, n.uses())
			}
			_, err := n.Submit(t.Context(), submission(w))
			var over *store.QuotaError
			if !errors.As(err, &over) || over.Bound != 100 || over.Used != 100 || over.Until != store.QuotaDay(over.Until) || over.Until <= n.uses().Day {
				t.Errorf("%v, %+v", err, over)
			}
			n.quotas(store.Quotas{LogsPerDay: 101})
			three, ok := n.tries(w, store.QuotaLogsPerDay)
			if !ok {
				t.Fatal("a larger quota gives no room")
			}
			end(three, 1<<30)
			n.reloads()
			if _, ok := n.tries(w, store.QuotaLogsPerDay); ok {
				t.Error("accepted after a restart")
			}
			n.quotas(store.Quotas{})
			four, ok := n.tries(w, "")
			if !ok {
				t.Fatal("no quota, no room")
			}
			end(four, 1)
			n.quiet()
		})
	}
}

func TestLogsOfADay(t *testing.T) {
	const day = 86_400_000_000
	uses := []store.NamespaceUse{{Shard: 0, Logged: 5, Day: day}, {Shard: 1, Logged: 7, Day: 0}, {Shard: 2, Logged: 9, Day: day}}
	q := store.Quotas{LogsPerDay: 14}
	if store.QuotaDay(day+7) != day || store.Logged(uses, day) != 14 || q.Overlogged("a", 13, day) != nil {
		t.Error(store.QuotaDay(day+7), store.Logged(uses, day))
	}
	if over := q.Overlogged("a", 14, day); over == nil || over.Until != 2*day || (&store.Quotas{}).Overlogged("a", 14, day) != nil {
		t.Errorf("%+v", over)
	}
}
