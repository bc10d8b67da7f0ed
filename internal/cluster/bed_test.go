package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// server is shared by the tests of this binary.
var server *pgtest.Server

// TestMain runs six tests concurrently: nearly all of the time, they wait for a heartbeat or a lag.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(pgtest.Main(m, &server, pgtest.Options{NoSync: true}))
}

const shardsMade = 32

// bed is a store and the nodes that share it.
type bed struct {
	*testing.T
	store     store.Store
	beat, lag time.Duration
	down      atomic.Bool // the store answers no node
	readOnly  atomic.Bool // the store refuses changes
	losing    atomic.Bool // the store refuses releases of shards
	refused   atomic.Int32
	deposed   atomic.Int32

	mu       sync.Mutex // protects following fields
	nodes    []*node
	machines []*machine
}

// scenario runs once over memory, on a simulated clock and with the defaults of the product. It runs once
// more over PostgreSQL, with short intervals.
func scenario(t *testing.T, play func(b *bed)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := &bed{T: t, store: memory.New(memory.Options{Shards: shardsMade}), beat: cluster.BeatDefault, lag: cluster.LagDefault}
			defer b.close()
			play(b)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL("postgres"), Schema: fmt.Sprint("cluster_", schemas.Add(1)), Readers: 3, Writers: 4})
		if err != nil {
			t.Fatal(err)
		}
		b := &bed{T: t, store: db, beat: 300 * time.Millisecond, lag: 4 * time.Second}
		defer b.close()
		play(b)
	})
}

// schemas counts the schemas that the tests of this binary have made.
var schemas atomic.Int64

func (b *bed) close() {
	b.down.Store(false)
	b.readOnly.Store(false)
	b.mu.Lock()
	nodes := slices.Clone(b.nodes)
	b.mu.Unlock()
	for _, n := range nodes {
		n.down.Store(false)
		n.stop()
		<-n.done
	}
	for _, m := range b.machines {
		m.kill()
	}
	if err := b.store.Close(); err != nil {
		b.Error(err)
	}
}

// patience bounds the wait of a test for a condition. No result depends on it.
const patience = 2 * time.Minute

// until waits for a condition.
func (b *bed) until(what string, is func() bool) {
	b.Helper()
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			members, shards, err := b.cluster().Members(context.Background())
			b.Fatalf("waited in vain until %s; members %+v, shards %+v, %v", what, members, shards, err)
		}
	}
}

func (b *bed) cluster() store.Cluster { return b.store.(store.Cluster) }

// view reads the members and shards from the store.
func (b *bed) view() (map[dag.HandlerID]store.Member, []store.ShardRow) {
	b.Helper()
	members, shards, err := b.cluster().Members(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	by := map[dag.HandlerID]store.Member{}
	for _, m := range members {
		by[m.Handler] = m
	}
	return by, shards
}

// spread waits until these nodes, and no others, own the shards evenly, and until each of them owns what
// the store says.
func (b *bed) spread(nodes ...*node) {
	b.Helper()
	b.until(fmt.Sprintf("%d nodes own all shards", len(nodes)), func() bool {
		_, shards := b.view()
		has := map[dag.HandlerID]int{}
		for _, s := range shards {
			has[s.Owner]++
		}
		part := len(shards) / len(nodes)
		for _, n := range nodes {
			is := has[n.handler()]
			if is < part || is > part+1 || len(n.owner.holds()) != is {
				return false
			}
			delete(has, n.handler())
		}
		return len(has) == 0
	})
}

// node is a membership with an owner that has no engine.
type node struct {
	*cluster.Node
	name   string
	boot   func() time.Duration
	owner  *owner
	down   atomic.Bool // the store does not answer this node
	noJoin atomic.Bool // this node cannot join
	stop   context.CancelFunc
	done   chan error
	looks  atomic.Int64 // reads of the members that succeeded
}

func (n *node) handler() dag.HandlerID { return n.Self().Handler }

// start makes a node and runs it.
func (b *bed) start(name string, change ...func(*cluster.Config)) *node {
	b.Helper()
	h, err := b.store.Register(context.Background(), uuid.NewString(), name)
	if err != nil {
		b.Fatal(err)
	}
	n := &node{name: name, done: make(chan error, 1)}
	st := &link{Cluster: b.cluster(), b: b, n: n}
	n.owner = &owner{b: b, n: n, st: st, handler: h.ID, held: map[dag.ShardID]store.Fence{}}
	began := time.Now()
	n.boot = func() time.Duration { return time.Since(began) + 1 }
	cfg := cluster.Config{Store: st, Owner: n.owner, Beat: b.beat, Lag: b.lag, Boot: n.boot, Blind: b.blind,
		Self: store.Member{Handler: h.ID, UUID: h.UUID, Name: name, Address: "http://" + name, Slots: 4, Started: h.Started}}
	for _, c := range change {
		c(&cfg)
	}
	n.Node = cluster.New(cfg)
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	b.mu.Lock()
	b.nodes = append(b.nodes, n)
	b.mu.Unlock()
	go func() {
		n.done <- n.Run(ctx)
		close(n.done)
	}()
	return n
}

// blind asks all of these nodes. A dead node does not answer.
func (b *bed) blind(_ context.Context, members []store.Member) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(members, func(m store.Member) bool {
		i := slices.IndexFunc(b.nodes, func(n *node) bool { return n.Self().Handler == m.Handler })
		return i < 0 || !b.nodes[i].Blind()
	})
}

