package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// saved is a copy of a world's store at some instant, with the witness's records of that instant.
type saved struct {
	st      *memory.Saved
	witness witness
}

// goBack schedules one or two times at which the store goes back to an earlier state, as after a failover to
// a standby that lacks the last transactions.
func (w *World) goBack() {
	if !w.stage.Back {
		return
	}
	for range 1 + w.rng.IntN(2) {
		at := time.Duration(w.rng.Int64N(int64(w.swarm.active)))
		w.after(at, func() {
			was := w.save()
			w.after(w.delay(2*time.Second), func() { w.back(was) })
		})
	}
}

func (w *World) save() *saved {
	v := w.witness
	v.epoch, v.seq, v.owner, v.taker = maps.Clone(v.epoch), maps.Clone(v.seq), maps.Clone(v.owner), maps.Clone(v.taker)
	v.members, v.order, v.keys, v.active = maps.Clone(v.members), slices.Clone(v.order), maps.Clone(v.keys), maps.Clone(v.active)
	v.named, v.runs = maps.Clone(v.named), map[dag.RunID]*shadow{}
	for id, sh := range w.witness.runs {
		is := *sh
		v.runs[id] = &is
	}
	return &saved{memory.Save(w.st), v}
}

// back returns the store to a saved state. Promises made since then are lost. That is not a fault of the
// program.
func (w *World) back(to *saved) {
	v := &w.witness
	if w.calm || to.witness.backs == w.backs && to.witness.Commits == v.Commits {
		return // the history ends too soon, or no commit would be lost
	}
	w.backs++
	w.backAt = w.now
	w.count("store that goes back")
	if to.witness.backs < w.backs-1 {
		w.count("store that goes back to a history that was left")
	}
	w.tell("the database goes back by %d transactions", v.Commits-to.witness.Commits)
	memory.GoBack(w.st, to.st)
	was, heard := to.witness, v.members
	v.epoch, v.seq, v.owner, v.taker = was.epoch, was.seq, was.owner, was.taker
	v.members, v.order, v.keys, v.active, v.runs = was.members, was.order, was.keys, was.active, was.runs
	v.backs, v.moved, v.named = w.backs, w.now, was.named
	for h, p := range v.members { // members that joined later count as heard now
		if p.since = w.now; heard[h].since != 0 {
			p.since = heard[h].since
		}
		v.members[h] = p
	}
	for _, a := range w.client.asked {
		if _, there := w.peekRun(a.acked); !there {
			a.acked = dag.RunID{}
		}
	}
}

// remembers returns the Past of a node. A later process of the node reads it from a file, which the simulator
// never loses.
func (w *World) remembers(node int) *past.Past {
	if w.pasts[node] == nil {
		w.pasts[node] = past.Open(past.Config{Store: nowStore{w}, Node: fmt.Sprintf("n%d", node),
			Letter: func(r past.Regress) []byte { return engine.LetterOfEra(r.Era, r.By, r.Why) },
			Back: func(floor dag.Era) {
				if l := w.lives[node]; l != nil && !l.dead && l.eng != nil {
					l.do(func() { l.eng.Back(floor) })
				}
			}})
	}
	return w.pasts[node]
}

// connect connects a process to the current server before it writes. When the store goes back, all
// connections end, so the process must connect again. If the present era began at another server, the
// connection begins a new era.
func (l *life) connect() {
	w := l.w
	line := memory.Timeline(w.st)
	if !w.stage.Back || l.line == line || l.dead || w.outage || l.cut {
		return
	}
	l.line = line
	if w.mutant.unsettled {
		return
	}
	w.aside++
	defer func() { w.aside-- }()
	was := store.EraOf(w.witness.marks())
	memory.Settle(w.st, 0)
	_, shards, err := w.st.Members(context.Background())
	must(err)
	for i := range shards {
		w.witness.raised(&shards[i])
	}
	if is := store.EraOf(w.witness.marks()); is != was {
		w.count("era that begins quietly")
		w.tell("%s begins era %d at timeline %d", l, is, line)
	}
}

// pastSeen reports whether every node has had enough time to notice that the store went back.
func (w *World) pastSeen() bool { return w.backs == 0 || w.now-w.backAt > int64(3*pastEvery) }

// pastEvery is the interval at which a node checks whether the store has gone back.
const pastEvery = 5 * time.Second

// watchPast checks regularly whether the store has gone back, as past.Run does.
func (w *World) watchPast(l *life) {
	if !w.stage.Back {
		return
	}
	w.spawn(l, "past", func() {
		for !l.dead && l.ctx.Err() == nil {
			l.Await(l.ctx, nil, pastEvery)
			_, _ = w.remembers(l.node).Check(l.ctx)
		}
	})
}

// nowStore reads from the store that is current at the time of the call.
type nowStore struct{ w *World }

func (s nowStore) now() database {
	if p := s.w.cur; p != nil && p.life != nil {
		return s.w.mutant.store(p.life, true)
	}
	return s.w.st
}

// Marks implements past.Store.
func (s nowStore) Marks(ctx context.Context) ([]store.Fence, error) { return s.now().Marks(ctx) }

// EndOf implements past.Store.
func (s nowStore) EndOf(ctx context.Context, era dag.Era) ([]store.Fence, error) {
	return s.now().EndOf(ctx, era)
}

// Raise implements past.Store.
func (s nowStore) Raise(ctx context.Context, from, to dag.Era, letter []byte) (dag.Era, error) {
	return s.now().Raise(ctx, from, to, letter)
}

// Raise can play a mutant: it then reports a raised era without raising it.
func (v *view) Raise(ctx context.Context, from, to dag.Era, letter []byte) (dag.Era, error) {
	if v.m.eraless {
		return to, nil
	}
	return v.Store.Raise(ctx, from, to, letter)
}

// begun records the beginning of an attempt: its process, and how often the store had gone back before.
type begun struct {
	by    *life
	backs int
}

// begins checks the beginning of an attempt. No token may begin twice, even if the store has lost
// transactions in between.
func (v *witness) begins(l *life, k attemptKey) {
	if before, given := v.given[k]; given && before.backs != v.w.backs {
		v.w.violate("token given twice", "attempt %s begins at %s, and had begun at %s before the store went back", v.w.name(k), l, before.by)
	}
	v.given[k] = begun{l, v.w.backs}
}

// raised reports whether a shard has begun a new era, and records that.
func (v *witness) raised(s *store.ShardRow) bool {
	if s.Epoch <= v.epoch[s.ID] || s.Epoch%store.TakesOfEra != 0 {
		return false
	}
	v.epoch[s.ID], v.owner[s.ID], v.taker[s.ID] = s.Epoch, s.Owner, 0
	return true
}

// marks returns the epochs of the store.
func (v *witness) marks() (all []store.Fence) {
	for _, epoch := range v.epoch {
		all = append(all, store.Fence{Epoch: epoch})
	}
	return all
}
