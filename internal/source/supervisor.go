package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Kinds are the kinds of triggers that have a source.
var Kinds = append([]string{workflow.KindPoll, workflow.KindQuery, workflow.KindObject}, workflow.OutsideKinds()...)

// Bounds of the sources of a node.
const (
	// runningMax bounds the number of running sources. Other sources wait, and their state says so.
	runningMax = 1000
	// abandonedMax bounds the number of sources that did not end when their context ended. At this number, no
	// further source is started.
	abandonedMax = 100
	// rereadEvery is the time after which the triggers are read again without a call of Changed.
	rereadEvery = 10 * time.Second
	sensorsPage = 1000
)

// Config holds the dependencies of a supervisor. Open, Triggers, Trigger, Owns, Hear, Cursor
// and Name are required.
type Config struct {
	// Triggers lists the active triggers of some kinds in the shards that this node owns: engine.Sensors.
	Triggers func(ctx context.Context, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error)
	// Trigger reads the row of a trigger.
	Trigger func(ctx context.Context, w dag.WorkflowID, name string) (store.Trigger, error)
	// Owns reports whether this node owns a shard. It only reads memory.
	Owns func(dag.ShardID) bool
	// Open makes the source of a trigger. It does not call the other side.
	Open func(ctx context.Context, t *store.Trigger, decl *workflow.Trigger, start Start) (Source, error)
	// Cursor returns the stored cursor of a trigger. It returns nil if there is none, and the place at which
	// the source begins in that case.
	Cursor func(t *store.Trigger) (cursor []byte, start Start, err error)
	// Hear writes the effects of a batch. It is engine.Hear.
	Hear func(ctx context.Context, k store.TriggerKey, b Batch) (engine.Taken, error)
	// Egress returns the policy of a namespace for calls. It only reads memory. When the policy changes, the
	// sources of the namespace are started again. nil means that no namespace has a policy.
	Egress func(namespace string) string
	// Name returns NAMESPACE/NAME of a workflow, or "" if it cannot be read.
	Name func(ctx context.Context, w dag.WorkflowID) string
	Log  *slog.Logger

	// These times replace the defaults in tests. 0 means the default.
	BackoffMin, BackoffMax, Silent, Leave, Tick time.Duration
}

func (c *Config) defaults() {
	for _, d := range []struct {
		is    *time.Duration
		usual time.Duration
	}{{&c.BackoffMin, time.Second}, {&c.BackoffMax, time.Minute}, {&c.Silent, 90 * time.Second}, {&c.Leave, 10 * time.Second}, {&c.Tick, time.Second}} {
		if *d.is == 0 {
			*d.is = d.usual
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Egress == nil {
		c.Egress = func(string) string { return "" }
	}
}

// Supervisor runs the sources of the triggers in the shards that its node owns. Each source has its own
// goroutine, so a source that hangs delays no other source.
type Supervisor struct {
	cfg     Config
	changed chan struct{}
	room    chan struct{} // runningMax

	mu        sync.Mutex // protects following fields
	runners   map[store.TriggerKey]*runner
	abandoned int
}

// Status describes the source of a trigger, for people.
type Status struct {
	Key      store.TriggerKey
	Workflow string // namespace/name, if it is known
	Kind     string
	State
	Restarts int64 // how often the source was restarted
}

// New returns a supervisor. Run starts it.
func New(cfg Config) *Supervisor {
	cfg.defaults()
	return &Supervisor{cfg: cfg, changed: make(chan struct{}, 1), room: make(chan struct{}, runningMax), runners: map[store.TriggerKey]*runner{}}
}

// Changed makes the supervisor read the triggers again. It never blocks.
func (s *Supervisor) Changed() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Run runs sources until ctx ends. It returns when all sources have ended, except for abandoned ones.
func (s *Supervisor) Run(ctx context.Context) {
	defer s.endAll()
	tick := time.NewTicker(s.cfg.Tick)
	defer tick.Stop()
	read := time.Now()
	s.reread(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			read = time.Now()
			s.reread(ctx)
		case <-tick.C:
			s.endMoved()
			if time.Since(read) >= rereadEvery {
				read = time.Now()
				s.reread(ctx)
			}
		}
	}
}

// reread reads the present triggers, ends the sources of removed triggers, and starts the sources that do not
// run yet.
func (s *Supervisor) reread(ctx context.Context) {
	found := map[store.TriggerKey]*store.Trigger{}
	for after := (store.TriggerKey{}); ; {
		page, err := s.cfg.Triggers(ctx, Kinds, after, sensorsPage)
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Log.Warn("the triggers with sources cannot be read; the node tries again", "code", "sources_unread", "err", err)
			}
			return // the running sources continue
		}
		for i := range page {
			after = store.TriggerKey{Workflow: page[i].Workflow, Name: page[i].Name}
			found[after] = &page[i]
		}
		if len(page) < sensorsPage {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, r := range s.runners {
		if t := found[k]; t == nil || r.declared != s.declaredAs(t) {
			r.end()
			delete(s.runners, k)
		}
	}
	for k, t := range found {
		if s.runners[k] == nil {
			s.runners[k] = s.start(ctx, t)
		}
	}
}

// declaration identifies a declaration of a trigger, and the last move of its cursor by a person.
type declaration struct {
	sum   [sha256.Size]byte
	since dag.Micros
	start Start
}

// declaredAs returns the declaration in a row. A row that cannot be read also has a declaration, and the
// state of its runner contains the reason.
func (s *Supervisor) declaredAs(t *store.Trigger) declaration {
	is := declaration{sum: sha256.Sum256(t.Spec), since: t.Since}
	if _, start, err := s.cfg.Cursor(t); err == nil {
		is.start = start
	}
	return is
}

// endMoved ends the sources of shards that this node no longer owns. The engine refuses their further
// batches.
func (s *Supervisor) endMoved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, r := range s.runners {
		if !s.cfg.Owns(r.shard) {
			r.end()
			delete(s.runners, k)
		}
	}
}

