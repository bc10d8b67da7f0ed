package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/artifact"
)

// Link is a worker's side of its keeper. It does the work of a Worker in another process, which outlives this
// one. Any goroutine may call its methods, and so may Report.
//
// A Link reports the end of every job that was passed to Start exactly once, even if the keeper dies. In that
// case it starts another keeper, which first kills the attempts of the dead keeper. The Link then reports
// these attempts with CauseLost.
type Link struct {
	cfg   Config
	lease time.Duration
	lock  *os.File
	data  string
	log   *slog.Logger
	stop  chan struct{} // closed by End
	life  context.Context
	die   context.CancelFunc // ends the context life; called when stop is closed
	wg    sync.WaitGroup

	incoming *artifact.Keeper
	traced   bool // a collector receives the traces of tasks

	mu      sync.Mutex // protects following fields
	peer    *peer      // the keeper; nil if there is none
	out     order
	outSize int // total size of the jobs in out
	wake    chan struct{}
	live    map[ID]*parcelState
	said    string   // latest description of the containment by a keeper
	pass    []string // names of further variables of this process that tasks get
	rebases bool     // the keeper can change the environment for tasks while it runs
	masks   bool     // the keeper masks secrets
	kinds   bool     // the keeper starts the processes of kinds
	handles bool     // the keeper reads handles
	tag     *string
	renewed time.Duration
	closing bool
	idle    chan struct{} // closed when the Link is closing and no job is live
	begun   bool
	ended   bool
	pinged  int64
	ponged  int64

	roomMu sync.Mutex // held while Config.Room is called; protects full
	full   bool       // the data folder has no space for attempts
}

// parcelState is the state of a job, from Start or adoption to its Result.
type parcelState struct {
	parcel *parcel // nil if the keeper already had the job when this Link connected
	key    Key
	sent   *peer  // keeper to which the job was sent; nil if it was not sent yet
	stop   Mode   // mode of a stop that was requested before the job was sent
	ready  bool   // the files of the job are complete
	halt   func() // cancels the reading of the job's files
}

// LinkConfig holds the settings of a Link: those of a Worker, and some more.
type LinkConfig struct {
	Config
	Lease time.Duration // how long attempts may run after the last renewal; 0 means LeaseDefault
	// Lock is the open file with which the caller holds the data folder. It proves to the keeper that the
	// caller may give orders. It stays open until the Link has ended. If it is nil, no later Link can adopt the
	// keeper.
	Lock *os.File
}

// Adopted holds the attempts that an earlier worker of the data folder has left at the keeper.
type Adopted struct {
	Tag     string // latest text stored with Link.Brand
	Running []Held
	Ended   []Result // ends that no worker has acknowledged
	// Anew says that the keeper that held the attempts has ended. Then only the attempts in Ended are known.
	Anew bool
}

// Connect finds the keeper of cfg.DataDir, or starts one. The Link makes no reports until Begin. The caller
// must hold the data folder: no other process may have a Link to it.
func Connect(ctx context.Context, cfg LinkConfig) (*Link, *Adopted, error) {
	c := cfg.Config
	if err := c.complete(); err != nil {
		return nil, nil, err
	}
	levels := c.Levels
	if len(levels) == 0 {
		levels = []string{c.Isolation}
	}
	for _, level := range levels {
		if err := Offers(level, c.DataDir, c.UIDs); err != nil {
			return nil, nil, fmt.Errorf("setting isolation: this machine cannot offer the level %s: %w", level, err)
		}
	}
	if err := OffersUsers(levels, c.Users, c.UIDs); err != nil {
		return nil, nil, err
	}
	data, err := realPath(c.DataDir)
	if err != nil {
		return nil, nil, err
	}
	if cfg.Lease <= 0 {
		cfg.Lease = LeaseDefault
	}
	l := &Link{cfg: c, lease: cfg.Lease, lock: cfg.Lock, data: data, log: c.Log, stop: make(chan struct{}), wake: make(chan struct{}, 1),
		pass: c.PassEnv, traced: collectorSet(), live: map[ID]*parcelState{}, idle: make(chan struct{}), incoming: incoming(data)}
	l.life, l.die = context.WithCancel(context.Background())
	p, w, err := l.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	if cfg.Isolation == IsolationFence && !w.Isolates {
		c.Log.Warn("tasks are not isolated, because a keeper of an earlier version holds attempts; restart the node once they have ended",
			"code", "tasks_not_isolated")
	}
	if err := w.walled(&c); err != nil {
		_ = p.conn.Close()
		return nil, nil, err
	}
	l.sweepIncoming(w.Running)
	l.peer, l.said, l.rebases, l.masks, l.kinds, l.handles = p, w.Containment, w.Rebases, w.Masks, w.Kinds, w.Handles
	for _, h := range w.Running {
		l.live[h.Key.ID()] = &parcelState{key: h.Key, sent: p}
	}
	return l, &Adopted{Tag: w.Tag, Running: w.Running, Ended: w.Ended, Anew: p.gone != nil}, nil
}

