package dag

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A logical task runs on no worker: it waits for an event outside of the run, or decides something about the
// run. In the step in which it becomes ready, it gets an attempt like any task. But this attempt is deferred:
// it has no holder, takes no slot, and is not lost when a node ends. The rows of the attempt contain its
// whole state, so a reload continues the wait.

// Kind is the way in which a task is carried out. The numbers are stored, so new ones are only appended.
type Kind uint8

// The kinds.
const (
	Work      Kind = iota // a worker runs the task: it is not a logical task
	Wait                  // waits until a duration or an instant has passed
	Approval              // waits until a person approves or rejects
	Switch                // chooses one of its dependents
	Call                  // starts a run of another workflow, and waits for its end
	Dependent             // waits until its owner finds that another workflow's run has ended, or that a condition is true
	Foreach               // waits until its instances, one for each item, have ended
	kinds
)

var kindNames = [kinds]string{"work", "wait", "approval", "switch", "call", "dependent", "foreach"}

func (k Kind) String() string { return kindNames[k] }

// Kinds names every kind, in the order of the numbers.
func Kinds() []string { return kindNames[:] }

// Shown returns the kind that people see. A wait for a condition or an event is carried out like a dependent
// task, but its author wrote it as a wait, so Shown returns Wait.
func (l *Logic) Shown() Kind {
	if l.Kind == Dependent && l.For > 0 {
		return Wait
	}
	return l.Kind
}

// Name returns the name of the kind that people see.
func (l *Logic) Name() string { return l.Shown().String() }

// Logic is the rule of a logical task. It says what the task waits for, or what it decides.
type Logic struct {
	Kind Kind
	// Wait: the duration; 0 means until an instant that the owner computes. Dependent: the pause between two
	// checks.
	For      time.Duration
	Branches []Branch // Switch: the first branch that holds is taken
	Parallel int32    // Foreach: the largest number of instances at one time; 0 means all
	Collect  bool     // Foreach: its outputs are the list of its instances' outputs
	// Foreach: the rule of an instance that is a Call; nil if a worker runs the instances.
	Each *Logic
}

// Branch is a choice of a switch.
type Branch struct {
	If   Condition // nil means that the branch is the else branch
	Then string    // the task that this branch chooses
}

// prepared reports whether the owner must first find out for which event such a task waits.
func (l *Logic) prepared() bool {
	return l.Kind == Call || l.Kind == Dependent || l.Kind == Foreach || l.Kind == Wait && l.For == 0
}

// Prepare requests that the owner of a deferred task finds out, outside of the writer's goroutine, for which
// run or instant the task waits. The owner answers with EvArm, or with EvSettle if the wait has ended. A load
// makes the request again. It does so for a call that already has a child, too, because the child may have
// ended meanwhile.
type Prepare struct {
	Run   RunID
	Task  TaskID
	Token Token
	Kind  Kind
}

// Order is an order to the child run of a call: the intent of the parent.
type Order struct {
	Run    RunID // the parent
	Task   TaskID
	Child  Child
	Intent Intent
	Reason string
}

// Child names a run that a call started, and the generation for whose end the call waits. If the run of the
// call is recovered, the call continues with its earlier child.
type Child struct {
	Run        RunID
	Generation int32
	Workflow   WorkflowID // the workflow of the run; the shard of the run is computed from it
}

// String returns the stored form. The form of no child is "".
func (c Child) String() string {
	if c.Run.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", c.Run, c.Generation, c.Workflow)
}

// ChildOf returns the child run of a call's attempt, if there is one.
func ChildOf(a *AttemptRow) (Child, bool) {
	parts := strings.Split(a.Signal, "/")
	if len(parts) != 3 {
		return Child{}, false
	}
	run, err := ParseRunID(parts[0])
	gen, bad := strconv.ParseInt(parts[1], 10, 32)
	wf, worse := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || bad != nil || worse != nil {
		return Child{}, false
	}
	return Child{run, int32(gen), WorkflowID(wf)}, true
}

