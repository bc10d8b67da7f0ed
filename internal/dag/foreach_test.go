package dag

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func (t *TaskSpec) isForeach() bool { return t.Logic != nil && t.Logic.Kind == Foreach }

// foreach returns the state of a foreach task from the states of its instances.
func (n *naiveRun) foreach(t *TaskSpec, f *fact) TaskState {
	begun, most := 0, len(f.items)
	if t.Logic.Parallel > 0 {
		most = int(t.Logic.Parallel)
	}
	over, failed, late := true, false, f.late
	for _, name := range f.items {
		if n.facts[name] == nil {
			continue
		}
		one := &TaskSpec{Name: name, Logic: t.Logic.Each}
		s := n.logical(one, n.task(one))
		n.state[name] = s
		late = late || n.facts[name].stopped // the task was stopped with its run
		if !s.Terminal() {
			begun++
		}
	}
	for _, name := range f.items {
		if n.facts[name] == nil {
			n.state[name] = Pending
			if begun++; begun <= most {
				n.state[name] = n.logical(&TaskSpec{Name: name, Logic: t.Logic.Each}, Ready)
			}
		}
		s := n.state[name]
		over = over && s.Terminal()
		failed = failed || s == Failed || halted(n.facts, name)
	}
	switch {
	case over && failed && !n.end:
		return Failed
	case !over || late || n.end && !n.joined[t.Name] || t.Logic.Collect && len(f.items) > 0 || failed:
		return Deferred
	case t.Logic.Collect:
		n.outs[t.Name] = []byte("[]")
	}
	n.joined[t.Name] = true
	return Succeeded
}

// foreach makes the owner find the items of a foreach task, or read the outputs of its instances. It
// returns false if another event must come first, or none is possible.
func (m *machine) foreach(a *AttemptRow, armed bool) bool {
	ev := Event{Kind: EvArm, Task: a.Task, Token: a.Token, Of: Foreach}
	switch k := rapid.IntRange(0, 9).Draw(m.T, "foreach"); {
	case armed:
		if !m.read(&ev) {
			return true
		}
	case k == 0:
		ev.Kind, ev.Result = EvSettle, Result{State: AttemptFailed, Cause: CausePrepare, Message: "no list"}
	default:
		ev.Items = drawItems(m.T)
	}
	if v := m.step(ev); v != Accepted {
		m.Fatalf("%s of a foreach task: %s", ev.Kind, v)
	}
	return true
}

// instanceOf returns the foreach task of which t is an instance.
func (m *machine) instanceOf(t TaskID) (of TaskID, ok bool) {
	if m.w.run.Graph == nil || t < 0 {
		return 0, false
	}
	return m.w.run.Graph.InstanceOf(t)
}

// fairAnswer returns the owner's answer to a deferred task in a fair world. ok is false if there is no
// answer yet.
func (w *world) fairAnswer(a *AttemptRow, seed int) (Event, bool) {
	name, of := w.run.Graph.Name(a.Task), w.run.Graph.Kind(a.Task)
	ev := Event{Kind: EvSettle, Task: a.Task, Token: a.Token, Of: of, Result: outcome(seed, name, a.Token)}
	switch {
	case of != Foreach:
	case a.Started == 0 && ev.Result.State == AttemptSucceeded:
		ev.Kind = EvArm
		ev.Items = &Items{Values: [][]byte{[]byte("1"), []byte("2"), []byte("3")}[:len(name+fmt.Sprint(seed))%4]}
	case a.Started != 0:
		ev.Child.Generation = w.run.Generation
		return ev, w.run.spreads[a.Task].left == 0
	}
	return ev, true
}

// byName returns the state of every task, ordered by name and not by position.
func (r *Run) byName() string {
	var all []string
	for t := range r.tasks {
		all = append(all, fmt.Sprint(r.Graph.Name(TaskID(t)), " ", r.tasks[t].state, " ", r.tasks[t].token))
	}
	slices.Sort(all)
	return fmt.Sprint(r.State, " ", r.Cause, " ", strings.Join(all, ", "))
}

// read makes the owner answer with the outputs of the instances. It returns false if some have not ended, or
// the run is being ended.
func (m *machine) read(ev *Event) bool {
	r := m.w.run
	ev.Kind, ev.Child.Generation = EvSettle, r.Generation
	ev.Result = Result{State: AttemptSucceeded, Outputs: []byte("1")}
	return r.spreads[ev.Task].left == 0 && r.Intent < IntentStop
}

// finishForeach gives the fair answer: the items, or the outputs of the instances.
func (m *machine) finishForeach(ev *Event, armed bool) {
	if !armed {
		ev.Kind, ev.Items = EvArm, &Items{Values: [][]byte{[]byte("1"), []byte("2")}}
		return
	}
	m.read(ev)
}

func drawItems(t *rapid.T) *Items {
	it := &Items{Values: make([][]byte, rapid.IntRange(0, 4).Draw(t, "items"))}
	named := rapid.IntRange(0, 3).Draw(t, "named") == 0
	for i := range it.Values {
		it.Values[i] = []byte(fmt.Sprint(i))
		if named {
			it.Names = append(it.Names, fmt.Sprintf("%d.%d", i/2, i%2))
		}
	}
	return it
}

