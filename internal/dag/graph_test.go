package dag

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// spec parses "a; b a; c a b if=always()": tasks with their needs.
func spec(text string) GraphSpec {
	var s GraphSpec
	for _, task := range strings.Split(text, ";") {
		if words := strings.Fields(task); len(words) > 0 {
			s.Tasks = append(s.Tasks, parseTask(words))
		}
	}
	return s
}

func TestGraphErrors(t *testing.T) {
	tests := []struct {
		graph string
		kind  ErrorKind
		want  string
	}{
		{"", EmptyGraph, "the workflow has no tasks"},
		{"a; b; c; d; e; f; g; h; i; j; k", TooManyTasks, "the workflow has 11 tasks, the limit is 10"},
		{"a; b; a", DuplicateTask, `task "a" is defined twice`},
		{"a; b x", UnknownNeed, `task "b" needs "x", which does not exist`},
		{"a; b a a", DuplicateNeed, `task "b" names "a" twice in needs`},
		{"a a", SelfLoop, `task "a" needs itself`},
		{"a c; b a; c b; d", Cycle, "the tasks wait for each other in a circle: a → c → b → a"},
		{"a b; b a; c d; d c", Cycle, "the tasks wait for each other in a circle: a → b → a"},
		{"r; a r x; x a; y x r", Cycle, "the tasks wait for each other in a circle: a → x → a"},
		{"y x; x a; a x", Cycle, "the tasks wait for each other in a circle: x → a → x"},
		{"a; b a; c b if=status(a)=failed", FarRead, `task "c" looks at "a" in its if, but does not need it directly; add it to needs`},
		{"a; b; c b if=out(a)=1", FarRead, `task "c" looks at "a" in its if, but does not need it directly; add it to needs`},
		{"a; b a if=out(zz)=1", UnknownNeed, `task "b" needs "zz", which does not exist`},
		// When a condition that handles failures is decided, the tasks that its task needs have ended.
		// Earlier tasks may not have ended.
		{"x; a x; h a if=always(); b h if=out(x)=1", FarRead, `task "b" looks at "x" in its if, but does not need it directly; add it to needs`},
	}
	for _, tt := range tests {
		s := spec(tt.graph)
		s.TasksMax = 10
		g, err := NewGraph(s)
		var es GraphErrors
		if g != nil || !errors.As(err, &es) || es[0].Kind != tt.kind || es[0].Error() != tt.want {
			t.Errorf("%q: %v, %v, want %s", tt.graph, g, err, tt.want)
		}
	}
	for _, good := range []string{
		"a; b a; c b if=out(a)=1", "x; a x; h a if=always(); b h if=out(a)=1", "x; a x; h a if=always(); b h x if=out(x)=1",
		"a; b a if=status(a)=failed", "b a; a",
	} {
		if _, err := NewGraph(spec(good)); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestGraphErrorsAreAllSaidAndBounded(t *testing.T) {
	_, err := NewGraph(spec("a a; b x; c b b; b"))
	es := err.(GraphErrors)
	if len(es) != 4 || err.Error() != `task "b" is defined twice (and 3 more)` {
		t.Errorf("%d: %v", len(es), err)
	}
	_, err = NewGraph(spec("a b; b a; c c; d e x; e d; f e; g f a"))
	var said []string
	for _, e := range err.(GraphErrors) {
		said = append(said, e.Error())
	}
	if want := []string{`task "c" needs itself`, `task "d" needs "x", which does not exist`,
		"the tasks wait for each other in a circle: a → b → a", "the tasks wait for each other in a circle: d → e → d"}; !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
	pairs := chain(5000)
	for i := range pairs.Tasks {
		pairs.Tasks[i].Needs = []string{pairs.Tasks[i^1].Name}
	}
	if _, err = NewGraph(pairs); len(err.(GraphErrors)) != 100 {
		t.Errorf("%d errors", len(err.(GraphErrors)))
	}
	s := GraphSpec{Tasks: make([]TaskSpec, 5000)}
	_, err = NewGraph(s)
	if es := err.(GraphErrors); len(es) != 100 {
		t.Errorf("%d errors", len(es))
	}
	_, err = NewGraph(ring(100_000))
	es = err.(GraphErrors)
	if len(es[0].Path) != 100_001 || len(err.Error()) > 500 || !strings.Contains(err.Error(), "t99991 → (99981 more) → t9") {
		t.Errorf("%d: %s", len(es[0].Path), err)
	}
}

func ring(n int) GraphSpec {
	s := chain(n)
	s.Tasks[0].Needs = []string{fmt.Sprintf("t%d", n-1)}
	for i := range s.Tasks { // the cycle begins in the middle, so that the walk must find its start
		s.Tasks[i].Name = fmt.Sprintf("t%d", i)
	}
	return s
}

// TestCyclePath: in any graph, the path of a reported cycle is a cycle of the graph.
func TestCyclePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "tasks")
		s := GraphSpec{Tasks: make([]TaskSpec, n)}
		needs := map[string]bool{}
		for i := range n {
			s.Tasks[i].Name = fmt.Sprint(i)
			for j := range n {
				if i != j && rapid.IntRange(0, n).Draw(t, "need") == 0 {
					s.Tasks[i].Needs = append(s.Tasks[i].Needs, fmt.Sprint(j))
					needs[fmt.Sprint(i, " ", j)] = true
				}
			}
		}
		g, err := NewGraph(s)
		if err == nil {
			checkOrder(t, g)
			return
		}
		var met []string // the first task of each reported cycle
		for _, e := range err.(GraphErrors) {
			checkCycle(t, e.Path, needs)
			met = append(met, e.Path[0])
		}
		if want := firstOfKnots(n, needs); !slices.Equal(met, want) {
			t.Fatalf("cycles of %v are named, want those of %v", met, want)
		}
	})
}

