package engine

import (
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/host"
)

// pulse shows other goroutines whether the writer makes progress. The writer sets it. Readers take no lock,
// so they can notice that the writer is stuck.
type pulse struct {
	host host.Host
	born time.Time // the start of this engine, from which times are counted
	// turned is the time at which the writer last completed a cycle or woke up. It is 0 before the writer
	// begins, and after it has ended.
	turned atomic.Int64
	rests  atomic.Bool // the writer has nothing to do
}

func newPulse(h host.Host) *pulse { return &pulse{host: h, born: h.Now()} }

// now returns the time since the engine was made. It is never 0.
func (p *pulse) now() int64 { return int64(p.host.Now().Sub(p.born)) + 1 }

// beat records that the writer has completed a cycle, or has woken up.
func (p *pulse) beat() {
	p.turned.Store(p.now())
	p.rests.Store(false)
}

func (p *pulse) rest() { p.rests.Store(true) }

func (p *pulse) end() { p.turned.Store(0) }

// StuckFor returns how long the writer has completed no cycle although work waits. It returns 0 if no work
// waits.
func (e *Engine) StuckFor() time.Duration {
	since := e.pulse.turned.Load()
	if since == 0 {
		return 0
	}
	if e.pulse.rests.Load() {
		if since = max(since, e.writer.inbox.since.Load()); e.writer.inbox.len() == 0 {
			return 0
		}
	}
	return time.Duration(e.pulse.now() - since)
}
