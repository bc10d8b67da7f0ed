package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// An errand releases the handle of an ended attempt. It is a run of the built-in workflow system/release. So
// like any other task, it needs a slot, its attempts are fenced, and it is tried again. The transaction that
// ends the attempt sends the start of the errand. The transaction that ends the errand sends its end back.
// Both use the letters of calls. The id of the errand is computed from the attempt, so a start that arrives
// twice makes one run.

// ReleaseName is the name of the built-in workflow whose runs are errands. ReleaseTask is its task.
const (
	ReleaseName = "release"
	ReleaseTask = "release"
)

// ErrandParams are the parameters of an errand's run.
type ErrandParams struct {
	Run    dag.RunID  `json:"run"`
	Task   dag.TaskID `json:"task"`
	Name   string     `json:"name"` // name of the task
	Token  dag.Token  `json:"token"`
	Handle string     `json:"handle"`
}

// The policy of an errand. The errand continues after its run has stopped waiting for it: its last attempt
// begins about an hour and a half after the first.
const (
	errandTries    = 100
	errandDelay    = time.Second
	errandDelayMax = time.Minute
	errandTimeout  = 5 * time.Minute // timeout of one attempt of an errand
)

// errandEnd informs a run that the errand for one of its handles has ended.
type errandEnd struct {
	Run   dag.RunID  `json:"run"`
	Task  dag.TaskID `json:"task"`
	Token dag.Token  `json:"token"`
	Why   string     `json:"why,omitempty"` // why the handle was not released; "" if it was released
}

// errands sends the starts of the errands that the steps of this transaction have made.
func (c *calls) errands() error {
	for i := 0; i < len(c.txn().fx.Errands); i++ {
		e := &c.txn().fx.Errands[i]
		if r := c.inMemory()[e.Attempt.Run]; r != nil {
			if err := c.errand(r, e); err != nil {
				return err
			}
		}
	}
	c.txn().fx.Errands = c.txn().fx.Errands[:0]
	return nil
}

func (c *calls) errand(r *dag.Run, e *dag.Errand) error {
	id, err := c.defs.releasing()
	if err != nil {
		return err
	}
	if id == 0 {
		c.later(*e)
		return nil
	}
	start, err := c.errandStart(&r.Header, r.Graph, r.Place(e.Attempt.Task), e)
	if err != nil {
		return err
	}
	return c.sendChild(letter{Child: &childLetter{Workflow: id, Start: start}})
}

// errandStart makes the start of an errand for a handle of a run. place is the placement of the handle's
// task. The workflow of errands must exist.
func (c *calls) errandStart(of *dag.Header, graph *dag.Graph, place dag.Place, e *dag.Errand) (*childStart, error) {
	wf, err := c.defs.workflow(c.defs.release)
	if err != nil {
		return nil, err
	}
	task := e.Attempt.Task
	g, err := dag.NewGraph(dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: ReleaseTask, Policy: dag.Policy{
		Retry:   dag.Retry{Max: errandTries, Delay: errandDelay, Backoff: 2, MaxDelay: errandDelayMax, Jitter: 0.2},
		Timeout: errandTimeout, KillGrace: graph.Policy(task).KillGrace, Priority: dag.High, Place: place}}}})
	if err != nil {
		return nil, err
	}
	params, err := json.Marshal(ErrandParams{Run: of.ID, Task: task, Name: graph.Name(task), Token: e.Attempt.Token, Handle: e.Handle})
	if err != nil {
		return nil, err
	}
	fire := dag.Fire{Instant: of.Instant(), Key: strconv.FormatInt(int64(e.Attempt.Token), 10),
		Parent: &dag.Parent{Task: task, Line: []dag.Ancestor{{Run: of.ID, Workflow: of.Workflow}}}}
	return &childStart{Run: dag.ChildID(&e.Attempt), Generation: 1, Workflow: wf.ID, Version: wf.Version, Priority: dag.High,
		User: "skein", Params: params, Fire: fire.Pack(), Graph: g.Pack()}, nil
}

// releasePause is the pause between two searches for the workflow of errands. releaseLogged is the pause
// between two log lines with the same cause.
const (
	releasePause  = time.Second
	releaseLogged = 10 * time.Minute
)

// hindrance combines the log lines that say why there is no workflow of errands.
type hindrance struct {
	mu    sync.Mutex // protects following fields
	cause string     // the cause in the last line; "" if there is none
	at    time.Time  // the time of the last line
	times int        // failures since then
}

// count counts a failure. It returns 0 if no line must be logged now, and otherwise the number of failures
// that the line covers.
func (h *hindrance) count(cause string, now time.Time) (times int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cause != h.cause {
		h.cause, h.at, h.times = cause, now, 0
		return 1
	}
	if h.times++; now.Sub(h.at) < releaseLogged {
		return 0
	}
	times, h.at, h.times = h.times, now, 0
	return times
}

func (h *hindrance) over() {
	h.mu.Lock()
	h.cause = ""
	h.mu.Unlock()
}

