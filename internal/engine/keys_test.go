package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// inserting counts the transactions that insert runs. While held is set, no node takes its shards.
type inserting struct {
	*memory.Store
	commits atomic.Int64
	held    atomic.Pointer[chan struct{}]
}

func (s *inserting) Acquire(ctx context.Context, h dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	if held := s.held.Load(); held != nil {
		<-*held
	}
	return s.Store.Acquire(ctx, h, shards)
}

func (s *inserting) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	if len(b.RunInserts) > 0 {
		s.commits.Add(1)
	}
	return s.Store.Commit(ctx, b)
}

// TestAheadKeys sends keys that the transaction under way contains. The second transaction finds them in
// memory, because the store does not have them yet, and inserts nothing. With every outcome of the first
// transaction, each key makes one run. If the store was unavailable, the node answers the callers before it
// has taken its shards again, and refuses submissions until then.
func TestAheadKeys(t *testing.T) {
	for name, outcome := range map[string]memory.Outcome{"committed": memory.OK, "failed": memory.FailBefore, "refused": memory.Refuse,
		"unknown, written": memory.UnknownWritten, "unknown, lost": memory.UnknownLost} {
		for _, each := range []int{1, 3} { // one key is read alone, several are read together
			t.Run(name, func(t *testing.T) { aheadKeys(t, outcome, each) })
		}
	}
}

func aheadKeys(t *testing.T, outcome memory.Outcome, each int) {
	st, armed, under, goOn := underWay(t, outcome)
	defer goOn()
	h := newHands(t)
	h.held = true
	count := &inserting{Store: st}
	n := start(t, count, h, func(c *engine.Config) { c.AheadRows = 1 })
	w := n.apply("w", graph(t, "a"))
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	if outcome == memory.FailBefore {
		count.held.Store(&held)
	}
	var mu sync.Mutex
	runs := map[int]map[dag.RunID]bool{}
	var answered atomic.Int64
	send := func() (refused int) {
		all := make([]engine.Submission, each)
		for i := range all {
			all[i] = submission(w)
			all[i].Key, all[i].KeyHash = string(rune('a'+i)), []byte{1}
		}
		accepted, errs := n.SubmitEach(t.Context(), all)
		mu.Lock()
		defer mu.Unlock()
		for i, err := range errs {
			switch {
			case err == nil:
				if runs[i] == nil {
					runs[i] = map[dag.RunID]bool{}
				}
				runs[i][accepted[i].Run] = true
			case errors.Is(err, errkind.ErrUnavailable):
				refused++
			default:
				t.Errorf("submit: %v", err)
			}
		}
		answered.Add(1)
		return refused
	}
	var wg sync.WaitGroup
	armed.Store(true)
	wg.Go(func() { send() })
	<-under
	wg.Go(func() { send() })
	eventually(t, "the second transaction is made", func() bool { return n.Waiting() == 0 })
	if answered.Load() != 0 {
		t.Error("a caller was answered before the commit")
	}
	goOn()
	if outcome == memory.FailBefore {
		eventually(t, "the node has no shards", func() bool { return n.Accepting() != nil })
		if n := send(); n != each {
			t.Errorf("%d of %d submissions were refused while the node had no shards", n, each)
		}
	}
	release()
	wg.Wait()
	if n := count.commits.Load(); outcome == memory.OK && n != 1 {
		t.Errorf("%d transactions inserted runs", n)
	}
	eventually(t, "every key is accepted", func() bool { return send() == 0 })
	for i := range each {
		if len(runs[i]) != 1 {
			t.Errorf("key %d made the runs %v", i, runs[i])
		}
	}
	for _, k := range h.holding(each) {
		h.end(k, success())
	}
	n.quiet()
	if is := n.Stats().RunsAccepted.Load(); is != int64(each) {
		t.Errorf("%d runs for %d keys", is, each)
	}
}
