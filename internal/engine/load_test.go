package engine

import (
	"math"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestLoads: the shards of a transaction share its time by their rows. The rates of a shard are right from the
// beginning, follow a change, and go with the shard.
func TestLoads(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &Stats{loads: loads{half: 10 * time.Second, now: func() time.Time { return now }, of: map[dag.ShardID]*rates{}}}
	l := &s.loads
	l.begin(1, now)
	l.begin(2, now)
	tx := newTransaction(0)
	work := func(shards ...dag.ShardID) { // one second, of which the writer works for 0.4 s
		now = now.Add(600 * time.Millisecond)
		l.began, l.arrived = now, 1
		for _, shard := range shards {
			tx.batch.Fences = append(tx.batch.Fences, store.Fence{Shard: shard})
			tx.work(shard, 9) // one more row is that of the fence
		}
		now = now.Add(400 * time.Millisecond)
		l.take(tx, now, 1+int64(500*time.Millisecond))
		tx.reset()
		tx.batch.Fences = nil
	}
	is := func(what string, want map[dag.ShardID]float64) {
		t.Helper()
		got := s.Load()
		if len(got.Shards) != len(want) {
			t.Errorf("%s: %+v", what, got.Shards)
		}
		for _, g := range got.Shards {
			if math.Abs(g.Busy-want[g.Shard]) > 0.02 || math.Abs(g.Rows-10*g.Commits) > 1e-6 || math.Abs(g.Wait-0.5) > 1e-6 {
				t.Errorf("%s: %+v, want %v busy", what, g, want[g.Shard])
			}
		}
	}
	is("before any work", nil)
	for range 2 {
		work(1, 2)
	}
	is("after two seconds", map[dag.ShardID]float64{1: 0.2, 2: 0.2})
	for range 60 {
		work(1)
	}
	is("when one is idle", map[dag.ShardID]float64{1: 0.4, 2: 0})
	l.end(1)
	work(1)
	is("of a shard that has gone", map[dag.ShardID]float64{2: 0})
	l.begin(1, now)
	for range 2 {
		work(1)
	}
	is("of a shard that has come again", map[dag.ShardID]float64{1: 0.4, 2: 0})
}

// TestLoadIsBounded: the figures of a node are those of its costliest shards.
func TestLoadIsBounded(t *testing.T) {
	var all []store.ShardLoad
	for i := range 2 * store.LoadMax {
		all = append(all, store.ShardLoad{Shard: dag.ShardID(i), Busy: float64(i)})
	}
	if got := store.NewLoad(all).Shards; len(got) != store.LoadMax || got[0].Shard != store.LoadMax {
		t.Errorf("%d shards from %+v on", len(got), got[0])
	}
}
