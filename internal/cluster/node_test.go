package cluster_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// three starts three nodes and waits until they share the shards.
func (b *bed) three() (a, c, d *node) {
	b.Helper()
	a = b.start("a")
	b.spread(a)
	c, d = b.start("c"), b.start("d")
	b.spread(a, c, d)
	return a, c, d
}

// kept returns the number of shards that still have their owner.
func kept(before, after []store.ShardRow, h dag.HandlerID) (n int) {
	for i := range before {
		if before[i].Owner == h && after[i].Owner == h {
			n++
		}
	}
	return n
}

func TestComeAndGo(t *testing.T) {
	scenario(t, func(b *bed) {
		a, c, d := b.three()
		_, before := b.view()
		c.ends(b)
		b.spread(a, d)
		members, after := b.view()
		if len(members) != 2 || b.deposed.Load() != 0 {
			b.Errorf("members %v, %d deposed", members, b.deposed.Load())
		}
		for _, n := range []*node{a, d} {
			if kept(before, after, n.handler()) < shardsMade/3 {
				b.Errorf("node %s lost shards when another left", n.name)
			}
			b.until("the one who left is buried", func() bool { return n.owner.hasBuried(c.handler()) })
		}
		e := b.start("e")
		b.spread(a, d, e)
		m, ok := a.Member(e.handler())
		b.until("the new one is known", func() bool { m, ok = a.Member(e.handler()); return ok })
		if m.Address != "http://e" || !e.Joined() {
			b.Errorf("it is known as %+v", m)
		}
		for s := range dag.ShardID(shardsMade) {
			b.until("its owner is known", func() bool { _, owned := a.OwnerOf(s); return owned })
		}
	})
}

// TestSilence: a node that is cut off is declared dead, notices it, and joins again under a new handler.
func TestSilence(t *testing.T) {
	scenario(t, func(b *bed) {
		a, c, d := b.three()
		was := c.handler()
		c.down.Store(true)
		b.spread(a, d)
		if b.deposed.Load() != 1 {
			b.Errorf("deposed %d times", b.deposed.Load())
		}
		b.until("it is buried", func() bool { return a.owner.hasBuried(was) && d.owner.hasBuried(was) })
		if c.owner.lives() != 1 {
			b.Error("a node that is cut off cannot know that it was deposed")
		}
		c.down.Store(false)
		b.spread(a, c, d)
		if c.handler() == was || c.owner.lives() != 2 {
			b.Errorf("it is %d again, %d lives", c.handler(), c.owner.lives())
		}
		if a.owner.lives() != 1 || d.owner.lives() != 1 {
			b.Error("the others were deposed, too")
		}
	})
}

// TestDeath: a process that starts under the name of an earlier process replaces it at once.
func TestDeath(t *testing.T) {
	scenario(t, func(b *bed) {
		a, c, d := b.three()
		c.dies()
		e := b.start("c")
		b.spread(a, d, e)
		if n := b.deposed.Load(); n != 0 {
			b.Errorf("%d nodes were deposed", n)
		}
		b.until("its earlier life is buried", func() bool { return a.owner.hasBuried(c.handler()) })
	})
}

// away causes an outage for all nodes that is much longer than the lag. On the simulated clock it checks
// that the leases of their attempts hold.
func (b *bed) away(what func(bool), nodes ...*node) {
	b.Helper()
	what(true)
	for range 30 {
		time.Sleep(b.lag / 10) // duration of the outage
		for _, n := range nodes {
			if age := n.boot() - n.Sure(); b.lag == cluster.LagDefault && age > b.lag/2 {
				b.Errorf("node %s was sure %v ago", n.name, age)
			}
		}
	}
	what(false)
}

// same checks that no node was deposed, after every node could be read again.
func (b *bed) same(nodes ...*node) {
	b.Helper()
	before, _ := b.view()
	b.until("everybody is heard again", func() bool {
		now, _ := b.view()
		for _, n := range nodes {
			m, listed := now[n.handler()]
			if !listed || m.Beat <= before[n.handler()].Beat+1 {
				return !listed
			}
		}
		return true
	})
	b.spread(nodes...)
	for _, n := range nodes {
		if n.owner.lives() != 1 {
			b.Errorf("node %s was deposed", n.name)
		}
	}
	if n := b.deposed.Load(); n != 0 {
		b.Errorf("%d nodes were deposed", n)
	}
}