// endAll ends all sources, and waits until they have ended.
func (s *Supervisor) endAll() {
	s.mu.Lock()
	all := make([]*runner, 0, len(s.runners))
	for k, r := range s.runners {
		r.end()
		all = append(all, r)
		delete(s.runners, k)
	}
	s.mu.Unlock()
	for _, r := range all {
		<-r.ended
	}
}

// State returns the state of a source. It returns false if this node does not run it.
func (s *Supervisor) State(k store.TriggerKey) (Status, bool) {
	s.mu.Lock()
	r := s.runners[k]
	s.mu.Unlock()
	if r == nil {
		return Status{}, false
	}
	return r.status(), true
}

// Brief returns the state of a source in the form that the server needs.
func (s *Supervisor) Brief(k store.TriggerKey) (lag int64, away dag.Micros, why string, here bool) {
	is, here := s.State(k)
	return is.Lag, is.State.Away, is.Why, here
}

// Away returns the states of the sources that are away, with the longest absence first. A nil Supervisor has
// none.
func (s *Supervisor) Away() []Status {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(s.All(), func(is Status) bool { return is.State.Away == 0 })
}

// Lags returns the number of events that wait to be read, by namespace/workflow/trigger, for the sources of
// this node. It leaves out a number that is unknown or 0. A nil Supervisor has none.
func (s *Supervisor) Lags() map[string]int64 {
	lags := map[string]int64{}
	if s == nil {
		return lags
	}
	for _, is := range s.All() {
		if is.Lag > 0 {
			lags[is.Workflow+"/"+is.Key.Name] = is.Lag
		}
	}
	return lags
}

// Show writes the metrics of the sources.
func (s *Supervisor) Show(p *metric.Page) {
	count, lag := map[string]int{}, map[string]int64{}
	all := s.All()
	for i := range all {
		state := "running"
		if all[i].State.Away != 0 {
			state = "away"
		}
		count[state]++
		lag[all[i].Kind] = max(lag[all[i].Kind], all[i].Lag)
	}
	for _, state := range []string{"away", "running"} {
		p.Set("sources", float64(count[state]), state)
	}
	for kind, n := range lag {
		p.Set("source_lag", float64(n), kind)
	}
}

// All returns the states of the sources of this node. Sources that are away come first, with the longest
// absence first.
func (s *Supervisor) All() []Status {
	s.mu.Lock()
	runners := make([]*runner, 0, len(s.runners))
	for _, r := range s.runners {
		runners = append(runners, r)
	}
	s.mu.Unlock()
	all := make([]Status, 0, len(runners))
	for _, r := range runners {
		all = append(all, r.status())
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		if a.Away != b.Away {
			return a.Away != 0 && (b.Away == 0 || a.Away < b.Away)
		}
		return cmp.Or(cmp.Compare(a.Key.Workflow, b.Key.Workflow), cmp.Compare(a.Key.Name, b.Key.Name)) < 0
	})
	return all
}
