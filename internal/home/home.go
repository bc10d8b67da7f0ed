package home

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/store"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/line"
)

// Directory lists the members of the cluster. The node's membership implements it.
type Directory interface {
	Self() store.Member
	Member(h dag.HandlerID) (store.Member, bool)
	View() ([]store.Member, []store.ShardRow)
	OwnerOf(s dag.ShardID) (store.Member, bool)
	Wake()
	// Vouched returns the newest instant, on the boot clock, at which no listed node could read the store, or
	// 0 if there is none.
	Vouched() time.Duration
}

// Engine is the engine of this node.
type Engine interface {
	HearAll(from dag.HandlerID, rs []engine.Report, heard func(i int, v dag.Verdict, err error)) error
	RunRow(ctx context.Context, id dag.RunID) (dag.RunRow, error)
	Holds(ctx context.Context, h dag.HandlerID, run dag.RunID, t dag.TaskID, token dag.Token) (bool, error)
	Had(ctx context.Context, h dag.HandlerID, run dag.RunID, t dag.TaskID, token dag.Token) (bool, error)
	Resend(h dag.HandlerID)
	Bury(gone func(dag.HandlerID) bool)
	Wake()
	Lend(n dag.Need) bool
	Regain(n dag.Need)
}

// Caller sends a message to another node, and returns the answer.
type Caller interface {
	Call(ctx context.Context, to store.Member, path string, in, out any) error
}

// Jobs makes the jobs of assignments for workers.
type Jobs interface {
	// Job makes the job of an assignment to a worker with traits t. It waits while the store does not answer.
	// It returns ErrEnding if this process ends meanwhile. If quick is true and the job needs data that may
	// take long to get, such as a secret of a provider, it returns ErrSlow. The job obeys the rules of its
	// namespace in a reading. When the reading is old, the job must be made again.
	Job(ctx context.Context, a *engine.Assignment, t *store.Traits, quick bool) (*workerv1.Job, engine.Reading, error)
	// Refused returns the result of an attempt whose job could not be made.
	Refused(err error) dag.Result
	// Files returns the files that an attempt of a run gets; w and version are those of the run.
	Files(ctx context.Context, run dag.RunID, w dag.WorkflowID, version int32) ([]*workerv1.File, error)
	// Names returns the names under which the logs and files of an attempt are stored.
	Names(ctx context.Context, run dag.RunID, t dag.TaskID) (Names, error)
	// Inputs returns the files that an attempt of a task gets from other tasks, always in the same order. It
	// returns artifact.NoInputError if the attempt can never get one of them, and artifact.ErrAway if no
	// present node has one. Any other error is temporary.
	Inputs(ctx context.Context, run dag.RunID, t dag.TaskID) ([]artifact.Input, error)
	// ReadInput returns a piece of an input. The piece is empty only at the end.
	ReadInput(ctx context.Context, in *artifact.Input, offset int64) ([]byte, error)
	// Left is called when an attempt has ended whose job was requested.
	Left(run dag.RunID)
}

// Names are the names of a task, and whether its files are kept.
type Names struct {
	Namespace, Workflow, Task string
	Artifacts                 bool
}

// Members is the register of the members. The members are those of a cluster, or the workers of a node that
// is alone.
type Members interface {
	store.Workers
	// Renew raises the counter of a member, and stores State, Busy and Traits. It returns false if no row has
	// that Home and Lease.
	Renew(ctx context.Context, m store.Member) (bool, error)
}

// Config holds the parts that a home needs. Engine may be made after New has returned, but must be ready
// before any other method is called. All but Unclaimed, WorkersMax, SlotsMax, ReadMax, Strategy and Log are
// required.
type Config struct {
	Directory Directory
	Engine    Engine
	Store     Members
	Register  func(ctx context.Context, uuid, name string) (store.Handler, error)
	Caller    Caller
	Jobs      Jobs
	Logs      logs.Sink // stores the output of attempts; nil if the output stays on the machines of the workers
	// Artifacts stores the artifacts of workers' attempts.
	Artifacts *artifact.Keeper
	Executor  engine.Executor // the executor of this process, whose slots are lent as well
	Slots     int             // the slots of this process
	// Boot is the time since the machine started, including sleep.
	Boot   func() time.Duration
	Traits store.Traits  // the traits of this process
	Beat   time.Duration // interval between two renewals of a worker
	Lag    time.Duration // silence after which a worker counts as dead
	// Unclaimed is the time after which an attempt is lost if its worker has not started it. 0 means
	// unclaimedDefault.
	Unclaimed time.Duration
	// WorkersMax bounds the workers of the cluster, and SlotsMax the slots of each. 0 means WorkersDefault
	// and slotsMax.
	WorkersMax, SlotsMax int
	// ReadMax bounds how long a reader waits for a piece of a log: for its turn, for the worker, and for the
	// new home of a worker that moves. 0 means readDefault.
	ReadMax  time.Duration
	Proofs   Proofs // what certificates of callers have proven
	Version  string
	Format   int
	Strategy string // least-loaded (default), round-robin, random
	Log      *slog.Logger
}

