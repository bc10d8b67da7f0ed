package bench

import (
	"fmt"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// Shape is a graph to run, and how many runs of it make a measurement.
type Shape struct {
	Name  string // single, chain:N, fan:N, dag9, wide:N, shell:N
	Kind  string
	N     int
	Runs  int
	Shell bool // real processes instead of no-ops
}

// Shapes returns the names in the table, which `--shape all` measures.
func Shapes() []string {
	return []string{"single", "dag9", "fan:100", "wide:10000", "chain:1000", "shell:2000"}
}

// shapeTasksMax bounds N.
const shapeTasksMax = dag.TasksMax

// ParseShape reads a shape's name. If the name has no N, N has a default.
func ParseShape(name string) (Shape, error) {
	kind, number, given := strings.Cut(name, ":")
	s := Shape{Name: name, Kind: kind, Runs: 1}
	switch kind {
	case "single":
		s.N, s.Runs = 1, 20_000
	case "dag9":
		s.N, s.Runs = 9, 2_000
	case "fan":
		s.N, s.Runs = 100, 200
	case "wide":
		s.N = 10_000
	case "chain":
		s.N = 1_000
	case "shell":
		s.N, s.Shell = 2_000, true
	default:
		return s, fmt.Errorf("unknown shape %q: use single, dag9, chain:N, fan:N, wide:N or shell:N", name)
	}
	if !given {
		if kind != "single" && kind != "dag9" {
			s.Name = kind + ":" + strconv.Itoa(s.N)
		}
		return s, nil
	}
	if kind == "single" || kind == "dag9" {
		return s, fmt.Errorf("shape %s has no number", kind)
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > shapeTasksMax-2 {
		return s, fmt.Errorf("shape %q: %q is not a number from 1 to %d", name, number, shapeTasksMax-2)
	}
	s.N = n
	return s, nil
}

// Tasks returns the graph of the shape.
func (s Shape) Tasks() []dag.TaskSpec {
	switch s.Kind {
	case "dag9":
		return dag9()
	case "fan":
		return fan(s.N)
	case "chain":
		return Chain(s.N)
	case "wide", "shell":
		return wide(s.N)
	}
	return []dag.TaskSpec{{Name: "task"}}
}

// dag9 returns the worked example of the Job Center document.
func dag9() []dag.TaskSpec {
	edges := map[string][]string{"4": {"1", "2"}, "5": {"2"}, "6": {"2"}, "7": {"1", "2", "4"}, "8": {"5", "6"}, "9": {"4", "6"}}
	specs := make([]dag.TaskSpec, 9)
	for i := range specs {
		name := strconv.Itoa(i + 1)
		specs[i] = dag.TaskSpec{Name: name, Needs: edges[name]}
	}
	return specs
}

// Chain returns n tasks, each of which needs the previous one.
func Chain(n int) []dag.TaskSpec {
	specs := wide(n)
	for i := range specs[1:] {
		specs[i+1].Needs = []string{specs[i].Name}
	}
	return specs
}

func wide(n int) []dag.TaskSpec {
	specs := make([]dag.TaskSpec, n)
	for i := range specs {
		specs[i].Name = fmt.Sprintf("t%05d", i)
	}
	return specs
}

// fan returns one task, n tasks that need it, and one task that needs these.
func fan(n int) []dag.TaskSpec {
	specs := wide(n)
	all := make([]string, n)
	for i := range specs {
		all[i] = specs[i].Name
		specs[i].Needs = []string{"begin"}
	}
	return append(append([]dag.TaskSpec{{Name: "begin"}}, specs...), dag.TaskSpec{Name: "end", Needs: all})
}