// TestStoreAway: an outage of the store declares no node dead.
func TestStoreAway(t *testing.T) {
	scenario(t, func(b *bed) {
		a, c, d := b.three()
		b.away(b.down.Store, a, c, d)
		b.same(a, c, d)
	})
}

// TestShortOutage: a short outage with a short lag declares no node dead.
func TestShortOutage(t *testing.T) {
	for lag := 2 * time.Second; lag <= 20*time.Second; lag += time.Second {
		synctest.Test(t, func(t *testing.T) {
			b := &bed{T: t, store: memory.New(memory.Options{Shards: shardsMade}), beat: lag / 4, lag: lag}
			defer b.close()
			a, c, d := b.three()
			for away := 100 * time.Millisecond; away < 4*time.Second; away += 300 * time.Millisecond {
				b.down.Store(true)
				time.Sleep(away)
				b.down.Store(false)
				time.Sleep(lag)
			}
			b.same(a, c, d)
		})
	}
}

// TestStoreReadOnly: an outage in which the members can still be read declares no node dead.
func TestStoreReadOnly(t *testing.T) {
	scenario(t, func(b *bed) {
		a, c, d := b.three()
		b.away(b.readOnly.Store, a, c, d)
		b.same(a, c, d)
	})
}

// TestSlowLoad: a node that takes long to load its shards is not silent.
func TestSlowLoad(t *testing.T) {
	scenario(t, func(b *bed) {
		a := b.start("a")
		b.spread(a)
		c := b.start("c", func(cfg *cluster.Config) {
			cfg.Owner.(*owner).slow = func(context.Context) { time.Sleep(2 * b.lag) }
		})
		b.same(a, c)
	})
}

// TestReleaseFails: an engine whose release of a shard failed does not own it any more. The node releases
// the shard nevertheless.
func TestReleaseFails(t *testing.T) {
	scenario(t, func(b *bed) {
		a := b.start("a")
		b.spread(a)
		b.losing.Store(true)
		c := b.start("c")
		b.until("it has tried", func() bool { return b.refused.Load() > 2 })
		if len(a.owner.holds()) == shardsMade {
			b.Error("it holds on to what it should give back")
		}
		b.losing.Store(false)
		b.spread(a, c)
	})
}

// TestStuck: a node that makes no progress lets other nodes take its shards, and continues when it can.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{T: t, store: memory.New(memory.Options{Shards: shardsMade}), beat: cluster.BeatDefault, lag: cluster.LagDefault}
		defer b.close()
		a := b.start("a")
		b.spread(a)
		free := make(chan struct{})
		c := b.start("c", func(cfg *cluster.Config) { cfg.Owner.(*owner).slow = func(context.Context) { <-free } })
		b.until("it has taken shards", func() bool { _, shards := b.view(); return kept(shards, shards, c.handler()) > 0 })
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		b.spread(a)
		close(free)
		b.spread(a, c)
		if c.owner.lives() != 2 {
			b.Errorf("%d lives", c.owner.lives())
		}
	})
}

func TestCordon(t *testing.T) {
	scenario(t, func(b *bed) {
		a, c, d := b.three()
		c.Cordon(true)
		b.spread(a, d)
		members, _ := b.view()
		if m := members[c.handler()]; m.State != store.MemberLeaving {
			b.Errorf("the node is %q", m.State)
		}
		c.Cordon(false)
		b.spread(a, c, d)
	})
}

func TestMove(t *testing.T) {
	scenario(t, func(b *bed) {
		a, c, d := b.three()
		move := a.owner.holds()[0]
		if err := b.cluster().Move(context.Background(), move, d.handler()); err != nil {
			b.Fatal(err)
		}
		b.until("the shard is where it was put", func() bool { _, shards := b.view(); return shards[move].Owner == d.handler() })
		b.spread(a, c, d)
		looks := d.looks.Load()
		b.until("everybody has looked again", func() bool { return d.looks.Load() > looks+3 })
		if _, shards := b.view(); shards[move].Owner != d.handler() {
			b.Error("it did not stay")
		}
	})
}

