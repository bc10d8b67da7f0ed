package home_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/store"
)

// members is the name of the embedded field: the interface has a method Members.
type members = home.Members

// apart is a store that one home cannot reach.
type apart struct {
	members
	cut *atomic.Bool
}

func (a apart) Renew(ctx context.Context, m store.Member) (bool, error) {
	if a.cut.Load() {
		return false, errors.New("cut off")
	}
	return a.members.Renew(ctx, m)
}

// TestHomeCutOff: if the store does not confirm that a worker is listed, its home extends the leases of the
// worker's attempts less and less, and detaches it in time. Other nodes may have declared the worker dead.
func TestHomeCutOff(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	var ahead atomic.Int64
	tn := newTown(t, 1, func(c *home.Config) {
		c.Store = apart{c.Store, &cut}
		c.Boot = func() time.Duration { return boot() + time.Duration(ahead.Load()) }
	})
	h := tn.hand(tn.nodes[0], "w", 1)
	if out := h.poll(); out.BehindMillis != 0 {
		t.Fatalf("behind %d ms, and the store confirms everything", out.BehindMillis)
	}
	cut.Store(true)
	ahead.Add(int64(lag * 3 / 8))
	out := h.poll()
	if behind := time.Duration(out.BehindMillis) * time.Millisecond; behind < lag/8 || behind > lag/2 {
		t.Errorf("behind %v three eighths of a lag of %v after the last renewal", behind, lag)
	}
	ahead.Add(int64(lag / 2))
	if _, err := h.c.Poll(t.Context(), h.pollRequest()); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a lag after the last renewal: %v", err)
	}
	cut.Store(false)
	h.register("w", 1)
	if out := h.poll(); out.BehindMillis != 0 {
		t.Errorf("behind %d ms after it was attached anew", out.BehindMillis)
	}
}
