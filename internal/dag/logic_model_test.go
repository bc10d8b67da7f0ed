package dag

import (
	"fmt"
	"time"

	"pgregory.net/rapid"
)

// drawLogic makes some tasks of a random graph logical ones.
func drawLogic(t *rapid.T, spec *GraphSpec) {
	for i := range spec.Tasks {
		task := &spec.Tasks[i]
		k := Kind(rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3, 4, 4, 5, 6, 6, 6}).Draw(t, "kind"))
		if k == Work || k == Switch && spec.EndOnFailure { // the chosen task may fail, and then it is chance which other tasks were chosen
			continue
		}
		task.Logic = &Logic{Kind: k}
		if k == Foreach {
			task.Logic.Parallel = int32(rapid.IntRange(0, 2).Draw(t, "parallel"))
			task.Logic.Collect = rapid.Bool().Draw(t, "collect")
			if rapid.IntRange(0, 2).Draw(t, "calls") == 0 {
				task.Logic.Each, task.Policy.Retry, task.Policy.Queue = &Logic{Kind: Call}, Retry{}, ""
			}
			continue
		}
		task.Policy.Retry = Retry{}
		switch k {
		case Wait:
			task.Policy.Timeout = 0
			if rapid.Bool().Draw(t, "for") {
				task.Logic.For = time.Hour
			}
		case Switch:
			task.Policy.Timeout = 0
			if task.Logic.Branches = drawBranches(t, spec, task); len(task.Logic.Branches) == 0 {
				task.Logic = nil
			}
		}
	}
}

// drawBranches chooses from the tasks that need a switch.
func drawBranches(t *rapid.T, spec *GraphSpec, s *TaskSpec) (all []Branch) {
	for i := range spec.Tasks {
		for _, need := range spec.Tasks[i].Needs {
			if need != s.Name || rapid.IntRange(0, 3).Draw(t, "branch") == 0 {
				continue
			}
			b := Branch{Then: spec.Tasks[i].Name}
			switch c := rapid.IntRange(0, 4).Draw(t, "when"); {
			case c == 0:
				b.If = cond("never()")
			case c == 1:
				b.If = cond("success()")
			case c == 2 && len(s.Needs) > 0:
				b.If = cond("status(" + s.Needs[0] + ")=succeeded")
			case c == 3 && len(s.Needs) > 0:
				b.If = cond("out(" + s.Needs[0] + ")=1")
			}
			all = append(all, b)
		}
	}
	return all
}

// dropBranches removes the conditions of a switch that reads tasks which it may not read.
func dropBranches(spec *GraphSpec, name string) bool {
	dropped := false
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.Name != name || t.Logic == nil {
			continue
		}
		for j := range t.Logic.Branches {
			dropped = dropped || t.Logic.Branches[j].If != nil
			t.Logic.Branches[j].If = nil
		}
	}
	return dropped
}

// noteLogical records the states that logical tasks have reached without events, after these were compared.
func (m *machine) noteLogical() {
	r := m.w.run
	for t := range r.tasks {
		l := r.Graph.Logic(TaskID(t))
		if l == nil || r.tasks[t].token == 0 {
			continue
		}
		f := m.fact(TaskID(t))
		switch r.tasks[t].state {
		case Deferred:
			f.deferred = true
		case Stopped:
			if !f.halted {
				*f = fact{stopped: true, items: f.items}
			}
		case Succeeded:
			if (l.Kind == Switch || l.Kind == Foreach) && !f.succeeded {
				*f = fact{succeeded: true, out: r.outputs[TaskID(t)], items: f.items}
			}
		case Failed:
			if l.Kind == Foreach {
				*f = fact{failed: true, items: f.items}
			}
		}
	}
}

// noteWaited records the facts about a deferred task that follow from an accepted event.
func (m *machine) noteWaited(ev Event, before Intent) {
	f, l := m.fact(ev.Task), m.w.run.Graph.Logic(ev.Task)
	pol := m.w.run.Graph.Policy(ev.Task)
	switch {
	case ev.Kind == EvArm && l.Kind == Foreach:
		f.armed, f.items = true, []string{}
		for i := range ev.Items.Values {
			f.items = append(f.items, m.w.g.Name(ev.Task)+"."+ev.Items.name(i))
		}
	case ev.Kind == EvArm:
		f.armed = l.Kind == Call
	case ev.Kind == EvTimer && l.Kind == Wait:
		*f = fact{succeeded: true}
	case ev.Kind == EvTimer && !pol.WarnOnTimeout && f.armed: // the task fails when its child has ended
		f.overdue = true
	case ev.Kind == EvTimer && !pol.WarnOnTimeout:
		*f = fact{failed: true}
	case ev.Kind == EvTimer:
	case ev.Result.State == AttemptStopped && before >= IntentStop:
		*f = fact{stopped: true}
	case ev.Result.State == AttemptSucceeded && !f.overdue:
		*f = fact{succeeded: true, out: ev.Result.Outputs, items: f.items}
	default:
		*f = fact{failed: true, items: f.items}
	}
}

// logic makes the owner answer one deferred task.
func (m *machine) logic() {
	r := m.w.run
	var waiting []TaskID
	r.Deferred(func(a *AttemptRow) { waiting = append(waiting, a.Task) })
	if len(waiting) == 0 {
		return
	}
	a := r.Attempt(rapid.SampledFrom(waiting).Draw(m.T, "deferred"))
	ev := Event{Task: a.Task, Token: a.Token, Of: r.Graph.Kind(a.Task)}
	armed := a.Started != 0
	if ev.Of == Foreach && m.foreach(a, armed) {
		return
	}
	switch k := rapid.IntRange(0, 5).Draw(m.T, "answer"); {
	case !armed && k < 4:
		ev.Kind = EvArm
		switch ev.Of {
		case Call:
			ev.Child = Child{Run: ChildID(a), Generation: int32(k) + 1, Workflow: 7}
		case Wait:
			ev.Due = m.w.now.Wall + Micros(k)*1_000_000 - 1
		}
	default:
		ev.Kind = EvSettle
		ev.Child, _ = ChildOf(a)
		ev.Result = drawAnswer(m.T, k)
	}
	if v := m.step(ev); v != Accepted {
		m.Fatalf("%s of a deferred task: %s", ev.Kind, v)
	}
}

func drawAnswer(t *rapid.T, k int) Result {
	switch {
	case k < 3:
		return Result{State: AttemptSucceeded, Outputs: []byte(fmt.Sprint(k))}
	case k == 3:
		return Result{State: AttemptStopped, Cause: CauseChild}
	}
	return Result{State: AttemptFailed, Cause: CauseChild, Message: "no"}
}

// finishLogical makes the owner answer all deferred tasks.
func (m *machine) finishLogical(fail bool) {
	r := m.w.run
	var evs []Event
	r.Deferred(func(a *AttemptRow) {
		ev := Event{Kind: EvSettle, Task: a.Task, Token: a.Token, Of: r.Graph.Kind(a.Task), Result: Result{State: AttemptSucceeded}}
		ev.Child, _ = ChildOf(a)
		if ev.Of == Foreach {
			m.finishForeach(&ev, a.Started != 0)
		}
		if fail {
			ev.Result.State = AttemptFailed
		}
		evs = append(evs, ev)
	})
	for _, ev := range evs {
		m.step(ev)
	}
}