// later makes the workflow of errands, which is missing before the first errand, and then starts the errand.
func (c *calls) later(e dag.Errand) {
	c.helper(func(ctx context.Context) {
		for ctx.Err() == nil { // if this process ends before, the next owner of the run sends the errand
			if err := c.makeErrands(ctx); err != nil {
				if times := c.hindrance.count(err.Error(), c.host.Now()); times > 0 {
					c.log.Warn("a handle cannot be released yet, because the workflow system/release does not exist", "code", "release_missing",
						"run", e.Attempt.Run.String(), "task", e.Attempt.Task, "handle", e.Handle, "times", times, "err", err)
				}
			} else {
				c.hindrance.over()
				if _, err = c.inbox.send(ctx, c.again(e)); !errors.Is(err, errkind.ErrUnavailable) && !errors.Is(err, errkind.ErrBusy) {
					return
				}
			}
			c.host.Await(ctx, nil, releasePause)
		}
	})
}

// makeErrands makes the workflow of errands, unless it exists.
func (c *calls) makeErrands(ctx context.Context) error {
	if c.makeRelease != nil {
		if err := c.makeRelease(ctx); err != nil {
			return err
		}
	}
	_, err := c.store.Workflow(ctx, SystemNamespace, ReleaseName)
	return err
}

// again makes an item that starts an errand, unless its handle was released meanwhile. Starting the errand
// twice does no harm. If its run has ended meanwhile, the handle is an orphan.
func (c *calls) again(e dag.Errand) item {
	return item{op: func(w *writer) answer {
		r := c.inMemory()[e.Attempt.Run]
		if r == nil {
			var err error
			if r, err = c.revive(e.Attempt.Run); err != nil {
				return answer{err: err}
			}
			defer func() {
				if r.Pending() == 0 {
					delete(c.inMemory(), r.ID)
				}
			}()
		}
		if !r.Leaves(e.Attempt.Task, e.Attempt.Token) {
			return answer{}
		}
		err := c.errand(r, &e)
		if err != nil {
			w.broken(err)
		}
		return answer{err: err}
	}}
}

// startErrand makes the run of an errand, with its own graph.
func (c *calls) startErrand(r *dag.Run, s *childStart) error {
	g, err := dag.UnpackGraph(s.Graph, nil)
	if err != nil {
		c.log.Error("the graph of an errand cannot be read, so its handle is not released; update all nodes to one version", "code", "errand_invalid", "run", s.Run.String(), "err", err)
		g = nil
	}
	return c.addRun(r, true, g)
}

// tellReleased informs a run that the errand for one of its handles has ended.
func (c *calls) tellReleased(r *dag.Run) error {
	up, task := r.Parent().Up(), r.Parent().Task
	token, err := strconv.ParseInt(r.Fire.Key, 10, 64)
	if err != nil {
		return nil // another version of the program made this run, with another form of key
	}
	end := errandEnd{Run: up.Run, Task: task, Token: dag.Token(token)}
	if r.State != dag.RunSucceeded {
		end.Why = clean("run " + r.ID.String() + " is " + r.State.String() + ": " + r.Message)
	}
	return c.sendChild(letter{Child: &childLetter{Workflow: up.Workflow, Released: &end}})
}

// hearReleased applies the end of an errand to its run. If that run has ended, its handle was an orphan.
func (c *calls) hearReleased(s *errandEnd) error {
	it := item{run: s.Run, ev: &dag.Event{Kind: dag.EvReleased, Task: s.Task, Token: s.Token, Reason: s.Why}}
	if c.inMemory()[s.Run] != nil {
		return c.event(&it).err
	}
	if s.Why != "" {
		return nil
	}
	r, err := c.revive(s.Run)
	if errors.Is(err, errkind.ErrUnavailable) {
		return err
	}
	if err != nil {
		return nil // the run was deleted, or cannot be read
	}
	c.stepEnded(r, *it.ev)
	return nil
}

// stepEnded applies the end of an errand to a run that has already ended. The event has no further
// consequences.
func (c *calls) stepEnded(r *dag.Run, ev dag.Event) {
	tx := c.txn()
	tx.current = r
	r.Step(&ev, tx.now, &tx.fx)
	if r.Pending() == 0 {
		delete(c.inMemory(), r.ID)
	} else if tx.mark(r) {
		tx.touched = append(tx.touched, r)
	}
	tx.current = nil
}

// tellOrphans notifies the operator of handles for whose release a run no longer waits.
func tellOrphans(e *Engine, all []dag.Orphan) {
	for _, o := range all {
		e.stats.Orphans.Add(1)
		e.log.Error("work outside of a task's process was not released; end it by hand, then run skein task dismiss", "code", "handle_orphaned",
			"run", o.Run.String(), "task", o.Task, "token", o.Token, "handle", o.Handle, "why", o.Why)
	}
}

// releasing returns the workflow of errands. It returns 0 if this workflow does not exist yet.
func (d *definitions) releasing() (dag.WorkflowID, error) {
	if d.release == 0 {
		wf, err := d.store.Workflow(context.Background(), SystemNamespace, ReleaseName)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return 0, errkind.FromStore("read workflow system/release", err)
		}
		d.release = wf.ID
	}
	return d.release, nil
}

// isErrand reports whether a run is an errand.
func (c *calls) isErrand(workflow dag.WorkflowID) bool {
	return c.defs.release != 0 && workflow == c.defs.release
}
