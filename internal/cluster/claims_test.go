package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// namer reads the queues and locks of a workflow from its definition.
type namer struct{}

type named struct {
	Queue string
	Locks []string
}

func (namer) Names(def []byte) (engine.Names, error) {
	if len(def) == 0 {
		return nil, nil
	}
	var n named
	err := json.Unmarshal(def, &n)
	return &n, err
}

func (namer) CheckKey(string) error { return errors.New("no keys here") }

func (namer) KeyOf(string) (func([]byte, dag.Micros) (string, error), error) {
	return nil, errors.New("no keys here")
}

func (n *named) Of(string, []byte, dag.Micros) (engine.Named, error) {
	return engine.Named{Queue: n.Queue, By: "the workflow", Locks: n.Locks}, nil
}

// naming adds a workflow of one task with queues and locks.
func (b *bed) naming(all *machines, name string, what named) (w store.Workflow) {
	b.Helper()
	def, err := json.Marshal(what)
	if err != nil {
		b.Fatal(err)
	}
	g, err := dag.NewGraph(dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: "a"}}})
	if err != nil {
		b.Fatal(err)
	}
	all.routed(b, "a workflow is applied", func(e *engine.Engine) (err error) {
		w, _, err = e.Apply(context.Background(), engine.Definition{Namespace: "test", Name: name, Graph: g.Pack(), Def: def, Digest: def, User: "ada"})
		return err
	})
	return w
}

// shared counts the held locks and slots in the rows of one read, because a lock may change its holder
// between two reads.
func (b *bed) shared() (places int, locks map[string]int) {
	b.Helper()
	const most = 1000
	page, err := b.store.Holding(context.Background(), dag.RunID{}, most)
	if err != nil {
		b.Fatal(err)
	}
	if len(page) == most {
		b.Fatal("more runs hold something than one read shows")
	}
	locks = map[string]int{}
	for i := range page {
		if page[i].Claim.Slot() {
			places++
		}
		for _, l := range page[i].Claim.Locks {
			locks[l]++
		}
	}
	return places, locks
}

// TestClaims: two engines share a queue and two locks while shards move between them. The shard of the
// admission owner moves, too. At the end one engine dies. No more is held than allowed, each run ends, and
// the queue admits as many runs at the end as at the beginning.
func TestClaims(t *testing.T) {
	const workflows, limit, moving, dying = 16, 3, 160, 80
	scenario(t, func(b *bed) {
		ctx := context.Background()
		all := &machines{started: map[attempt]int{}}
		a, c := b.two(all)
		all.routed(b, "a queue is made", func(e *engine.Engine) error {
			_, err := e.SetQueue(ctx, store.Queue{Name: "q", Limit: limit, Order: store.QueueFIFO, Overflow: store.OverflowWait}, 0)
			return err
		})
		what := []named{{Queue: "q"}, {Queue: "q", Locks: []string{"l"}}, {Locks: []string{"k", "l"}}, {Locks: []string{"k"}}}
		var flows []store.Workflow
		for i := range workflows {
			flows = append(flows, b.naming(all, fmt.Sprint("w", i), what[i%len(what)]))
		}
		var runs []dag.RunID
		submit := func() { runs = append(runs, b.submit(all, flows[len(runs)%workflows])) }
		recount := func() {
			places, locks := b.shared()
			if places > limit || locks["k"] > 1 || locks["l"] > 1 {
				b.Fatalf("%d places of %d are taken, locks %v", places, limit, locks)
			}
		}
		move := func() {
			shard := dag.ShardID(rand.IntN(shardsMade))
			if rand.IntN(2) == 0 {
				shard = store.GateShard
			}
			if err := b.cluster().Move(ctx, shard, all.each()[rand.IntN(2)].e.Handler().ID); err != nil {
				b.Fatal(err)
			}
			a.node.Wake()
			c.node.Wake()
		}
		for range moving {
			submit()
			if len(runs)%3 == 0 {
				move()
			}
			if len(runs)%8 == 0 { // a run gives up its claim while a grant may be on its way
				id := runs[len(runs)-1]
				all.routed(b, "a run is stopped", func(e *engine.Engine) error {
					err := e.Do(ctx, engine.Command{Run: id, Intent: dag.IntentStop})
					if errors.Is(err, errkind.ErrConflict) {
						return nil
					}
					return err
				})
				runs = runs[:len(runs)-1]
			}
			recount()
		}
		b.until("all runs end while shards move", func() bool {
			move()
			recount()
			return b.ended(runs) == len(runs)
		})
		for range dying {
			submit()
		}
		c.kill()
		b.until("the other ends all runs", func() bool {
			recount()
			return b.ended(runs) == len(runs)
		})
		b.until("nothing is held", func() bool {
			places, locks := b.shared()
			return places+len(locks) == 0
		})
		a.hands.hold.Store(true) // a leaked queue slot would be missing now
		for range limit {
			runs = append(runs, b.submit(all, flows[0]))
		}
		b.until("the queue is full", func() bool {
			places, _ := b.shared()
			return places == limit
		})
		a.hands.hold.Store(false)
		b.until("the last end", func() bool { return b.ended(runs) == len(runs) })
		found, err := inspect.Verify(ctx, b.store, func(string) (dag.Condition, error) { return nil, errors.New("no conditions here") })
		if err != nil || len(found) > 0 {
			b.Errorf("verify: %v %+v", err, found)
		}
		a.ends()
	})
}
