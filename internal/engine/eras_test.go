package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// watching returns an engine of a cluster that remembers the confirmed states of a store with two shards.
func watching(t *testing.T, fault func(memory.Op) memory.Outcome) (st *memory.Store, n *node, p *past.Past) {
	t.Helper()
	st = memory.New(memory.Options{Shards: 2, Fault: fault})
	p = past.Open(past.Config{Store: st, Node: "n"})
	n = start(t, st, newHands(t), func(c *engine.Config) { c.Peers, c.Past = &alone{}, p })
	join(t, st, n.Handler(), "n")
	return st, n, p
}

func join(t *testing.T, st *memory.Store, h store.Handler, name string) {
	t.Helper()
	if err := st.Join(t.Context(), store.Member{Handler: h.ID, UUID: h.UUID, Name: name, State: store.MemberActive}); err != nil {
		t.Fatal(err)
	}
}

// owns makes an engine own shards.
func (n *node) owns(want ...dag.ShardID) {
	n.t.Helper()
	if got, err := n.Own(n.t.Context(), want); err != nil || !slices.Equal(got, want) {
		n.t.Fatalf("owns %v, want %v: %v", got, want, err)
	}
}

func eraOf(t *testing.T, st *memory.Store) dag.Era {
	t.Helper()
	marks, err := st.Marks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return store.EraOf(marks)
}

// TestRegressOfALostShard: the store goes back to a state in which another node owns a shard that this node
// has taken and written since. This node does not get the shard back, so its claim does not show the regress.
// The other node may still be able to write under its old epoch. So this node raises the era before it
// answers anything else.
func TestRegressOfALostShard(t *testing.T) {
	for name, kept := range map[string][]dag.ShardID{"it keeps another shard": {1}, "it keeps no shard": nil} {
		t.Run(name, func(t *testing.T) {
			st, n, _ := watching(t, nil)
			other, err := st.Register(t.Context(), "4cf1f1b1-97c1-4a3e-9a58-6a4b3c2d1e0f", "other")
			if err != nil {
				t.Fatal(err)
			}
			join(t, st, other, "other")
			stale, err := st.Claim(t.Context(), other.ID, []dag.ShardID{0})
			if err != nil {
				t.Fatal(err)
			}
			n.owns(kept...)
			was := memory.Save(st)

			if err := st.Leave(t.Context(), other.ID); err != nil {
				t.Fatal(err)
			}
			n.owns(append([]dag.ShardID{0}, kept...)...)
			w := n.apply("w", graph(t, "a"))
			n.ends(n.submit(w), dag.RunSucceeded)
			memory.GoBack(st, was)

			_, err = n.Submit(t.Context(), submission(w)) // its transaction is fenced, so the shards are taken again
			var moved *errkind.Elsewhere
			if !errors.As(err, &moved) && !errors.Is(err, errkind.ErrUnavailable) {
				t.Errorf("a submission to a lost shard: %v", err)
			}
			if era := eraOf(t, st); era != 1 {
				t.Errorf("the database is in era %d", era)
			}
			if _, err := st.Commit(t.Context(), &store.Batch{Fences: []store.Fence{stale[0].Fence}}); !errors.Is(err, store.ErrFenced) {
				t.Errorf("the owner of the earlier state commits: %v", err)
			}
		})
	}
}

// TestRegressDuringAClaim: while a claim waits for the store, this node reads a state that the store loses
// before the claim is executed. The claim shows the regress.
func TestRegressDuringAClaim(t *testing.T) {
	var p *past.Past
	var learn atomic.Bool
	st, n, p := watching(t, func(op memory.Op) memory.Outcome {
		if op.Kind == memory.ClaimBefore && learn.CompareAndSwap(true, false) {
			p.Confirm([]store.Fence{{Shard: op.Shards[0], Epoch: 7, Seq: 40}})
		}
		return memory.OK
	})
	learn.Store(true)
	_, err := n.Own(t.Context(), []dag.ShardID{0})
	if era := eraOf(t, st); era != 1 {
		t.Errorf("the database is in era %d; the shard was taken: %v", era, err)
	}
}