// ChildID returns the id of the run that a call's attempt starts. The id is computed from the attempt, so
// that a repeated start does not make a second run. Like any run id, it sorts by time.
func ChildID(a *AttemptRow) RunID {
	h := sha256.New()
	h.Write(a.Run[:])
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(a.Task)))
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(a.Token)))
	var id RunID
	copy(id[:], h.Sum(nil))
	ms := uint64(a.Assigned) / 1000
	id[0], id[1], id[2], id[3], id[4], id[5] = byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms)
	id[6], id[8] = 0x70|id[6]&0x0f, 0x80|id[8]&0x3f // the version and variant bits of a UUIDv7
	return id
}

// Logic returns the rule of a logical task. It returns nil if a worker runs the task.
func (g *Graph) Logic(t TaskID) *Logic {
	if of, ok := g.InstanceOf(t); ok {
		return g.logic[of].Each
	}
	return g.logic[t]
}

// Kind returns the kind of a task.
func (g *Graph) Kind(t TaskID) Kind {
	if l := g.Logic(t); l != nil {
		return l.Kind
	}
	return Work
}

// BranchOutputs returns the outputs of a switch, which name the task that it chose, or "" if it chose none.
func BranchOutputs(then string) []byte { return []byte(`{"branch":` + strconv.Quote(then) + `}`) }

// picked reports whether no switch has decided against t. A switch that did not succeed has decided nothing:
// it is then a need like any other.
func (g *Graph) picked(t TaskID, k known) bool {
	for _, s := range g.switches[t] {
		if k.stateOf(s) == Succeeded && string(k.outputOf(s)) != string(BranchOutputs(g.names[t])) {
			return false
		}
	}
	return true
}

// choosable reports whether all tasks that the branches of a switch read have ended.
func (g *Graph) choosable(t TaskID, k known) bool {
	l := g.logic[t]
	for i := 0; l != nil && i < len(l.Branches); i++ {
		if c := l.Branches[i].If; c != nil && !readable(g, c, k) {
			return false
		}
	}
	return true
}

// beginLogical begins the next logical task that is ready. It returns false if there is none. A paused run
// begins none.
func (r *Run) beginLogical(now Now, fx *Effects) bool {
	t, to, any := r.nextLogical()
	if !any {
		return false
	}
	p := &r.tasks[t]
	if p.state != Ready { // an operator has settled the task meanwhile
		return true
	}
	l := r.Graph.Logic(t)
	r.moveTask(t, Deferred)
	r.hold(t, p, 0, now)
	a := &r.slots[p.slot-1]
	a.State, p.revoked = AttemptDeferred, true
	r.active-- // the attempt has no holder
	r.record(Record{Kind: RecDeferred, Task: t, Token: p.token, Text: l.Name()})
	if l.Kind == Approval {
		note(r, t, NoteApproval, "")
	}
	wait := l.For
	switch {
	case l.Kind == Switch:
		r.choose(t, p, to, now)
		return true
	case l.Kind == Foreach: // the policy applies to its instances
	case l.Kind != Wait:
		wait = r.Graph.Policy(t).Timeout
	}
	if wait > 0 {
		a.RetryAt, a.RetryWait = now.Wall+Micros(wait.Microseconds()), wait
	}
	if f := r.Graph.fans[t]; !l.prepared() || f != nil && !f.stale { // the instances belong to an earlier generation
		a.Started = now.Wall
	}
	if r.spreads[t] != nil {
		r.respread(t)
	}
	r.expect(&a.AttemptRow, now, fx)
	return true
}

// nextLogical removes from the list the first task that can begin now, and returns it. A switch that an
// operator runs again waits for those tasks that it reads and that run again, too. A switch whose conditions
// are evaluated outside of the step waits for their results.
func (r *Run) nextLogical() (t TaskID, to choice, any bool) {
	if r.Intent != IntentRun || r.State.Terminal() || r.State == RunWaiting { // a recovered run that waits does not have its claim yet
		return 0, to, false
	}
	for i, t := range r.logical {
		if r.tasks[t].state == Ready && !r.Graph.choosable(t, r) {
			continue
		}
		if r.tasks[t].state == Ready {
			var err error
			if to, err = r.chooses(t); err != nil {
				continue
			}
		}
		if i == 0 { // i is nearly always 0, and then no other task has to be moved
			r.logical = r.logical[1:]
		} else {
			r.logical = slices.Delete(r.logical, i, i+1)
		}
		if len(r.logical) == 0 {
			r.logical = nil
		}
		return t, to, true
	}
	return 0, to, false
}

