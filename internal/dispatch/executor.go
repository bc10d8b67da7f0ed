package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/worker"
)

// ExecutorConfig holds the dependencies of an Executor.
type ExecutorConfig struct {
	Resolver *Resolver
	Worker   *worker.Link
	Shipper  *logs.Shipper // nil if the node does not ship logs
	// Engine returns the engine of this process. It must be set before worker.Link.Begin.
	Engine func() *engine.Engine
	// Over, if not nil, is called for every end of an attempt, before the end is reported.
	Over func(dag.RunID, dag.TaskID, dag.Token)
	// Delivery delivers the artifacts to the store that all nodes share. It is nil if the keeper stores them
	// there.
	Delivery Delivery
	Slots    int
	Hold     bool // no attempt is started
	Log      *slog.Logger
}

// Executor implements the engine's Executor with the worker of this process, whose keeper runs the attempts.
// It converts an assignment to a Job, and a Result to a report.
//
// The engine reserves a slot for every attempt until its report. So the number of attempts here, and also the
// number of goroutines, never exceeds the number of slots.
type Executor struct {
	log      *slog.Logger
	resolver *Resolver
	engine   func() *engine.Engine
	worker   *worker.Link
	shipper  *logs.Shipper
	over     func(dag.RunID, dag.TaskID, dag.Token) // may be nil
	delivery Delivery                               // may be nil

	wg     sync.WaitGroup          // the goroutines that resolve and deliver
	life   context.Context         // context of deliveries
	leaves context.CancelCauseFunc // ends life

	mu      sync.Mutex // protects following fields
	live    map[engine.AttemptID]*handed
	byKey   map[worker.ID]*handed
	taken   []reported // reported attempts of which the keeper does not yet know that the report is durable
	told    ring
	ending  map[engine.AttemptID]bool // attempts whose end is being reported
	telling int                       // number of ends that were removed from live, but have not reached the engine
	holding bool                      // no further attempt is started, because this process will end soon
	closed  bool
	quiet   chan struct{} // closed when holding is set and no attempt runs
	fewer   chan struct{} // cap 1: an attempt was forgotten or reported
}

// reported is an attempt whose end was reported to the engine.
type reported struct {
	id  engine.AttemptID
	key worker.ID
}

// handed is an attempt from its assignment to its report.
type handed struct {
	engine.Assignment
	workflow string      // the name of the workflow, which is set when the job is made
	cancel   worker.Mode // the mode of a cancel that came before the worker had the attempt; 0 if there is none
	key      worker.Key
	given    bool // the job was sent to the worker
	held     bool // this process never started the attempt
	adopted  bool // an earlier process has started it
	// unwant cancels the wait of the job for a value that it needs, or for the delivery of its artifacts. It
	// is nil if the job does not wait.
	unwant context.CancelFunc
}

func (h *handed) id() engine.AttemptID {
	return engine.AttemptID{Run: h.Run, Task: h.Task, Token: h.Token}
}

// NewExecutor returns an Executor that has no attempts.
func NewExecutor(cfg ExecutorConfig) *Executor {
	life, leaves := context.WithCancelCause(context.Background())
	return &Executor{
		log: cfg.Log, resolver: cfg.Resolver, engine: cfg.Engine, worker: cfg.Worker, shipper: cfg.Shipper, over: cfg.Over, holding: cfg.Hold,
		delivery: cfg.Delivery, life: life, leaves: leaves,
		quiet: make(chan struct{}), fewer: make(chan struct{}, 1), live: map[engine.AttemptID]*handed{}, ending: map[engine.AttemptID]bool{},
		byKey: map[worker.ID]*handed{}, told: newRing(ringPerSlot * max(cfg.Slots, 1)),
	}
}

// Start accepts attempts. It returns at once.
func (x *Executor) Start(as []engine.Assignment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range as {
		h := &handed{Assignment: as[i], held: x.holding}
		if x.closed || x.live[h.id()] != nil || x.told.has(h.id()) {
			continue
		}
		x.live[h.id()] = h
		if h.held {
			continue
		}
		x.wg.Go(func() { x.launch(h) })
	}
}

