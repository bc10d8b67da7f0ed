package cluster

import (
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// watch measures silence: the time since the counter of a member last moved, by this process's monotonic
// clock.
type watch struct {
	// gap is the greatest allowed time between two successful reads. After a longer time, the silence before
	// it is ignored.
	gap   time.Duration
	last  time.Time // the time of the last successful read
	beats map[dag.HandlerID]int64
	// since is the time at which the present counter was first read. Invariant: no entry is earlier than the
	// end of the last gap.
	since   map[dag.HandlerID]time.Time
	settled bool // according to the engine's last answer, it owns its shards
	era     dag.Era
}

// gapMax bounds gap. gap must be short compared with the lag, and long compared with the time between two
// reads.
const gapMax = 3 * time.Second

// newWatch returns a watch for members that may be deposed after the silence shortest at the earliest.
func newWatch(shortest time.Duration) watch {
	return watch{gap: min(gapMax, max(shortest/4, 2*lookEvery))}
}

// restart makes the silence of all members count from the next read.
func (w *watch) restart() { w.beats = nil }

// see records the counters of a successful read. After a gap, earlier silence is ignored, because this node
// could not see the members meanwhile.
func (w *watch) see(members []store.Member, now time.Time) {
	if w.beats == nil || now.Sub(w.last) > w.gap {
		w.beats, w.since = map[dag.HandlerID]int64{}, map[dag.HandlerID]time.Time{}
	}
	w.last = now
	listed := make(map[dag.HandlerID]bool, len(members))
	for i := range members {
		m := &members[i]
		listed[m.Handler] = true
		if was, known := w.beats[m.Handler]; !known || was != m.Beat {
			w.beats[m.Handler], w.since[m.Handler] = m.Beat, now
		}
	}
	for h := range w.beats {
		if !listed[h] {
			delete(w.beats, h)
			delete(w.since, h)
		}
	}
}

// silent reports whether the counter of a member has not moved for longer than lag.
func (w *watch) silent(h dag.HandlerID, lag time.Duration, now time.Time) bool {
	since, known := w.since[h]
	return known && now.Sub(since) > lag
}