// expect sets the timer, or requests the preparation, with which a deferred attempt continues.
func (r *Run) expect(a *AttemptRow, now Now, fx *Effects) {
	if l := r.Graph.Logic(a.Task); l != nil && l.prepared() && (a.Started == 0 || l.Kind == Call || l.Kind == Dependent) {
		fx.Prepares = append(fx.Prepares, Prepare{Run: r.ID, Task: a.Task, Token: a.Token, Kind: l.Kind})
	}
	if a.RetryAt != 0 && a.Cause != CauseTimeout { // if RetryAt is 0, the timer has already fired
		fx.Timers = append(fx.Timers, Timer{Due: now.Mono + clamp(a.RetryAt-now.Wall, a.RetryWait),
			Run: r.ID, Kind: TimerDeferred, Task: a.Task, Token: a.Token})
	}
}

// choose settles a switch.
func (r *Run) choose(t TaskID, p *task, to choice, now Now) {
	a := r.endLogical(p, now)
	if to.why != "" {
		r.failLogical(t, a, CauseCondition, to.why)
		return
	}
	a.State, a.Outputs = AttemptSucceeded, BranchOutputs(to.then)
	r.record(Record{Kind: RecEnded, Task: t, Token: a.Token, State: Succeeded, Reason: to.then})
	r.succeed(t, a)
}

// endLogical closes a deferred attempt. The caller sets the state and applies the consequences.
func (r *Run) endLogical(p *task, now Now) *attempt {
	a := r.end(p)
	if r.Graph.Kind(a.Task) == Approval {
		note(r, a.Task, NoteDecided, "")
	}
	if a.Started == 0 {
		a.Started = a.Assigned
	}
	a.Finished = max(now.Wall, a.Started)
	a.RetryAt, a.RetryWait = 0, 0
	return a
}

// failLogical fails a logical task finally. It is not retried, because a retry would not change the thing
// that it waits for.
func (r *Run) failLogical(t TaskID, a *attempt, cause Cause, why string) {
	a.State, a.Cause, a.Message = AttemptFailed, cause, why
	r.recordEnd(a, Failed)
	r.noteFailure(t, why)
	r.failTask(t, why)
}

// fenceDeferred finds the deferred attempt of an event. Token 0 means the newest attempt.
func (r *Run) fenceDeferred(ev *Event) (*task, Verdict) {
	if ev.Task < 0 || int(ev.Task) >= len(r.tasks) {
		return nil, NoSuchTask
	}
	p := &r.tasks[ev.Task]
	l := r.Graph.Logic(ev.Task)
	switch {
	case l == nil || l.Kind != ev.Of:
		return nil, WrongState
	case ev.Token != 0 && ev.Token != p.token:
		return nil, Stale
	case p.state == Deferred:
		return p, Accepted
	case p.state.Terminal() && p.token != 0:
		return nil, Duplicate
	}
	return nil, WrongState
}

// arm stores the event for which a deferred task waits.
func (r *Run) arm(ev *Event, now Now, fx *Effects) Verdict {
	p, v := r.fenceDeferred(ev)
	if v != Accepted {
		return v
	}
	if ev.Of == Foreach {
		return r.splitForeach(ev, p, now, fx)
	}
	a := &r.slots[p.slot-1]
	if a.Started != 0 {
		return Duplicate
	}
	r.touch(p.slot - 1)
	a.Started = max(now.Wall, a.Assigned)
	a.Signal = ev.Child.String()
	if ev.Of == Wait {
		a.RetryAt, a.RetryWait = max(ev.Due, 1), max(micros(ev.Due-now.Wall), 0)
		r.expect(&a.AttemptRow, now, fx)
	}
	r.record(Record{Kind: RecStarted, Task: ev.Task, Token: p.token, Text: ev.Reason})
	if ev.Of == Call && r.Intent == IntentPause {
		r.tell(&a.AttemptRow, ev.Reason, fx)
	}
	return Accepted
}