// launch makes the job of an attempt, and passes the job to the worker.
func (x *Executor) launch(h *handed) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x.mu.Lock()
	if h.unwant = cancel; h.cancel != 0 {
		cancel()
	}
	x.mu.Unlock()
	var job *worker.Job
	err := x.resolver.surely(ctx, &h.Assignment, func() (err error) {
		job, err = x.resolver.job(ctx, &h.Assignment)
		return err
	}, func(pause time.Duration) bool { return x.waits(h, pause) })
	switch {
	case errors.Is(err, errUnwanted):
		x.mu.Lock()
		mode := h.cancel
		h.held = mode == 0 // this process ends, so the next process starts the attempt
		x.mu.Unlock()
		if mode != 0 {
			x.report(h, stoppedBefore(mode))
		} else {
			x.settle()
		}
		return
	case err != nil:
		x.refuse(h, err)
		return
	}
	x.mu.Lock()
	h.key, h.workflow = job.Key, job.Key.Workflow
	mode := h.cancel
	if mode == 0 {
		h.given = true
		x.byKey[h.key.ID()] = h
		x.shipper.Begin(h.logRef())
		x.worker.Start(*job) // returns at once; lock order: x.mu before the worker's lock
	}
	x.mu.Unlock()
	if mode != 0 {
		x.report(h, stoppedBefore(mode))
		return
	}
	if x.log.Enabled(context.Background(), slog.LevelDebug) {
		x.log.Debug("an attempt has started", h.attrs()...)
	}
}

// waits pauses before the data of an attempt are read again from the store. It returns false if the attempt
// was cancelled, or if this process ends.
func (x *Executor) waits(h *handed, pause time.Duration) bool {
	time.Sleep(pause)
	x.mu.Lock()
	defer x.mu.Unlock()
	return h.cancel == 0 && !x.holding && !x.closed
}

func stoppedBefore(mode worker.Mode) dag.Result {
	cause := dag.CauseStopped
	if mode == worker.ModeKill {
		cause = dag.CauseKilled
	}
	return dag.Result{State: dag.AttemptStopped, Cause: cause, Message: "stopped before it began", Finished: dag.Micro(time.Now())}
}

// refuse reports that no job can be made for an attempt.
func (x *Executor) refuse(h *handed, err error) {
	res := dag.Result{State: dag.AttemptFailed, Cause: causeOf(err), Message: err.Error(), Finished: dag.Micro(time.Now())}
	x.report(h, res)
}

// Ended receives results from the worker. Results that the worker passes together reach the engine together,
// in one transaction.
func (x *Executor) Ended(rs ...worker.Result) {
	var ends []ending
	for i := range rs {
		r := &rs[i]
		x.mu.Lock()
		h := x.byKey[r.Key.ID()]
		x.mu.Unlock()
		if h == nil {
			continue
		}
		x.shipper.End(h.logRef(), r.LogBytes)
		switch r.Cause {
		case worker.CauseClosed:
			// This process ends without a result of the task. The next process declares the attempt lost.
			x.forget(h, false)
		case worker.CauseLease, worker.CauseLost, worker.CauseRoom:
			x.log.Warn("an attempt was lost", append(h.attrs(), "code", "attempt_lost", "cause", r.Cause)...)
			ends = append(ends, ending{h, engine.Report{Lost: lostReasons[r.Cause]}})
		default:
			if x.delivers(h, r) {
				continue
			}
			res := result(r)
			x.logEnd(h, &res)
			ends = append(ends, ending{h, engine.Report{Result: res}})
		}
	}
	x.tell(ends...)
}

// ending is a report about an attempt to the engine.
type ending struct {
	of *handed
	is engine.Report
}

// lostReasons maps the causes of losses to texts for people.
var lostReasons = map[string]string{worker.CauseLease: "its lease ended", worker.CauseLost: "its keeper died", worker.CauseRoom: dag.LostNoRoom}

