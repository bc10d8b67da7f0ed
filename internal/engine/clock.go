package engine

import (
	"time"

	"skein.dev/skein/internal/dag"
)

// clock makes the pair that Step sees. Wall is the store's clock as of the last
// transaction plus what has elapsed here since; it never runs backwards within an
// ownership. Mono is what has elapsed since the shards were taken.
type clock struct {
	taken time.Time // monotonic
	asOf  time.Time // monotonic
	wall  dag.Micros
}

func (c *clock) start(wall dag.Micros) {
	c.taken = time.Now()
	c.asOf, c.wall = c.taken, wall
}

func (c *clock) set(wall dag.Micros) {
	c.wall = max(wall, c.now().Wall)
	c.asOf = time.Now()
}

func (c *clock) mono() time.Duration { return time.Since(c.taken) }

func (c *clock) now() dag.Now {
	return dag.Now{Wall: c.wall + dag.Micros(time.Since(c.asOf).Microseconds()), Mono: time.Since(c.taken)}
}

// timerHeap is a binary heap of timers, the next due first.
type timerHeap []dag.Timer

// waitMax is how long the writer sleeps when no timer is due earlier.
const waitMax = time.Hour

func (h timerHeap) wait(mono time.Duration) time.Duration {
	if len(h) == 0 {
		return waitMax
	}
	return min(max(h[0].Due-mono, 0), waitMax)
}

func (h *timerHeap) push(t dag.Timer) {
	*h = append(*h, t)
	for i := len(*h) - 1; i > 0; {
		parent := (i - 1) / 2
		if (*h)[parent].Due <= (*h)[i].Due {
			return
		}
		(*h)[parent], (*h)[i] = (*h)[i], (*h)[parent]
		i = parent
	}
}

func (h *timerHeap) pop() dag.Timer {
	old := *h
	top, last := old[0], len(old)-1
	old[0] = old[last]
	*h = old[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return top
		}
		if c+1 < last && old[c+1].Due < old[c].Due {
			c++
		}
		if old[i].Due <= old[c].Due {
			return top
		}
		old[i], old[c] = old[c], old[i]
		i = c
	}
}
