package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// saved is the state of a world's store at an instant, and the witness's knowledge of it.
type saved struct {
	st      *memory.Saved
	witness witness
}

// goBack plans that the store goes back once or twice to an earlier state, as after a failover to a standby
// that lacks the last transactions.
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
	v.runs = map[dag.RunID]*shadow{}
	for id, sh := range w.witness.runs {
		is := *sh
		v.runs[id] = &is
	}
	return &saved{memory.Save(w.st), v}
}

// back takes the store to an earlier state. The promises since then are lost, which is not a fault of the
// program.
func (w *World) back(to *saved) {
	v := &w.witness
	if w.calm || to.witness.Commits == v.Commits || w.backs > 0 && to.witness.backs < w.backs {
		return // the end is too near, nothing would be lost, or the state belongs to a history that was left
	}
	w.backs++
	w.backAt = w.now
	w.count("store that goes back")
	w.tell("the database goes back by %d transactions", v.Commits-to.witness.Commits)
	memory.GoBack(w.st, to.st)
	was, heard := to.witness, v.members
	v.epoch, v.seq, v.owner, v.taker = was.epoch, was.seq, was.owner, was.taker
	v.members, v.order, v.keys, v.active, v.runs = was.members, was.order, was.keys, was.active, was.runs
	v.backs, v.moved = w.backs, w.now
	for h, p := range v.members { // members listed since then have been heard since then
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

// remembers returns the past that all nodes share. In a real cluster, other nodes read a confirmed state
// half a second later. The simulator leaves out that half second.
func (w *World) remembers() comparing {
	if w.past == nil {
		w.past = past.Open(past.Config{Store: nowStore{w}, Node: "n",
			Letter: func(r past.Regress) []byte { return engine.LetterOfEra(r.Era, r.By, r.Why) },
			Back: func(era dag.Era) {
				for _, l := range w.lives {
					if l != nil && !l.dead && l.eng != nil {
						l.do(func() { l.eng.Back(era) })
					}
				}
			}})
	}
	return comparing{w.past, w}
}

// pastSeen reports whether every node has had enough time to notice that the store went back.
func (w *World) pastSeen() bool { return w.backs == 0 || w.now-w.backAt > int64(3*pastEvery) }

// pastEvery is the time between two checks of a node whether the store has gone back.
const pastEvery = 5 * time.Second

// watchPast checks every few seconds whether the store has gone back, as past.Run does.
func (w *World) watchPast(l *life) {
	if !w.stage.Back {
		return
	}
	w.spawn(l, "past", func() {
		for !l.dead && l.ctx.Err() == nil {
			l.Await(l.ctx, nil, pastEvery)
			_ = w.remembers().Check(l.ctx)
		}
	})
}

// nowStore is the current store, for a reader.
type nowStore struct{ w *World }

func (s nowStore) now() database {
	if p := s.w.cur; p != nil && p.life != nil {
		return s.w.mutant.store(p.life, true)
	}
	return s.w.st
}

// Marks implements past.Store.
func (s nowStore) Marks(ctx context.Context) ([]store.Fence, error) { return s.now().Marks(ctx) }

// Raise implements past.Store.
func (s nowStore) Raise(ctx context.Context, from, to dag.Era, letter []byte) (dag.Era, error) {
	return s.now().Raise(ctx, from, to, letter)
}

// Raise plays a mutant: it reports a raised era without raising it.
func (v *view) Raise(ctx context.Context, from, to dag.Era, letter []byte) (dag.Era, error) {
	if v.m.eraless {
		return to, nil
	}
	return v.Store.Raise(ctx, from, to, letter)
}

// begun is the beginning of an attempt: its worker, and how often the store had gone back.
type begun struct {
	by    *life
	backs int
}

// begins judges the beginning of an attempt. No token begins twice, even if the store has lost transactions
// in between. There is one exception: a node that was silent in the lost time can write under its epoch from
// before, when no node has compared the store with the confirmed states. It gives the token of another node
// again. No node could have noticed by then.
func (v *witness) begins(l *life, k attemptKey) {
	switch before, given := v.given[k]; {
	case !given || before.backs == v.w.backs:
	case v.compared < v.w.backs && l.claimed < v.w.backs && before.by != l:
		v.w.count("token given again before any node compared")
		v.w.tell("%s begins again, and no node has compared yet", v.w.name(k))
	default:
		v.w.violate("token given twice", "attempt %s begins, and had begun before the store went back", v.w.name(k))
	}
	v.given[k] = begun{l, v.w.backs}
}

// comparing is the past of a node. It tells the witness when a comparison has ended.
type comparing struct {
	*past.Past
	w *World
}

// Look implements engine.Past.
func (c comparing) Look() func(context.Context, []store.Fence) (bool, error) {
	backs, look := c.w.backs, c.Past.Look()
	return func(ctx context.Context, read []store.Fence) (bool, error) {
		back, err := look(ctx, read)
		c.ended(backs, err)
		return back, err
	}
}

// Check is past.Past.Check.
func (c comparing) Check(ctx context.Context) error {
	backs := c.w.backs
	_, err := c.Past.Check(ctx)
	c.ended(backs, err)
	return err
}

// ended notes a comparison that began when the store had gone back that number of times. After an error the
// node has to compare again.
func (c comparing) ended(backs int, err error) {
	if err == nil {
		c.w.witness.compared = max(c.w.witness.compared, backs)
	}
}

// raised notes that an era has begun, and reports whether it has.
func (v *witness) raised(s *store.ShardRow) bool {
	if s.Epoch%store.EpochsOfEra != 0 || s.Epoch <= v.epoch[s.ID] {
		return false
	}
	v.epoch[s.ID], v.owner[s.ID], v.taker[s.ID] = s.Epoch, s.Owner, 0
	return true
}

// era returns the era of the store.
func (w *World) era() (is int) {
	for _, epoch := range w.witness.epoch {
		is = max(is, int(epoch/store.EpochsOfEra))
	}
	return is
}