// result converts a result of the worker to a result for the engine.
func result(r *worker.Result) dag.Result {
	out := dag.Result{
		Cause: dag.Cause(r.Cause), Exited: r.Exited, ExitCode: int32(r.ExitCode), Signal: r.Signal, Message: r.Message,
		Logged: r.LogBytes, Left: r.ArtifactBytes, TimedOut: r.TimedOut, Outputs: r.Outputs, Handle: r.Handle, Adopts: r.Adopts, Started: dag.Micro(r.Started), Finished: dag.Micro(r.Finished),
	}
	switch r.State {
	case worker.Succeeded:
		out.State = dag.AttemptSucceeded
	case worker.Stopped:
		out.State = dag.AttemptStopped
	default:
		out.State = dag.AttemptFailed
	}
	if !r.Exited {
		out.ExitCode = 0
	}
	return out
}

// Room receives from the worker the reason why the data folder has no room for attempts, or "" if it has room
// again.
func (x *Executor) Room(why string) { x.engine().Shut(why) }

// report reports an attempt to the engine, and forgets the attempt.
func (x *Executor) report(h *handed, res dag.Result) {
	x.logEnd(h, &res)
	x.tell(ending{h, engine.Report{Result: res}})
}

func (x *Executor) tell(ends ...ending) {
	if len(ends) == 0 {
		return
	}
	reports := make([]engine.Report, len(ends))
	for i, e := range ends {
		h := e.of
		reports[i] = e.is
		reports[i].Run, reports[i].Task, reports[i].Token = h.Run, h.Task, h.Token
		// Remember the report before sending it, because the engine may call Running from within Report.
		x.forget(h, true)
		if x.over != nil {
			x.over(h.Run, h.Task, h.Token)
		}
	}
	x.engine().Report(reports...)
	x.mu.Lock()
	for _, e := range ends {
		if e.of.given {
			x.taken = append(x.taken, reported{e.of.id(), e.of.key.ID()})
		}
		x.telling--
		delete(x.ending, e.of.id())
	}
	x.lessen()
	x.mu.Unlock()
	x.settle()
}

func (x *Executor) logEnd(h *handed, res *dag.Result) {
	level := slog.LevelDebug
	if res.State == dag.AttemptFailed {
		level = slog.LevelInfo
	}
	if !x.log.Enabled(context.Background(), level) {
		return
	}
	attrs := append(h.attrs(), "code", "attempt_ended", "state", res.State.String(), "cause", string(res.Cause))
	if res.Exited {
		attrs = append(attrs, "exit", res.ExitCode)
	}
	if res.Message != "" {
		attrs = append(attrs, "message", res.Message)
	}
	x.log.Log(context.Background(), level, "an attempt has ended", attrs...)
}

// forget removes an attempt. The parameter told says that the attempt is being reported.
func (x *Executor) forget(h *handed, told bool) {
	x.mu.Lock()
	delete(x.live, h.id())
	delete(x.byKey, h.key.ID())
	if told {
		x.told.add(h.id())
		x.ending[h.id()] = true
		x.telling++
	}
	x.lessen()
	x.mu.Unlock()
	if !h.adopted {
		x.resolver.leave(h.Run)
	}
	if !told {
		x.settle()
	}
}

// lessen wakes the callers that wait for the end of attempts.
func (x *Executor) lessen() {
	select {
	case x.fewer <- struct{}{}:
	default:
	}
}

// Started receives the notice of the worker that an attempt has run for a second, or that it has a handle.
func (x *Executor) Started(k worker.Key, at time.Time, handle string, adopts bool) {
	x.mu.Lock()
	h := x.byKey[k.ID()]
	x.mu.Unlock()
	if h != nil {
		x.engine().Report(engine.Report{Run: h.Run, Task: h.Task, Token: h.Token, Started: dag.Micro(at), Handle: handle, Adopts: adopts})
	}
}