func checkCycle(t *rapid.T, path []string, needs map[string]bool) {
	if len(path) < 3 || path[0] != path[len(path)-1] {
		t.Fatalf("path %v", path)
	}
	seen := map[string]bool{}
	for i := range len(path) - 1 {
		if !needs[path[i]+" "+path[i+1]] || seen[path[i]] {
			t.Fatalf("path %v: %s does not need %s, or is named twice", path, path[i], path[i+1])
		}
		seen[path[i]] = true
	}
}

// firstOfKnots finds the tasks that reach themselves, by brute force. Of the tasks that reach each other, it
// returns the first one.
func firstOfKnots(n int, needs map[string]bool) []string {
	reach := map[[2]int]bool{}
	for range n {
		for i := range n {
			for j := range n {
				for k := range n {
					if needs[fmt.Sprint(i, " ", j)] || reach[[2]int{i, k}] && reach[[2]int{k, j}] {
						reach[[2]int{i, j}] = true
					}
				}
			}
		}
	}
	var first []string
	for i := range n {
		before := false
		for j := range i {
			before = before || reach[[2]int{i, j}] && reach[[2]int{j, i}]
		}
		if reach[[2]int{i, i}] && !before {
			first = append(first, fmt.Sprint(i))
		}
	}
	return first
}

func checkOrder(t *rapid.T, g *Graph) {
	at := make([]int, g.Len())
	for i, task := range g.topo {
		at[task] = i
	}
	edges := 0
	for i := range g.Len() {
		for _, n := range g.Needs(TaskID(i)) {
			edges++
			if at[n] >= at[i] {
				t.Fatalf("%s comes before %s, which it needs", g.Name(TaskID(i)), g.Name(n))
			}
			found := false
			for _, d := range g.Dependents(n) {
				found = found || d == TaskID(i)
			}
			if !found {
				t.Fatalf("%s is no dependent of %s", g.Name(TaskID(i)), g.Name(n))
			}
		}
	}
	if edges != g.Edges() || len(g.topo) != g.Len() {
		t.Fatalf("%d edges of %d, %d tasks of %d in order", edges, g.Edges(), len(g.topo), g.Len())
	}
}

// The three shapes of a large graph.