// ends stops a node in order.
func (n *node) ends(b *bed) {
	b.Helper()
	n.stop()
	if err := <-n.done; err != nil {
		b.Errorf("node %s: %v", n.name, err)
	}
}

// dies stops a node without a call of the store.
func (n *node) dies() {
	n.down.Store(true)
	n.stop()
	<-n.done
}

// link is the connection of one node to the store.
type link struct {
	store.Cluster
	b *bed
	n *node
}

var errAway = fmt.Errorf("the store is away: %w", store.ErrUnavailable)

func (l *link) fail(writes bool) error {
	if l.b.down.Load() || l.n.down.Load() || writes && l.b.readOnly.Load() {
		return errAway
	}
	return nil
}

func (l *link) Join(ctx context.Context, m store.Member) error {
	if l.n.noJoin.Load() {
		return errAway
	}
	return errors.Join(l.fail(true), call(l, func() error { return l.Cluster.Join(ctx, m) }))
}

// call calls do, unless the link is broken.
func call(l *link, do func() error) error {
	if l.fail(true) != nil {
		return nil
	}
	return do()
}

func (l *link) Renew(ctx context.Context, m store.Member) (bool, error) {
	if err := l.fail(true); err != nil {
		return false, err
	}
	return l.Cluster.Renew(ctx, m)
}

func (l *link) Members(ctx context.Context) ([]store.Member, []store.ShardRow, error) {
	if err := l.fail(false); err != nil {
		return nil, nil, err
	}
	members, shards, err := l.Cluster.Members(ctx)
	if err == nil {
		l.n.looks.Add(1)
	}
	return members, shards, err
}

func (l *link) Depose(ctx context.Context, h dag.HandlerID, beat int64) (bool, error) {
	if err := l.fail(true); err != nil {
		return false, err
	}
	won, err := l.Cluster.Depose(ctx, h, beat)
	if won {
		l.b.deposed.Add(1)
	}
	return won, err
}

func (l *link) Leave(ctx context.Context, h dag.HandlerID) error {
	return errors.Join(l.fail(true), call(l, func() error { return l.Cluster.Leave(ctx, h) }))
}

func (l *link) Claim(ctx context.Context, h dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	if err := l.fail(true); err != nil {
		return nil, err
	}
	return l.Cluster.Claim(ctx, h, shards)
}

func (l *link) Release(ctx context.Context, fences []store.Fence) error {
	if l.b.losing.Load() {
		l.b.refused.Add(1)
		return errAway
	}
	return errors.Join(l.fail(true), call(l, func() error { return l.Cluster.Release(ctx, fences) }))
}

// owner owns shards as an engine does, and runs nothing.
type owner struct {
	b    *bed
	n    *node
	st   *link
	slow func(ctx context.Context) // called while the owner loads shards; nil if it loads at once

	mu      sync.Mutex // protects following fields
	handler dag.HandlerID
	held    map[dag.ShardID]store.Fence
	buried  []dag.HandlerID
	born    int // the number of processes after the first
	met     int
}

func (o *owner) holds() (all []dag.ShardID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.held {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// Own first forgets shards and then releases them, as the engine does. A shard that cannot be released is
// not owned any more.
func (o *owner) Own(ctx context.Context, want []dag.ShardID) ([]dag.ShardID, error) {
	o.mu.Lock()
	handler := o.handler
	var leave []store.Fence
	var take []dag.ShardID
	for s, f := range o.held {
		if !slices.Contains(want, s) {
			leave = append(leave, f)
			delete(o.held, s)
		}
	}
	for _, s := range want {
		if _, held := o.held[s]; !held {
			take = append(take, s)
		}
	}
	o.mu.Unlock()
	if len(leave) > 0 {
		if err := o.st.Release(ctx, leave); err != nil {
			return o.holds(), err
		}
	}
	if len(take) > 0 {
		got, err := o.st.Claim(ctx, handler, take)
		if err != nil {
			return o.holds(), err
		}
		if o.slow != nil {
			o.slow(ctx)
		}
		o.mu.Lock()
		for _, a := range got {
			o.held[a.Shard] = a.Fence
		}
		o.mu.Unlock()
	}
	return o.holds(), nil
}

// Bury notes which of the listed handlers are gone.
func (o *owner) Bury(gone func(dag.HandlerID) bool) {
	o.b.mu.Lock()
	nodes := slices.Clone(o.b.nodes)
	o.b.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	for h := dag.HandlerID(1); int(h) <= 4*len(nodes); h++ {
		if gone(h) && !slices.Contains(o.buried, h) {
			o.buried = append(o.buried, h)
		}
	}
}

func (o *owner) Meet(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.met++
	return nil
}

func (o *owner) Reborn(ctx context.Context) (store.Handler, error) {
	if err := o.st.fail(true); err != nil {
		return store.Handler{}, err
	}
	h, err := o.b.store.Register(ctx, uuid.NewString(), o.n.name)
	if err != nil {
		return h, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.held)
	o.handler = h.ID
	o.born++
	return h, nil
}

func (o *owner) lives() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return 1 + o.born
}

func (o *owner) hasBuried(h dag.HandlerID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.buried, h)
}
