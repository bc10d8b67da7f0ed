// Package past notices when a store has gone back to an earlier state: after a failover that lost commits,
// a recovery to a point in time, or a restore. It remembers for each shard the greatest epoch and seq that
// the store has confirmed. A file keeps this memory across restarts of the process. A node that reads less
// than it remembers raises the era of the store and its floor. Then no earlier owner can write, no token is
// given twice, and all attempts of an era before the floor end.
//
// A store can begin an era by itself, because its server failed over (store.Eras). Then the node compares
// what it remembers with the marks at the end of the era that it knows. If these marks are lower, the loss
// came before the present era began, and the node raises only the floor.
package past

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/atomicfile"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Code is the stable code of a regress in logs, in the history of runs and in doctor.
const Code = "store_regressed"

// Config says which store a node watches. Store is required.
type Config struct {
	Store store.Eras
	// Cluster is the id of the database. A memory of another database is ignored.
	Cluster string
	Node    string // the node that compares
	File    string // the file that keeps the memory across restarts; "" if there is none
	// Letter makes the message that each shard gets about a loss. If it is nil, there is no message.
	Letter func(Regress) []byte
	// Back is called when the floor of the era has risen, even if another node has raised it. It must not block.
	Back func(floor dag.Era)
	// Sure returns a time at which this node sent a commit that has been confirmed since. If it is nil, no
	// position of the server's log counts as confirmed.
	Sure func() time.Time
	Log  *slog.Logger
}

// Regress describes one regress of a store.
type Regress struct {
	Era dag.Era   `json:"era"` // the era after the regress
	At  time.Time `json:"at"`
	By  string    `json:"by"`
	Why string    `json:"why"`
}

// regressesMax bounds the number of remembered regresses.
const regressesMax = 20

// knowledge is the memory of a node, as the file holds it.
type knowledge struct {
	Cluster string        `json:"cluster"`
	Era     dag.Era       `json:"era"`
	Quiet   dag.Era       `json:"quiet,omitempty"` // the era minus its floor
	Lineage store.Lineage `json:"lineage"`         // Position has been confirmed
	// LinedIn is the era in which Position was confirmed; nil if an earlier version wrote it.
	LinedIn   *dag.Era  `json:"lined_in"`
	Shards    []mark    `json:"shards"`
	Regresses []Regress `json:"regresses"` // newest first
}

func (k *knowledge) floor() dag.Era { return k.Era - k.Quiet }

type mark struct {
	Epoch int64 `json:"epoch"`
	Seq   int64 `json:"seq"`
}

// Past is the memory of a node. Its methods may be called from any goroutine.
type Past struct {
	cfg    Config
	saving sync.Mutex // held while the file is written, so that no older text replaces a newer one

	mu      sync.Mutex // protects following fields
	is      knowledge
	changed bool // set if the memory has changed since it was written
	// reach is the lineage that was read last. No commit has confirmed its position yet.
	reach   store.Lineage
	reached time.Time
	warned  dag.Era // era about which the log has said that few are left
	raising string  // the reason why this node is raising the era; "" if it is not raising it
}

// Open returns a memory with the content of the file.
func Open(cfg Config) *Past {
	p := &Past{cfg: cfg}
	if p.cfg.Log == nil {
		p.cfg.Log = slog.New(slog.DiscardHandler)
	}
	m, err := read(cfg.File)
	if err != nil {
		p.cfg.Log.Warn("the file with the last confirmed state of the database cannot be read; after a restore run skein db recovered",
			"code", "past_unreadable", "file", cfg.File, "err", err)
	}
	if m.Cluster == cfg.Cluster {
		p.is = m
	}
	if p.is.LinedIn == nil {
		p.is.LinedIn = new(p.is.Era)
	}
	p.is.Cluster = cfg.Cluster
	if s := store.Can(cfg.Store).Lined; s != nil {
		s.Know(p.is.Era)
	}
	return p
}

