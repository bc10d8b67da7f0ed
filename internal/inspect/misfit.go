package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// noRoom is the reason for workers whose disk is full.
const noRoom = "has no room on its disk"

// Misfit returns the reason why none of the given members can run tasks with a placement. It returns "" if
// some member can.
func Misfit(p dag.Place, there []store.Member) string {
	var cordoned, full, bound, foreign []string
	for i := range there {
		switch m := &there[i]; {
		case m.Slots > 0 && len(m.Traits.Namespaces) > 0 && !fits(p, m):
			free := *m
			free.Traits.Namespaces = nil
			switch {
			case !fits(p, &free):
			case p.Space() != "" && !slices.Contains(m.Traits.Namespaces, p.Space()):
				foreign = append(foreign, m.Name)
			default:
				bound = append(bound, m.Name)
			}
		case m.Slots == 0 || !fits(p, m):
		case m.Cordoned && m.Worker:
			cordoned = append(cordoned, m.Name)
		case m.Traits.Full:
			full = append(full, m.Name)
		default:
			return ""
		}
	}
	switch {
	case len(cordoned) > 0:
		return "only " + strings.Join(cordoned, ", ") + " fits, and it is cordoned"
	case len(full) > 0:
		return "only " + strings.Join(full, ", ") + " would do, and " + noRoom
	case len(bound) > 0:
		return "only " + strings.Join(bound, ", ") + " would do, and was invited for tasks that name its group or its name"
	case len(foreign) > 0:
		return "only " + strings.Join(foreign, ", ") + " would do, and was not invited for namespace " + p.Space()
	case p == dag.Anywhere:
		return "there is no worker, and no node runs tasks itself"
	}
	var nobody []string
	for _, part := range p.Parts() {
		if !had(part, there) {
			nobody = append(nobody, part.String())
		}
	}
	switch level := p.Isolation(); {
	case len(nobody) == 0:
		return "no worker has all of " + p.String()
	case len(nobody) == 1 && p.User() != "" && nobody[0] == "user "+p.User():
		return "no worker permits the user " + p.User()
	case len(nobody) == 1 && level != "" && !had(dag.Anywhere.Isolated(level), there):
		return "no worker offers isolation " + level
	}
	return "no worker has " + strings.Join(nobody, ", nor ")
}

func had(p dag.Place, there []store.Member) bool {
	for i := range there {
		m := &there[i]
		t := m.Traits
		if p.Kind() == "" {
			t.Kinds = nil // nil makes Fits ignore the kinds of the member
		}
		if m.Slots > 0 && p.Fits(m.Name, &t) && p.Need().Within(t.Room) {
			return true
		}
	}
	return false
}

// fits reports whether a member with no other work could run tasks with the given placement.
func fits(p dag.Place, m *store.Member) bool {
	return p.Fits(m.Name, &m.Traits) && p.Need().Within(m.Traits.Room)
}

// Traits returns the properties by which tasks choose this process, in addition to its name.
func (rd *Reader) Traits() store.Traits {
	if rd.cfg.Traits == nil {
		return store.Traits{}
	}
	return rd.cfg.Traits()
}

// there returns the members that may run tasks.
func (rd *Reader) there(ctx context.Context) ([]store.Member, error) {
	if rd.roster == nil {
		t := rd.Traits()
		t.Full = rd.cfg.Memory != nil && rd.cfg.Memory.IsShut() != ""
		return []store.Member{{Name: rd.cfg.Node, Slots: int32(rd.cfg.Slots), Traits: t}}, nil
	}
	members, _, err := rd.roster.Members(ctx)
	return members, errkind.FromStore("list the members", err)
}

// Unplaced describes tasks that no present member may run.
type Unplaced struct {
	Task string // the name of the first of these tasks
	More int    // the number of other tasks with the same placement
	Why  string
}

// spaceOf returns the demands of a namespace on the placements of its tasks.
func spaceOf(rd *Reader, namespace string) *dag.Space {
	if rd.cfg.Space == nil {
		return nil
	}
	return rd.cfg.Space(namespace)
}

