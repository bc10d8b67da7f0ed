package dag

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// TaskView is the state of a task that follows from the rows alone.
type TaskView struct {
	Token   Token // token of the newest attempt; 0 if there is none
	Retries int32 // number of attempts in this generation that are followed by a retry
	Losses  int32 // number of lost attempts in this generation
	State   TaskState
	Own     bool // State is the state of the newest attempt, possibly kept from an earlier generation
	Halted  bool // a verb stopped only this task, not its run
}

// Derive computes the state of every task from the graph and the rows of a run: the attempts of any
// generation, in any order. The owner's memory must equal this result. Readers on every node use Derive, and
// the command skein verify compares with it. Outputs of attempts are needed only for tasks that conditions
// read (see Graph.Keeps).
//
// Derive evaluates every condition, whatever the cost. The owner of a run evaluates costly conditions outside
// of its steps: see Effects.Evaluations. Until the owner has the results, its memory is behind the result of
// Derive.
func Derive(g *Graph, run *RunRow, attempts []AttemptRow) ([]TaskView, error) {
	d, err := derived(g, run, attempts, nil)
	return d.views, err
}

// derived implements Derive. If fx is not nil, fx decides which conditions are evaluated now, and collects
// the others.
func derived(g *Graph, run *RunRow, attempts []AttemptRow, fx *Effects) (*deriver, error) {
	views := make([]TaskView, g.Len())
	latest := make([]int32, g.Len()) // index in attempts + 1
	for i := range attempts {
		a := &attempts[i]
		if a.Task == LeaderTask {
			continue
		}
		if int(a.Task) >= g.Len() || a.Task < 0 {
			return &deriver{}, fmt.Errorf("run %s has an attempt of task %d, its graph has %d tasks", run.ID, a.Task, g.Len())
		}
		v := &views[a.Task]
		if a.Token > v.Token {
			v.Token = a.Token
			latest[a.Task] = int32(i) + 1
		}
		switch {
		case a.Generation != run.Generation:
		case a.State == AttemptLost:
			v.Losses++
		case a.RetryAt != 0 && a.State == AttemptFailed:
			v.Retries++
		}
	}
	d := &deriver{g: g, run: run, attempts: attempts, views: views, latest: latest, fx: fx}
	return d, d.derive()
}

type deriver struct {
	g        *Graph
	run      *RunRow
	attempts []AttemptRow
	views    []TaskView
	latest   []int32
	fx       *Effects     // nil if every condition is evaluated
	asked    []Evaluation // conditions that are to be evaluated outside of the step
}

func (d *deriver) holds(t TaskID, branch int32, c Condition, v View) (bool, error) {
	if d.fx == nil {
		return c.Holds(v)
	}
	holds, err := d.fx.evaluate(c, v)
	if errors.Is(err, ErrCostly) {
		e := Evaluation{Run: d.run.ID, Generation: d.run.Generation, Task: t, Branch: branch, Condition: c}
		d.asked = append(d.asked, e.outside(v))
	}
	return holds, err
}

func (d *deriver) derive() error {
	if d.run.SplitAt == 0 && !d.run.State.Terminal() {
		return nil // the run is not split: it has no tasks yet
	}
	if err := d.keep(); err != nil {
		return err
	}
	if d.run.Final != nil {
		return d.unpack("final", d.run.Final, func(t TaskID, s TaskState) bool {
			v := &d.views[t]
			v.State, v.Halted = s, s == Stopped && v.Halted
			return s.Terminal()
		})
	}
	for _, t := range d.g.topo {
		if !d.views[t].State.Terminal() {
			d.task(t)
		}
	}
	for _, f := range d.g.fans {
		d.spreadOut(f)
	}
	if d.run.State.Terminal() { // the run ended before its split was complete
		for t := range d.views {
			if !d.views[t].State.Terminal() {
				d.views[t].State = d.run.unbegun()
			}
		}
	}
	return nil
}

// unpack reads the packed states of a row and calls take for each task. If take returns
// false, the row is damaged, and unpack returns an error.
func (d *deriver) unpack(what string, packed []byte, take func(TaskID, TaskState) bool) error {
	odd := false
	err := unpackStates(packed, d.g.Len(), func(t TaskID, s TaskState) { odd = !take(t, s) || odd })
	if err == nil && odd {
		err = errPacked
	}
	if err != nil {
		return fmt.Errorf("%s states of run %s: %w", what, d.run.ID, err)
	}
	return nil
}

func (d *deriver) task(t TaskID) {
	if d.views[t].Own {
		d.views[t].State = d.attempts[d.latest[t]-1].taskState()
		return
	}
	settled := true
	for _, n := range d.g.needs.of(t) {
		settled = settled && (d.views[n].State.settled() || d.views[n].Halted)
	}
	d.views[t].State, _ = judge(d.g, d.run.Params, t, settled, d)
}