// Home manages the slots of one node. It is the engine's Market.
type Home struct {
	cfg Config
	log *slog.Logger
	dir Directory
	eng Engine

	kick  chan struct{} // capacity 1: a message is to be sent
	lines *line.Lines   // the connections over which workers send calls; closed when Run ends
	Stats Stats

	registering chan struct{} // cap registersMax
	listing     listing
	seen        atomic.Pointer[view]
	waking      atomic.Bool  // the directory was asked to read the members soon
	began       time.Time    // the start of this home
	turned      atomic.Int64 // when Run last completed a round, as time since began; 0 if it has not begun

	mu      sync.Mutex // protects following fields
	workers map[dag.HandlerID]*worker
	local   *worker // the entry of this process among the lenders
	lenders roster[*worker]
	owed    map[*worker]struct{} // workers with grants that the owners of shards do not know yet
	wants   map[dag.HandlerID]*want
	spare   int // the number of slots of this process that its own shards do not need
	turn    int // the number of loans so far
	purse   purse
	mail    mail
	orders  orders
	// settling is true between Handed and Settled. The next field holds the workers for which jobs must be
	// made then.
	settling bool
	unmade   []*worker
}

var _ engine.Market = (*Home)(nil)

// New returns a home. Of the directory, it calls only Self. It calls no method of the engine.
func New(cfg Config) *Home {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.WorkersMax, cfg.SlotsMax = cmp.Or(cfg.WorkersMax, WorkersDefault), cmp.Or(cfg.SlotsMax, slotsMax)
	if cfg.ReadMax == 0 {
		cfg.ReadMax = readDefault
	}
	if cfg.Unclaimed == 0 {
		cfg.Unclaimed = unclaimedDefault
	}
	h := &Home{cfg: cfg, dir: cfg.Directory, eng: cfg.Engine, local: newWorker(store.Member{}), began: time.Now(), log: cfg.Log, kick: make(chan struct{}, 1), lines: line.NewLines(), workers: map[dag.HandlerID]*worker{}, owed: map[*worker]struct{}{}, wants: map[dag.HandlerID]*want{}}
	h.lenders = newRoster(false, func(w *worker) *seat[*worker] { return &w.seat }, h.before(cfg.Strategy))
	h.purse.open(cfg.Strategy)
	h.seen.Store(&view{})
	h.registering = make(chan struct{}, registersMax)
	h.mail.open, h.orders = map[dag.HandlerID]*parcel{}, orders{}
	h.local.local = true
	h.admitSelf(h.dir.Self())
	return h
}

func (h *Home) self() dag.HandlerID { return h.dir.Self().Handler }

func (h *Home) poke() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

const (
	// lookEvery is the interval at which the home reads the members.
	lookEvery = 500 * time.Millisecond
	// gapMin is the least time between two rounds of messages. Changes in between are sent together.
	gapMin = 2 * time.Millisecond
	// callMax bounds a call to another node.
	callMax = 5 * time.Second
)

// Run sends messages to other nodes, renews the workers of this home, and drops members that are gone, until
// ctx ends.
func (h *Home) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer h.lines.Close()
	wg.Go(func() { h.renewals(ctx) })
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	defer h.turned.Store(0)
	for {
		h.turned.Store(int64(time.Since(h.began)))
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			h.look()
			h.misplaced()
		case <-h.kick:
		}
		h.tell(ctx, &wg)
		select {
		case <-ctx.Done():
			return
		case <-time.After(gapMin):
		}
	}
}

// StuckFor returns by how much the loop of Run is late with a round. A round is due twice a second. StuckFor
// takes no lock, so it works while the home waits for a lock.
func (h *Home) StuckFor() time.Duration {
	at := h.turned.Load()
	if at == 0 {
		return 0
	}
	return max(0, time.Since(h.began)-time.Duration(at)-lookEvery)
}