// Confirm remembers the fences after a confirmed transaction.
func (p *Past) Confirm(fences []store.Fence) {
	p.mu.Lock()
	p.remember(fences)
	p.mu.Unlock()
}

// remember keeps the greater of the known and the read marks. A later era replaces all marks, and a higher
// floor replaces the lineage, too. The caller holds p.mu.
func (p *Past) remember(fences []store.Fence) {
	for _, f := range fences {
		if f.Era() < p.is.Era {
			continue
		}
		floor := max(f.Floor(), p.is.floor())
		if floor > p.is.floor() {
			p.is.Lineage, p.reach = store.Lineage{}, store.Lineage{}
		}
		if f.Era() > p.is.Era {
			p.is.Era, p.is.Shards, p.changed = f.Era(), nil, true
		}
		p.is.Quiet = p.is.Era - floor
		if n := int(f.Shard) + 1; n > len(p.is.Shards) {
			p.is.Shards = append(p.is.Shards, make([]mark, n-len(p.is.Shards))...)
		}
		if m := &p.is.Shards[f.Shard]; f.Epoch > m.Epoch || f.Seq > m.Seq {
			*m, p.changed = mark{max(m.Epoch, f.Epoch), max(m.Seq, f.Seq)}, true
		}
	}
}

// Look begins a reading of the store. The caller reads, then calls the returned function with the marks
// that it has read. The function compares them with the marks that had been confirmed when Look was
// called. The result back says that the store has gone back: then the function has raised the era, and the
// caller must discard the rows that it read. An error means that the era could not be raised, or that the
// rows came from a server that was behind another one; the caller must read again.
func (p *Past) Look() func(ctx context.Context, read []store.Fence) (back bool, err error) {
	p.mu.Lock()
	known, marks := p.known(), slices.Clone(p.is.Shards)
	p.mu.Unlock()
	return func(ctx context.Context, read []store.Fence) (bool, error) {
		lacks := func(read []store.Fence) (string, error) { return p.lacks(ctx, known, marks, read) }
		why, err := lacks(read)
		if err != nil {
			return false, err
		}
		if why != "" {
			return p.raise(ctx, known, why, lacks)
		}
		p.advance(read, "another node has found it, or skein db recovered was told")
		return false, nil
	}
}

// lacks describes the first of the marks that the store lacked when the known era ended, or lacks now if that
// era is the present one. It returns "" if there is none.
func (p *Past) lacks(ctx context.Context, known state, marks []mark, read []store.Fence) (why string, err error) {
	if store.EraOf(read) > known.era && store.FloorOf(read) <= known.floor {
		if read, err = p.cfg.Store.EndOf(ctx, known.era); err != nil {
			return "", fmt.Errorf("read how era %d ended: %w", known.era, err)
		}
	}
	return less(known.era, marks, read), nil
}

// state is an era with its floor.
type state struct{ era, floor dag.Era }

// known returns the known state. The caller holds p.mu.
func (p *Past) known() state { return state{p.is.Era, p.is.floor()} }

// less describes the first mark that is smaller than the known one. It returns "" if no mark is smaller. In a
// later era no mark counts as smaller.
func less(era dag.Era, marks []mark, read []store.Fence) string {
	for _, f := range read {
		switch {
		case f.Era() > era:
			continue
		case f.Era() < era:
			return fmt.Sprintf("era %d had been confirmed, and the database is in era %d", era, f.Era())
		case int(f.Shard) >= len(marks):
			continue
		}
		switch m := marks[f.Shard]; {
		case f.Seq < m.Seq:
			return fmt.Sprintf("transaction %d of shard %d had been confirmed, and the database knows %d", m.Seq, f.Shard, f.Seq)
		case f.Epoch < m.Epoch:
			return fmt.Sprintf("shard %d had been taken for the %dth time, and the database knows %d", f.Shard, store.Fence{Epoch: m.Epoch}.Takes(), f.Takes())
		}
	}
	return ""
}

