package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// A call starts a run of another workflow and waits for its end. Parent and child may be in different shards,
// so they communicate by messages. If a transaction decides something about the other run, it also writes
// that decision. It writes a message row or, if this node owns the other run, too, a step of that run.
//
//   - The parent's attempt names its child before the child exists: the transaction of the parent's shard
//     that writes the name also sends the start. The child's id is derived from the attempt, so a start
//     message that arrives twice makes one run.
//   - The end of a child makes the parent's owner read the child's rows and settle the call with them. A
//     reload of the parent does the same, so the message about the end may be lost.

// childLetter is a message to the owner of a child run or of a parent run.
type childLetter struct {
	Workflow dag.WorkflowID `json:"workflow"` // the workflow of the run that the message is about
	Start    *childStart    `json:"start,omitempty"`
	Order    *childOrder    `json:"order,omitempty"`
	Look     *childLook     `json:"look,omitempty"`
	Released *errandEnd     `json:"released,omitempty"`
}

// childStart requests a child run, or a further generation of an existing child run.
type childStart struct {
	Run        dag.RunID      `json:"run"`
	Generation int32          `json:"generation"` // 1 requests a new run
	Workflow   dag.WorkflowID `json:"workflow"`
	Version    int32          `json:"version"`
	Priority   dag.Priority   `json:"priority"`
	User       string         `json:"user"`
	Params     []byte         `json:"params"`
	Fire       []byte         `json:"fire"`            // packed, without tags
	Tags       dag.Tags       `json:"tags,omitempty"`  // the caller's tags; nodes of earlier versions ignore them
	Graph      []byte         `json:"graph,omitempty"` // packed, for the run of an errand
}

func (s *childStart) child() dag.Child {
	return dag.Child{Run: s.Run, Generation: s.Generation, Workflow: s.Workflow}
}

// childOrder makes the owner of a child run apply a verb that the parent has received: stop, kill, pause or
// resume.
type childOrder struct {
	Run    dag.RunID  `json:"run"`
	Intent dag.Intent `json:"intent"`
	Reason string     `json:"reason"`
}

// childLook informs a parent's owner that a child has ended.
type childLook struct {
	Run  dag.RunID  `json:"run"`
	Task dag.TaskID `json:"task"`
}

// childOf chooses the run for a call: the run of an earlier attempt, if that run can continue, or a new run.
func (c *calls) childOf(ctx context.Context, row *dag.RunRow, a *dag.AttemptRow, is *Prepared) (*childStart, error) {
	line, err := lineOf(row, is)
	if err != nil {
		return nil, err
	}
	fire := dag.Fire{Instant: row.Instant(), Parent: &dag.Parent{Task: a.Task, Line: line}}
	if of := row.Fire; of != nil {
		fire.FailLost, fire.Trace = of.FailLost, of.Trace
	}
	s := &childStart{Run: dag.ChildID(a), Generation: 1, Workflow: is.Workflow, Version: is.Version, Priority: is.Priority,
		User: row.User, Params: is.Params, Fire: fire.Pack(), Tags: row.Tags()}
	before, err := c.reads.Begun(ctx, row.ID, a.Task)
	if err != nil {
		return nil, err
	}
	for i := len(before) - 1; i >= 0; i-- {
		child, ok := dag.ChildOf(&before[i])
		if !ok {
			continue
		}
		was, err := c.store.Run(ctx, child.Run)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, errkind.FromStore("read run "+child.Run.String(), err)
		}
		same, err := c.sameVersion(ctx, &was, is)
		switch {
		case err != nil:
			return nil, err
		case !same || !sameGiven(was.Params, is):
		case !was.State.Terminal():
			s.Run, s.Generation = was.ID, was.Generation
		case (was.State == dag.RunFailed || was.State == dag.RunStopped) && was.SplitAt != 0 && was.Cause != dag.CauseCorrupt:
			s.Run, s.Generation = was.ID, was.Generation+1
		}
		break
	}
	return s, nil
}

