package storetest

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// listing returns a check that gets the store as store.Workers. Stores of one node and of several nodes
// implement that.
func listing(run func(b *bed, c store.Workers)) func(b *bed) {
	return func(b *bed) {
		c, ok := b.s.(store.Workers)
		if !ok {
			b.Skip("a store that lists no workers")
		}
		run(b, c)
	}
}

func workers() []check {
	return []check{
		{"a worker has a row", listing(workerJoined)},
		{"a name belongs to one worker", listing(workerNames)},
		{"a worker attaches again", listing(workerAttached)},
		{"a worker leaves", listing(workerLeft)},
		{"a dead worker is lost until it joins again", listing(memberLost)},
		{"what is not text is refused", listing(workerRefused)},
		{"reopened: workers are there", listing(workersReopened)},
	}
}

// lists adds a worker with a new handler.
func lists(b *bed, c store.Workers, n int, name string) store.Member {
	b.Helper()
	h, err := b.s.Register(b.ctx, uuid(200+n), name)
	b.ok(err)
	m := store.Member{Handler: h.ID, UUID: h.UUID, Name: name, Worker: true, Version: "v1", Format: b.knows(), State: store.MemberActive, Slots: 20, Busy: 2,
		Home: 7, Lease: 1, Traits: store.Traits{Groups: []string{"etl", "größer"}, Labels: map[string]string{"disk": "ssd"}, Kinds: []string{"vm.create"}, Extensions: []dag.Extension{{Kind: "slurm", Version: "1.4.0", Digest: "d", Connection: "http"}}}}
	b.ok(c.Join(b.ctx, m))
	return m
}

// rowOf returns the row of a worker. It requires that there is one.
func rowOf(b *bed, c store.Workers, h dag.HandlerID) store.Member {
	b.Helper()
	members, _ := b.look(c)
	m, listed := members[h]
	b.same(listed, true, "the worker is listed")
	return m
}

func workerJoined(b *bed, c store.Workers) {
	w := lists(b, c, 1, "w")
	is := rowOf(b, c, w.Handler)
	if is.Beat < 1 || is.Seen < is.Started || is.Started == 0 {
		b.Fatalf("joined as %+v", is)
	}
	w.Beat, w.Started, w.Seen = is.Beat, is.Started, is.Seen
	b.same(is, w, "the row")
	b.same(is.Able(), false, "it may own shards")
}

// workerNames makes a worker join again with its handler, as after a lost answer. A worker with another
// handler must not get the name, and its call must change nothing.
func workerNames(b *bed, c store.Workers) {
	w := lists(b, c, 1, "w")
	before, _ := b.look(c)
	h, err := b.s.Register(b.ctx, uuid(210), "w")
	b.ok(err)
	other := w
	other.Handler, other.UUID, other.Slots = h.ID, h.UUID, 1
	b.is(c.Join(b.ctx, other), store.ErrNameHeld)
	after, _ := b.look(c)
	b.same(after, before, "members after a worker was refused a name")
	b.ok(c.Join(b.ctx, w))
	b.same(rowOf(b, c, w.Handler).Beat-before[w.Handler].Beat, int64(1), "the counter of a worker that joins again")
	b.ok(c.Leave(b.ctx, w.Handler))
	b.ok(c.Join(b.ctx, other))
}

func workerAttached(b *bed, c store.Workers) {
	w, other := lists(b, c, 1, "w"), lists(b, c, 2, "v")
	before, _ := b.look(c)
	to := w
	to.Home, to.Slots, to.Busy, to.Traits = 8, 10, 7, store.Traits{}
	lease, err := c.Attach(b.ctx, to)
	b.ok(err)
	b.same(lease, int64(2), "the second lease")
	is := rowOf(b, c, w.Handler)
	b.same([]any{is.Home, is.Lease, is.Slots, is.Busy, is.Traits, is.Beat - before[w.Handler].Beat}, []any{dag.HandlerID(8), int64(2), int32(10), int32(7), store.Traits{}, int64(1)}, "the row")
	b.same(rowOf(b, c, other.Handler), before[other.Handler], "another worker")
	for what, change := range map[string]func(*store.Member){
		"another life":   func(m *store.Member) { m.UUID = uuid(299) },
		"another name":   func(m *store.Member) { m.Name = "v" },
		"another worker": func(m *store.Member) { m.Handler = 1 << 40 },
	} {
		wrong := to
		change(&wrong)
		lease, err := c.Attach(b.ctx, wrong)
		b.ok(err)
		b.same(lease, int64(0), what)
	}
	b.same(rowOf(b, c, w.Handler), is, "the row after wrong tries")
}

func workerLeft(b *bed, c store.Workers) {
	w, other := lists(b, c, 1, "w"), lists(b, c, 2, "v")
	b.ok(c.Leave(b.ctx, w.Handler))
	b.ok(c.Leave(b.ctx, w.Handler))
	members, _ := b.look(c)
	b.same(len(members), 1, "members")
	lease, err := c.Attach(b.ctx, w)
	b.ok(err)
	b.same(lease, int64(0), "a worker that has left")
	b.same(rowOf(b, c, other.Handler).Name, "v", "the other worker")
}

func workerRefused(b *bed, c store.Workers) {
	for what, change := range map[string]func(*store.Member){
		"a name with NUL":   func(m *store.Member) { m.Name = "a\x00b" },
		"no UTF-8":          func(m *store.Member) { m.Version = "\xff" },
		"an unknown state":  func(m *store.Member) { m.State = "dancing" },
		"no state at all":   func(m *store.Member) { m.State = "" },
		"a uuid with bytes": func(m *store.Member) { m.UUID = "\xfe" },
	} {
		m := store.Member{Handler: 9, UUID: uuid(9), Name: "w", Worker: true, State: store.MemberActive, Lease: 1}
		change(&m)
		if err := c.Join(b.ctx, m); err == nil {
			b.Errorf("%s was taken", what)
		}
	}
	members, _ := b.look(c)
	b.same(len(members), 0, "members")
}

func workersReopened(b *bed, c store.Workers) {
	if b.e.Reopen == nil {
		b.Skip("the engine keeps nothing")
	}
	w := lists(b, c, 1, "w")
	_, err := c.Attach(b.ctx, w)
	b.ok(err)
	members, _ := b.look(c)
	b.ok(b.s.Close())
	b.s = b.e.Reopen(b.T, b.s)
	again, _ := b.look(b.s.(store.Workers))
	b.same(again, members, "members")
}
