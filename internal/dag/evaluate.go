package dag

import "errors"

// StepCostMax bounds the cost, in units, of evaluating one condition inside a step. A costlier condition is
// evaluated outside of the step, and EvEvaluated brings its result. A condition counts its own units, and the
// same condition with the same view costs the same on every node.
const StepCostMax = 10_000

// ErrCostly says that a condition must be evaluated outside of the step. A condition returns it if it costs
// more than StepCostMax and its view is Light. Effects.Evaluate returns it if the owner does not want to
// evaluate the condition within this step. The result is the same outside of the step.
var ErrCostly = errors.New("the condition costs more than a step may take")

// Evaluation is a condition that a step did not evaluate. The run's owner evaluates it and answers with
// EvEvaluated. After a load, the run requests the evaluation again.
type Evaluation struct {
	Run        RunID
	Generation int32
	Task       TaskID
	Branch     int32 // the branch of a switch, or OwnIf for the task's own if
	Condition  Condition
	View       View // a copy, which any goroutine may read
}

// OwnIf is the branch of a task's own if.
const OwnIf int32 = -1

// Evaluated is the result of an Evaluation.
type Evaluated struct {
	Task   TaskID
	Branch int32
	Holds  bool
	Err    error // the error of Condition.Holds
}

// Do evaluates the condition, whatever the cost.
func (e *Evaluation) Do() Evaluated {
	holds, err := e.Condition.Holds(e.View)
	return Evaluated{Task: e.Task, Branch: e.Branch, Holds: holds, Err: err}
}

// outside completes an Evaluation with a copy of the values that the condition reads.
func (e Evaluation) outside(v View) Evaluation {
	type end struct {
		state   TaskState
		outputs []byte
	}
	ends := map[string]end{}
	for _, name := range e.Condition.Reads().Tasks {
		state, outputs := v.Task(name)
		ends[name] = end{state, outputs}
	}
	v.Light = false
	v.Task = func(name string) (TaskState, []byte) { return ends[name].state, ends[name].outputs }
	e.View = v
	return e
}

// evaluate evaluates a condition inside a step. It returns ErrCostly if the condition must be evaluated
// outside of the step.
func (fx *Effects) evaluate(c Condition, v View) (bool, error) {
	v.Light = true
	if fx.Evaluate == nil {
		return c.Holds(v)
	}
	return fx.Evaluate(c, v)
}

// question is a condition of a run that is evaluated outside of its steps.
type question struct {
	branch   int32
	answered bool
	answer   Evaluated
}

// holds evaluates a condition of a task, or uses the result of an evaluation outside of the step. It returns
// ErrCostly if there is no result yet.
func (r *Run) holds(t TaskID, branch int32, c Condition, v View) (bool, error) {
	for _, q := range r.questions[t] {
		switch {
		case q.branch != branch:
		case q.answered:
			return q.answer.Holds, q.answer.Err
		default:
			return false, ErrCostly
		}
	}
	holds, err := r.fx.evaluate(c, v)
	if errors.Is(err, ErrCostly) {
		r.ask(Evaluation{Run: r.ID, Generation: r.Generation, Task: t, Branch: branch, Condition: c}.outside(v))
	}
	return holds, err
}

func (r *Run) ask(e Evaluation) {
	if r.questions == nil {
		r.questions = map[TaskID][]question{}
	}
	r.questions[e.Task] = append(r.questions[e.Task], question{branch: e.Branch})
	r.asking++
	r.fx.Evaluations = append(r.fx.Evaluations, e)
}

// open reports whether a condition of the task is being evaluated outside of the steps.
func (r *Run) open(t TaskID) bool {
	for _, q := range r.questions[t] {
		if !q.answered {
			return true
		}
	}
	return false
}

// dropQuestions forgets the conditions of a task that has been decided.
func (r *Run) dropQuestions(t TaskID) {
	if len(r.questions) == 0 {
		return
	}
	for _, q := range r.questions[t] {
		if !q.answered {
			r.asking--
		}
	}
	delete(r.questions, t)
}

// Stirs reports whether the run would change in a step without a new event. This can be so after a load,
// because the load may use results of conditions that the previous owner did not have.
func (r *Run) Stirs() bool {
	return r.Unfinished() && r.Intent == IntentRun && r.State != RunWaiting && r.SplitAt != 0 && (len(r.logical) > 0 || r.failedEnough())
}

// Evaluating reports whether a condition of the run is being evaluated outside of its steps.
func (r *Run) Evaluating() bool { return r.asking > 0 }

// evaluated stores the results of conditions and decides the tasks that waited for them. A condition reads
// only ended tasks, so its result cannot change within a generation.
func (r *Run) evaluated(ev *Event, now Now, fx *Effects) Verdict {
	if ev.Generation != r.Generation {
		return Stale
	}
	took := false
	for _, got := range ev.Evaluated {
		qs := r.questions[got.Task]
		for i := range qs {
			if qs[i].branch != got.Branch || qs[i].answered {
				continue
			}
			qs[i].answered, qs[i].answer, took = true, got, true
			r.asking--
			if got.Branch == OwnIf && r.tasks[got.Task].state == Pending {
				r.decide(got.Task)
			}
			break
		}
	}
	if !took {
		return Duplicate
	}
	r.settleRun(now, fx)
	return Accepted
}

// choice is the branch that a switch takes. why is the error of a condition.
type choice struct{ then, why string }

// chooses returns the first branch of a switch whose condition holds. It returns ErrCostly if the result of a
// condition is missing.
func (r *Run) chooses(t TaskID) (choice, error) {
	l := r.Graph.Logic(t)
	if l.Kind != Switch {
		return choice{}, nil
	}
	if r.open(t) {
		return choice{}, ErrCostly
	}
	needs := r.Graph.needs.of(t)
	failure, success := false, len(needs) == 0
	for _, n := range needs {
		failure = failure || r.failedAt(n)
		success = success || r.stateOf(n) == Succeeded
	}
	view := viewOf(r.Graph, r.Params, success && !failure, failure, r)
	for i := range l.Branches {
		b := &l.Branches[i]
		if b.If == nil {
			return choice{then: b.Then}, nil
		}
		holds, err := r.holds(t, int32(i), b.If, view)
		switch {
		case errors.Is(err, ErrCostly):
			return choice{}, err
		case err != nil:
			return choice{why: "the branch to " + b.Then + ": " + err.Error()}, nil
		case holds:
			return choice{then: b.Then}, nil
		}
	}
	return choice{}, nil
}
