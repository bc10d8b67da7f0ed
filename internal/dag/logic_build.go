package dag

import (
	"fmt"
	"slices"
	"time"
)

// branchesMax bounds the branches of one switch.
const branchesMax = 1000

// logic checks the logical tasks and adds them to the graph.
func (b *builder) logic() {
	foreach := 0
	for i := range b.spec.Tasks {
		l := b.spec.Tasks[i].Logic
		if l == nil || l.Kind == Work {
			continue
		}
		if b.g.logic == nil {
			b.g.logic = map[TaskID]*Logic{}
		}
		t := TaskID(i)
		b.g.logic[t] = l
		b.g.calling = b.g.calling || l.Each != nil
		why := ""
		switch {
		case l.Kind >= kinds:
			why = fmt.Sprintf("there is no kind %d", l.Kind)
		case l.For < 0:
			why = "it waits for less than nothing"
		case l.Parallel < 0 || l.Kind != Foreach && (l.Parallel > 0 || l.Collect):
			why = "only a foreach has a cap on its instances, of 1 or more"
		case l.Each != nil && (l.Kind != Foreach || !l.Each.isCall()):
			why = "the instances of a foreach are work, or calls"
		case (l.Kind == Switch) != (len(l.Branches) > 0) || len(l.Branches) > branchesMax:
			why = fmt.Sprintf("a switch has 1 to %d branches, other tasks have none", branchesMax)
		case !l.works() && b.spec.Tasks[i].Policy.Retry.Max > 0:
			why = "a logical task is not tried again"
		case !l.works() && b.spec.Tasks[i].Policy.Queue != "":
			why = "no worker runs a logical task: it passes no queue"
		}
		if why != "" {
			b.fail(&GraphError{Kind: BadLogic, Task: b.g.names[t], Other: why})
			continue
		}
		switch l.Kind {
		case Switch:
			b.branches(t, l)
		case Foreach:
			if foreach++; foreach > foreachMax {
				b.fail(&GraphError{Kind: BadLogic, Task: b.g.names[t], Other: fmt.Sprintf("a workflow has at most %d tasks with foreach", foreachMax)})
			}
		}
	}
}

// works reports whether the task is a foreach whose instances run on workers. The settings of the task for
// attempts then apply to its instances.
func (l *Logic) works() bool { return l.Kind == Foreach && l.Each == nil }

// isCall reports whether the task is a call with no other field of a logical task.
func (l *Logic) isCall() bool {
	return l.Kind == Call && l.For == 0 && l.Branches == nil && l.Parallel == 0 && !l.Collect && l.Each == nil
}

// branches links a switch with the tasks that it chooses from. It also keeps the outputs of the switch, its
// choice, in memory.
func (b *builder) branches(s TaskID, l *Logic) {
	g := b.g
	b.keep(s)
	for i := range l.Branches {
		br := &l.Branches[i]
		t, ok := g.index[br.Then]
		switch {
		case !ok:
			b.fail(&GraphError{Kind: UnknownNeed, Task: g.names[s], Other: br.Then})
			continue
		case !slices.Contains(g.needs.of(t), s):
			b.fail(&GraphError{Kind: FarBranch, Task: g.names[s], Other: br.Then})
			continue
		}
		if g.switches == nil {
			g.switches = map[TaskID][]TaskID{}
		}
		if !slices.Contains(g.switches[t], s) {
			g.switches[t] = append(g.switches[t], s)
		}
		if br.If != nil {
			b.reads(s, br.If)
		}
	}
}

// logic packs the logical tasks, in their order.
func (w *packer) logic(g *Graph) {
	w.uint(uint64(len(g.logic)))
	for t := range g.names {
		l := g.logic[TaskID(t)]
		if l == nil {
			continue
		}
		w.uint(uint64(t))
		w.byte(byte(l.Kind))
		w.uint(uint64(l.For))
		if l.Kind == Foreach {
			w.uint(uint64(l.Parallel))
			w.bool(l.Collect)
			if g.calling {
				w.bool(l.Each != nil)
			}
		}
		w.uint(uint64(len(l.Branches)))
		for i := range l.Branches {
			source := ""
			if c := l.Branches[i].If; c != nil {
				source = c.Source()
			}
			w.text(source)
			w.text(l.Branches[i].Then)
		}
	}
}

func (u *unpacker) logic(tasks []TaskSpec, calling bool, compile Compiler) error {
	for range u.count(4) {
		t, l := u.uint(), &Logic{Kind: Kind(u.byte()), For: time.Duration(u.uint())}
		if l.Kind == Foreach {
			l.Parallel, l.Collect = int32(u.uint()), u.bool()
			if calling && u.bool() {
				l.Each = &Logic{Kind: Call}
			}
		}
		for range u.count(2) {
			source, then := u.text(), u.text()
			br := Branch{Then: then}
			if source != "" && !u.bad {
				c, err := compile(source)
				if err != nil {
					return fmt.Errorf("a branch to %s: %w", then, err)
				}
				br.If = c
			}
			l.Branches = append(l.Branches, br)
		}
		if t >= uint64(len(tasks)) || l.Kind == Work || l.Kind >= kinds {
			u.bad = true
			break
		}
		tasks[t].Logic = l
	}
	return nil
}