// place returns the placement of a task of the run.
func (x *explaining) place(t dag.TaskID) dag.Place {
	return spaceOf(x.rd, x.run.Workflow.Namespace).Place(x.Graph.Policy(t).Place)
}

// Unplaced finds the tasks of a graph of a namespace that would wait because no present member may run them.
func (rd *Reader) Unplaced(ctx context.Context, namespace string, g *dag.Graph) ([]Unplaced, error) {
	var all []Unplaced
	space := spaceOf(rd, namespace)
	at := map[dag.Place]int{}
	var there []store.Member
	for t := range dag.TaskID(g.Len()) {
		p := space.Place(g.Policy(t).Place)
		if p == dag.Anywhere {
			continue
		}
		if i, seen := at[p]; seen {
			if i >= 0 {
				all[i].More++
			}
			continue
		}
		if there == nil {
			var err error
			if there, err = rd.there(ctx); err != nil {
				return nil, err
			}
		}
		if at[p] = -1; Misfit(p, there) != "" {
			at[p] = len(all)
			all = append(all, Unplaced{Task: g.Name(t), Why: Misfit(p, there)})
		}
	}
	return all, nil
}

// misplaced adds a reason for each placement of ready tasks that fits no member, and returns the other tasks
// by placement.
func (x *explaining) misplaced(ctx context.Context, ts ...dag.TaskID) (others [][]dag.TaskID, err error) {
	if x.rd.rowsOnly() {
		return [][]dag.TaskID{ts}, nil
	}
	there, err := x.rd.there(ctx)
	if err != nil {
		return nil, err
	}
	var places []dag.Place
	space := spaceOf(x.rd, x.run.Workflow.Namespace)
	of := map[dag.Place][]dag.TaskID{}
	for _, t := range ts {
		p := space.Place(x.Graph.Policy(t).Place)
		if of[p] == nil {
			places = append(places, p)
		}
		of[p] = append(of[p], t)
	}
	for _, p := range places {
		why, tasks := Misfit(p, there), of[p]
		if why == "" {
			others = append(others, tasks)
			continue
		}
		first := x.Graph.Name(tasks[0])
		what := "no present worker can run task " + first + ": "
		if more := len(tasks) - 1; more > 0 {
			what = fmt.Sprintf("no present worker can run task %s and %d more: ", first, more)
		}
		since, err := x.momentOf(ctx, tasks[0])
		if err != nil {
			return nil, err
		}
		r := Reason{Kind: "place", Code: "no_worker",
			Args: args{"task": first, "tasks": len(tasks), "place": p.String(), "why": why}, What: what + why,
			Since: since, Unblocks: x.unblocked(p)}
		if strings.HasSuffix(why, noRoom) {
			r.Unblocks, r.Code = "room on that disk; it then continues by itself", "no_disk"
		}
		x.add(r)
	}
	return others, nil
}

// unblocked names the remedy for tasks whose placement fits no member.
func (x *explaining) unblocked(p dag.Place) string {
	if kind := p.Kind(); kind != "" {
		if name, house := strings.CutPrefix(kind, dag.HousePrefix); house {
			return "a node or worker of this version that runs " + name + " tasks: skein doctor names what one lacks"
		}
		return "a program that registers the kind: skein.Handle(worker, \"" + kind + "\", …), of a splitter skein.HandleSplitter; " +
			"or a node or worker with an extension that has the kind: skein extension list"
	}
	return "a worker for it: skein worker" + startedWith(p)
}

// startedWith returns the settings with which a worker must be started so that it fits a placement.
func startedWith(p dag.Place) string {
	var b strings.Builder
	for _, part := range p.Parts() {
		kind, text, _ := strings.Cut(part.String(), " ")
		switch kind {
		case "node":
			kind = "name"
		case "user":
			kind = "task-users"
		case "namespace": // an invitation gives it
			continue
		}
		b.WriteString(" --" + kind + " " + text)
	}
	return b.String()
}
