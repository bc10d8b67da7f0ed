package storetest

import (
	"context"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// clustered returns a check that gets the store as store.Cluster. The check is skipped if the engine does not
// implement that.
func clustered(run func(b *bed, c store.Cluster)) func(b *bed) {
	return func(b *bed) {
		c, ok := b.s.(store.Cluster)
		if !ok {
			b.Skip("a store for one node")
		}
		run(b, c)
	}
}

func clusters() []check {
	return []check{
		{"join writes a row with the store's times", clustered(joined)},
		{"join again keeps what is owned", clustered(joinedAgain)},
		{"join replaces the earlier life of its name", clustered(joinedByName)},
		{"join refuses what is not text", clustered(joinRefused)},
		{"renew moves the counter, and says who is gone", clustered(renewed)},
		{"a worker is attached to one home", clustered(attached)},
		{"depose looks at the counter", clustered(deposed)},
		{"a deposed node is lost until it joins again", clustered(nodeLost)},
		{"leave frees", clustered(left)},
		{"claim takes what is free or its own", clustered(claimed)},
		{"claim of an unknown shard takes nothing", clustered(claimUnknown)},
		{"claim of nothing", clustered(claimNothing)},
		{"claim tells what acquire tells", clustered(claimTells)},
		{"claim takes from who is no member", clustered(claimOrphans)},
		{"claim is for members", clustered(claimStranger)},
		{"claim fences the owner of before", clustered(claimFences)},
		{"acquire makes an owner", clustered(acquireOwns)},
		{"release under a stale epoch does nothing", clustered(releaseStale)},
		{"move is written down", clustered(shardMoved)},
		{"move follows a node to its next life", clustered(movedOn)},
		{"shift moves a shard of its owner, one at a time", clustered(shifted)},
		{"shift follows a node to its next life", clustered(shiftedOn)},
		{"a load is as it was written", clustered(loadKept)},
		{"orders stand by name until they are taken back", clustered(orders)},
		{"workflows are counted", clustered(workflowsCounted)},
		{"the format is the newest", clustered(risen)},
		{"submitted runs are found", clustered(submittedFound)},
		{"what ends with the store ends with an error", clustered(clusterClosed)},
		{"reopened: members and owners are there", clustered(clusterReopened)},
	}
}

// member makes the nth member join, with a new handler.
func (b *bed) member(c store.Cluster, n int, name string) store.Member {
	b.Helper()
	h, err := b.s.Register(b.ctx, uuid(100+n), name)
	b.ok(err)
	m := store.Member{Handler: h.ID, UUID: h.UUID, Name: name, Address: "http://" + name + ":1", Version: "v1", Format: b.knows(),
		State: store.MemberActive, Slots: 8, Busy: 3, Traits: store.Traits{Quick: 6000, Proves: true}}
	b.ok(c.Join(b.ctx, m))
	return m
}

// knows returns the newest format that the store knows.
func (b *bed) knows() int {
	b.Helper()
	info, err := b.s.Info(b.ctx)
	b.ok(err)
	return info.Known
}

// risen checks that a new database has the newest format and keeps it, even if members know only an older
// one.
func risen(b *bed, c store.Cluster) {
	for i := range 2 {
		is, err := c.Rise(b.ctx)
		b.ok(err)
		info, err := b.s.Info(b.ctx)
		b.ok(err)
		b.same([]int{is, info.Format}, []int{b.knows(), b.knows()}, "the format")
		b.member(c, 1+i, "a")
	}
	key, err := c.NodeKey(b.ctx)
	b.ok(err)
	again, err := c.NodeKey(b.ctx)
	b.ok(err)
	b.same(again, key, "the key of the nodes")
	if len(key) < 16 {
		b.Errorf("a key of %d bytes", len(key))
	}
}

// attached checks that a worker keeps its row when its home node changes, and that only the current home node
// can renew it.
func attached(b *bed, c store.Cluster) {
	first, second := b.member(c, 1, "n1"), b.member(c, 2, "n2")
	h, err := b.s.Register(b.ctx, uuid(103), "w")
	b.ok(err)
	w := store.Member{Handler: h.ID, UUID: h.UUID, Name: "w", Worker: true, Version: "v1", Format: 4, State: store.MemberActive,
		Slots: 20, Home: first.Handler, Lease: 1, Traits: store.Traits{Groups: []string{"etl", "größer"}, Labels: map[string]string{"disk": "ssd"}, Kinds: []string{"vm.create"}, Extensions: []dag.Extension{{Kind: "slurm", Version: "1.4.0", Digest: "d", Connection: "http"}}}}
	b.ok(c.Join(b.ctx, w))
	members, _ := b.look(c)
	is := members[w.Handler]
	b.same([]any{is.Worker, is.Home, is.Lease, is.Traits, is.Able()}, []any{true, first.Handler, int64(1), w.Traits, false}, "the row")
	was := is.Beat
	listed, err := c.Renew(b.ctx, w)
	b.ok(err)
	b.same(listed, true, "renewed by its home")

	to := w
	to.Home, to.Slots, to.Traits = second.Handler, 10, store.Traits{}
	lease, err := c.Attach(b.ctx, to)
	b.ok(err)
	b.same(lease, int64(2), "the second lease")
	listed, err = c.Renew(b.ctx, w)
	b.ok(err)
	b.same(listed, false, "renewed by its home of before")
	to.Lease, to.Busy = lease, 7
	listed, err = c.Renew(b.ctx, to)
	b.ok(err)
	b.same(listed, true, "renewed by its home of now")
	members, _ = b.look(c)
	is = members[w.Handler]
	b.same([]any{is.Home, is.Slots, is.Busy, is.Traits, is.Beat - was}, []any{second.Handler, int32(10), int32(7), store.Traits{}, int64(3)}, "the row")

	b.held(c, to, first)
	members, _ = b.look(c)
	is = members[w.Handler]
	wrong := to
	wrong.UUID = uuid(104)
	lease, err = c.Attach(b.ctx, wrong)
	b.ok(err)
	b.same(lease, int64(0), "another life of its name")
	wrong = to
	wrong.Name = "v"
	lease, err = c.Attach(b.ctx, wrong)
	b.ok(err)
	b.same(lease, int64(0), "another name")
	lease, err = c.Attach(b.ctx, first)
	b.ok(err)
	b.same(lease, int64(0), "a node is attached to nobody")
	won, err := c.Depose(b.ctx, w.Handler, is.Beat)
	b.ok(err)
	b.same(won, true, "deposed")
	lease, err = c.Attach(b.ctx, to)
	b.ok(err)
	b.same(lease, int64(0), "who was deposed")
}

// held checks that a worker cannot take the name of another member, and that the attempt changes nothing. A
// worker that joins again with its own handler keeps its name.
func (b *bed) held(c store.Cluster, w, node store.Member) {
	b.Helper()
	before, shards := b.look(c)
	for i, name := range []string{w.Name, node.Name} {
		h, err := b.s.Register(b.ctx, uuid(110+i), name)
		b.ok(err)
		other := w
		other.Handler, other.UUID, other.Name, other.Slots = h.ID, h.UUID, name, 1
		b.is(c.Join(b.ctx, other), store.ErrNameHeld)
	}
	after, shardsAfter := b.look(c)
	b.same(after, before, "members after a worker was refused a name")
	b.same(shardsAfter, shards, "shards after a worker was refused a name")
	b.ok(c.Join(b.ctx, w))
	again, _ := b.look(c)
	b.same(again[w.Handler].Beat-before[w.Handler].Beat, int64(1), "the counter of a worker that joins again")
}

// look reads the members, by handler, and the shards.
func (b *bed) look(c store.Workers) (map[dag.HandlerID]store.Member, []store.ShardRow) {
	b.Helper()
	members, shards, err := c.Members(b.ctx)
	b.ok(err)
	by := map[dag.HandlerID]store.Member{}
	for _, m := range members {
		by[m.Handler] = m
	}
	b.same(len(by), len(members), "members have one handler each")
	b.same(len(shards), len(b.fences), "shards")
	for i, s := range shards {
		b.same(s.ID, dag.ShardID(i), "the order of shards")
	}
	return by, shards
}

func (b *bed) owners(c store.Cluster) []dag.HandlerID {
	b.Helper()
	_, shards := b.look(c)
	var all []dag.HandlerID
	for _, s := range shards {
		all = append(all, s.Owner)
	}
	return all
}

// every returns all shards.
func (b *bed) every() (all []dag.ShardID) {
	for i := range b.fences {
		all = append(all, dag.ShardID(i))
	}
	return all
}

// ownedBy returns the list of owners that the store must report if one handler owns every shard.
func (b *bed) ownedBy(h dag.HandlerID) []dag.HandlerID {
	return slices.Repeat([]dag.HandlerID{h}, len(b.fences))
}

// claims claims shards, and requires that it gets all of them.
func (b *bed) claims(c store.Cluster, h dag.HandlerID, shards ...dag.ShardID) []store.Acquired {
	b.Helper()
	got, err := c.Claim(b.ctx, h, shards)
	b.ok(err)
	b.same(len(got), len(shards), "claimed shards")
	return got
}

func joined(b *bed, c store.Cluster) {
	members, shards := b.look(c)
	b.same(len(members), 0, "members of a new store")
	for _, s := range shards {
		b.same(s.Owner, dag.HandlerID(0), "the owner that is no member")
	}
	h, err := b.s.Register(b.ctx, uuid(100), "a")
	b.ok(err)
	m := store.Member{Handler: h.ID, UUID: h.UUID, Name: "a", Address: "http://ä:1", Version: "v1", Format: b.knows(),
		State: store.MemberLeaving, Slots: 8, Busy: 3, Beat: 77, Started: 5, Seen: 6}
	b.ok(c.Join(b.ctx, m))
	is, _ := b.look(c)
	got := is[h.ID]
	if got.Seen < h.Started || got.Beat < 1 {
		b.Fatalf("joined as %+v", got)
	}
	m.Beat, m.Started, m.Seen = got.Beat, h.Started, got.Seen
	b.same(got, m, "the member")
	stranger := store.Member{Handler: 1 << 40, UUID: uuid(99), Name: "b", State: store.MemberActive}
	b.ok(c.Join(b.ctx, stranger))
	is, _ = b.look(c)
	b.same(is[stranger.Handler].Started, is[stranger.Handler].Seen, "the start of a handler that is not registered")
}

// joinedAgain makes a node join again, as if the answer to its first join was lost.
func joinedAgain(b *bed, c store.Cluster) {
	m := b.member(c, 1, "a")
	b.claims(c, m.Handler, b.every()...)
	before, _ := b.look(c)
	m.Address = "http://moved:1"
	b.ok(c.Join(b.ctx, m))
	after, _ := b.look(c)
	b.same(after[m.Handler].Address, m.Address, "the address")
	if after[m.Handler].Beat == before[m.Handler].Beat {
		b.Fatal("who joins again was not heard")
	}
	b.same(b.owners(c), b.ownedBy(m.Handler), "owners")
}

func joinedByName(b *bed, c store.Cluster) {
	first, other := b.member(c, 1, "a"), b.member(c, 2, "b")
	b.claims(c, first.Handler, 0)
	for _, s := range b.every()[1:] {
		b.claims(c, other.Handler, s)
	}
	second := b.member(c, 3, "a")
	members, _ := b.look(c)
	b.same(len(members), 2, "members")
	b.same(members[second.Handler].UUID, second.UUID, "the new life")
	want := b.ownedBy(other.Handler)
	want[0] = 0
	b.same(b.owners(c), want, "owners")
	listed, err := c.Renew(b.ctx, first)
	b.ok(err)
	b.same(listed, false, "the earlier life is listed")
	b.claims(c, second.Handler, 0)
	b.ok(c.Leave(b.ctx, first.Handler)) // this late call must have no effect
	b.same(b.owners(c)[0], second.Handler, "the owner")
}

func joinRefused(b *bed, c store.Cluster) {
	for _, m := range []store.Member{
		{Handler: 9, UUID: uuid(9), Name: "a\x00b", State: store.MemberActive},
		{Handler: 9, UUID: uuid(9), Name: "a", Address: "\xff", State: store.MemberActive},
		{Handler: 9, UUID: uuid(9), Name: "a", State: "dancing"},
		{Handler: 9, UUID: uuid(9), Name: "a"},
	} {
		b.is(c.Join(b.ctx, m), store.ErrRefused)
	}
	m := b.member(c, 1, "a")
	m.Name = "b"
	b.is(c.Join(b.ctx, m), store.ErrRefused) // a handler must not have two names
	m.Name, m.State = "a", "dancing"
	_, err := c.Renew(b.ctx, m)
	b.is(err, store.ErrRefused)
	members, _ := b.look(c)
	b.same(len(members), 1, "members")
}

func renewed(b *bed, c store.Cluster) {
	m, other := b.member(c, 1, "a"), b.member(c, 2, "b")
	before, _ := b.look(c)
	change := m
	change.State, change.Busy = store.MemberLeaving, 7
	// Only a join may change these columns.
	change.Name, change.Address, change.Slots, change.UUID = "x", "x", 1, uuid(9)
	listed, err := c.Renew(b.ctx, change)
	b.ok(err)
	b.same(listed, true, "the member is listed")
	after, _ := b.look(c)
	want := before[m.Handler]
	if after[m.Handler].Beat == want.Beat || after[m.Handler].Seen < want.Seen {
		b.Fatalf("renewed from %+v to %+v", want, after[m.Handler])
	}
	want.State, want.Busy, want.Beat, want.Seen = change.State, change.Busy, after[m.Handler].Beat, after[m.Handler].Seen
	b.same(after[m.Handler], want, "the renewed member")
	b.same(after[other.Handler], before[other.Handler], "another one")
	m.Handler = 1 << 40
	listed, err = c.Renew(b.ctx, m)
	b.ok(err)
	b.same(listed, false, "a stranger is listed")
}

func deposed(b *bed, c store.Cluster) {
	m, other := b.member(c, 1, "a"), b.member(c, 2, "b")
	b.claims(c, m.Handler, 0)
	for _, s := range b.every()[1:] {
		b.claims(c, other.Handler, s)
	}
	depose := func(beat int64, want bool) {
		b.Helper()
		done, err := c.Depose(b.ctx, m.Handler, beat)
		b.ok(err)
		b.same(done, want, "deposed")
	}
	before, _ := b.look(c)
	_, err := c.Renew(b.ctx, m)
	b.ok(err)
	depose(before[m.Handler].Beat, false)
	depose(before[m.Handler].Beat+99, false)
	b.same(b.owners(c)[0], m.Handler, "the owner")
	now, _ := b.look(c)
	depose(now[m.Handler].Beat, true)
	depose(now[m.Handler].Beat, false)
	want := b.ownedBy(other.Handler)
	want[0] = 0
	b.same(b.owners(c), want, "owners")
	listed, err := c.Renew(b.ctx, m)
	b.ok(err)
	b.same(listed, false, "the deposed one is listed")
	b.ok(c.Join(b.ctx, m)) // as if the answer to the first join was lost
	again, _ := b.look(c)
	b.same(again[m.Handler].Beat == now[m.Handler].Beat || again[m.Handler].Beat == before[m.Handler].Beat, false, "it looks silent still")
	depose(now[m.Handler].Beat, false)
}

func left(b *bed, c store.Cluster) {
	m, other := b.member(c, 1, "a"), b.member(c, 2, "b")
	b.claims(c, m.Handler, b.every()...)
	b.ok(c.Leave(b.ctx, m.Handler))
	b.ok(c.Leave(b.ctx, m.Handler))
	members, _ := b.look(c)
	b.same(len(members), 1, "members")
	b.same(b.owners(c), b.ownedBy(0), "owners")
	b.claims(c, other.Handler, b.every()...)
}

func shardMoved(b *bed, c store.Cluster) {
	m := b.member(c, 1, "a")
	wanted := func() dag.HandlerID {
		_, shards := b.look(c)
		return shards[0].Wanted
	}
	b.same(wanted(), dag.HandlerID(0), "wanted at first")
	b.ok(c.Move(b.ctx, 0, m.Handler))
	b.same(wanted(), m.Handler, "wanted")
	got := b.claims(c, m.Handler, 0)
	b.ok(c.Release(b.ctx, []store.Fence{got[0].Fence}))
	b.ok(c.Leave(b.ctx, m.Handler))
	b.same(wanted(), m.Handler, "wanted, whatever becomes of it")
	b.ok(c.Move(b.ctx, 0, 0))
	b.same(wanted(), dag.HandlerID(0), "wanted no more")
	b.is(c.Move(b.ctx, 1<<20, m.Handler), store.ErrNotFound)
	b.is(c.Move(b.ctx, -1, m.Handler), store.ErrNotFound)
}

func workflowsCounted(b *bed, c store.Cluster) {
	last := dag.ShardID(len(b.fences) - 1)
	counted := func() int {
		b.Helper()
		_, shards := b.look(c)
		return shards[last].Workflows
	}
	rows := []store.Workflow{workflow(1, "first"), workflow(2, "second"), workflow(3, "third")}
	for i := range rows {
		rows[i].Shard = last
	}
	b.put(func(x *store.Batch) { x.WorkflowInserts = rows[:2] })
	b.same(counted(), 2, "workflows")
	x := b.batch()
	x.WorkflowInserts = []store.Workflow{rows[2], rows[0]}
	b.fails(x, store.ErrRefused)
	b.same(counted(), 2, "workflows after a refused batch")
	change := func(i int, state string) {
		rows[i].State = state
		rows[i].Revision++
		b.put(func(x *store.Batch) { x.WorkflowUpdates = rows[i : i+1] })
	}
	change(0, store.WorkflowPaused)
	b.same(counted(), 2, "workflows, one paused")
	change(0, store.WorkflowDeleted)
	change(0, store.WorkflowDeleted)
	b.same(counted(), 1, "workflows, one deleted")
	change(0, store.WorkflowActive)
	b.same(counted(), 2, "workflows, one back")
	_, shards := b.look(c)
	for _, s := range shards[:last] {
		b.same(s.Workflows, 0, "workflows of another shard")
	}
}

func submittedFound(b *bed, c store.Cluster) {
	last := dag.ShardID(len(b.fences) - 1)
	var rows []dag.RunRow
	for range 5 {
		rows = append(rows, b.run(dag.RunSubmitted))
		rows[len(rows)-1].Shard = last
	}
	for _, i := range []int{3, 1, 4, 0, 2} { // ids and commits have different orders
		x := &store.Batch{}
		x.RunInserts = rows[i : i+1]
		b.ok(b.commit(x))
	}
	b.add(b.run(dag.RunRunning), b.run(dag.RunSucceeded), b.run(dag.RunWaiting))
	found := func(limit int, want []dag.RunRow, shards ...dag.ShardID) {
		b.Helper()
		got, err := c.Submitted(b.ctx, shards, limit)
		b.ok(err)
		b.same(len(got), len(want), "submitted runs")
		for i := range want {
			b.same(got[i], want[i].ID, "a submitted run")
		}
	}
	found(10, rows, b.every()...)
	found(2, rows[:2], b.every()...)
	found(0, rows, last)
	found(10, nil, 1<<20)
	if last > 0 {
		found(10, nil, b.every()[:last]...)
	}
	update := func(i int, state dag.RunState) dag.RunUpdate {
		u := dag.RunUpdate{RunRow: rows[i], Was: rows[i].State}
		u.State = state
		if state.Terminal() {
			u.FinishedAt = u.Created + 1
		}
		rows[i].State = state
		return u
	}
	b.put(func(x *store.Batch) {
		x.RunUpdates = []dag.RunUpdate{update(0, dag.RunRunning), update(3, dag.RunFailed)}
	})
	found(10, []dag.RunRow{rows[1], rows[2], rows[4]}, b.every()...)
	b.put(func(x *store.Batch) {
		x.RunUpdates = []dag.RunUpdate{update(1, dag.RunSubmitted), update(0, dag.RunSubmitted)}
	})
	found(10, []dag.RunRow{rows[0], rows[1], rows[2], rows[4]}, b.every()...)
}

// verbs returns one call of each method of store.Cluster.
func verbs(ctx context.Context, c store.Cluster, m store.Member) map[string]func() error {
	return map[string]func() error{
		"Join":      func() error { return c.Join(ctx, m) },
		"Renew":     func() error { _, err := c.Renew(ctx, m); return err },
		"Members":   func() error { _, _, err := c.Members(ctx); return err },
		"Depose":    func() error { _, err := c.Depose(ctx, m.Handler, 1); return err },
		"Leave":     func() error { return c.Leave(ctx, m.Handler) },
		"Claim":     func() error { _, err := c.Claim(ctx, m.Handler, []dag.ShardID{0}); return err },
		"Release":   func() error { return c.Release(ctx, []store.Fence{{Epoch: 1}}) },
		"Move":      func() error { return c.Move(ctx, 0, 1) },
		"Order":     func() error { _, err := c.Order(ctx, store.Order{Node: "a", What: store.OrderStop}, true); return err },
		"Orders":    func() error { _, err := c.Orders(ctx); return err },
		"Submitted": func() error { _, err := c.Submitted(ctx, []dag.ShardID{0}, 1); return err },
	}
}

func clusterClosed(b *bed, c store.Cluster) {
	m := b.member(c, 1, "a")
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	for name, verb := range verbs(over, c, m) {
		if err := verb(); !isKind(err, store.ErrUnavailable) {
			b.Errorf("%s after its context ended: %v", name, err)
		}
	}
	b.same(b.owners(c), b.ownedBy(0), "owners")
	b.ok(b.s.Close())
	for name, verb := range verbs(b.ctx, c, m) {
		if err := verb(); !isKind(err, store.ErrUnavailable) {
			b.Errorf("%s of a closed store: %v", name, err)
		}
	}
}

func clusterReopened(b *bed, c store.Cluster) {
	if b.e.Reopen == nil {
		b.Skip("the engine keeps nothing")
	}
	m := b.member(c, 1, "a")
	b.claims(c, m.Handler, b.every()...)
	b.ok(c.Move(b.ctx, 0, m.Handler))
	x := &store.Batch{}
	x.RunInserts = []dag.RunRow{b.run(dag.RunSubmitted)}
	b.ok(b.commit(x))
	members, shards := b.look(c)
	b.ok(b.s.Close())
	b.s = b.e.Reopen(b.T, b.s)
	c = b.s.(store.Cluster)
	again, rows := b.look(c)
	b.same(again, members, "members")
	b.same(rows, shards, "shards")
	found, err := c.Submitted(b.ctx, b.every(), 10)
	b.ok(err)
	b.same(len(found), 1, "submitted runs")
}
