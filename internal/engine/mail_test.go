package engine_test

import (
	"context"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// say writes a message without letters to shard 0, and letterbox counts those that wait there.
func (n *node) say() {
	n.t.Helper()
	b := store.Batch{Messages: []store.Message{{Payload: []byte("[]"), Created: 1}}}
	if _, err := n.store.Commit(context.Background(), &b); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) letterbox() int {
	n.t.Helper()
	page, err := n.store.Messages(context.Background(), 0, 10)
	if err != nil {
		n.t.Fatal(err)
	}
	return len(page)
}

// TestMessageTakenInDoubt: the transaction that consumed a message was written, but its answer was lost, and
// another node owned the shard before this owner could find out. The message is not consumed a second time,
// and blocks nothing.
func TestMessageTakenInDoubt(t *testing.T) {
	var n *node
	var armed, met atomic.Bool
	fault := func(op memory.Op) memory.Outcome {
		if op.Kind != memory.CommitAfter || len(op.Batch.Consumed) == 0 || !armed.Swap(false) {
			return memory.OK
		}
		ctx := context.Background()
		st := n.store.(*memory.Store)
		other, err := st.Register(ctx, "other", "other")
		if err != nil {
			t.Error(err)
		}
		got, err := st.Acquire(ctx, other.ID, []dag.ShardID{0})
		if err != nil {
			t.Error(err)
		}
		b := store.Batch{Fences: []store.Fence{got[0].Fence}}
		if _, err := st.Commit(ctx, &b); err != nil {
			t.Error(err)
		}
		b.Fences[0].Seq++
		if err := st.Release(ctx, b.Fences); err != nil {
			t.Error(err)
		}
		met.Store(true)
		return memory.UnknownWritten
	}
	n, _, give := ownerless(t, fault)
	give(true)
	w := n.apply("w", graph(t, "a"))
	n.say()
	armed.Store(true)
	if err := n.Meet(t.Context()); err != nil {
		t.Fatal(err)
	}
	var id dag.RunID
	eventually(t, "a run is accepted", func() bool { // while the shard is retaken nothing is accepted
		a, err := n.Submit(t.Context(), submission(w))
		id = a.Run
		return err == nil
	})
	n.ends(id, dag.RunSucceeded)
	if !met.Load() || n.letterbox() != 0 {
		t.Errorf("the fault came: %v; %d messages wait", met.Load(), n.letterbox())
	}
	n.say() // the next message is processed
	if err := n.Meet(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.quiet()
	if left := n.letterbox(); left != 0 {
		t.Errorf("%d messages wait", left)
	}
}
