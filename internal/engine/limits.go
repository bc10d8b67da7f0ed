package engine

import (
	"time"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// limits holds runs back until they may begin: at max_concurrent_runs of their trigger and workflow
// (gates.go), then at the queue and the locks that they name (claim.go). It also requests queue slots for
// tasks (share.go). It owns its counts, and the copies of the definitions that names refer to. Other parts
// report changes to it (aside.go, declare.go, define.go, fire.go). All its data is a cache of rows. So forget
// may be called when the writer also drops the runs in memory and its transaction.
type limits struct {
	gates     gates
	admission admission.State // the state of the admission owner; empty if another node is the owner
	naming    naming
	aside     int // queued runs that are not in memory
	shell     shell
	keyless   map[dag.RunID]bool // runs whose shares get their keys in a later transaction

	store  store.Store
	namer  Namer
	ageing time.Duration
	alone  bool          // no other node owns shards
	shards []dag.ShardID // all shards that exist
	clock  func() time.Time
	// trigger returns the row of a trigger, or nil.
	trigger func(store.TriggerKey) (*store.Trigger, error)
	expr    *evaluating
	defs    *definitions
	quotas  *quotas
	core
}

func newLimits(e *Engine, w *writer) limits {
	return limits{trigger: w.schedule.trigger, expr: &w.evaluating, defs: &w.defs, quotas: &w.quotas, store: e.store, namer: e.cfg.Namer, ageing: e.cfg.Ageing, alone: e.cluster == nil, shards: e.shards, clock: e.host.Now, core: w}
}

func (l *limits) forget() {
	l.gates.forget()
	l.forgetAdmission()
	l.naming, l.aside = naming{}, 0
}

// forgetAdmission drops the state of queues and locks. The next transaction loads it again.
func (l *limits) forgetAdmission() {
	l.admission = admission.New(dag.Micros(l.ageing.Microseconds()))
	l.shell.l = l
}

// busy reports whether a run or a task may be admitted now, or the rows of queues and locks have to be read.
func (l *limits) busy(now dag.Micros) bool {
	return len(l.gates.open) > 0 || l.admission.Busy(now) || !l.admission.Loaded && l.held(store.GateShard) != nil
}