// conclude settles a deferred task: its event has happened, or can never happen.
func (r *Run) conclude(ev *Event, now Now, fx *Effects) Verdict {
	p, v := r.fenceDeferred(ev)
	if v != Accepted {
		return v
	}
	if ev.Of == Foreach && !r.joined(ev) {
		return Stale
	}
	a := &r.slots[p.slot-1]
	if ev.Of == Call && a.Started != 0 { // only the end of the current child run has an effect
		if is, ok := ChildOf(&a.AttemptRow); !ok || is.Run != ev.Child.Run || ev.Child.Generation < is.Generation {
			return Stale
		}
	}
	pol := r.Graph.Policy(ev.Task)
	overdue := a.Cause == CauseTimeout && !pol.WarnOnTimeout
	res := r.bounded(ev.Task, &ev.Result)
	a = r.endLogical(p, now)
	switch {
	case res.State == AttemptStopped && r.Intent >= IntentStop:
		r.stopLogical(ev.Task, a)
	case overdue:
		why := "ran past its timeout of " + pol.Timeout.String()
		if res.Message != "" {
			why += ": " + res.Message
		}
		r.failLogical(ev.Task, a, CauseTimeout, why)
	case res.State == AttemptSucceeded:
		a.State, a.Cause, a.Message, a.Outputs = AttemptSucceeded, res.Cause, res.Message, res.Outputs
		weigh(r, res)
		r.record(Record{Kind: RecEnded, Task: ev.Task, Token: a.Token, State: Succeeded, Actor: ev.Actor, Text: string(a.Cause), Reason: ev.Reason})
		r.succeed(ev.Task, a)
	default:
		if a.Outputs = res.Outputs; ev.Actor != "" {
			r.record(Record{Kind: RecState, Task: ev.Task, Actor: ev.Actor, Text: string(res.Cause), Reason: ev.Reason})
		}
		r.failLogical(ev.Task, a, res.Cause, res.Message)
	}
	r.settleRun(now, fx)
	return Accepted
}

// deferredDue acts on the timer of a deferred task. It returns false if the timer no longer has an effect.
func (r *Run) deferredDue(t TaskID, p *task, now Now, fx *Effects) bool {
	a := &r.slots[p.slot-1]
	l, pol := r.Graph.Logic(t), r.Graph.Policy(t)
	if a.RetryAt == 0 || a.Cause == CauseTimeout {
		return false
	}
	if l.Kind == Wait {
		a = r.endLogical(p, now)
		a.State = AttemptSucceeded
		r.recordEnd(a, Succeeded)
		r.succeed(t, a)
		return true
	}
	r.record(Record{Kind: RecTimeout, Task: t, Token: p.token})
	_, started := ChildOf(&a.AttemptRow)
	if pol.WarnOnTimeout || started {
		a.Cause = CauseTimeout
		r.touch(p.slot - 1)
		if !pol.WarnOnTimeout { // otherwise the task fails when its child has ended
			child, _ := ChildOf(&a.AttemptRow)
			fx.Orders = append(fx.Orders, Order{Run: r.ID, Task: t, Child: child, Intent: IntentStop, Reason: "timeout of task " + r.Graph.Name(t)})
		}
		return true
	}
	a = r.endLogical(p, now)
	why := "waited for " + pol.Timeout.String() + " in vain"
	if r.Graph.Kind(t) == Approval {
		why = "no decision was made within " + pol.Timeout.String()
	}
	r.failLogical(t, a, CauseTimeout, why)
	return true
}

// stopLogical ends a deferred task because of a stop.
func (r *Run) stopLogical(t TaskID, a *attempt) {
	if r.Cause == CauseNoRetake { // such a run ends with failed tasks only
		a.State, a.Cause = AttemptFailed, CauseNoRetake
		r.recordEnd(a, Failed)
		r.failTask(t, "")
		return
	}
	a.State, a.Cause = AttemptStopped, r.Cause
	r.recordEnd(a, Stopped)
	r.moveTask(t, Stopped)
}

