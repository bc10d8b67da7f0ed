package cluster_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster"
)

// starts records the nodes whose Config.Started was called.
type starts struct {
	mu    sync.Mutex
	nodes []string
	lives map[string]bool
}

func (s *starts) of(name string) func(*cluster.Config) {
	return func(c *cluster.Config) {
		c.Started = func(_ context.Context, life string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.nodes, s.lives[life] = append(s.nodes, name), true
		}
	}
}

func (s *starts) told() ([]string, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.nodes)), len(s.lives)
}

// TestStarted: a cluster starts with the nodes that begin together, and again after all have died. For a node
// that joins later, Started is not called.
func TestStarted(t *testing.T) {
	scenario(t, func(b *bed) {
		s := &starts{lives: map[string]bool{}}
		is := func(what string, lives int, want ...string) {
			b.Helper()
			b.until(what, func() bool { got, _ := s.told(); return slices.Equal(got, want) })
			if _, n := s.told(); n != lives {
				b.Errorf("%s: %d starts", what, n)
			}
		}
		a, c := b.start("a", s.of("a")), b.start("c", s.of("c"))
		b.spread(a, c)
		is("both are told", 1, "a", "c")
		time.Sleep(2 * b.lag)
		d := b.start("d", s.of("d"))
		b.spread(a, c, d)
		a.ends(b)
		b.spread(c, d)
		time.Sleep(2 * b.lag)
		is("who came later is not", 1, "a", "c")
		c.dies()
		d.dies()
		e := b.start("e", s.of("e"))
		b.spread(e)
		is("after all have died", 2, "a", "c", "e")
	})
}

// TestStartedWithRegistry: a cluster starts again after all nodes have died, also if the registry has lost
// them, so that they are declared dead before half of the lag.
func TestStartedWithRegistry(t *testing.T) {
	scenario(t, func(b *bed) {
		s, v := &starts{lives: map[string]bool{}}, &verdicts{quick: b.lag / 4, gone: map[string]bool{}}
		with := func(name string) func(*cluster.Config) {
			return func(c *cluster.Config) {
				c.Judge = v
				s.of(name)(c)
			}
		}
		a := b.start("a", with("a"))
		b.spread(a)
		b.until("the cluster starts", func() bool { got, _ := s.told(); return slices.Equal(got, []string{"a"}) })
		time.Sleep(2 * b.lag) // afterwards the row has the promise
		v.say(a, true)
		a.dies()
		c := b.start("c", with("c"))
		b.spread(c)
		b.until("the cluster starts again", func() bool { got, _ := s.told(); return slices.Equal(got, []string{"a", "c"}) })
	})
}
