package dag

import (
	"fmt"
	"slices"
)

// NewGraph checks a graph and builds it, in time linear in tasks and edges. The error is
// a GraphErrors with every fault found, at most 100.
func NewGraph(spec GraphSpec) (*Graph, error) {
	limit := spec.TasksMax
	if limit <= 0 {
		limit = TasksMax
	}
	n := len(spec.Tasks)
	if n == 0 {
		return nil, GraphErrors{{Kind: EmptyGraph}}
	}
	if n > limit {
		return nil, GraphErrors{{Kind: TooManyTasks, Count: n, Limit: limit}}
	}
	b := builder{spec: spec, g: &Graph{
		EndOnFailure: spec.EndOnFailure,
		Timeout:      spec.Timeout,
		names:        make([]string, n),
		index:        make(map[string]TaskID, n),
	}}
	b.indexNames()
	b.linkNeeds()
	b.reverse()
	b.sort() // sort also if there are other faults, so that a cycle is reported together with them
	if len(b.errs) == 0 {
		b.policies()
		b.conditions()
		b.logic()
	}
	if len(b.errs) > 0 {
		return nil, b.errs
	}
	return b.g, nil
}

// errorsMax bounds the errors that an invalid graph can cause.
const errorsMax = 100

// walkMax bounds the steps of checking which tasks a condition may read. Without the bound, 100,000
// conditions that read distant ancestors would cost the product of tasks and edges.
const walkMax = 20_000_000

type builder struct {
	spec GraphSpec
	g    *Graph
	errs GraphErrors
	// The state of the walks that the function ancestor makes: walk counts the visited needs, round is the
	// number of the current walk, and seen has, for each task, the last round that visited it.
	walk  int
	round int32
	seen  []int32
}

func (b *builder) fail(e *GraphError) {
	if len(b.errs) < errorsMax {
		b.errs = append(b.errs, e)
	}
}

func (b *builder) indexNames() {
	for i := range b.spec.Tasks {
		name := b.spec.Tasks[i].Name
		b.g.names[i] = name
		if _, dup := b.g.index[name]; dup {
			b.fail(&GraphError{Kind: DuplicateTask, Task: name})
			continue
		}
		b.g.index[name] = TaskID(i)
	}
}

func (b *builder) linkNeeds() {
	edges := 0
	for i := range b.spec.Tasks {
		edges += len(b.spec.Tasks[i].Needs)
	}
	off := make([]int32, len(b.spec.Tasks)+1)
	ids := make([]TaskID, 0, edges)
	seenBy := make([]int32, len(b.spec.Tasks)) // task → the number + 1 of the task that last needed it
	for i := range b.spec.Tasks {
		t := &b.spec.Tasks[i]
		for _, need := range t.Needs {
			id, ok := b.g.index[need]
			switch {
			case !ok:
				b.fail(&GraphError{Kind: UnknownNeed, Task: t.Name, Other: need})
			case id == TaskID(i):
				b.fail(&GraphError{Kind: SelfLoop, Task: t.Name})
			case seenBy[id] == int32(i)+1:
				b.fail(&GraphError{Kind: DuplicateNeed, Task: t.Name, Other: need})
			default:
				seenBy[id] = int32(i) + 1
				ids = append(ids, id)
			}
		}
		off[i+1] = int32(len(ids))
	}
	b.g.needs = adjacency{off, ids}
}

// reverse builds the dependents from the needs by counting, in the order of the tasks.
func (b *builder) reverse() {
	g, n := b.g, len(b.g.names)
	off := make([]int32, n+1)
	for _, need := range g.needs.ids {
		off[need+1]++
	}
	for i := 0; i < n; i++ {
		off[i+1] += off[i]
	}
	ids := make([]TaskID, len(g.needs.ids))
	next := append([]int32(nil), off[:n]...)
	for t := 0; t < n; t++ {
		for _, need := range g.needs.of(TaskID(t)) {
			ids[next[need]] = TaskID(t)
			next[need]++
		}
	}
	g.deps = adjacency{off, ids}
}

// sort orders the tasks so that each follows its needs. A task that cannot be ordered is on a cycle or
// depends on one.
func (b *builder) sort() {
	g, n := b.g, len(b.g.names)
	left := make([]int32, n)
	topo := make([]TaskID, 0, n)
	for t := 0; t < n; t++ {
		if left[t] = g.needs.off[t+1] - g.needs.off[t]; left[t] == 0 {
			topo = append(topo, TaskID(t))
		}
	}
	for i := 0; i < len(topo); i++ {
		for _, d := range g.deps.of(topo[i]) {
			if left[d]--; left[d] == 0 {
				topo = append(topo, d)
			}
		}
	}
	g.topo = topo
	if len(topo) < n {
		b.cycles(left)
	}
}