func wide(n int) GraphSpec {
	s := GraphSpec{TasksMax: n}
	for i := range n {
		s.Tasks = append(s.Tasks, TaskSpec{Name: fmt.Sprintf("t%d", i), Needs: []string{"t0"}, Policy: Policy{Priority: Medium}})
	}
	s.Tasks[0].Needs = nil
	var all []string
	for i := 1; i < n-1; i++ {
		all = append(all, s.Tasks[i].Name)
	}
	s.Tasks[n-1].Needs = all
	return s
}

func chain(n int) GraphSpec {
	s := GraphSpec{TasksMax: n}
	for i := range n {
		s.Tasks = append(s.Tasks, TaskSpec{Name: fmt.Sprintf("t%d", i), Policy: Policy{Priority: Medium}})
		if i > 0 {
			s.Tasks[i].Needs = []string{s.Tasks[i-1].Name}
		}
	}
	return s
}

func layered(n int) GraphSpec {
	s := GraphSpec{TasksMax: n}
	for i := range n {
		t := TaskSpec{Name: fmt.Sprintf("t%d", i), Policy: Policy{Priority: Medium}}
		for k := 1; k <= 3 && i >= 100; k++ {
			t.Needs = append(t.Needs, s.Tasks[(i/100-1)*100+(i*k)%100].Name)
		}
		s.Tasks = append(s.Tasks, dedupe(t))
	}
	return s
}

func dedupe(t TaskSpec) TaskSpec {
	seen := map[string]bool{}
	needs := t.Needs[:0]
	for _, n := range t.Needs {
		if !seen[n] {
			needs = append(needs, n)
		}
		seen[n] = true
	}
	t.Needs = needs
	return t
}

// TestNewGraphIsLinear counts the allocations, and the total cost of conditions that read earlier tasks.
// Both must stay small.
func TestNewGraphIsLinear(t *testing.T) {
	for name, shape := range map[string]func(int) GraphSpec{"wide": wide, "chain": chain, "layered": layered} {
		var allocs [2]float64
		for i, n := range []int{10_000, 100_000} {
			s := shape(n)
			allocs[i] = testing.AllocsPerRun(1, func() {
				if g, err := NewGraph(s); err != nil || g.Len() != n {
					t.Fatalf("%s: %v", name, err)
				}
			})
		}
		if allocs[1] > 15*allocs[0]+1000 {
			t.Errorf("%s: %v allocations for 10,000 and 100,000 tasks", name, allocs)
		}
	}
	s := chain(20_000)
	for i := 1; i < len(s.Tasks); i++ {
		s.Tasks[i].If = cond("out(t0)=1") // each condition reads the first task: 200,000,000 steps in all
	}
	b := builder{spec: s, g: &Graph{names: make([]string, len(s.Tasks)), index: map[string]TaskID{}}}
	b.indexNames()
	b.linkNeeds()
	b.conditions()
	if b.walk > walkMax+len(s.Tasks) || len(b.errs) == 0 {
		t.Errorf("%d steps, %d errors", b.walk, len(b.errs))
	}
}