func (d *deriver) stateOf(t TaskID) TaskState { return d.views[t].State }
func (d *deriver) failedAt(t TaskID) bool     { return d.views[t].State.fails() || d.views[t].Halted }

func (d *deriver) outputOf(t TaskID) []byte {
	if i := d.latest[t]; i > 0 && d.views[t].State == Succeeded {
		return d.attempts[i-1].Outputs
	}
	return nil
}

// taskState returns the state of the task that follows from its newest attempt.
func (a *AttemptRow) taskState() TaskState {
	switch a.State {
	case AttemptAssigned:
		return Assigned
	case AttemptRunning:
		return Running
	case AttemptSucceeded:
		return Succeeded
	case AttemptStopped:
		return a.stoppedState()
	case AttemptDeferred:
		return Deferred
	case AttemptLost:
		switch a.Cause {
		case CauseLost:
			if a.RetryAt != 0 {
				return RetryWait
			}
			return Ready
		case CauseAsk:
			return RetryWait
		case CauseHalted:
			return Stopped
		}
		return Failed // the task failed because of the limit of losses, on_lost, or if_lost of the run's trigger
	}
	if a.RetryAt != 0 {
		return RetryWait
	}
	return Failed
}

// revoked reports whether the attempt was ended without a report of its holder.
func (a *AttemptRow) revoked() bool {
	return a.State == AttemptLost || a.Cause == CauseOverdue || a.byOperator()
}

// Keeps reports whether conditions read the task's outputs, so that a loader must read them.
func (g *Graph) Keeps(t TaskID) bool { return g.kept[t] }

// KeepsAny reports whether conditions read the outputs of any task.
func (g *Graph) KeepsAny() bool { return len(g.kept) > 0 }

// Load makes a run in memory from its rows. It also restores the state that only the memory of the owner had:
// ready lists, timers, and cancels that may not have arrived. A timer gets its remaining time, but never more
// than its full length. The attempts may be of any generation, in any order.
func Load(row *RunRow, g *Graph, attempts []AttemptRow, now Now, fx *Effects) (*Run, error) {
	r := &Run{
		Header: row.Header, State: row.State, Intent: row.Intent, Generation: row.Generation, Cause: row.Cause,
		Message: row.Message, SplitAt: row.SplitAt, StartedAt: row.StartedAt, FinishedAt: row.FinishedAt,
		Leader: row.Leader, LeaderAt: row.LeaderAt, base: row.Base, own: row.Graph, stored: true, was: row.State,
		Claim: row.Claim, claimed: row.Claim.place(), clock: now.Wall, Kept: row.Kept, weight: weightOf(row, attempts),
	}
	if r.Priority >= Levels || r.State >= runStates || r.Intent >= intents || r.Generation < 1 {
		return nil, fmt.Errorf("run %s has priority %d, state %d, intent %d, generation %d", r.ID, r.Priority, r.State, r.Intent, r.Generation)
	}
	for i := range attempts {
		if a := &attempts[i]; a.Generation < 1 || a.Generation > r.Generation {
			return nil, fmt.Errorf("run %s is in generation %d and has an attempt of generation %d", r.ID, r.Generation, a.Generation)
		}
	}
	if err := r.loadLeader(attempts); err != nil {
		return nil, err
	}
	if row.SplitAt == 0 {
		r.watchStart(now, fx)
		return r, nil
	}
	if g == nil {
		return nil, fmt.Errorf("run %s has no graph", row.ID)
	}
	d, err := derived(g, row, attempts, fx)
	if err != nil {
		return nil, err
	}
	views := d.views
	r.adopt(g)
	r.loadShares(row.Shares)
	handlesOf(r).load(attempts, now, fx)
	r.fx = fx
	for _, e := range d.asked {
		r.ask(e)
	}
	r.loadTasks(views)
	r.fx = nil
	r.frozen = countFrozen(row.Base)
	r.loadAttempts(attempts, now, fx)
	r.watchLoaded(views, attempts, now, fx)
	if !g.params {
		r.Params = nil
	}
	r.watchStart(now, fx)
	if g.Timeout > 0 && r.Unfinished() && r.State != RunWaiting {
		left := clamp(r.StartedAt+Micros(g.Timeout.Microseconds())-now.Wall, g.Timeout)
		fx.Timers = append(fx.Timers, r.runTimer(now.Mono+left))
	}
	if r.Intent >= IntentStop {
		r.cancelHeld(fx)
	}
	return r, nil
}

