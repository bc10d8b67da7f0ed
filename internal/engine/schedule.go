package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// schedule starts runs: at the instants of triggers (due.go), for events (fire.go) and ends of other runs
// (mail.go, follow.go), and for backfills (backfill.go). It writes the ledger of all outcomes. It holds the
// rows of triggers and backfills as this owner has last written or read them, and the next due instant. All
// its data is a cache of rows. So forget may be called when the writer also drops the runs in memory and its
// transaction.
type schedule struct {
	triggers  triggers
	backfills backfills
	due       due

	limits  *limits
	alerts  *alerts
	store   store.Store
	planner Planner
	manual  func() bool // Config.ByHand
	log     *slog.Logger
	alone   bool // no other node owns shards
	clock   func() time.Time
	newID   func() uuid.UUID
	expr    *evaluating
	defs    *definitions
	// beside holds the references between the workflows of the set that is being applied: by full name of a
	// workflow, the workflows whose ends fire its triggers.
	beside map[string][]string
	// readClock reads the clock of the store.
	readClock func(context.Context) (reading, error)
	scheduleCore
}

// scheduleCore is the part of the writer that schedule uses.
type scheduleCore interface {
	core
	here(dag.ShardID) error // returns an error that names the owner, if this writer does not own the shard
	addRun(r *dag.Run, inline bool, own *dag.Graph) error
	coalesced(dag.WorkflowID) *dag.Run
	request(scope, key string) (store.Request, error)
}

func newSchedule(e *Engine, w *writer) schedule {
	s := schedule{limits: &w.limits, alerts: &w.alerts, store: e.store, planner: e.cfg.Planner, manual: e.cfg.ByHand, log: e.log, alone: e.cluster == nil,
		clock: e.host.Now, newID: e.host.ID, readClock: e.readClock, expr: &w.evaluating, defs: &w.defs, scheduleCore: w}
	s.due.read = e.host.Now
	return s
}

func (s *schedule) forget() {
	s.triggers.forget()
	s.triggers.touched = nil // another owner may have written rows
	s.backfills.forget()
	s.due.looked = time.Time{}
}