// sameVersion reports whether a run has the version that a call wants. For a workflow of emitted tasks it
// compares the content and not the version number: if other tasks were emitted in between, the same tasks
// have another number.
func (c *calls) sameVersion(ctx context.Context, was *dag.RunRow, is *Prepared) (bool, error) {
	if was.Workflow != is.Workflow || !is.Exact || was.Version == is.Version {
		return was.Workflow == is.Workflow, nil
	}
	a, err := c.reads.Version(ctx, was.Workflow, was.Version)
	if err != nil {
		return false, err
	}
	b, err := c.reads.Version(ctx, is.Workflow, is.Version)
	return err == nil && bytes.Equal(a.Digest, b.Digest), err
}

// sameGiven reports whether a run has the parameters that a call would pass now. They may differ because a
// task that the call reads ran again, or because another item now has the index of an instance.
func sameGiven(params []byte, is *Prepared) bool {
	var was, now map[string]json.RawMessage
	if len(is.Given) == 0 {
		return true
	}
	if json.Unmarshal(params, &was) != nil || json.Unmarshal(is.Params, &now) != nil {
		return false
	}
	return !slices.ContainsFunc(is.Given, func(name string) bool { return !bytes.Equal(was[name], now[name]) })
}

// lineOf returns the ancestors of a child of the run. It returns an error if the child's workflow is already
// among them, because that workflow would call itself without end.
func lineOf(row *dag.RunRow, is *Prepared) ([]dag.Ancestor, error) {
	var line []dag.Ancestor
	if p := row.Parent(); p != nil {
		line = append(line, p.Line...)
	}
	line = append(line, dag.Ancestor{Run: row.ID, Workflow: row.Workflow})
	for _, a := range line {
		if a.Workflow == is.Workflow {
			return nil, fmt.Errorf("%w: workflow %s calls itself: run %s of it waits for this one", errkind.ErrInvalid, is.Name, a.Run)
		}
	}
	if len(line) > dag.LineMax {
		return nil, fmt.Errorf("%w: calls are nested %d deep; at most %d levels are allowed", errkind.ErrInvalid, len(line), dag.LineMax)
	}
	return line, nil
}

// sendChild sends a message to the owner of a run. If the run is owned here, the message is applied at once.
func (c *calls) sendChild(l letter) error {
	wf, err := c.defs.workflow(l.Child.Workflow)
	if err != nil {
		return err
	}
	if c.held(wf.Shard) == nil {
		c.txn().letters[wf.Shard] = append(c.txn().letters[wf.Shard], l)
		return nil
	}
	if c.shardCount() > 1 { // the next owner may have a row that this process has not read, so the transaction needs the fence
		c.txn().addressed = append(c.txn().addressed, wf.Shard)
	}
	return c.hearChild(l.Child)
}

// hearChild applies a message about a run that is owned here.
func (c *calls) hearChild(l *childLetter) error {
	switch {
	case l.Start != nil && l.Start.Generation > 1:
		return c.recoverChild(l.Start)
	case l.Start != nil:
		return c.startChild(l.Start)
	case l.Released != nil:
		return c.hearReleased(l.Released)
	case l.Order != nil:
		it := item{run: l.Order.Run, ev: &dag.Event{Kind: dag.EvIntent, Intent: l.Order.Intent, Task: dag.LeaderTask, Actor: "skein", Reason: clean(l.Order.Reason)}}
		return c.event(&it).err // as after a verb of a person, the run may have to wait for its claim again
	case l.Look != nil:
		if r := c.inMemory()[l.Look.Run]; r != nil {
			if a := r.Attempt(l.Look.Task); a != nil {
				c.txn().fx.Prepares = append(c.txn().fx.Prepares, dag.Prepare{Run: r.ID, Task: a.Task, Token: a.Token, Kind: dag.Call})
			}
		}
	}
	return nil
}

