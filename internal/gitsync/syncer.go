package gitsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

const (
	// tick is the time between two readings of the sources.
	tick = 3 * time.Second
	// looksMax bounds the number of concurrent looks of a node.
	looksMax = 4
	// pageMax bounds the number of sources in one page.
	pageMax = 100
)

// Config holds the dependencies of a Syncer.
type Config struct {
	Store   store.GitSources
	Owns    func(dag.ShardID) bool
	Applier func() Applier
	Needs   Needs
	Log     *slog.Logger
}

// Syncer reads the repositories of the git sources whose shards its node owns.
type Syncer struct {
	cfg               Config
	now               func() time.Time
	slots             chan struct{}
	wake              chan struct{} // ends the pause before the next round
	applied, failures atomic.Int64
	failing           atomic.Int64

	mu    sync.Mutex // protects the following fields
	looks map[key]*turn
}

type key struct{ namespace, name string }

// turn ensures that only one look at a repository runs at a time.
type turn struct {
	one  chan struct{} // has an element during a look
	next time.Time     // the time of the next look; protected by Syncer.mu
	spec int64         // the version of the Spec to which next belongs
	made dag.Micros    // when that source was made: a removed one can be made again, with the same versions
	busy bool
	full time.Time // the last attempt at a refused commit; protected by Syncer.mu
	hook hookState
}

// New returns a Syncer. It does nothing before Run, Sync and Plan.
func New(cfg Config) *Syncer {
	return &Syncer{cfg: cfg, now: time.Now, slots: make(chan struct{}, looksMax), wake: make(chan struct{}, 1), looks: map[key]*turn{}}
}

// Show writes the metrics to a page: applied commits, failures, and the sources that fail now.
func (y *Syncer) Show(p *metric.Page) {
	p.Set("git_commits_total", float64(y.applied.Load()), "applied")
	p.Set("git_commits_total", float64(y.failures.Load()), "failed")
	p.Set("git_failing", float64(y.failing.Load()))
}

// Run looks at repositories when a look is due, until ctx ends.
func (y *Syncer) Run(ctx context.Context) {
	if err := Clean(y.cfg.Needs.Dir); err != nil {
		y.cfg.Log.Warn("old folders of git sources cannot be removed; delete git/look-… of the data folder by hand", "code", "git_folder", "err", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	told := ""
	for ctx.Err() == nil {
		err := y.round(ctx, &wg)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			y.cfg.Log.Warn("the git sources cannot be read from the database now; the node tries again", "code", "git_unread", "err", err)
		}
		if told = ""; err != nil {
			told = err.Error()
		}
		select {
		case <-ctx.Done():
		case <-y.wake:
		case <-time.After(tick):
		}
	}
}

// round starts the looks that are due.
func (y *Syncer) round(ctx context.Context, wg *sync.WaitGroup) error {
	var ns, name string
	var failing int64
	there := map[key]bool{}
	for {
		all, err := y.cfg.Store.GitSourceList(ctx, ns, name, pageMax)
		if err != nil {
			return err
		}
		for i := range all {
			g := &all[i]
			if there[key{g.Namespace, g.Name}] = true; !y.cfg.Owns(g.Shard) {
				continue
			}
			st := ReadState(g.State)
			if st.Failing != nil {
				failing++
			}
			if t := y.begin(g, &st); t != nil {
				wg.Go(func() { y.turn(ctx, t, g) })
			}
		}
		if len(all) < pageMax {
			y.failing.Store(failing)
			y.forget(there)
			return nil
		}
		ns, name = all[len(all)-1].Namespace, all[len(all)-1].Name
	}
}

// forget removes the turns of removed sources.
func (y *Syncer) forget(there map[key]bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for k, t := range y.looks {
		if !there[k] && !t.busy {
			delete(y.looks, k)
		}
	}
}

// begin returns the turn of a source if its look is due, or nil.
func (y *Syncer) begin(g *store.GitSource, st *State) *turn {
	spec, err := Parse(g.Spec)
	y.mu.Lock()
	defer y.mu.Unlock()
	t := y.turnOf(g)
	if t.next.IsZero() || t.spec != g.Version || t.made != g.Created {
		t.spec, t.made = g.Version, g.Created
		if t.next = y.now(); st.Spec == g.Version && err == nil {
			t.next = st.LookedAt.Add(spec.every())
		}
	}
	if t.busy || y.now().Before(t.next) {
		return nil
	}
	t.busy, t.next = true, y.now().Add(spec.every())
	return t
}

// turnOf returns the turn of a source. The caller holds mu.
func (y *Syncer) turnOf(g *store.GitSource) *turn {
	k := key{g.Namespace, g.Name}
	t := y.looks[k]
	if t == nil {
		t = &turn{one: make(chan struct{}, 1)}
		y.looks[k] = t
	}
	return t
}

// retry reports whether a refused commit is due for a further attempt.
func (y *Syncer) retry(g *store.GitSource) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	t := y.turnOf(g)
	if y.now().Sub(t.full) < again {
		return false
	}
	t.full = y.now()
	return true
}

