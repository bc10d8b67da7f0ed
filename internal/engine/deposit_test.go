package engine_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// alone is the Peers of a node without other nodes.
type alone struct {
	mu     sync.Mutex // protects following fields
	nudged []dag.ShardID
}

func (*alone) Alive(dag.HandlerID) bool                  { return false }
func (*alone) Pending(engine.AttemptID) bool             { return false }
func (*alone) Report(engine.Report)                      {}
func (*alone) Cancel(dag.HandlerID, []dag.Cancel)        {}
func (*alone) Confirm(dag.HandlerID, []engine.AttemptID) {}
func (a *alone) Nudge(s dag.ShardID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nudged = append(a.nudged, s)
}

// ownerless returns an engine of a cluster of one node. give makes it own the shard, or no shard.
func ownerless(t *testing.T, fault func(memory.Op) memory.Outcome, change ...func(*engine.Config)) (n *node, peers *alone, give func(own bool)) {
	st := memory.New(memory.Options{Fault: fault})
	peers = &alone{}
	n = start(t, st, newHands(t), append(change, func(c *engine.Config) { c.Peers = peers })...)
	h := n.Handler()
	if err := st.Join(t.Context(), store.Member{Handler: h.ID, UUID: h.UUID, Name: "n", State: store.MemberActive}); err != nil {
		t.Fatal(err)
	}
	give = func(own bool) {
		t.Helper()
		var want []dag.ShardID
		if own {
			want = append(want, 0)
		}
		if got, err := n.Own(t.Context(), want); err != nil || !slices.Equal(got, want) {
			t.Fatalf("owns %v, want %v: %v", got, want, err)
		}
	}
	return n, peers, give
}

func TestDeposit(t *testing.T) {
	n, peers, give := ownerless(t, nil)
	give(true)
	w := n.apply("w", graph(t, "a; b: a"))
	give(false)
	var moved *errkind.Elsewhere
	if _, err := n.Submit(t.Context(), submission(w)); !errors.As(err, &moved) {
		t.Fatalf("submitted to nobody: %v", err)
	}
	s := submission(w)
	s.Key, s.KeyHash, s.Params = "k", []byte("hash"), []byte(`{"a":1}`)
	first, err := n.Deposit(t.Context(), s)
	if err != nil || first.Existing {
		t.Fatalf("%+v, %v", first, err)
	}
	if n.state(first.Run) != dag.RunSubmitted || len(peers.nudged) != 1 {
		t.Errorf("it is %s, nudged %v", n.state(first.Run), peers.nudged)
	}
	again, err := n.Deposit(t.Context(), s)
	if err != nil || again.Run != first.Run || !again.Existing {
		t.Errorf("under the same key %+v, %v", again, err)
	}
	s.KeyHash = []byte("other")
	if _, err := n.Deposit(t.Context(), s); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("another request under the same key: %v", err)
	}
	free, err := n.Deposit(t.Context(), submission(w))
	if err != nil || free.Run == first.Run {
		t.Errorf("without a key %+v, %v", free, err)
	}
	give(true) // earlier runs are loaded, and later runs are picked up
	s.KeyHash = []byte("hash")
	if a, err := n.Submit(t.Context(), s); err != nil || a.Run != first.Run || !a.Existing {
		t.Errorf("the owner, under the same key: %+v, %v", a, err)
	}
	late, err := n.Deposit(t.Context(), submission(w))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Meet(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []dag.RunID{first.Run, free.Run, late.Run} {
		n.ends(id, dag.RunSucceeded)
	}
	n.quiet()
	row, err := n.RunRow(t.Context(), first.Run)
	if err != nil || string(row.Params) != `{"a":1}` || row.User != "ada" || row.Version != 1 || row.Created == 0 {
		t.Errorf("%+v, %v", row, err)
	}
}