// startChild makes the run of a call, unless the run exists.
func (c *calls) startChild(s *childStart) error {
	if c.inMemory()[s.Run] != nil {
		return nil
	}
	switch _, err := c.store.Run(context.Background(), s.Run); {
	case err == nil:
		return nil
	case !errors.Is(err, store.ErrNotFound):
		return errkind.FromStore("look for the run", err)
	}
	wf, err := c.defs.workflow(s.Workflow)
	if err != nil {
		return err
	}
	fire, err := dag.UnpackFire(s.Fire)
	if err != nil {
		return err
	}
	fire.Tags = wf.Tags.With(s.Tags)
	r := dag.NewRun(dag.Header{ID: s.Run, Shard: wf.Shard, Workflow: wf.ID, Version: s.Version, Priority: s.Priority,
		Origin: dag.OriginParent, User: s.User, Params: s.Params, Fire: fire, Created: c.txn().now.Wall})
	if s.Graph != nil {
		return c.startErrand(r, s)
	}
	if over, err := c.limits.quotas.turnAway(r); over || err != nil {
		return err
	}
	if err := c.addRun(r, true, nil); err != nil {
		return err
	}
	c.limits.quotas.checked(r)
	return c.catchUp(r)
}

// catchUp applies the parent's present intent to a run that a call has started. An order may arrive before
// the start and find no run, because the start is a message if another node owned the child's shard. The
// sender of an order has either committed the parent's intent, or has it in this memory. So catchUp finds the
// intent of an order that came too early.
func (c *calls) catchUp(r *dag.Run) error {
	up, task := r.Parent().Up(), r.Parent().Task
	intent, a := dag.IntentRun, (*dag.AttemptRow)(nil)
	if p := c.inMemory()[up.Run]; p != nil {
		intent, a = p.Intent, p.Attempt(task)
	} else {
		row, err := c.store.Run(context.Background(), up.Run)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return errkind.FromStore("read the parent of run "+r.ID.String(), err)
		}
		all, err := c.reads.Begun(context.Background(), up.Run, task)
		if err != nil {
			return err
		}
		if n := len(all); n > 0 && all[n-1].State == dag.AttemptDeferred {
			intent, a = row.Intent, &all[n-1]
		}
	}
	o := dag.Order{Run: up.Run, Task: task, Intent: intent, Child: dag.Child{Run: r.ID, Generation: r.Generation, Workflow: r.Workflow},
		Reason: "its parent, run " + up.Run.String() + ", is told to " + intent.String()}
	var awaited dag.Child
	if a != nil {
		awaited, _ = dag.ChildOf(a)
	}
	if awaited.Run != r.ID {
		o.Intent, o.Reason = max(intent, dag.IntentStop), "its parent, run "+up.Run.String()+", no longer waits for it"
	}
	if o.Intent != dag.IntentRun {
		c.txn().fx.Orders = append(c.txn().fx.Orders, o)
	}
	return nil
}

// recoverChild begins the generation of a child for which its parent's call waits.
func (c *calls) recoverChild(s *childStart) error {
	r := c.inMemory()[s.Run]
	if r == nil {
		var err error
		if r, err = c.revive(s.Run); errors.Is(err, errkind.ErrUnavailable) {
			return err
		} else if err != nil {
			c.log.Error("a called run cannot be recovered; recover it with skein run recover", "code", "call_not_recovered", "run", s.Run.String(), "err", err)
			return nil
		}
	}
	if r.State.Terminal() && r.Generation < s.Generation { // the run waits for its claim again
		it := item{run: s.Run, ev: &dag.Event{Kind: dag.EvRecover, Task: dag.LeaderTask, Actor: "skein", Reason: "its parent was recovered"}}
		if a := c.step(&it, r); a.err != nil {
			return a.err
		}
		if c.isErrand(r.Workflow) { // no task waits for an errand
			c.touch(r)
		} else if err := c.catchUp(r); err != nil {
			return err
		}
	}
	if r.Unfinished() && r.Gate == gateNone {
		c.limits.count(r)
	}
	if r.Pending() > 0 {
		c.touch(r)
	} else if !r.Unfinished() {
		delete(c.inMemory(), r.ID)
	}
	return nil
}

// orders sends the orders to child runs that the steps of this transaction have made.
func (c *calls) orders() error {
	for i := 0; i < len(c.txn().fx.Orders); i++ {
		o := c.txn().fx.Orders[i]
		l := letter{Child: &childLetter{Workflow: o.Child.Workflow, Order: &childOrder{Run: o.Child.Run, Intent: o.Intent, Reason: o.Reason}}}
		if err := c.sendChild(l); err != nil {
			return err
		}
	}
	c.txn().fx.Orders = c.txn().fx.Orders[:0]
	return nil
}

