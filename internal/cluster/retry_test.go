package cluster_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// tries records when a node calls a store.
type tries struct {
	store.Cluster
	mu            sync.Mutex // protects following fields
	looks, renews []time.Time
}

func (s *tries) Members(ctx context.Context) ([]store.Member, []store.ShardRow, error) {
	s.mu.Lock()
	s.looks = append(s.looks, time.Now())
	s.mu.Unlock()
	return s.Cluster.Members(ctx)
}

func (s *tries) Renew(ctx context.Context, m store.Member) (bool, error) {
	s.mu.Lock()
	s.renews = append(s.renews, time.Now())
	s.mu.Unlock()
	return s.Cluster.Renew(ctx, m)
}

// pauses returns the pauses between the tries after an instant, without the first.
func (s *tries) pauses(of *[]time.Time, from time.Time) (all []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.DeleteFunc(slices.Clone(*of), func(t time.Time) bool { return t.Before(from) })
	for i := 1; i < len(at); i++ {
		all = append(all, at[i].Sub(at[i-1]))
	}
	return all
}

// noted holds the lines of a log.
type noted struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *noted) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *noted) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// TestAskedSeldom: nodes that have lost the store at the same time do not all call it at the same times, and
// do not call it every half second for hours. They log the outage only a few times. They return soon after
// the store does.
func TestAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{T: t, store: memory.New(memory.Options{Shards: shardsMade}), beat: cluster.BeatDefault, lag: cluster.LagDefault}
		defer b.close()
		var stores [2]*tries
		var logs [2]*noted
		var nodes [2]*node
		for i, name := range []string{"a", "c"} {
			nodes[i] = b.start(name, func(cfg *cluster.Config) {
				stores[i], logs[i] = &tries{Cluster: cfg.Store}, &noted{}
				cfg.Store, cfg.Log = stores[i], slog.New(slog.NewTextHandler(logs[i], nil))
			})
		}
		b.spread(nodes[:]...)
		time.Sleep(b.lag)
		b.down.Store(true)
		from := time.Now().Add(b.lag) // by then the pauses have grown
		time.Sleep(10 * time.Minute)  // duration of the outage
		for i, s := range stores {
			for what, of := range map[string]*[]time.Time{"looks": &s.looks, "renewals": &s.renews} {
				pauses := s.pauses(of, from)
				different := map[time.Duration]bool{}
				for _, p := range pauses {
					different[p] = true
				}
				if longest := slices.Max(pauses); longest > b.lag/10 || len(pauses) > 600 || len(different) < len(pauses)/2 {
					t.Errorf("node %d, %s: %d tries, %d different pauses, the longest %v", i, what, len(pauses), len(different), longest)
				}
			}
		}
		b.down.Store(false)
		time.Sleep(b.lag / 10)
		members, _ := b.view()
		for i, n := range nodes {
			for _, what := range []string{"code=members_unreadable ", "code=renewal_failing "} {
				if got := logs[i].count(what); got < 3 || got > 6 {
					t.Errorf("node %d told %d times: %s", i, got, what)
				}
			}
			for _, what := range []string{"code=members_unreadable_ended", "code=renewal_failing_ended"} {
				if got := logs[i].count(what); got != 1 {
					t.Errorf("node %d told %d times: %s\n%s", i, got, what, &logs[i].buf)
				}
			}
			if _, listed := members[n.handler()]; !listed || n.owner.lives() != 1 {
				t.Errorf("node %d did not survive: %d lives", i, n.owner.lives())
			}
		}
		b.spread(nodes[:]...)
	})
}

// TestRenewedInTime: if a store refuses renewals for most of a node's lease, the node calls it more often
// towards the end. So the node renews before its attempts would end, if the store allows it.
func TestRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{T: t, store: memory.New(memory.Options{Shards: shardsMade}), beat: cluster.BeatDefault, lag: cluster.LagDefault}
		defer b.close()
		var st *tries
		a := b.start("a", func(cfg *cluster.Config) {
			st = &tries{Cluster: cfg.Store}
			cfg.Store, cfg.Blind = st, nil
		})
		b.spread(a)
		sure := a.Sure()
		b.until("it is renewed", func() bool { return a.Sure() != sure })
		a.down.Store(true)
		from := time.Now()
		time.Sleep(b.lag * 3 / 4) // the attempts would end after this
		pauses := st.pauses(&st.renews, from)
		if last := slices.Max(pauses[len(pauses)-3:]); last > 500*time.Millisecond {
			t.Errorf("the last pauses are up to %v: %v", last, pauses)
		}
		a.down.Store(false)
	})
}