// TestDepositMeetsOwner: one submission is both stored as a row and sent to the owner, in any order; it makes
// one run.
func TestDepositMeetsOwner(t *testing.T) {
	n, _, give := ownerless(t, nil)
	give(true)
	w := n.apply("w", graph(t, "a"))
	s := submission(w)
	s.ID = engine.NewRunID()
	if _, err := n.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if a, err := n.Deposit(t.Context(), s); err != nil || a.Run != s.ID {
		t.Errorf("after its owner: %+v, %v", a, err)
	}
	s.ID = engine.NewRunID()
	if _, err := n.Deposit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if a, err := n.Submit(t.Context(), s); err != nil || a.Run != s.ID {
		t.Errorf("before its owner: %+v, %v", a, err)
	}
	if err := n.Meet(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.ends(s.ID, dag.RunSucceeded)
	n.quiet()
}

// TestDepositUnderTheOwnersNose: another node inserts a run under a key between the look for the key and
// the commit. The start finds that run, alone or among many.
func TestDepositUnderTheOwnersNose(t *testing.T) {
	for _, crowd := range []int{0, 20} {
		var n *node
		var w store.Workflow
		var once sync.Once
		armed := make(chan struct{})
		var first engine.Accepted
		fault := func(op memory.Op) memory.Outcome {
			select {
			case <-armed:
			default:
				return memory.OK
			}
			if op.Kind == memory.CommitBefore && len(op.Batch.Fences) > 0 {
				once.Do(func() {
					s := submission(w)
					s.Key = "k"
					var err error
					if first, err = n.Deposit(t.Context(), s); err != nil {
						t.Error(err)
					}
				})
			}
			return memory.OK
		}
		var give func(bool)
		n, _, give = ownerless(t, fault)
		give(true)
		w = n.apply("w", graph(t, "a"))
		subs := make([]engine.Submission, crowd+1)
		for i := range subs {
			subs[i] = submission(w)
		}
		subs[crowd/2].Key = "k"
		close(armed)
		got, err := n.SubmitAll(t.Context(), subs)
		if a := got[crowd/2]; err != nil || a.Run != first.Run || !a.Existing {
			t.Errorf("in a crowd of %d: %+v, want run %s: %v", crowd, a, first.Run, err)
		}
		if err := n.Meet(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.quiet()
	}
}

func TestDepositRefused(t *testing.T) {
	n, _, give := ownerless(t, nil)
	give(true)
	w := n.apply("w", graph(t, "a"))
	if w, err := n.SetState(t.Context(), w, store.WorkflowPaused, 0, nil); err != nil {
		t.Fatal(err)
	} else if _, err := n.Deposit(t.Context(), submission(w)); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("of a paused workflow: %v", err)
	}
	s := submission(w)
	s.Workflow.ID++
	if _, err := n.Deposit(t.Context(), s); !errors.Is(err, errkind.ErrNotFound) {
		t.Errorf("of no workflow: %v", err)
	}
	s.User = "a\x00b"
	if _, err := n.Deposit(t.Context(), s); !errors.Is(err, errkind.ErrInvalid) {
		t.Errorf("of a bad user: %v", err)
	}
	single := start(t, openMemory(t), newHands(t))
	if _, err := single.Deposit(t.Context(), submission(single.apply("w", graph(t, "a")))); !errors.Is(err, errkind.ErrUnavailable) {
		t.Errorf("at a node that is alone: %v", err)
	}
}

// TestDepositUnknown: the outcome of the deposit is unknown, so the run is looked up.
func TestDepositUnknown(t *testing.T) {
	for _, outcome := range []memory.Outcome{memory.UnknownLost, memory.UnknownWritten} {
		var w store.Workflow
		fail := make(chan struct{}, 1)
		n, _, give := ownerless(t, func(op memory.Op) memory.Outcome {
			if op.Kind == memory.CommitBefore && len(op.Batch.Fences) == 0 {
				select {
				case <-fail:
					return outcome
				default:
				}
			}
			return memory.OK
		})
		give(true)
		w = n.apply("w", graph(t, "a"))
		give(false)
		fail <- struct{}{}
		a, err := n.Deposit(t.Context(), submission(w))
		if err != nil || a.Existing {
			t.Errorf("%+v, %v", a, err)
		}
		give(true)
		n.ends(a.Run, dag.RunSucceeded)
		n.quiet()
	}
}