// hello returns the first message to a keeper.
func (l *Link) hello() *order {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &order{Hello: &hello{Slots: l.cfg.Slots, LogMax: l.cfg.LogMax, Base: baseEnv(l.pass),
		Isolation: l.cfg.Isolation, Levels: l.cfg.Levels, Users: l.cfg.Users, Protected: l.cfg.Protected, UIDs: l.cfg.UIDs, ClosedBoxes: l.cfg.ClosedBoxes, Auto: l.cfg.IsolationAuto}}
}

// walled returns an error if the keeper would run tasks at a weaker level than the settings demand. The level
// fence of an earlier keeper is not checked here.
func (w *welcome) walled(c *Config) error {
	const yet = "cannot be given yet: the keeper is of an earlier version, which holds attempts; start the node again once they have ended"
	level := c.Isolation
	switch {
	case w.Unwalled != "":
		return fmt.Errorf("setting isolation: %s", w.Unwalled)
	case c.IsolationAuto: // an earlier keeper runs its tasks at the level none, see Connect
	case len(c.Levels) > 1 && !w.Chooses:
		return fmt.Errorf("setting isolation: several levels %s", yet)
	case len(c.Users) > 0 && !w.Users:
		return fmt.Errorf("setting task_users: a user %s", yet)
	case slices.Index(Levels, level) > slices.Index(Levels, IsolationFence) && !slices.Contains(w.Levels, level):
		return fmt.Errorf("setting isolation: the level %s %s", level, yet)
	}
	return nil
}

// PassEnv changes which variables of this process tasks get, for attempts that begin later. It returns false,
// and changes nothing, if the keeper is of an earlier version.
func (l *Link) PassEnv(names []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.rebases {
		return false
	}
	l.pass = slices.Clone(names)
	l.out.Base = baseEnv(l.pass)
	l.rouse()
	return true
}

// Begin starts the reports, also for adopted attempts that are still running. The caller itself must report
// the results that Connect has returned as Ended.
func (l *Link) Begin() {
	l.mu.Lock()
	l.begun = true
	l.mu.Unlock()
	l.wg.Go(l.supervise)
	l.wg.Go(l.watchRoom)
}

// Forsake makes the keeper kill its attempts and forget its results. It returns when no attempt is left. A
// caller that does not want to adopt the attempts calls it before Begin.
func (l *Link) Forsake() error {
	l.mu.Lock()
	p, left := l.peer, len(l.live)
	clear(l.live)
	l.mu.Unlock()
	if err := p.write(&order{Release: true}); err != nil {
		return fmt.Errorf("talk to the keeper: %w", err)
	}
	for left > 0 {
		var n news
		if err := p.read(&n); err != nil {
			return fmt.Errorf("talk to the keeper: %w", err)
		}
		left -= len(n.Results)
	}
	return nil
}

// Containment describes in one sentence how process trees are contained.
func (l *Link) Containment() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said
}

// Lease returns the time for which attempts outlive the last renewal.
func (l *Link) Lease() time.Duration { return l.lease }

// Brand stores a tag at the keeper, for the next worker.
func (l *Link) Brand(tag string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tag = &tag
	l.out.Tag = &tag
	l.rouse()
}

