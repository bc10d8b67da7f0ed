package source

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/program"
)

const (
	// memoryEvery is the time between two looks at the memory of a process.
	memoryEvery = time.Second
	// memoryWait is the pause after the end of a process that took too much memory.
	memoryWait = 30 * time.Second
)

// errTooMuch says that a process took more memory than it may.
var errTooMuch = errors.New("the process took too much memory")

// goLimit returns the environment variable that makes a Go program collect its garbage before it takes the
// given number of bytes.
func goLimit(most int64) []string {
	if most <= 0 {
		return nil
	}
	return []string{"GOMEMLIMIT=" + strconv.FormatInt(most/4*3, 10)}
}

// guard kills a process that takes more memory than it may.
type guard struct {
	most  int64 // bytes; 0 means no bound
	took  atomic.Int64
	ended chan struct{}
	done  chan struct{}
}

func newGuard(most int64, s *program.Stream) *guard {
	g := &guard{most: most, ended: make(chan struct{}), done: make(chan struct{})}
	go g.run(s)
	return g
}

func (g *guard) run(s *program.Stream) {
	defer close(g.done)
	if g.most <= 0 {
		return
	}
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		select {
		case <-g.ended:
			return
		case <-tick.C:
		}
		if took := s.Memory(); took > g.most {
			g.took.Store(took)
			s.Kill()
			return
		}
	}
}

// end ends the guard. It returns an error if the process took too much memory.
func (g *guard) end(name string) error {
	close(g.ended)
	<-g.done
	took := g.took.Load()
	if took == 0 {
		return nil
	}
	return &LaterError{memoryWait, fmt.Errorf("source %s: %w: %d MiB, and the limit is %d MiB; read smaller messages, or raise the setting source_memory of the node",
		name, errTooMuch, took>>20, g.most>>20)}
}