// TestRunOf100000Tasks runs 100,000 tasks to their end in each shape of graph. It measures the memory of
// graph and run when they are largest: less than 1 KB per task in all.
func TestRunOf100000Tasks(t *testing.T) {
	const n = 100_000
	for name, shape := range map[string]func(int) GraphSpec{"wide": wide, "chain": chain, "layered": layered} {
		t.Run(name, func(t *testing.T) {
			s := shape(n)
			before := heapBytes()
			g, err := NewGraph(s)
			must(err)
			r := NewRun(Header{ID: testRun, Created: 1})
			now, most := Now{Wall: 1}, uint64(0)
			var fx Effects
			var c Changes
			r.Step(&Event{Kind: EvSubmit, Graph: g}, now, &fx)
			for turn := 0; !r.State.Terminal(); turn++ {
				var held []TaskID
				for r.Ready() > 0 {
					task := r.NextReady()
					held = append(held, task)
					r.Step(&Event{Kind: EvAssign, Task: task, Handler: 1}, now, &fx)
				}
				r.Flush(&c, 1)
				c.Reset()
				if len(held) > 1000 || turn == 0 {
					c, held = Changes{}, append([]TaskID(nil), held...)
					most = max(most, heapBytes()-before)
				}
				for _, task := range held {
					r.Step(&Event{Kind: EvReport, Task: task, Token: 1, Handler: 1, Result: Result{State: AttemptSucceeded}}, now, &fx)
				}
				r.Flush(&c, 1)
				c.Reset()
			}
			if r.State != RunSucceeded || most/n >= 1024 {
				t.Errorf("%s, %d bytes per task", r.State, most/n)
			}
			t.Logf("%d bytes per task", most/n)
			runtime.KeepAlive(s)
		})
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestLongChains: failures and skips of 100,000 tasks are processed in a loop and not by recursion, and write
// one row.
func TestLongChains(t *testing.T) {
	tests := []struct {
		name   string
		cond   string // the condition of t1
		result AttemptState
		rest   TaskState
		end    RunState
	}{
		{"failure", "success()", AttemptFailed, UpstreamFailed, RunFailed},
		{"skip", "failure()", AttemptSucceeded, Skipped, RunSucceeded},
		{"condition error", "error()", AttemptSucceeded, UpstreamFailed, RunFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := chain(100_000)
			s.Tasks[1].If = cond(tt.cond)
			g, err := NewGraph(s)
			must(err)
			w := newWorld(g)
			for _, ev := range []Event{{Kind: EvSubmit, Graph: g}, {Kind: EvAssign, Handler: 1}} {
				_, err = w.step(ev)
				must(err)
			}
			must(w.flush())
			_, err = w.step(Event{Kind: EvReport, Token: 1, Handler: 1, Result: Result{State: tt.result}})
			must(err)
			must(w.flush())
			if last, _ := w.run.Task(99_999); last != tt.rest || w.run.State != tt.end {
				t.Errorf("the last is %s, the run %s", last, w.run.State)
			}
			if w.changes.Rows() != 3 || len(w.rows.run.Final) > 16 {
				t.Errorf("%d rows, %d bytes of final states", w.changes.Rows(), len(w.rows.run.Final))
			}
		})
	}
}

func TestPackGraphRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		for i := range s.Tasks {
			if rapid.Bool().Draw(t, "odd") {
				s.Tasks[i].Policy.Retry.OnExit = rapid.SliceOfN(rapid.Int32(), 1, 3).Draw(t, "exit")
				s.Tasks[i].Policy.Retry.Backoff = rapid.Float64Range(0, 10).Draw(t, "backoff")
				s.Tasks[i].Policy.KillGrace = time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "grace"))
			}
		}
		g, err := NewGraph(s)
		must(err)
		back, err := UnpackGraph(g.Pack(), compileCond)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if !reflect.DeepEqual(g, back) {
			t.Fatalf("%+v came back as %+v", g, back)
		}
	})
}

func TestDamagedGraphs(t *testing.T) {
	g, err := NewGraph(spec("a retry=2 exit=3; b a if=always(); c a b if=badly()"))
	must(err)
	if _, err := UnpackGraph(g.Pack(), compileCond); err == nil || err.Error() != "condition of task c: bad condition" {
		t.Errorf("condition: %v", err)
	}
	g, _ = NewGraph(spec("a retry=2 exit=3; b a if=always(); c a b"))
	good := g.Pack()
	for i := range good {
		if _, err := UnpackGraph(good[:i], compileCond); err == nil {
			t.Errorf("%d of %d bytes are a graph", i, len(good))
		}
	}
	if _, err := UnpackGraph(append(good, 0), compileCond); err == nil {
		t.Error("a byte too many is a graph")
	}
	for i := range good {
		for bit := range 8 {
			bad := append([]byte(nil), good...)
			bad[i] ^= 1 << bit
			if g, err := UnpackGraph(bad, compileCond); err == nil && len(g.topo) != g.Len() {
				t.Errorf("byte %d bit %d: a graph that cannot end", i, bit)
			}
		}
	}
}
