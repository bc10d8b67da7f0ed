package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
)

// condition is the text of a condition in a simulated graph.
type condition string

func (c condition) Source() string { return string(c) }
func (c condition) Handles() bool  { return c == "always" || c == "failure" }

func (c condition) Reads() dag.Reads { return dag.Reads{} }

func (c condition) Holds(v dag.View) (bool, error) {
	switch c {
	case "always", "success":
		return true, nil
	case "failure":
		return v.Failure, nil
	case "never":
		return false, nil
	}
	return false, fmt.Errorf("the condition %q makes no sense", string(c))
}

func compile(source string) (dag.Condition, error) { return condition(source), nil }

// plan is a graph, together with the data that the rules need to judge it without package dag.
type plan struct {
	g            *dag.Graph
	packed       []byte
	needs        [][]int
	ifs          []condition // "" if a task has no condition
	retries      []int32
	policies     []dag.Policy
	endOnFailure bool
	rich         bool // the graph has features that naive.go does not know
	text         string
}

// plansMax bounds the number of different graphs. Seeds choose among them.
const plansMax = 512

var plans = sync.OnceValue(func() []*plan {
	all := []*plan{nine(0), nine(8), nine(9), diamond(), single()}
	for r := rand.New(rand.NewPCG(7, 7)); len(all) < plansMax; {
		all = append(all, randomPlan(r))
	}
	return all
})

// newPlan builds a graph of tasks with the names t0, t1…
func newPlan(needs [][]int, shape func(i int, t *dag.TaskSpec, p *plan), end bool, timeout time.Duration) *plan {
	p := &plan{needs: needs, ifs: make([]condition, len(needs)), retries: make([]int32, len(needs)), endOnFailure: end}
	spec := dag.GraphSpec{EndOnFailure: end, Timeout: timeout}
	for i, of := range needs {
		t := dag.TaskSpec{Name: fmt.Sprintf("t%d", i)}
		for _, n := range of {
			t.Needs = append(t.Needs, fmt.Sprintf("t%d", n))
		}
		if shape != nil {
			shape(i, &t, p)
		}
		if p.ifs[i] != "" {
			t.If = p.ifs[i]
		}
		p.retries[i] = t.Policy.Retry.Max
		p.policies = append(p.policies, t.Policy)
		p.text += fmt.Sprintf(" t%d%v%s", i, of, p.ifs[i])
		spec.Tasks = append(spec.Tasks, t)
	}
	var err error
	if p.g, err = dag.NewGraph(spec); err != nil {
		panic(err)
	}
	p.packed = p.g.Pack()
	return p
}

// nine returns the example of nine tasks: tasks 1 to 9 are t0 to t8. If the parameter also is set, task 2
// leads to that task, too.
func nine(also int) *plan {
	needs := make([][]int, 9)
	edges := [][2]int{{1, 4}, {1, 7}, {2, 4}, {2, 5}, {2, 6}, {2, 7}, {4, 7}, {4, 9}, {5, 8}, {6, 8}, {6, 9}}
	if also > 0 {
		edges = append(edges, [2]int{2, also})
	}
	for _, e := range edges {
		needs[e[1]-1] = append(needs[e[1]-1], e[0]-1)
	}
	return newPlan(needs, nil, false, 0)
}

func diamond() *plan { return newPlan([][]int{nil, {0}, {0}, {1, 2}}, nil, false, 0) }
func single() *plan  { return newPlan([][]int{nil}, nil, false, 0) }

func randomPlan(r *rand.Rand) *plan {
	needs := make([][]int, 1+r.IntN(6))
	for i := range needs {
		for n := range i {
			if r.IntN(3) == 0 {
				needs[i] = append(needs[i], n)
			}
		}
	}
	timeout := time.Duration(0)
	if r.IntN(8) == 0 {
		timeout = time.Minute
	}
	return newPlan(needs, func(i int, t *dag.TaskSpec, p *plan) {
		if len(needs[i]) > 0 && r.IntN(3) == 0 {
			p.ifs[i] = [...]condition{"always", "failure", "never"}[r.IntN(3)]
		}
		if r.IntN(3) == 0 {
			t.Policy.Retry = dag.Retry{Max: 1 + r.Int32N(2), Delay: time.Duration(r.IntN(400)) * time.Millisecond, Jitter: 0.2}
		}
		if r.IntN(4) == 0 {
			t.Policy.Timeout = time.Duration(1+r.IntN(3)) * time.Second
			t.Policy.WarnOnTimeout = false
		}
		t.Policy.Priority = dag.Priority(r.IntN(dag.Levels))
	}, r.IntN(5) == 0, timeout)
}

func sortedKeys[V any](m map[attemptKey]V) []attemptKey {
	keys := make([]attemptKey, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b attemptKey) int {
		if c := slices.Compare(a.run[:], b.run[:]); c != 0 {
			return c
		}
		if a.task != b.task {
			return int(a.task - b.task)
		}
		return int(a.token - b.token)
	})
	return keys
}

// mangled returns a copy of p in which wrong has changed every task.
func mangled(p *plan, wrong func(i int, q *plan)) *plan {
	q := *p
	q.needs, q.ifs, q.retries = slices.Clone(p.needs), slices.Clone(p.ifs), slices.Clone(p.retries)
	for i := range q.needs {
		wrong(i, &q)
	}
	return newPlan(q.needs, func(i int, t *dag.TaskSpec, made *plan) {
		made.ifs[i] = q.ifs[i]
		t.Policy = p.policies[i]
		t.Policy.Retry.Max = q.retries[i]
	}, p.endOnFailure, p.g.Timeout)
}

// packed returns the graph in the form that the engine reads.
func (w *World) packed(p *plan) []byte {
	if w.mutant.graph == nil || p.rich {
		return p.packed
	}
	return w.mutant.graph(p).packed
}