// decreeDeferred ends a deferred task as an operator has decided. The child run of a call is stopped, but the
// task does not wait for the child.
func (r *Run) decreeDeferred(ev *Event, p *task, now Now, fx *Effects) {
	t := ev.Task
	a := &r.slots[p.slot-1]
	if child, ok := ChildOf(&a.AttemptRow); ok {
		fx.Orders = append(fx.Orders, Order{Run: r.ID, Task: t, Child: child, Intent: IntentStop, Reason: byOperator("task "+r.Graph.Name(t)+" "+ev.Mark.past(), ev)})
	}
	a = r.endLogical(p, now)
	var state TaskState
	state, a.State, a.Cause = ev.Mark.end()
	a.Message = byOperator(ev.Mark.past(), ev)
	if state == Succeeded {
		a.Outputs = ev.Outputs
		r.keepOutputs(t, ev.Outputs)
	}
	r.record(Record{Kind: RecEnded, Task: t, Token: a.Token, State: state, Actor: ev.Actor, Text: string(a.Cause), Reason: ev.Reason})
	r.moveTask(t, state)
	p.halted = state == Stopped
}

// endDeferred applies a stop to deferred tasks. They end at once, except calls: their child runs get the
// order to stop.
func (r *Run) endDeferred(now Now, fx *Effects) {
	for t := 0; t < len(r.tasks) && r.deferred > 0; t++ {
		p := &r.tasks[t]
		if p.state != Deferred {
			continue
		}
		a := &r.slots[p.slot-1]
		if _, started := ChildOf(&a.AttemptRow); started {
			r.tell(&a.AttemptRow, "", fx)
			continue
		}
		if r.Graph.Kind(TaskID(t)) == Foreach && a.Started != 0 { // the foreach task ends when its instances have ended
			continue
		}
		r.stopLogical(TaskID(t), r.endLogical(p, now))
	}
}

// tellChildren passes the run's intent on to every child run.
func (r *Run) tellChildren(fx *Effects) {
	for t := 0; t < len(r.tasks) && r.deferred > 0; t++ {
		if p := &r.tasks[t]; p.state == Deferred {
			r.tell(&r.slots[p.slot-1].AttemptRow, "", fx)
		}
	}
}

// Remind orders the child run of a call again to end, because a person may have resumed the child since the
// first order.
func (r *Run) Remind(t TaskID, fx *Effects) {
	if a := r.Attempt(t); a != nil && r.Intent >= IntentStop {
		r.tell(a, "", fx)
	}
}

func (r *Run) tell(a *AttemptRow, why string, fx *Effects) {
	child, ok := ChildOf(a)
	if !ok {
		return
	}
	if why == "" {
		why = "its parent, run " + r.ID.String() + ", is told to " + r.Intent.String()
	}
	fx.Orders = append(fx.Orders, Order{Run: r.ID, Task: a.Task, Child: child, Intent: r.Intent, Reason: why})
}

// suspend moves the run between running and suspended. A run is suspended while some of its tasks wait
// for something outside the run, and nothing else in it is under way: no task runs, is ready or waits for a
// retry, no foreach computes, and no condition is being evaluated.
func (r *Run) suspend(yes bool) {
	switch {
	case yes && r.State == RunRunning:
		r.moveRun(RunSuspended)
	case !yes && r.State == RunSuspended:
		r.moveRun(RunRunning)
	default:
		return
	}
	r.record(Record{Kind: RecState, Task: LeaderTask, Text: r.State.String()})
}

// Deferred calls f for every deferred attempt, in the order of the tasks.
func (r *Run) Deferred(f func(a *AttemptRow)) {
	for t := 0; t < len(r.tasks) && r.deferred > 0; t++ {
		if p := &r.tasks[t]; p.state == Deferred {
			f(&r.slots[p.slot-1].AttemptRow)
		}
	}
}

// Attempt returns the newest attempt of a deferred task, or nil if the task is not deferred.
func (r *Run) Attempt(t TaskID) *AttemptRow {
	if t < 0 || int(t) >= len(r.tasks) || r.tasks[t].state != Deferred {
		return nil
	}
	return &r.slots[r.tasks[t].slot-1].AttemptRow
}