// Renew extends the lease to at least an instant of the boot clock.
func (l *Link) Renew(until time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until > l.renewed {
		l.renewed, l.out.Renew = until, until
		l.rouse()
	}
}

// Taken tells the keeper that the ends of these attempts are durable elsewhere.
func (l *Link) Taken(ids []ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.Taken = append(l.out.Taken, ids...)
	l.rouse()
}

// Start runs a job and returns at once. It may call job.Files on a separate goroutine. It ignores an attempt
// that it already has.
func (l *Link) Start(job Job) {
	id := job.Key.ID()
	if l.traced {
		job.Key.Traceparent = sampledTrace(&job.Key)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.live[id] != nil {
		return
	}
	st := &parcelState{key: job.Key, parcel: &parcel{Job: job}}
	l.live[id] = st
	switch {
	case l.closing:
		l.settleBeside(st, Stopped, CauseClosed, "the worker is closing")
		return
	case job.Dir != "":
		dir, err := filepath.Abs(job.Dir) // relative paths are relative to this process, not to the keeper
		if err != nil {
			l.settleBeside(st, Failed, CauseStart, "find the working directory: "+err.Error())
			return
		}
		st.parcel.Job.Dir = dir
	}
	if len(job.Secrets) > 0 && !l.masks {
		l.settleBeside(st, Failed, CauseStart, "the keeper of this machine is of an earlier version, which does not mask secrets; it ends with the attempts that it holds: start the node again then")
		return
	}
	if (job.Handle || job.Input != nil) && !l.handles {
		l.settleBeside(st, Failed, CauseStart, "the keeper of this machine is of an earlier version, which knows no handles; it ends with the attempts that it holds: start the node again then")
		return
	}
	if job.Kind != nil && !l.kinds {
		l.settleBeside(st, Failed, CauseStart, "the keeper of this machine is of an earlier version, which starts no processes of kinds; it ends with the attempts that it holds: start the node again then")
		return
	}
	if job.Dir == "" && job.Files != nil || job.Inputs != nil {
		var ctx context.Context
		ctx, st.halt = context.WithCancel(l.life)
		l.wg.Go(func() { l.collect(ctx, st) })
		return
	}
	st.ready = true
	l.queue(st)
}

// collect reads the files of the version and the inputs from other tasks, and then queues the job.
func (l *Link) collect(ctx context.Context, st *parcelState) {
	defer st.halt()
	job, cause := &st.parcel.Job, CauseStart
	fresh := job.Dir == "" && job.Files != nil
	var files []File
	var given []Input
	var err error
	if fresh {
		if files, err = job.Files(); err != nil {
			err = fmt.Errorf("unpack the workflow's files: %w", err)
		}
	}
	fetched := false
	if err == nil && job.Inputs != nil {
		cause = CauseInputs
		given, fetched, err = l.fetch(ctx, job)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.live[st.key.ID()] != st: // the job has been settled meanwhile
		if fetched {
			l.forget(&st.key)
		}
	case err != nil && st.stop == 0 && ctx.Err() != nil: // this Link ends
	case err != nil && st.stop == 0 && diskFull(err):
		l.settleBeside(st, Stopped, CauseRoom, err.Error())
	case err != nil && st.stop == 0:
		l.settleBeside(st, Failed, cause, err.Error())
	default:
		job.Inputs, job.Given, job.Fetched = nil, given, fetched
		st.parcel.Fresh, st.parcel.Files, st.ready = fresh, files, true
		l.queue(st)
	}
}

// settleBeside reports on a separate goroutine, because the receiver may need locks that the caller holds.
func (l *Link) settleBeside(st *parcelState, state, cause, message string) {
	r := Result{Key: st.key, State: state, Cause: cause, ExitCode: -1, Message: oneLine(message), Finished: time.Now()}
	l.wg.Go(func() { l.settle(r) })
}

// queue puts a job into the next message, if there is a keeper. The caller must hold the lock.
func (l *Link) queue(st *parcelState) {
	if l.live[st.key.ID()] != st || l.peer == nil || st.sent != nil {
		return // the next keeper gets the job
	}
	if st.stop != 0 {
		l.settleBeside(st, Stopped, map[Mode]string{ModeTerm: CauseStopped, ModeKill: CauseKilled, modeClose: CauseClosed}[st.stop], "stopped before it began")
		return
	}
	st.sent = l.peer
	l.out.Jobs = append(l.out.Jobs, *st.parcel)
	l.outSize += st.parcel.size()
	st.parcel.Files = nil // no longer needed: if this keeper dies, the attempt is lost and not sent again
	l.rouse()
}

// Stop stops an attempt. The Link reports its Result when it has ended.
func (l *Link) Stop(key Key, mode Mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.live[key.ID()]
	switch {
	case st == nil:
	case st.sent == nil:
		st.stop = max(st.stop, min(mode, ModeKill))
		if st.halt != nil {
			st.halt()
		}
		if l.peer == nil || st.ready { // the job only waits for a keeper, so it can be settled here
			l.settleBeside(st, Stopped, map[Mode]string{ModeTerm: CauseStopped, ModeKill: CauseKilled}[st.stop], "stopped before it began")
		}
	default:
		l.out.Stops = append(l.out.Stops, halt{key, min(mode, ModeKill)})
		l.rouse()
	}
}

func (l *Link) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// settle reports the ends of attempts, each once. The caller must not use the list afterwards.
func (l *Link) settle(rs ...Result) {
	var fetched []*Key
	l.mu.Lock()
	rs = slices.DeleteFunc(rs, func(r Result) bool {
		st := l.live[r.Key.ID()]
		if st == nil {
			return true
		}
		delete(l.live, r.Key.ID())
		if st.parcel != nil && st.parcel.Job.Fetched {
			fetched = append(fetched, &st.key)
		}
		return false
	})
	l.mu.Unlock()
	for _, key := range fetched {
		l.forget(key)
	}
	for i := range rs {
		if rs[i].Cause == CauseRoom {
			l.crowdedBy(&rs[i])
		}
	}
	if len(rs) == 0 {
		return
	}
	l.cfg.Report(rs...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet()
}

// quiet closes idle if no job is left. The caller must hold the lock.
func (l *Link) quiet() {
	if !l.closing || len(l.live) > 0 {
		return
	}
	select {
	case <-l.idle:
	default:
		close(l.idle)
	}
}

// Close refuses new attempts and waits for the running ones. If ctx ends first, it kills the remaining
// attempts and reports them as stopped with CauseClosed. The keeper runs until End, so that Taken can still
// be sent.
func (l *Link) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	if !l.begun { // without Begin, the results of these attempts are not reported
		clear(l.live)
	}
	l.quiet()
	l.mu.Unlock()
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.out.Kill = true
	for _, st := range l.live {
		if st.sent == nil {
			st.stop = modeClose
			if st.halt != nil {
				st.halt()
			}
			l.settleBeside(st, Stopped, CauseClosed, "the worker is closing")
		}
	}
	l.rouse()
	l.mu.Unlock()
	limit := time.NewTimer(2*endLimit + greetMax)
	defer limit.Stop()
	select {
	case <-l.idle:
		return nil
	case <-limit.C:
		return errors.New("attempts do not end on SIGKILL, or the keeper does not answer")
	}
}

// Leave ends this Link as if its process had died: the keeper continues, and the next worker adopts its
// attempts.
func (l *Link) Leave() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	p := l.peer
	clear(l.live)
	l.mu.Unlock()
	if p != nil {
		_ = p.conn.Close()
	}
	close(l.stop)
	l.die()
	l.wg.Wait()
}

// endMax bounds how long a keeper may take to end.
const endMax = 5 * time.Second

// End makes the keeper end. It returns when the keeper and all goroutines of this Link have ended. The
// keeper kills its remaining attempts without reports.
func (l *Link) End() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	p, begun := l.peer, l.begun
	l.out.End = true
	l.rouse()
	l.mu.Unlock()
	if p != nil {
		if !begun {
			_ = p.write(&order{End: true})
		}
		p.farewell(endMax)
	}
	close(l.stop)
	l.die()
	if p != nil {
		_ = p.stream.conn.Close()
	}
	l.wg.Wait()
}
