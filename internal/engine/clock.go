package engine

import (
	"time"

	"skein.dev/skein/internal/dag"
)

// clock makes the pair of times that Step gets. Wall is the store's clock at the last transaction plus the
// time that has passed here since. Wall never goes backwards while the shards are owned. Mono is the time
// that has passed since the shards were taken.
type clock struct {
	read  func() time.Time // reads the clock of this machine
	taken time.Time        // monotonic
	asOf  time.Time        // monotonic
	wall  dag.Micros
	era   dag.Era
	floor dag.Era // attempts of an era before this one are lost
}

func (c *clock) start(wall dag.Micros) {
	c.taken = c.read()
	c.asOf, c.wall = c.taken, wall
}

func (c *clock) set(wall dag.Micros) {
	c.wall = max(wall, c.now().Wall)
	c.asOf = c.read()
}

func (c *clock) mono() time.Duration { return c.read().Sub(c.taken) }

func (c *clock) now() dag.Now {
	at := c.read()
	return dag.Now{Wall: c.wall + dag.Micros(at.Sub(c.asOf).Microseconds()), Mono: at.Sub(c.taken), Era: c.era, Floor: c.floor}
}