// Cancel ends attempts, also attempts that the worker does not have yet.
func (x *Executor) Cancel(cs []dag.Cancel) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range cs {
		h := x.live[engine.AttemptID{Run: c.Run, Task: c.Task, Token: c.Token}]
		if h == nil {
			continue
		}
		mode := worker.ModeTerm
		if c.Kill {
			mode = worker.ModeKill
		}
		switch {
		case h.given:
			if h.cancel = max(h.cancel, mode); h.unwant != nil {
				h.unwant()
			}
			x.worker.Stop(h.key, mode) // the worker's lock comes after x.mu in the lock order
		case h.held: // the attempt will not be started
			x.wg.Go(func() { x.report(h, stoppedBefore(mode)) })
		default:
			if h.cancel = max(h.cancel, mode); h.unwant != nil {
				h.unwant()
			}
		}
	}
}

// Running reports whether an attempt is here, or was reported so recently that the report may not be durable
// yet. If the engine started such an attempt again, the same token would run twice.
func (x *Executor) Running(run dag.RunID, task dag.TaskID, token dag.Token) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	id := engine.AttemptID{Run: run, Task: task, Token: token}
	return x.live[id] != nil || x.told.has(id)
}

// Live reports whether an attempt is here, or was ended but has not reached the engine.
func (x *Executor) Live(run dag.RunID, task dag.TaskID, token dag.Token) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	id := engine.AttemptID{Run: run, Task: task, Token: token}
	return x.live[id] != nil || x.ending[id]
}

// Hold prevents the start of further attempts. The next process starts them.
func (x *Executor) Hold() {
	x.mu.Lock()
	x.holding = true
	x.mu.Unlock()
	x.settle()
}

// Drained returns a channel that is closed when no attempt runs any more after Hold.
func (x *Executor) Drained() <-chan struct{} { return x.quiet }

// settle closes quiet if no attempt runs any more.
func (x *Executor) settle() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.holding || x.closed || x.telling > 0 {
		return
	}
	for _, h := range x.live {
		if !h.held {
			return
		}
	}
	x.closed = true
	close(x.quiet)
}

// UnderWay returns the number of attempts under way.
func (x *Executor) UnderWay() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for _, h := range x.live {
		if !h.held {
			n++
		}
	}
	return n
}

// Obeyed waits until the cancelled attempts have ended, or until ctx ends.
func (x *Executor) Obeyed(ctx context.Context) {
	for {
		x.mu.Lock()
		left := x.telling
		for _, h := range x.live {
			if h.given && h.cancel != 0 {
				left++
			}
		}
		x.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-x.fewer:
		case <-ctx.Done():
			return
		}
	}
}

// Wait ends the deliveries of artifacts. It returns when no job is being made.
func (x *Executor) Wait() {
	x.leaves(errLeaves)
	x.wg.Wait()
}

// logRef returns the name of the attempt's log.
func (h *handed) logRef() logs.Ref {
	return logs.Ref{Namespace: h.key.Namespace, Workflow: h.key.Workflow, Run: h.Run, Task: h.Task, Name: h.key.Task, Token: h.Token}
}

// attrs returns the attributes that log lines about an attempt have.
func (h *handed) attrs() []any {
	return []any{"workflow", h.workflow, "run", h.Run.String(), "task", h.Name, "attempt", int(h.Token)}
}

// ringPerSlot × slots is the number of reports that are remembered. A report must be
// remembered until it is known whether its transaction has committed. Until then the slot gets no other
// attempt, so 2 per slot would suffice.
const ringPerSlot = 8

// ring remembers the attempts reported last.
type ring struct {
	ids  []engine.AttemptID
	next int
	in   map[engine.AttemptID]bool
}

func newRing(size int) ring {
	return ring{ids: make([]engine.AttemptID, size), in: make(map[engine.AttemptID]bool, size)}
}

func (r *ring) add(id engine.AttemptID) {
	delete(r.in, r.ids[r.next])
	r.ids[r.next], r.in[id] = id, true
	r.next = (r.next + 1) % len(r.ids)
}

func (r *ring) has(id engine.AttemptID) bool { return r.in[id] }

// Idle is an Executor that runs nothing.
type Idle struct{}

func (Idle) Start([]engine.Assignment)                     {}
func (Idle) Cancel([]dag.Cancel)                           {}
func (Idle) Running(dag.RunID, dag.TaskID, dag.Token) bool { return false }
func (Idle) Live(dag.RunID, dag.TaskID, dag.Token) bool    { return false }