// loadLeader restores the Leader work (splitting) of a run that is not split yet.
func (r *Run) loadLeader(attempts []AttemptRow) error {
	if r.State == RunSplitting {
		r.leader.state = Ready
	}
	var newest *AttemptRow
	for i := range attempts {
		a := &attempts[i]
		if a.Task != LeaderTask {
			continue
		}
		if a.State == AttemptLost {
			r.leader.losses = uint8(min(int(r.leader.losses)+1, math.MaxUint8))
		}
		if newest == nil || a.Token > newest.Token {
			newest = a
		}
	}
	if newest == nil {
		return nil
	}
	r.leader.token, r.leader.revoked = newest.Token, newest.revoked()
	if !newest.State.Ended() {
		if r.State != RunSplitting {
			return fmt.Errorf("run %s is %s, but its Leader work is %s", r.ID, r.State, newest.State)
		}
		r.leader.state = newest.taskState()
		r.adoptAttempt(&r.leader, newest)
	}
	return nil
}

func (r *Run) loadTasks(views []TaskView) {
	for t := range views {
		p, v := &r.tasks[t], &views[t]
		p.state, p.token = v.State, v.Token
		p.retries, p.losses = v.Retries, uint8(min(v.Losses, math.MaxUint8))
		p.own, p.halted = v.Own, v.Halted
		if v.State.Terminal() {
			r.left--
		}
		if p.fails() {
			r.failed++
		}
	}
	for t := range r.tasks {
		p := &r.tasks[t]
		p.blockers = 0
		for _, n := range r.Graph.needs.of(TaskID(t)) {
			if !r.tasks[n].settled() {
				p.blockers++
			}
		}
		r.count(TaskID(t), p.state, 1)
		r.tally(TaskID(t), Pending, p.state)
		if t >= r.Graph.fixed() {
			p.blockers = 1
		}
		switch {
		case p.state == Ready && r.Graph.Logic(TaskID(t)) != nil: // the run is paused, so the logical task has not begun
			r.logical = append(r.logical, TaskID(t))
		case p.state == Ready && handlesOf(r).owes(TaskID(t)): // see EvReleased
		case p.state == Ready:
			r.list(TaskID(t))
		case p.state == Pending && p.blockers == 0 && !r.open(TaskID(t)):
			r.late = append(r.late, TaskID(t))
		}
	}
	for of := range r.Graph.fans {
		r.recountSpread(of)
	}
}

func (r *Run) adoptAttempt(p *task, a *AttemptRow) {
	r.slots = append(r.slots, attempt{AttemptRow: *a, was: a.State})
	p.slot = int32(len(r.slots))
	if a.State != AttemptDeferred {
		r.active++
	}
}

func (r *Run) loadAttempts(attempts []AttemptRow, now Now, fx *Effects) {
	for i := range attempts {
		a := &attempts[i]
		if a.Task == LeaderTask {
			continue
		}
		p := &r.tasks[a.Task]
		if a.Token != p.token {
			continue
		}
		p.revoked = a.revoked()
		switch {
		case p.state.Held():
			r.adoptAttempt(p, a)
			if a.Cause == CauseHalted { // the cancel may not have reached the holder
				r.cancelTask(a, fx)
			}
			if p.state == Running && a.Cause != CauseTimeout { // the row shows only that the timeout was recorded
				ran := Now{Wall: now.Wall, Mono: now.Mono - clamp(now.Wall-a.Started, r.Graph.Policy(a.Task).Timeout)}
				r.watch(a.Task, a.Token, ran, fx)
			}
		case p.state == Deferred:
			if r.Graph.Kind(a.Task) == Approval {
				r.approvalSince = min(r.approvalSince, a.Assigned)
			}
			r.adoptAttempt(p, a)
			r.expect(a, now, fx)
			if sp := r.spreads[a.Task]; sp != nil && sp.left == 0 && a.Started != 0 { // the owner must read the outputs of the instances
				fx.Prepares = append(fx.Prepares, Prepare{Run: r.ID, Task: a.Task, Token: a.Token, Kind: Foreach})
			}
		case p.state == RetryWait && a.State == AttemptLost && a.Cause == CauseAsk: // the task waits for an operator
		case p.state == RetryWait:
			fx.Timers = append(fx.Timers, Timer{Due: now.Mono + clamp(a.RetryAt-now.Wall, a.RetryWait),
				Run: r.ID, Kind: TimerRetry, Task: a.Task, Token: a.Token})
		case p.state == Succeeded:
			r.keepOutputs(a.Task, a.Outputs)
		}
	}
}

// clamp returns the remaining part of a duration. The parameter left is the distance of two wall-clock
// instants. The result is at least 0 and at most length.
func clamp(left Micros, length time.Duration) time.Duration {
	return min(max(micros(left), 0), length)
}

// micros converts a number of microseconds into a duration of at most 292 years.
func micros(m Micros) time.Duration {
	const most = Micros(1<<63-1) / 1000
	return time.Duration(min(max(m, -most), most)) * time.Microsecond
}