// look drops what this home knows about members that are gone.
func (h *Home) look() {
	v := h.there()
	there := v.by
	if there[h.self()] == nil {
		return // this node has not joined, or is about to join under a new handler
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, w := range h.workers {
		m := there[id]
		switch {
		// a worker that attached more recently may be too new to be in the list
		case m == nil && time.Since(w.since) > 2*lookEvery+h.cfg.Beat,
			m != nil && (m.Lease > w.member.Lease || m.Lease == w.member.Lease && m.Home != h.self()):
			h.detach(w)
		case m != nil:
			w.member.Cordoned = m.Cordoned
			h.relist(w)
		}
	}
	h.admitSelf(*there[h.self()])
	h.relist(h.local)
	for owner := range h.wants {
		if there[owner] == nil {
			delete(h.wants, owner)
		}
	}
	for _, w := range h.all() {
		for at, a := range w.accounts {
			if there[at.owner] == nil {
				delete(w.accounts, at)
				for range a.idle() {
					h.release(w, at.need)
				}
			}
		}
	}
	h.purse.look(there)
	maps.DeleteFunc(h.orders, func(id dag.HandlerID, _ map[key]bool) bool {
		m := there[id]
		return m == nil || m.Home != h.self() && there[m.Home] != nil // the worker is gone, or attached to another node
	})
	gone, anew := h.mail.look(there)
	for _, id := range anew {
		h.eng.Resend(id)
	}
	if gone {
		// Bury is called only now, when no slot of these members can be used any more. So it also finds the
		// attempts that they got after the engine had learnt of their end.
		h.eng.Bury(func(id dag.HandlerID) bool { _, alive := h.dir.Member(id); return !alive })
	}
	h.serve()
}

// misplaced finds ready tasks that no member may run, and logs them once. Only the loop of Run calls it,
// because comparing with all members takes long.
func (h *Home) misplaced() {
	members := h.there().members
	h.mu.Lock()
	demands := h.purse.demands // the slice is replaced as a whole and never changed
	h.mu.Unlock()
	said := make(map[dag.Place]bool, len(h.purse.unserved))
	for i := range demands {
		d := &demands[i]
		why := inspect.Misfit(d.Place, members)
		if why == "" {
			continue
		}
		if said[d.Place] = true; !h.purse.unserved[d.Place] {
			h.log.Warn("ready tasks fit no present worker; start a worker that fits, or change their placement", "code", "tasks_unplaceable", "run", d.Run.String(), "tasks", d.N, "why", why)
		}
	}
	h.purse.unserved = said
	h.Stats.Unserved.Store(int64(len(said)))
}

// all returns every lender of this node.
func (h *Home) all() []*worker {
	all := make([]*worker, 0, len(h.workers)+1)
	all = append(all, h.local)
	for _, w := range h.workers {
		all = append(all, w)
	}
	return all
}

// renewals renews the rows of the workers that have called since the last round of renewals.
func (h *Home) renewals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(h.cfg.Beat):
		}
		h.mu.Lock()
		var due []store.Member
		for _, w := range h.workers {
			if w.heard {
				w.heard = false
				due = append(due, w.row())
			}
		}
		h.mu.Unlock()
		var wg sync.WaitGroup
		free := make(chan struct{}, renewersMax)
		for _, m := range due {
			free <- struct{}{}
			wg.Go(func() {
				h.renew(ctx, m)
				<-free
			})
		}
		wg.Wait()
	}
}

// renewersMax bounds the concurrent renewals. They are concurrent so that a slow store does not delay the
// last workers of a long list.
const renewersMax = 8

// renew renews the row of a worker. It drops a worker that is no longer listed here.
func (h *Home) renew(ctx context.Context, m store.Member) {
	sent := h.cfg.Boot()
	listed, err := h.cfg.Store.Renew(ctx, m)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			h.log.Warn("the row of a worker cannot be renewed", "code", "worker_row_unwritten", "worker", m.Name, "err", err)
		}
	case listed:
		h.confirmed(&m, sent)
	default:
		h.mu.Lock()
		defer h.mu.Unlock()
		if w := h.workers[m.Handler]; w != nil && w.member.Lease == m.Lease {
			h.detach(w)
		}
	}
}

// confirmed records that the store listed a worker at an instant.
func (h *Home) confirmed(m *store.Member, at time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.workers[m.Handler]; w != nil && w.member.Lease == m.Lease {
		w.sure = max(w.sure, at)
	}
}

// usual returns the usual age of a worker's last renewal when the worker calls. This is one heartbeat, which
// is at most a quarter of the lag.
func (h *Home) usual() time.Duration { return h.cfg.Lag / 4 }

// behind returns by how much the lease of a worker's attempts must be shortened at an instant, because the
// last renewal that the store has confirmed is older than usual. If only this home cannot reach the store,
// other nodes may have deposed its workers, so the leases of their attempts are not extended. While no node
// can reach the store, no node can depose them. The caller must hold h.mu.
func (h *Home) behind(w *worker, at time.Duration) time.Duration {
	return max(0, at-max(w.sure, h.dir.Vouched())-h.usual())
}

// Reset implements engine.Market. This node continues under a new handler, so its workers attach again, and
// slots that were lent are void.
func (h *Home) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers {
		h.detach(w)
	}
	for at, a := range h.local.accounts {
		for range a.idle() {
			h.release(h.local, at.need)
		}
	}
	for k := range h.local.running {
		h.cfg.Executor.Cancel([]dag.Cancel{{Run: k.run, Task: k.task, Token: k.token, Kill: true}})
	}
	h.local.accounts = map[loan]*account{}
	clear(h.owed)
	h.wants = map[dag.HandlerID]*want{}
	h.purse.open(h.cfg.Strategy)
	h.mail.open = map[dag.HandlerID]*parcel{}
}

// ErrEnding says that this process is ending and makes no more jobs. The attempt has not ended: the next home
// of its worker makes the job.
var ErrEnding = errors.New("this process ends")

// ErrSlow means that a job needs a call that may take long.
var ErrSlow = errors.New("the job may take long to make")

// errAway says that the worker is not attached here any more, or has another lease.
var errAway = errors.New("the worker is not attached to this node")

// ErrAway reports whether an error says that a worker is not attached to this node.
func ErrAway(err error) bool { return errors.Is(err, errAway) }

func away(id dag.HandlerID) error { return fmt.Errorf("%w: handler %d", errAway, id) }
