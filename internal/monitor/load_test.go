package monitor

import (
	"math"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestLoads: a point has the means since the previous point. Only the points of the last hour are kept.
func TestLoads(t *testing.T) {
	began := time.Now().Add(-3 * time.Hour)
	at, is := began, Counters{Slots: 4}
	m := New(Config{Counters: func() Counters { return is }, Self: func() store.Member { return store.Member{Handler: 7} },
		View: func() []store.Member {
			return []store.Member{{Handler: 7, Seen: dag.Micro(at.Add(-2 * time.Second))}, {Handler: 8, Seen: dag.Micro(began)}}
		}})
	m.point(at)
	if got := m.Loads(time.Time{}); len(got) != 0 {
		t.Fatalf("points before the first interval: %+v", got)
	}
	for i := range loadPoints + 10 {
		at = at.Add(loadEvery)
		is.Commits, is.CommitTime, is.Started, is.Busy = is.Commits+50, is.CommitTime+time.Second, is.Started+10, i%4
		m.point(at)
	}
	got := m.Loads(time.Time{})
	if len(got) != loadPoints || !got[0].At.Equal(began.Add(11*loadEvery)) || !got[loadPoints-1].At.Equal(at) {
		t.Fatalf("%d points from %v to %v", len(got), got[0].At, got[len(got)-1].At)
	}
	if p := got[0]; p.Commits != 10 || p.CommitTime != 20*time.Millisecond || p.Started != 2 || p.Slots != 4 || p.Busy != 2 || math.Abs(p.Lag.Seconds()-2) > 0.01 {
		t.Errorf("%+v", p)
	}
	if got := m.Loads(at.Add(-10 * time.Second)); len(got) != 2 {
		t.Errorf("%d points in 10 s", len(got))
	}
}