func TestExitOnLoss(t *testing.T) {
	scenario(t, func(b *bed) {
		a := b.start("a")
		c := b.start("c", func(cfg *cluster.Config) { cfg.ExitOnLoss = true })
		b.spread(a, c)
		c.down.Store(true)
		b.spread(a)
		c.down.Store(false)
		if err := <-c.done; !errors.Is(err, cluster.ErrDeposed) {
			b.Errorf("it ended with %v", err)
		}
		if c.owner.lives() != 1 {
			b.Error("it began a new life")
		}
	})
}

// TestOneName: of two processes with one name the younger one stays. The other one ends with a reason, and
// does not come back.
func TestOneName(t *testing.T) {
	scenario(t, func(b *bed) {
		a := b.start("a")
		c := b.start("c")
		b.spread(a, c)
		again := b.start("a")
		if err := <-a.done; !errors.Is(err, cluster.ErrReplaced) {
			b.Errorf("the elder ended with %v", err)
		}
		b.spread(again, c)
		if again.owner.lives() != 1 {
			b.Error("the younger began a new life")
		}
	})
}

// blink is a store that returns an error for one read: the first read after the node has learnt that it is no
// longer listed.
type blink struct {
	store.Cluster
	lost, failed atomic.Bool
}

func (s *blink) Renew(ctx context.Context, m store.Member) (bool, error) {
	listed, err := s.Cluster.Renew(ctx, m)
	if err == nil && !listed {
		s.lost.Store(true)
	}
	return listed, err
}

func (s *blink) Members(ctx context.Context) ([]store.Member, []store.ShardRow, error) {
	if s.lost.Load() && !s.failed.Swap(true) {
		return nil, nil, errAway
	}
	return s.Cluster.Members(ctx)
}

// TestOneNameBlink: the elder of two processes with one name does not come back, even if it cannot see the
// younger one at first.
func TestOneNameBlink(t *testing.T) {
	scenario(t, func(b *bed) {
		a := b.start("a", func(cfg *cluster.Config) { cfg.Store = &blink{Cluster: cfg.Store} })
		c := b.start("c")
		b.spread(a, c)
		again := b.start("a")
		select {
		case err := <-a.done:
			if !errors.Is(err, cluster.ErrReplaced) {
				b.Errorf("the elder ended with %v", err)
			}
		case err := <-again.done:
			b.Fatalf("the younger ended with %v", err)
		}
		b.spread(again, c)
		if again.owner.lives() != 1 {
			b.Error("the younger began a new life")
		}
	})
}

// TestStopWithoutStore: a node that is stopped while it cannot join, or join again, ends in order.
func TestStopWithoutStore(t *testing.T) {
	scenario(t, func(b *bed) {
		b.down.Store(true)
		a := b.start("a")
		a.ends(b)
		b.down.Store(false)
		c, d := b.start("c"), b.start("d")
		b.spread(c, d)
		was := c.handler()
		c.down.Store(true)
		b.spread(d)
		c.noJoin.Store(true)
		c.down.Store(false)
		b.until("it has learned that it was deposed", func() bool { return c.handler() != was })
		c.ends(b)
	})
}

// stuck is an owner that never succeeds in releasing all its shards.
type stuck struct {
	cluster.Owner
	had atomic.Bool
}

func (s *stuck) Own(ctx context.Context, want []dag.ShardID) ([]dag.ShardID, error) {
	if len(want) > 0 || !s.had.Load() {
		s.had.Store(len(want) > 0)
		return s.Owner.Own(ctx, want)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestLeavesAnyway: a node that ends while its engine is stuck removes its row, and so frees its shards.
func TestLeavesAnyway(t *testing.T) {
	scenario(t, func(b *bed) {
		a := b.start("a")
		c := b.start("c", func(cfg *cluster.Config) { cfg.Owner = &stuck{Owner: cfg.Owner} })
		b.spread(a, c)
		c.ends(b)
		members, shards := b.view()
		if _, listed := members[c.handler()]; listed {
			b.Error("its row is left")
		}
		for i := range shards {
			if shards[i].Owner == c.handler() {
				b.Fatalf("it owns shard %d", shards[i].ID)
			}
		}
		b.spread(a)
		if b.beat == cluster.BeatDefault && b.deposed.Load() != 0 { // on the clock of a busy machine, the node may have left too late
			b.Error("it was taken for dead")
		}
	})
}