// turn makes one look if it is due.
func (y *Syncer) turn(ctx context.Context, t *turn, g *store.GitSource) {
	defer func() {
		y.mu.Lock()
		defer y.mu.Unlock()
		t.busy = false
	}()
	leave, err := y.enter(ctx, t)
	if err != nil {
		return
	}
	defer leave()
	fresh, err := y.cfg.Store.GitSourceOf(ctx, g.Namespace, g.Name)
	if err == nil {
		_, _, err = y.guarded(ctx, &fresh, due)
	}
	y.tell(ctx, g, err)
}

// enter waits for the other looks at the repository, and then for a slot of the node. In this order, looks
// that wait for the same repository do not take slots. The caller calls leave.
func (y *Syncer) enter(ctx context.Context, t *turn) (leave func(), err error) {
	for i, c := range []chan struct{}{t.one, y.slots} {
		select {
		case c <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-t.one
			}
			return nil, fmt.Errorf("%w: other checks of repositories are running", errkind.ErrBusy)
		}
	}
	return func() { <-y.slots; <-t.one }, nil
}

// tell logs the error of a look that no caller waits for. It does not log errors that follow from a change of
// the source or of its owner.
func (y *Syncer) tell(ctx context.Context, g *store.GitSource, err error) {
	var elsewhere *errkind.Elsewhere
	if err == nil || ctx.Err() != nil || errors.As(err, &elsewhere) || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrNotFound) {
		return
	}
	y.cfg.Log.Warn("a check of a git source has failed; the next one comes by itself", "code", "git_look_failed", "source", g.Namespace+"/"+g.Name, "err", err)
}

// guarded makes a look, and converts a panic to an error.
func (y *Syncer) guarded(ctx context.Context, g *store.GitSource, mode how) (st State, out *Outcome, err error) {
	if bug := errkind.Guarded(func() { st, out, err = y.look(ctx, g, mode) }); bug != nil {
		return st, nil, bug
	}
	return st, out, err
}

// Sync looks at a repository now and applies its commit, even if the commit was applied or refused before. It
// returns the source with its new state. It returns *errkind.Elsewhere if another node owns the shard of the
// source, and store.ErrNotFound if there is no such source.
func (y *Syncer) Sync(ctx context.Context, namespace, name string) (store.GitSource, *Outcome, error) {
	g, _, out, err := y.byHand(ctx, namespace, name, now)
	if err != nil {
		return g, out, err
	}
	g, err = y.cfg.Store.GitSourceOf(ctx, namespace, name)
	return g, out, err
}

// Plan looks at a repository, and returns the changes that a sync would make. It makes none of them. The
// state of the returned source contains the result of the look.
func (y *Syncer) Plan(ctx context.Context, namespace, name string) (store.GitSource, *Outcome, error) {
	g, st, out, err := y.byHand(ctx, namespace, name, planning)
	if err == nil {
		g.State, err = json.Marshal(&st)
	}
	return g, out, err
}

// Preview does the same as Plan for a source with the given values. They do not need to be stored.
func (y *Syncer) Preview(ctx context.Context, g store.GitSource) (store.GitSource, *Outcome, error) {
	leave, err := y.turnByHand(ctx, &g)
	if err != nil {
		return g, nil, err
	}
	defer leave()
	st, out, err := y.guarded(ctx, &g, planning)
	if err == nil {
		g.State, err = json.Marshal(&st)
	}
	return g, out, err
}

// turnByHand waits until no other look at a source is under way. It returns an error if another node owns the
// source. The caller calls leave.
func (y *Syncer) turnByHand(ctx context.Context, g *store.GitSource) (leave func(), err error) {
	if !y.cfg.Owns(g.Shard) {
		return nil, &errkind.Elsewhere{Shard: g.Shard}
	}
	y.mu.Lock()
	t := y.turnOf(g)
	y.mu.Unlock()
	return y.enter(ctx, t)
}

func (y *Syncer) byHand(ctx context.Context, namespace, name string, mode how) (g store.GitSource, st State, out *Outcome, err error) {
	if g, err = y.cfg.Store.GitSourceOf(ctx, namespace, name); err != nil {
		return g, st, nil, err
	}
	leave, err := y.turnByHand(ctx, &g)
	if err != nil {
		return g, st, nil, err
	}
	defer leave()
	if g, err = y.cfg.Store.GitSourceOf(ctx, namespace, name); err == nil {
		st, out, err = y.guarded(ctx, &g, mode)
	}
	return g, st, out, err
}
