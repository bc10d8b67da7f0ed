package cluster_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store/memory"
)

// verdicts is a registry whose answers a test decides.
type verdicts struct {
	quick time.Duration

	mu   sync.Mutex // protects following fields
	gone map[string]bool
	ran  int
}

func (v *verdicts) Run(ctx context.Context, _ func() (string, string)) {
	v.mu.Lock()
	v.ran++
	v.mu.Unlock()
	<-ctx.Done()
}

func (v *verdicts) Gone(uuid string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.gone[uuid]
}

func (v *verdicts) say(n *node, gone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone[n.Self().UUID] = gone
}

func (v *verdicts) Quick() time.Duration { return v.quick }

func (v *verdicts) Show(*metric.Page) {}

// TestRegistryJudges: with a registry, a dead node is declared dead sooner, and a living node never is. If
// the registry does not answer, and for a node that has made no promise, the lag decides.
func TestRegistryJudges(t *testing.T) {
	scenario(t, func(b *bed) {
		v := &verdicts{quick: b.lag / 2, gone: map[string]bool{}}
		judged := func(c *cluster.Config) { c.Judge = v }
		a := b.start("a", judged)
		c, d, plain := b.start("c", judged), b.start("d", judged), b.start("plain")
		b.spread(a, c, d, plain)
		members, _ := b.view()
		if q := members[c.handler()].Traits.Quick; q != 0 && b.lag == cluster.LagDefault {
			b.Errorf("the row of a young process promises %d ms", q)
		}
		b.until("the row promises", func() bool {
			members, _ := b.view()
			return members[c.handler()].Traits.Quick == v.quick.Milliseconds()
		})
		v.say(c, true) // a wrong answer of the registry
		v.say(plain, true)
		time.Sleep(2 * b.lag)
		b.same(a, c, d, plain)
		died := func(n *node, left ...*node) time.Duration {
			before, began := b.deposed.Load(), time.Now()
			n.dies()
			b.until("it is declared dead", func() bool { return b.deposed.Load() > before })
			took := time.Since(began)
			b.spread(left...)
			return took
		}
		took := map[string]time.Duration{}
		took["the registry has lost it"] = died(c, a, d, plain)
		took["it has made no promise"] = died(plain, a, d)
		took["the registry does not know"] = died(d, a)
		b.Log(took)
		if b.lag != cluster.LagDefault {
			return // the test runs by the clock of the machine, so it cannot compare these times
		}
		for what, least := range map[string]time.Duration{"the registry has lost it": v.quick, "it has made no promise": b.lag, "the registry does not know": b.lag} {
			if is := took[what]; is < least-v.quick/2 || is > least+2*time.Second {
				b.Errorf("%s: it was declared dead after %v", what, is)
			}
		}
		if a.owner.lives() != 1 || v.ran != 3 {
			b.Errorf("%d lives, the registry ran for %d nodes", a.owner.lives(), v.ran)
		}
	})
}

// TestLateRegistry: if a registry would not detect a death sooner than the lag, nodes make no promise.
func TestLateRegistry(t *testing.T) {
	scenario(t, func(b *bed) {
		a := b.start("a", func(c *cluster.Config) { c.Judge = &verdicts{quick: b.lag, gone: map[string]bool{}} })
		b.spread(a)
		time.Sleep(b.lag + b.lag/2)
		members, _ := b.view()
		if q := members[a.handler()].Traits.Quick; q != 0 {
			b.Errorf("the row promises %d ms", q)
		}
	})
}

// TestStoreAwayWithRegistry: the promise of a node with a registry leaves enough time to notice that the
// store is away for all nodes, so that their attempts continue, even if the registry has lost all of them.
func TestStoreAwayWithRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{T: t, store: memory.New(memory.Options{Shards: shardsMade}), beat: cluster.BeatDefault, lag: cluster.LagDefault}
		defer b.close()
		v := &verdicts{quick: 6 * time.Second, gone: map[string]bool{}}
		var all []*node
		for _, name := range []string{"a", "c", "d"} {
			all = append(all, b.start(name, func(c *cluster.Config) { c.Judge = v }))
		}
		b.spread(all...)
		time.Sleep(2 * b.lag) // afterwards the rows have the promises
		for _, n := range all {
			v.say(n, true)
		}
		for _, what := range []func(bool){b.down.Store, b.readOnly.Store} {
			what(true)
			for range 300 {
				time.Sleep(100 * time.Millisecond) // duration of the outage
				for _, n := range all {
					if age := n.boot() - n.Sure(); age > v.quick*3/4 {
						t.Fatalf("node %s was sure %v ago: its attempts have ended", n.name, age)
					}
				}
			}
			what(false)
			b.same(all...)
		}
	})
}