// tellParent makes the owner of the parent examine a child that has ended.
func (c *calls) tellParent(r *dag.Run) error {
	p := r.Parent()
	if p == nil {
		return nil
	}
	if c.isErrand(r.Workflow) {
		return c.tellReleased(r)
	}
	up := p.Up()
	return c.sendChild(letter{Child: &childLetter{Workflow: up.Workflow, Look: &childLook{Run: up.Run, Task: p.Task}}})
}

// ended turns the end of a child into the end of its call. It returns no item while the child runs. If the
// child runs although its parent is being ended, a person has resumed the child after the order, so ended
// sends the order again.
func (c *calls) ended(ctx context.Context, p *dag.Prepare, child dag.Child, parent *dag.RunRow) (item, error) {
	row, err := c.store.Run(ctx, child.Run)
	if errors.Is(err, store.ErrNotFound) {
		return item{}, nil // the message that starts the run has not arrived yet
	}
	if err != nil {
		return item{}, errkind.FromStore("read run "+child.Run.String(), err)
	}
	if !row.State.Terminal() || row.Generation < child.Generation {
		if parent.Intent < dag.IntentStop || row.Intent >= dag.IntentStop {
			return item{}, nil
		}
		return item{op: func(*writer) answer {
			if r := c.inMemory()[p.Run]; r != nil {
				r.Remind(p.Task, &c.txn().fx)
			}
			return answer{run: p.Run}
		}}, nil
	}
	res := dag.Result{State: dag.AttemptFailed, Cause: dag.CauseChild, Message: clean(endOf(&row))}
	switch row.State {
	case dag.RunSucceeded:
		res = dag.Result{State: dag.AttemptSucceeded}
		if res.Outputs, err = c.callOutputs(ctx, p, parent, &row); errors.Is(err, errkind.ErrUnavailable) {
			return item{}, err
		} else if err != nil {
			res = dag.Result{State: dag.AttemptFailed, Cause: dag.CauseOutput, Message: clean(err.Error())}
		}
	case dag.RunStopped:
		res.State = dag.AttemptStopped
	case dag.RunFailed:
		if row.Cause == dag.CauseQuota {
			res.Cause = dag.CauseQuota
		}
	}
	ev := dag.Event{Kind: dag.EvSettle, Task: p.Task, Token: p.Token, Of: dag.Call, Result: res,
		Child: dag.Child{Run: row.ID, Generation: row.Generation, Workflow: row.Workflow}}
	return item{op: func(*writer) answer { return c.stepOther(p.Run, &ev) }}, nil
}

func endOf(row *dag.RunRow) string {
	what := fmt.Sprintf("run %s is %s", row.ID, row.State)
	if row.Message != "" {
		what += ": " + row.Message
	}
	return what
}

// callOutputs returns the outputs of a call: the outputs of the last tasks of its run. A last task is one
// that no other task needs.
func (c *calls) callOutputs(ctx context.Context, p *dag.Prepare, parent, row *dag.RunRow) ([]byte, error) {
	g, err := c.graphs.Of(row)
	if err != nil {
		return nil, err
	}
	var last [][]byte
	for t := range dag.TaskID(g.Len()) {
		if _, instance := g.InstanceOf(t); instance || len(g.Dependents(t)) > 0 {
			continue
		}
		out, err := c.reads.Outputs(ctx, row.ID, t)
		if err != nil {
			return nil, err
		}
		if out != nil {
			last = append(last, out)
		}
	}
	if g, err = c.graphs.Of(parent); err != nil {
		return nil, err
	}
	out, err := c.preparer.Outputs(ctx, PrepareQuery{Row: parent, Graph: g, Task: p.Task, Token: p.Token}, last)
	if err == nil && len(out) > outputsMax {
		err = fmt.Errorf("%w: the outputs of run %s have %d bytes; at most %d are stored", errkind.ErrInvalid, row.ID, len(out), outputsMax)
	}
	return out, err
}
