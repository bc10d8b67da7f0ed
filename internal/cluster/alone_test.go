package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// lodge is a node that is alone with its workers, on a simulated clock.
type lodge struct {
	*testing.T
	st     *memory.Store
	alone  *cluster.Alone
	broken atomic.Bool // the store refuses writes, or makes them without an answer
	taken  atomic.Bool
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex      // protects following fields
	buried []dag.HandlerID // the workers that the engine knows as gone
}

// faulty is the store of a lodge.
type faulty struct {
	*memory.Store
	l *lodge
}

var errBroken = errors.New("the disk is broken")

func (f faulty) Join(ctx context.Context, m store.Member) error {
	if f.l.broken.Load() {
		if f.l.taken.Load() {
			_ = f.Store.Join(ctx, m)
		}
		return errBroken
	}
	return f.Store.Join(ctx, m)
}

func (f faulty) Leave(ctx context.Context, h dag.HandlerID) error {
	if f.l.broken.Load() {
		return errBroken
	}
	return f.Store.Leave(ctx, h)
}

func (f faulty) Lose(ctx context.Context, h dag.HandlerID) error {
	if f.l.broken.Load() {
		return errBroken
	}
	return f.Store.Lose(ctx, h)
}

// Bury implements cluster.AloneOwner.
func (l *lodge) Bury(gone func(dag.HandlerID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range dag.HandlerID(100) {
		if h > 1 && gone(h) && !slices.Contains(l.buried, h) {
			l.buried = append(l.buried, h)
		}
	}
}

// Meet implements cluster.AloneOwner.
func (l *lodge) Meet(context.Context) error { return nil }

// open begins a life of the node over the store.
func (l *lodge) open() {
	l.Helper()
	a, err := cluster.NewAlone(l.Context(), cluster.AloneConfig{Store: faulty{l.st, l}, Owner: l, Shards: 1, Self: store.Member{Handler: 1, Name: "n", Slots: 2}})
	if err != nil {
		l.Fatal(err)
	}
	l.alone = a
	l.mu.Lock()
	l.buried = nil
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(l.Context())
	l.cancel, l.done = cancel, make(chan struct{})
	go func() {
		a.Run(ctx)
		close(l.done)
	}()
}

func (l *lodge) close() {
	l.cancel()
	<-l.done
}

func playAlone(t *testing.T, play func(l *lodge)) {
	synctest.Test(t, func(t *testing.T) {
		l := &lodge{T: t, st: memory.New(memory.Options{})}
		l.open()
		defer func() { l.close() }()
		play(l)
	})
}

func worker(h dag.HandlerID) store.Member {
	return store.Member{Handler: h, UUID: fmt.Sprintf("00000000-0000-0000-0000-%012d", h), Name: fmt.Sprint("w", h), Worker: true, State: store.MemberActive, Slots: 4, Home: 1, Lease: 1}
}

func (l *lodge) join(h dag.HandlerID) store.Member {
	l.Helper()
	m := worker(h)
	if err := l.alone.Join(l.Context(), m); err != nil {
		l.Fatal(err)
	}
	return m
}

// listed compares the workers that the node lists, in its memory and in the store.
func (l *lodge) listed(want ...dag.HandlerID) {
	l.Helper()
	members, shards, err := l.alone.Members(l.Context())
	if err != nil || len(shards) != 1 || shards[0].Owner != 1 || members[0].Handler != 1 || members[0].Worker {
		l.Fatalf("%+v, %+v, %v", members, shards, err)
	}
	rows, _, err := l.st.Members(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	for what, list := range map[string][]store.Member{"the node": members[1:], "the store": rows} {
		var got []dag.HandlerID
		for _, m := range list {
			got = append(got, m.Handler)
		}
		if !slices.Equal(got, want) {
			l.Errorf("%s lists %v, want %v", what, got, want)
		}
	}
}

// TestAloneDeposes: silence counts from the last renewal, or from the start of the process, whichever is later.
func TestAloneDeposes(t *testing.T) {
	playAlone(t, func(l *lodge) {
		a, _ := l.join(2), l.join(3)
		for range 10 {
			time.Sleep(5 * time.Second)
			if listed, err := l.alone.Renew(t.Context(), a); !listed || err != nil {
				t.Fatal(listed, err)
			}
		}
		l.listed(2)
		l.mu.Lock()
		buried := slices.Clone(l.buried)
		l.mu.Unlock()
		if !slices.Contains(buried, 3) || slices.Contains(buried, 2) {
			t.Errorf("buried %v", buried)
		}
		l.close()
		time.Sleep(time.Minute) // the node is down
		l.open()
		if !l.alone.Alive(2) || l.alone.Alive(3) {
			t.Error("the next life does not find the worker")
		}
		time.Sleep(cluster.LagDefault - time.Second)
		l.listed(2)
		if lease, err := l.alone.Attach(t.Context(), a); lease != 2 || err != nil {
			t.Errorf("attached again under lease %d, %v", lease, err)
		}
		if listed, _ := l.alone.Renew(t.Context(), a); listed {
			t.Error("a renewal under the lease of before counted")
		}
		time.Sleep(cluster.LagDefault - time.Second)
		l.listed(2)
		time.Sleep(3 * time.Second)
		l.listed()
		if lease, err := l.alone.Attach(t.Context(), a); lease != 0 || err != nil {
			t.Errorf("a deposed worker got lease %d, %v", lease, err)
		}
	})
}

// TestAloneDoubts: after a write without an answer the rows decide. A deposal that could not be written is
// tried again.
func TestAloneDoubts(t *testing.T) {
	playAlone(t, func(l *lodge) {
		l.join(2)
		l.broken.Store(true)
		l.taken.Store(true)
		if err := l.alone.Join(t.Context(), worker(3)); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		l.broken.Store(false)
		l.listed(2, 3)
		other := worker(4)
		other.Name = "w3"
		if err := l.alone.Join(t.Context(), other); !errors.Is(err, store.ErrNameHeld) {
			t.Error(err)
		}
		l.listed(2, 3)

		l.broken.Store(true)
		l.taken.Store(false)
		if err := l.alone.Join(t.Context(), worker(5)); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		l.listed(2, 3) // they are silent, and cannot be deposed
		l.broken.Store(false)
		time.Sleep(10 * time.Second)
		l.listed()
		if err := l.alone.Leave(t.Context(), 2); err != nil {
			t.Error(err)
		}
	})
}