// raiseTries bounds how often a node tries to raise the era while other transactions raise it, too.
const raiseTries = 4

// raise makes all attempts end that were assigned up to the era known, unless another node has done that
// since. If the store is in a later era, its floor becomes that era. Otherwise a later era begins.
//
// If lacks is not nil, raise asks it whether a reading of the store shows the loss, too. The first reading
// may have come from a standby that had not replayed all. Then raise returns an error and raises nothing.
func (p *Past) raise(ctx context.Context, known state, why string, lacks func(read []store.Fence) (string, error)) (back bool, err error) {
	p.mu.Lock()
	p.raising = why
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.raising = ""
		p.mu.Unlock()
	}()
	for try := 0; ; try++ {
		marks, err := p.cfg.Store.Marks(ctx)
		if err != nil {
			return true, fmt.Errorf("the database has gone back to an earlier state (%s), and cannot be read now: %w", why, err)
		}
		from := store.EraOf(marks)
		if from > known.era && store.FloorOf(marks) > known.floor { // another node may also have noticed the regress
			p.advance(marks, why)
			return true, nil
		}
		if lacks != nil {
			if still, err := lacks(marks); err != nil {
				return true, err
			} else if still == "" {
				return false, fmt.Errorf("the database seemed to have gone back (%s), but a second look does not confirm it: %w", why, store.ErrUnavailable)
			}
		}
		if try == raiseTries {
			return true, fmt.Errorf("the database has gone back to an earlier state (%s), and other transactions keep raising its era", why)
		}
		to := from
		if from <= known.era {
			to = known.era + 1
		}
		if to > dag.EraMax {
			return true, fmt.Errorf("the database has gone back to an earlier state (%s): %w", why, store.ErrLastEra)
		}
		var letter []byte
		if p.cfg.Letter != nil {
			letter = p.cfg.Letter(Regress{Era: to, At: time.Now().UTC(), By: p.cfg.Node, Why: why})
		}
		if _, err = p.cfg.Store.Raise(ctx, from, to, letter); err != nil {
			return true, fmt.Errorf("the database has gone back to an earlier state (%s), and its era cannot be raised: %w", why, err)
		}
	}
}

// advance remembers marks. If their floor is later than the known one, the database has gone back, and
// advance reports that. A node without earlier marks reports nothing.
func (p *Past) advance(marks []store.Fence, why string) {
	p.mu.Lock()
	era := store.FloorOf(marks)
	back := era > p.is.floor() && store.EraOf(marks) >= p.is.Era && (len(p.is.Shards) > 0 || p.is.Era > 0)
	p.remember(marks)
	few := p.is.Era
	if few < store.ErasMany || few == p.warned {
		few = 0
	} else {
		p.warned = few
	}
	if back {
		if p.raising != "" {
			why = p.raising
		}
		p.raising = ""
		p.is.Regresses = slices.Insert(p.is.Regresses, 0, Regress{Era: era, At: time.Now().UTC(), By: p.cfg.Node, Why: why})
		p.is.Regresses = p.is.Regresses[:min(len(p.is.Regresses), regressesMax)]
		p.changed = true
	}
	p.mu.Unlock()
	if few > 0 {
		p.cfg.Log.Warn("few eras of the database are left: each failover takes one, and after the last one the database takes no writes; plan to apply the workflows to a new database",
			"code", "eras_few", "era", few, "last", dag.EraMax)
	}
	if !back {
		return
	}
	p.cfg.Log.Error("the database has gone back to an earlier state: later transactions are lost; all attempts end and run again "+
		"under tokens of a new era", "code", Code, "era", era, "why", why)
	if err := p.Save(); err != nil {
		p.cfg.Log.Warn("the last confirmed state of the database cannot be written to its file; repair the disk of the data folder", "code", "past_unwritable", "file", p.cfg.File, "err", err)
	}
	if p.cfg.Back != nil {
		p.cfg.Back(era)
	}
}

