package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// many is the number of nodes that do the same at the same time.
const many = 20

func clustersAtOnce() []check {
	return []check{
		{"one of many deposes", clustered(deposeAtOnce)},
		{"a shard goes to one of many", clustered(claimAtOnce)},
		{"owners that take turns never meet", clustered(turns)},
		{"deposed while it commits", clustered(deposedCommitting)},
		{"one name, many lives", clustered(joinAtOnce)},
		{"members and shards are one snapshot", clustered(memberSnapshot)},
	}
}

// at calls f many times concurrently.
func at(f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range many {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

func deposeAtOnce(b *bed, c store.Cluster) {
	for round := range 3 {
		m := b.member(c, 10+round, "a")
		b.claims(c, m.Handler, b.every()...)
		members, _ := b.look(c)
		var won atomic.Int32
		at(func(int) {
			done, err := c.Depose(b.ctx, m.Handler, members[m.Handler].Beat)
			if err != nil {
				b.Errorf("depose: %v", err)
			}
			if done {
				won.Add(1)
			}
		})
		b.same(won.Load(), int32(1), "callers that deposed it")
		b.same(b.owners(c), b.ownedBy(0), "owners")
	}
}

func claimAtOnce(b *bed, c store.Cluster) {
	var ms []store.Member
	for i := range many {
		ms = append(ms, b.member(c, 10+i, key(i)))
	}
	got := make([][]store.Acquired, many)
	at(func(i int) {
		shards := b.every()
		if i%2 == 1 {
			slices.Reverse(shards)
		}
		var err error
		if got[i], err = c.Claim(b.ctx, ms[i].Handler, shards); err != nil {
			b.Errorf("claim: %v", err)
		}
	})
	owners := b.owners(c)
	total := 0
	for i, list := range got {
		for _, a := range list {
			total++
			b.same(owners[a.Shard], ms[i].Handler, "the owner of a claimed shard")
			_, err := b.s.Commit(b.ctx, &store.Batch{Fences: []store.Fence{a.Fence}})
			b.ok(err)
		}
	}
	b.same(total, len(b.fences), "shards that were claimed")
}

// commits writes runs under a fence until it has written most of them, or is fenced. It returns the
// successful commits.
func (b *bed) commits(f *store.Fence, id func(n int) dag.RunID, most int) (all []committed, err error) {
	for n := range most {
		r := dag.RunRow{Header: dag.Header{ID: id(n), Workflow: 1}, Generation: 1}
		x := &store.Batch{Fences: []store.Fence{*f}}
		x.RunInserts = []dag.RunRow{r}
		x.Events = []dag.EventRow{event(r.ID, 1)}
		if _, err := b.s.Commit(b.ctx, x); err != nil {
			return all, err
		}
		f.Seq++
		all = append(all, committed{f.Epoch, f.Seq, r.ID})
	}
	return all, nil
}

// turns checks that no commit is fenced as long as all owners stay members.
func turns(b *bed, c store.Cluster) {
	base := b.take()[0].Fence
	const owners, terms = 4, 6
	results := make([][]committed, owners)
	var ms []store.Member
	for o := range owners {
		ms = append(ms, b.member(c, 10+o, key(o)))
	}
	var wg sync.WaitGroup
	for o := range owners {
		wg.Go(func() {
			for term := 0; term < terms && !b.Failed(); {
				got, err := c.Claim(b.ctx, ms[o].Handler, []dag.ShardID{0})
				if err != nil {
					b.Errorf("claim: %v", err)
					return
				}
				if len(got) == 0 {
					continue
				}
				f := got[0].Fence
				id := func(n int) dag.RunID { return runID(uint32(1000 + (o*terms+term)*3 + n)) }
				wrote, err := b.commits(&f, id, 3)
				results[o] = append(results[o], wrote...)
				if err == nil {
					err = c.Release(b.ctx, []store.Fence{f})
				}
				if err != nil {
					b.Errorf("an owner's term: %v", err)
					return
				}
				term++
			}
		})
	}
	wg.Wait()
	b.oneSequence(base, slices.Concat(results...))
}

// deposedCommitting lets an owner commit after it was deposed without noticing. Each of its commits must be
// written before the next owner's claim, or not at all.
func deposedCommitting(b *bed, c store.Cluster) {
	base := b.take()[0].Fence
	const lives = 5
	results := make([][]committed, lives)
	var wg sync.WaitGroup
	for life := range lives {
		m := b.member(c, 10+life, "a") // replaces the member of the earlier round
		f := b.claims(c, m.Handler, 0)[0].Fence
		wrote := make(chan struct{}) // closed when the owner has begun to commit
		wg.Go(func() {
			id := func(n int) dag.RunID { return runID(uint32(1000 + life*1000 + n)) }
			first, err := b.commits(&f, id, 1)
			close(wrote)
			rest, then := b.commits(&f, func(n int) dag.RunID { return id(n + 1) }, 50)
			results[life] = append(first, rest...)
			if err := errors.Join(err, then); err != nil && !errors.Is(err, store.ErrFenced) {
				b.Errorf("commit: %v", err)
			}
		})
		<-wrote
	}
	wg.Wait()
	b.oneSequence(base, slices.Concat(results...))
}

func joinAtOnce(b *bed, c store.Cluster) {
	first := b.member(c, 9, "a")
	b.claims(c, first.Handler, b.every()...)
	at(func(i int) {
		h, err := b.s.Register(b.ctx, uuid(200+i), "a")
		if err == nil {
			err = c.Join(b.ctx, store.Member{Handler: h.ID, UUID: h.UUID, Name: "a", State: store.MemberActive})
		}
		if err == nil {
			_, err = c.Claim(b.ctx, h.ID, b.every())
		}
		if err != nil {
			b.Errorf("join: %v", err)
		}
	})
	members, shards := b.look(c)
	b.same(len(members), 1, "members")
	for _, s := range shards {
		if _, listed := members[s.Owner]; s.Owner != 0 && !listed {
			b.Errorf("shard %d belongs to %d, who is no member", s.ID, s.Owner)
		}
	}
	for h := range members {
		b.claims(c, h, b.every()...)
	}
}

// memberSnapshot checks that every read lists the owner of each shard as a member, and no name twice.
func memberSnapshot(b *bed, c store.Cluster) {
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer done.Store(true)
		for i := range 40 {
			h, err := b.s.Register(b.ctx, uuid(200+i), "a")
			if err == nil {
				err = c.Join(b.ctx, store.Member{Handler: h.ID, UUID: h.UUID, Name: "a", State: store.MemberActive})
			}
			if err == nil {
				_, err = c.Claim(b.ctx, h.ID, b.every())
			}
			if err != nil {
				b.Errorf("a new life: %v", err)
				return
			}
		}
	})
	for last := false; !last; {
		last = done.Load()
		members, shards := b.look(c)
		if len(members) > 1 {
			b.Errorf("%d lives of one name", len(members))
		}
		for _, s := range shards {
			if _, listed := members[s.Owner]; s.Owner != 0 && !listed {
				b.Fatalf("shard %d belongs to %d, who is not listed", s.ID, s.Owner)
			}
		}
	}
	wg.Wait()
}