// noteStopAll records that an operator stopped all instances of a foreach task. Instances with a holder get a
// stop.
func (m *machine) noteStopAll(of TaskID) {
	for _, t := range m.w.run.Graph.Instances(of) {
		if m.w.run.tasks[t].state == Stopped {
			*m.fact(t) = fact{halted: true}
		}
	}
}

// checkInstance checks that an instance begins only while its foreach task has an item for it, and that no
// more instances are active than parallel allows.
func checkInstance(r *Run, t TaskID) error {
	p := &r.tasks[t]
	of, _ := r.Graph.InstanceOf(t)
	switch {
	case p.state == Pending && p.blockers != 1:
		return fmt.Errorf("pending with %d blockers", p.blockers)
	case goes(p.state) && !r.armed(of):
		return fmt.Errorf("%s while its foreach task is %s", p.state, r.tasks[of].state)
	case goes(p.state) && r.Graph.retired(t):
		return fmt.Errorf("%s without an item", p.state)
	case (r.Graph.Kind(t) == Call) != (p.state == Deferred) && (p.state.Held() || p.state == Deferred || p.listed):
		return fmt.Errorf("an instance of kind %s is %s, listed %v", r.Graph.Kind(t), p.state, p.listed)
	case (p.state.Held() || p.state == Deferred) != (p.slot != 0) || p.slot != 0 && p.token == 0 || p.listed && p.state != Ready:
		return fmt.Errorf("%s slot %d token %d listed %v", p.state, p.slot, p.token, p.listed)
	case r.Graph.Item(t) == nil && !r.Graph.retired(t):
		return fmt.Errorf("it has no item")
	}
	if found, ok := r.Graph.Find(r.Graph.Name(t)); !ok || found != t {
		return fmt.Errorf("its name finds %d", found)
	}
	return nil
}

// checkSpreads counts the instances again, and checks that no foreach task has more active instances than
// parallel allows.
func checkSpreads(r *Run) error {
	if r.Graph == nil {
		return nil
	}
	fanning := int32(0)
	for t := range r.tasks {
		if r.tasks[t].state == Deferred && r.Graph.Kind(TaskID(t)) == Foreach {
			fanning++
		}
	}
	if fanning != r.fanning {
		return fmt.Errorf("fanning %d, recount %d", r.fanning, fanning)
	}
	for of, f := range r.Graph.fans {
		var left, live, own, waits int32
		for _, t := range f.all {
			p := &r.tasks[t]
			if !p.state.Terminal() {
				left++
			}
			if goes(p.state) {
				live++
				if p.own {
					own++
				}
			}
			if p.state == Pending {
				waits++
			}
		}
		sp, most := r.spreads[of], r.Graph.logic[of].cap()
		switch name := r.Graph.Name(of); {
		case sp == nil || sp.left != left || sp.live != live:
			return fmt.Errorf("instances of %s: %+v, recount left %d live %d", name, sp, left, live)
		case live > max(most, own):
			return fmt.Errorf("%d instances of %s go, at most %d may", live, name, most)
		case r.tasks[of].state == Deferred && r.armed(of) && waits > 0 && live < most && !r.State.Terminal():
			return fmt.Errorf("%d instances of %s wait, %d go, %d may", waits, name, live, most)
		case r.tasks[of].state.Terminal() && !r.State.Terminal() && left > 0 && r.Intent < IntentStop:
			return fmt.Errorf("%s has ended, %d instances have not", name, left)
		}
	}
	return nil
}

// FuzzRunGraph: the additions of a row to a graph give an error, or a graph in which every task can be found
// by its name.
func FuzzRunGraph(f *testing.F) {
	version, err := NewGraph(GraphSpec{Tasks: []TaskSpec{{Name: "a", Logic: &Logic{Kind: Foreach}}, {Name: "b"}}})
	must(err)
	plain := appendSegment(nil, segmentSplit, packSplit(0, &Items{Values: [][]byte{[]byte("1"), []byte("2")}}))
	f.Add(plain)
	f.Add(appendSegment(plain, segmentStale, []byte{0}))
	f.Add(appendSegment(plain, segmentSplit, packSplit(0, &Items{Names: []string{"1", "0.3"}, Values: [][]byte{[]byte("5"), []byte("6")}})))
	f.Fuzz(func(t *testing.T, own []byte) {
		g, err := RunGraph(version, own, compileCond)
		if err != nil {
			return
		}
		for id := range TaskID(g.Len()) {
			if found, ok := g.Find(g.Name(id)); !ok || found != id {
				t.Fatalf("task %d is called %q, which finds %d", id, g.Name(id), found)
			}
		}
	})
}

// BenchmarkSplit splits a foreach of 10,000 items.
func BenchmarkSplit(b *testing.B) {
	g, err := NewGraph(GraphSpec{Tasks: []TaskSpec{{Name: "a", Logic: &Logic{Kind: Foreach}}}})
	must(err)
	it := &Items{Values: make([][]byte, ItemsMax)}
	for i := range it.Values {
		it.Values[i] = []byte(fmt.Sprint(i))
	}
	for b.Loop() {
		w := newWorld(g)
		var fx Effects
		w.run.Step(&Event{Kind: EvSubmit, Graph: g}, w.now, &fx)
		if v := w.run.Step(&Event{Kind: EvArm, Of: Foreach, Items: it}, w.now, &fx); v != Accepted || w.run.Ready() != ItemsMax {
			b.Fatal(v, w.run.Ready())
		}
	}
}