func (b *builder) policies() {
	g := b.g
	g.policy = make([]uint32, len(g.names))
	known := map[string]uint32{}
	var last *Policy // most tasks have the policy of the previous task, so a comparison saves the formatting
	for i := range b.spec.Tasks {
		p := &b.spec.Tasks[i].Policy
		if last != nil && samePolicy(p, last) {
			g.policy[i] = g.policy[i-1]
			continue
		}
		last = p
		key := fmt.Sprint(*p)
		id, ok := known[key]
		if !ok {
			id = uint32(len(g.policies))
			known[key] = id
			if p.Queue != "" { // the key of a queue is computed from parameters
				g.queued, g.params = true, true
			}
			g.named = g.named || p.Place.Node() != "" || p.Place.Group() != ""
			g.policies = append(g.policies, *p)
		}
		g.policy[i] = id
	}
}

func samePolicy(a, b *Policy) bool {
	return a.Timeout == b.Timeout && a.KillGrace == b.KillGrace && a.WarnOnTimeout == b.WarnOnTimeout && a.OnLost == b.OnLost && a.StartDeadline == b.StartDeadline &&
		a.Release == b.Release && a.Adopts == b.Adopts && a.ReleaseTimeout == b.ReleaseTimeout &&
		a.Priority == b.Priority && a.Place == b.Place && a.Queue == b.Queue && a.Retry.Max == b.Retry.Max && a.Retry.Delay == b.Retry.Delay &&
		a.Retry.Backoff == b.Retry.Backoff && a.Retry.MaxDelay == b.Retry.MaxDelay &&
		a.Retry.Jitter == b.Retry.Jitter && slices.Equal(a.Retry.OnExit, b.Retry.OnExit)
}

func (b *builder) conditions() {
	g := b.g
	for i := range b.spec.Tasks {
		c := b.spec.Tasks[i].If
		if c == nil {
			continue
		}
		if g.conds == nil {
			g.conds = map[TaskID]Condition{}
		}
		g.conds[TaskID(i)] = c
		b.reads(TaskID(i), c)
	}
}

// reads records the tasks that a condition of t reads.
func (b *builder) reads(t TaskID, c Condition) {
	g, reads := b.g, c.Reads()
	g.params = g.params || reads.Params
	for _, name := range reads.Tasks {
		id, ok := g.index[name]
		switch {
		case !ok:
			b.fail(&GraphError{Kind: UnknownNeed, Task: g.names[t], Other: name})
		case !b.mayRead(t, id):
			b.fail(&GraphError{Kind: FarRead, Task: g.names[t], Other: name})
		default:
			b.keep(id)
		}
	}
}

func (b *builder) keep(t TaskID) {
	if b.g.kept == nil {
		b.g.kept = map[TaskID]bool{}
	}
	b.g.kept[t] = true
}

// mayRead enforces the rule that makes the end of a run independent of the order of events. A condition that
// handles failures is decided when its needs are terminal. But a need can already be upstream_failed while
// tasks before it still run. So such a condition may read only its direct needs. Any other condition is
// decided when no need failed. Then all ancestors are terminal, up to and including the needs of the nearest
// ancestor that handles failures.
func (b *builder) mayRead(t, read TaskID) bool {
	for _, need := range b.g.needs.of(t) {
		if need == read {
			return true
		}
	}
	return b.ancestor(t, read)
}

// ancestor reports whether the task t depends on another task, which is the parameter of. Each pair of a
// reading task and a read task costs its own walk, so walkMax bounds all walks together. When that bound is
// reached, ancestor returns false, and the author must name the read task in needs.
func (b *builder) ancestor(t, of TaskID) bool {
	if b.seen == nil {
		b.seen = make([]int32, len(b.g.names))
	}
	b.round++
	stack := []TaskID{t}
	for len(stack) > 0 && b.walk < walkMax {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		c := b.spec.Tasks[at].If
		last := c != nil && c.Handles()
		for _, need := range b.g.needs.of(at) {
			b.walk++
			if need == of {
				return true
			}
			if !last && b.seen[need] != b.round {
				b.seen[need] = b.round
				stack = append(stack, need)
			}
		}
	}
	return false
}