// severed is a store whose answers are lost. Before the shards are taken again, its server fails over.
type severed struct {
	*memory.Store
	lose, back atomic.Bool   // lose the answer of the next commit; with back, also its effect
	from       *memory.Saved // the state before that commit
}

func (s *severed) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	if !s.lose.CompareAndSwap(true, false) {
		return s.Store.Commit(ctx, b)
	}
	s.from = memory.Save(s.Store)
	if now, err := s.Store.Commit(ctx, b); err != nil {
		return now, err
	}
	if !s.back.Load() {
		s.from = memory.Save(s.Store)
	}
	memory.GoBack(s.Store, s.from)
	memory.Settle(s.Store, 0)
	return 0, fmt.Errorf("commit: the server is gone: %w", store.ErrUnknown)
}

// TestCommitInDoubtAtAFailover: the server fails over during a commit, and an era begins quietly. If the commit
// is in the marks at the end of the era before, it happened: its run counts as accepted, and it is not written
// a second time. Otherwise it is written again.
func TestCommitInDoubtAtAFailover(t *testing.T) {
	for name, back := range map[string]bool{"it happened": false, "it was lost": true} {
		t.Run(name, func(t *testing.T) {
			st := &severed{Store: memory.New(memory.Options{})}
			st.back.Store(back)
			n := start(t, st, newHands(t))
			w := n.apply("w", graph(t, "a"))
			n.quiet()
			seqs := func() int64 {
				marks, err := st.Marks(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return marks[0].Seq
			}
			was := seqs()
			st.lose.Store(true)
			n.ends(n.submit(w), dag.RunSucceeded)
			n.quiet()
			if era := eraOf(t, st.Store); era != 1 {
				t.Errorf("the database is in era %d", era)
			}
			if is := n.Stats().RunsAccepted.Load(); is != 1 {
				t.Errorf("%d runs were accepted after seq %d, at seq %d", is, was, seqs())
			}
		})
	}
}

// oneWorker is a market without slots that knows one worker.
type oneWorker struct{ is dag.HandlerID }

func (oneWorker) Open(dag.Place) bool                  { return false }
func (oneWorker) Take(dag.Place) (dag.HandlerID, bool) { return 0, false }
func (oneWorker) Back(dag.HandlerID, dag.Place)        {}
func (oneWorker) Want([]engine.Demand, int)            {}
func (oneWorker) Send([]engine.Assignment)             {}
func (oneWorker) Handed([]engine.Assignment)           {}
func (oneWorker) Settled()                             {}
func (oneWorker) Reset()                               {}
func (m oneWorker) Worker(h dag.HandlerID) bool        { return h == m.is }

// TestWorkerIsAskedAgain: after the database has gone back, the owner asks the homes of workers which
// attempts of the lost time these workers do not hold. A home that cannot answer yet is asked again within
// seconds.
func TestWorkerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		p := &neighbours{}
		p.alive.Store(true)
		p.lacks.Store(true)
		p.away.Store(3)
		h := newHands(t)
		h.held = true
		worker := start(t, st, h, func(c *engine.Config) { c.Peers, c.Helpers = p, p })
		join(t, st, worker.Handler(), "worker")
		worker.owns(0)
		id := worker.submit(worker.apply("w", graph(t, "a")))
		h.holding(1)
		worker.owns()
		if _, err := st.Raise(t.Context(), 0, 1, nil); err != nil {
			t.Fatal(err)
		}
		owner := start(t, st, newHands(t), func(c *engine.Config) {
			c.Peers, c.Helpers, c.Node, c.Market = p, p, "owner", oneWorker{worker.Handler().ID}
		})
		join(t, st, owner.Handler(), "owner")
		owner.owns(0)
		for range 12 { // a node looks for messages once a second
			if err := owner.Meet(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if s := owner.state(id); s != dag.RunSucceeded {
			t.Errorf("the run is %s; its worker was asked %d times", s, p.asked.Load())
		}
	})
}