// Raise begins another era because an operator has recovered or restored the database.
func (p *Past) Raise(ctx context.Context, why string) (dag.Era, error) {
	marks, err := p.cfg.Store.Marks(ctx)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	known := state{max(p.is.Era, store.EraOf(marks)), max(p.is.floor(), store.FloorOf(marks))}
	p.mu.Unlock()
	p.advance(marks, why)
	if _, err := p.raise(ctx, known, why, nil); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.is.Era, nil
}

// Check reads the store once, with its lineage, and raises the era if it has gone back.
func (p *Past) Check(ctx context.Context) (back bool, err error) {
	look := p.Look()
	marks, err := p.cfg.Store.Marks(ctx)
	if err != nil {
		return false, err
	}
	if back, err = look(ctx, marks); back || err != nil {
		return back, err
	}
	return p.lineage(ctx)
}

// lineage compares the server's history with the position that was confirmed.
func (p *Past) lineage(ctx context.Context) (back bool, err error) {
	s := store.Can(p.cfg.Store).Lined
	if s == nil {
		return false, nil
	}
	// If a commit is confirmed before Lineage reads the server, the commit belongs to the timeline of reach
	// or to an earlier one. After a promotion, another server confirms the next commit, which proves nothing
	// about reach.
	var sure time.Time
	if p.cfg.Sure != nil {
		sure = p.cfg.Sure()
	}
	is, err := s.Lineage(ctx)
	if err != nil {
		return false, nil // this is an additional check, because not every server reports its position
	}
	at := time.Now() // a commit covers the position that was read only if the commit is sent afterwards
	p.mu.Lock()
	was, known := p.is.Lineage, state{*p.is.LinedIn, p.is.floor()}
	era := p.is.Era
	if p.reach.System == is.System && p.reach.Timeline == is.Timeline && sure.After(p.reached) {
		was = p.reach
	}
	p.mu.Unlock()
	if is.System == was.System && is.Timeline != was.Timeline && is.Replayed != 0 && is.Replayed < was.Position {
		return p.raise(ctx, known, fmt.Sprintf("the server is on timeline %d and lacks confirmed transactions of timeline %d",
			is.Timeline, was.Timeline), nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.is.Era != era {
		return false, nil
	}
	if was.System == is.System && was.Timeline == is.Timeline && was.Position > p.is.Lineage.Position {
		p.is.Lineage, p.is.LinedIn, p.changed = was, new(p.is.Era), true
	}
	if is.System != was.System || is.Timeline != was.Timeline {
		p.is.Lineage = store.Lineage{}
	}
	p.reach, p.reached = is, at
	return false, nil
}

// saveEvery is the interval at which the lineage is compared and a changed memory is written.
const saveEvery = 5 * time.Second

// Run compares the store with the memory and writes the memory every saveEvery until ctx ends. It writes
// the memory a last time then.
func (p *Past) Run(ctx context.Context) error {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	failed := false
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if _, err := p.Check(ctx); err != nil && ctx.Err() == nil {
				p.cfg.Log.Debug("the rows of the database cannot be compared with the confirmed state; the node tries again", "err", err)
			}
		}
		err := p.Save()
		if err != nil && !failed {
			p.cfg.Log.Warn("the last confirmed state of the database cannot be written to its file; repair the disk of the data folder", "code", "past_unwritable", "file", p.cfg.File, "err", err)
		}
		failed = err != nil
	}
	return nil
}

// Save writes the memory if it has changed.
func (p *Past) Save() error {
	p.saving.Lock()
	defer p.saving.Unlock()
	p.mu.Lock()
	if p.cfg.File == "" || !p.changed {
		p.mu.Unlock()
		return nil
	}
	text, err := json.Marshal(&p.is)
	p.changed = false
	p.mu.Unlock()
	if err == nil {
		err = atomicfile.Write(p.cfg.File, text, 0o600)
	}
	if err != nil {
		p.mu.Lock()
		p.changed = true
		p.mu.Unlock()
	}
	return err
}
