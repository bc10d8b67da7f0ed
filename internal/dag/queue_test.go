package dag

import (
	"bytes"
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naiveOrder sorts every ready task of every run as decision 9 says it: run level after
// ageing, run submission, task priority, then the order in which tasks became ready.
func naiveOrder(runs []*Run, ageing time.Duration, now Micros) []*Run {
	var ready []*Run
	for _, r := range runs {
		if r.Ready() > 0 {
			ready = append(ready, r)
		}
	}
	level := func(r *Run) int64 {
		l := int64(r.Priority)
		for waited := now - r.Created; ageing > 0 && waited >= Micros(ageing.Microseconds()) && l > 0; l-- {
			waited -= Micros(ageing.Microseconds())
		}
		return l
	}
	sort.Slice(ready, func(i, j int) bool {
		a, b := ready[i], ready[j]
		if level(a) != level(b) {
			return level(a) < level(b)
		}
		if a.Created != b.Created {
			return a.Created < b.Created
		}
		return bytes.Compare(a.ID[:], b.ID[:]) < 0
	})
	return ready
}

func TestQueueIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Queue{Ageing: time.Duration(rapid.SampledFrom([]int{0, 10, 60}).Draw(t, "ageing")) * time.Second}
		var runs []*Run
		var fx Effects
		now, made := Micros(1_000_000_000), 0
		check := func() {
			want := naiveOrder(runs, q.Ageing, now)
			head := q.Head(now)
			if q.Len() != len(want) || len(want) == 0 && head != nil || len(want) > 0 && head != want[0] {
				t.Fatalf("head %v of %d, want the first of %d", head, q.Len(), len(want))
			}
			for i, r := range want {
				if n, few := runsBefore(&q, r, now, 1000), runsBefore(&q, r, now, 2); n != i || few != min(i, 2) {
					t.Fatalf("%d, at most 2: %d, go before the run that is number %d", n, few, i)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += Micros(rapid.IntRange(0, 20_000_000).Draw(t, "later"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				r := NewRun(Header{Priority: Priority(rapid.IntRange(0, 4).Draw(t, "priority")),
					Created: now - Micros(rapid.IntRange(-3, 50).Draw(t, "age"))*1_000_000})
				r.ID[0], r.ID[1] = byte(rapid.IntRange(0, 3).Draw(t, "id")), byte(made) // no two ids are equal
				made++
				g, err := NewGraph(drawTasks(t))
				must(err)
				r.Step(&Event{Kind: EvSubmit, Graph: g}, Now{Wall: now}, &fx)
				runs = append(runs, r)
				q.Update(r)
			case 3:
				if r := q.Head(now); r != nil {
					r.Step(&Event{Kind: EvAssign, Task: r.NextReady(), Handler: 1}, Now{Wall: now}, &fx)
					q.Update(r)
				}
			case 4:
				if len(runs) > 0 {
					r := rapid.SampledFrom(runs).Draw(t, "run")
					to := rapid.SampledFrom([]Intent{IntentPause, IntentRun, IntentRun, IntentStop}).Draw(t, "intent")
					r.Step(&Event{Kind: EvIntent, Intent: to}, Now{Wall: now}, &fx)
					q.Update(r)
					q.Update(r)
				}
			case 5:
				if len(runs) > 0 {
					i := rapid.IntRange(0, len(runs)-1).Draw(t, "gone")
					q.Remove(runs[i])
					q.Remove(runs[i])
					runs = append(runs[:i], runs[i+1:]...)
				}
			}
			check()
		}
		for q.Len() > 0 { // remove all tasks, one by one
			r := q.Head(now)
			r.Step(&Event{Kind: EvAssign, Task: r.NextReady(), Handler: 1}, Now{Wall: now}, &fx)
			q.Update(r)
			check()
		}
	})
}

func runsBefore(q *Queue, r *Run, now Micros, most int) (n int) {
	q.before(r, now, func(*Run) bool {
		n++
		return n < most
	})
	return n
}

func drawTasks(t *rapid.T) GraphSpec {
	s := GraphSpec{}
	for i := range rapid.IntRange(1, 4).Draw(t, "tasks") {
		s.Tasks = append(s.Tasks, TaskSpec{Name: string(rune('a' + i))})
	}
	return s
}

// TestReadyOrder: the tasks of a run are ordered by priority, and then by the time at which they became
// ready. This also holds if some tasks are removed out of turn, and whether or not they name a queue.
func TestReadyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := GraphSpec{}
		n := rapid.IntRange(1, 12).Draw(t, "tasks")
		for i := range n {
			p := Policy{Priority: Priority(rapid.IntRange(0, 4).Draw(t, "priority")), Queue: rapid.SampledFrom([]string{"", "", "q", "p"}).Draw(t, "queue")}
			s.Tasks = append(s.Tasks, TaskSpec{Name: string(rune('a' + i)), Policy: p})
		}
		g, err := NewGraph(s)
		must(err)
		r := NewRun(Header{})
		var fx Effects
		now := Now{Wall: 1}
		r.Step(&Event{Kind: EvSubmit, Graph: g}, now, &fx)
		give := func() { // there are enough queue slots
			for _, queue := range r.NewShares() {
				r.PutKey(queue, queue, "")
			}
			told, _ := r.Balance(now.Wall)
			for _, s := range told {
				s.Got = s.Need
				r.PutShare(&s)
			}
		}
		give()
		naive := seq(n) // in the order in which they became ready
		for len(naive) > 0 {
			sort.SliceStable(naive, func(i, j int) bool {
				return g.Policy(TaskID(naive[i])).Priority < g.Policy(TaskID(naive[j])).Priority
			})
			i := 0
			var task TaskID
			if rapid.IntRange(0, 2).Draw(t, "out of turn") == 0 {
				i = rapid.IntRange(0, len(naive)-1).Draw(t, "task")
				task = TaskID(naive[i])
			} else if task = r.NextReady(); task != TaskID(naive[0]) {
				t.Fatalf("next is %d, want %d", task, naive[0])
			}
			naive = append(naive[:i], naive[i+1:]...)
			r.Step(&Event{Kind: EvAssign, Task: task, Handler: 1}, now, &fx)
			if token := r.tasks[task].token; rapid.IntRange(0, 3).Draw(t, "lost") == 0 && token < lossesMax {
				r.Step(&Event{Kind: EvLost, Task: task, Token: token, Handler: 1}, now, &fx)
				r.Step(&Event{Kind: EvTimer, Timer: TimerRetry, Task: task, Token: token}, now, &fx) // after a pause
				naive = append(naive, int(task))
			}
			give()
			for i, task := range naive {
				before := 0
				for j, o := range naive {
					if k, than := g.Policy(TaskID(o)).Priority, g.Policy(TaskID(task)).Priority; k < than || k == than && j < i {
						before++
					}
				}
				if got := r.Ahead(TaskID(task), func(Place) bool { return true }, n); got != before {
					t.Fatalf("%d go before task %d, want %d", got, task, before)
				}
			}
			if err := checkRun(r); err != nil {
				t.Fatalf("%v", err)
			}
		}
	})
}

// TestQueueRemoval takes runs out of the middle of a heap with many levels.
func TestQueueRemoval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, err := NewGraph(spec("a"))
		must(err)
		var q Queue
		var fx Effects
		var runs []*Run
		for i, created := range rapid.Permutation(seq(60)).Draw(t, "created") {
			r := NewRun(Header{Created: Micros(created)})
			r.ID[0] = byte(i)
			r.Step(&Event{Kind: EvSubmit, Graph: g}, Now{Wall: 1}, &fx)
			q.Update(r)
			runs = append(runs, r)
		}
		for range 30 {
			i := rapid.IntRange(0, len(runs)-1).Draw(t, "gone")
			q.Remove(runs[i])
			runs = append(runs[:i], runs[i+1:]...)
		}
		for _, want := range naiveOrder(runs, 0, 1) {
			head := q.Head(1)
			if head != want {
				t.Fatalf("head is of %d, want %d", head.Created, want.Created)
			}
			q.Remove(head)
		}
	})
}

// TestBoardIsExact: within the open placements, the order over all runs is that of a naive sort. The order of
// the tasks of one run is that of a naive sort, too. A closed placement delays no other task.
func TestBoardIsExact(t *testing.T) {
	places := []Place{Anywhere, NewPlace("", "etl", nil), NewPlace("", "", map[string]string{"disk": "ssd"})}
	rapid.Check(t, func(t *rapid.T) {
		var b Board
		var fx Effects
		var runs []*Run
		ready := map[*Run][]TaskID{} // in the order in which they became so
		for i := range rapid.IntRange(1, 8).Draw(t, "runs") {
			s := GraphSpec{}
			for j := range rapid.IntRange(1, 5).Draw(t, "tasks") {
				p := Policy{Place: rapid.SampledFrom(places).Draw(t, "place"), Priority: Priority(rapid.IntRange(0, 2).Draw(t, "of task"))}
				s.Tasks = append(s.Tasks, TaskSpec{Name: string(rune('a' + j)), Policy: p})
			}
			g, err := NewGraph(s)
			must(err)
			g, err = UnpackGraph(g.Pack(), nil)
			must(err)
			r := NewRun(Header{Priority: Priority(rapid.IntRange(0, 2).Draw(t, "priority")), Created: Micros(rapid.IntRange(0, 3).Draw(t, "created"))})
			r.ID[0] = byte(i)
			r.Step(&Event{Kind: EvSubmit, Graph: g}, Now{Wall: 9}, &fx)
			runs = append(runs, r)
			for t := range g.Len() {
				ready[r] = append(ready[r], TaskID(t))
			}
			b.Update(r)
		}
		for range 40 {
			shut := rapid.SampledFrom(places).Draw(t, "shut")
			open := func(p Place) bool { return p != shut }
			var want *Run
			for _, r := range runs {
				n := 0
				for _, p := range places {
					if open(p) {
						n += r.ReadyAt(p)
					}
				}
				if n > 0 && (want == nil || r.Priority < want.Priority || r.Priority == want.Priority && earlier(r, want)) {
					want = r
				}
			}
			head, at := b.Head(9, open)
			if head != want || (head != nil) != b.Some(open) || head != nil && (!open(at) || head.ReadyAt(at) == 0) {
				t.Fatalf("head %v at %q, want %v", head, at, want)
			}
			if head != nil {
				first := -1
				for i, task := range ready[head] {
					if p := head.Graph.Policy(task); open(p.Place) && (first < 0 || p.Priority < head.Graph.Policy(ready[head][first]).Priority) {
						first = i
					}
				}
				task := head.NextAt(at)
				if head.Graph.Policy(task).Place != at || task != ready[head][first] {
					t.Fatalf("task %d of place %q is given for %q, of %v task %d is first", task, head.Graph.Policy(task).Place, at, ready[head], ready[head][first])
				}
				ready[head] = slices.Delete(ready[head], first, first+1)
				head.Step(&Event{Kind: EvAssign, Task: task, Handler: 1}, Now{Wall: 9}, &fx)
				if token := head.tasks[task].token; rapid.IntRange(0, 3).Draw(t, "lost") == 0 && token < lossesMax {
					head.Step(&Event{Kind: EvLost, Task: task, Token: token, Handler: 1}, Now{Wall: 9}, &fx)
					head.Step(&Event{Kind: EvTimer, Timer: TimerRetry, Task: task, Token: token}, Now{Wall: 9}, &fx)
					ready[head] = append(ready[head], task)
				}
				b.Update(head)
			}
			if r := rapid.SampledFrom(runs).Draw(t, "run"); rapid.IntRange(0, 9).Draw(t, "stop") == 0 {
				r.Step(&Event{Kind: EvIntent, Intent: rapid.SampledFrom([]Intent{IntentPause, IntentRun, IntentStop}).Draw(t, "intent")}, Now{Wall: 9}, &fx)
				b.Update(r)
			}
		}
		for _, r := range runs {
			b.Remove(r)
		}
		if b.Len() != 0 || len(b.placed) != 0 {
			t.Fatalf("%d left", b.Len())
		}
	})
}

func TestPlace(t *testing.T) {
	p := NewPlace("w1", "etl", map[string]string{"disk": "ssd", "a": "="})
	for _, c := range []struct {
		place  Place
		name   string
		groups []string
		labels map[string]string
		kinds  []string
		want   bool
	}{
		{Anywhere, "x", nil, nil, nil, true},
		{p, "w1", []string{"other", "etl"}, map[string]string{"disk": "ssd", "a": "=", "more": ""}, nil, true},
		{p, "w2", []string{"etl"}, map[string]string{"disk": "ssd", "a": "="}, nil, false},
		{p, "w1", []string{"other"}, map[string]string{"disk": "ssd", "a": "="}, nil, false},
		{p, "w1", []string{"etl"}, map[string]string{"disk": "hdd", "a": "="}, nil, false},
		{p, "w1", []string{"etl"}, map[string]string{"disk": "ssd"}, nil, false},
		{NewPlace("", "etl", nil), "x", nil, nil, nil, false},
		{NewPlace("", "", map[string]string{LabelIsolation: "user"}), "x", nil, map[string]string{LabelIsolation: "box"}, nil, true},
		{NewPlace("", "", map[string]string{LabelIsolation: "user"}), "x", nil, map[string]string{LabelIsolation: "user"}, nil, true},
		{NewPlace("", "", map[string]string{LabelIsolation: "user"}), "x", nil, map[string]string{LabelIsolation: "fence"}, nil, false},
		{NewPlace("", "", map[string]string{LabelIsolation: "fence"}), "x", nil, nil, nil, false},
		{NewPlace("", "", map[string]string{LabelIsolation: "none"}), "x", nil, nil, nil, true},
		{NewPlace("", "", map[string]string{LabelIsolation: "box"}), "x", nil, map[string]string{LabelIsolation: "other"}, nil, false},
		{NewPlace("", "", map[string]string{LabelIsolation: "bax"}), "x", nil, map[string]string{LabelIsolation: "box"}, nil, false},
		{"zlater\n", "x", nil, nil, nil, false},
		{Anywhere.OfKind("vm.create"), "x", nil, nil, nil, false},
		{Anywhere.OfKind("vm.create"), "x", nil, nil, []string{"vm.delete", "vm.create"}, true},
		{Anywhere.OfKind("vm"), "x", nil, nil, []string{"vm.delete"}, false},
		{Anywhere, "x", nil, nil, []string{"vm.create"}, false}, // a worker with kinds runs no processes
		{NewPlace("", "etl", nil).OfKind("k"), "x", nil, nil, []string{"k"}, false},
		{NewPlace("", "etl", nil).OfKind("k"), "x", []string{"etl"}, nil, []string{"k"}, true},
	} {
		if got := c.place.Fits(c.name, &Traits{Groups: c.groups, Labels: c.labels, Kinds: c.kinds}); got != c.want {
			t.Errorf("%s fits %s %v %v %v: %v", c.place, c.name, c.groups, c.labels, c.kinds, got)
		}
	}
	for want, fits := range map[string]bool{"none": true, "fence": true, "user": true, "box": true, "bax": false} {
		several := &Traits{Labels: map[string]string{LabelIsolation: "fence"}, Levels: []string{"fence", "box"}}
		if got := Anywhere.Isolated(want).Fits("x", several); got != fits {
			t.Errorf("isolation %s on a worker with two levels: %v", want, got)
		}
		if got := NewPlace("", "", map[string]string{LabelIsolation: want}).Fits("x", several); got != fits {
			t.Errorf("label isolation=%s on a worker with two levels: %v", want, got)
		}
	}
	with := &Traits{Extensions: []Extension{{Kind: "slurm", Version: "1.10.0"}, {Kind: "slurm", Version: "1.4.0"}}}
	for kind, version := range map[string]string{"slurm": "1.10.0", "slurm@1": "1.10.0", "slurm@1.4": "1.4.0", "slurm@1.4.0": "1.4.0", "slurm@1.1": "", "slu": ""} {
		x := with.Extension(kind)
		if got := Anywhere.OfKind(kind).Fits("x", with); got != (x != nil) || x != nil && x.Version != version || x == nil && version != "" {
			t.Errorf("%s: %v, %v", kind, got, x)
		}
	}
	if !Anywhere.Fits("x", with) || Anywhere.OfKind("mail").Fits("x", with) {
		t.Error("a worker with extensions runs other processes, and no other kinds")
	}
	if p.Node() != "w1" || NewPlace("", "etl", nil).Node() != "" || p.String() != "node w1, group etl, label a==, label disk=ssd" {
		t.Errorf("%q: node %q", p, p.Node())
	}
	if k := p.OfKind("vm"); k.Kind() != "vm" || k.Node() != "w1" || p.Kind() != "" || p.OfKind("") != p || k.String() != "kind vm, "+p.String() {
		t.Errorf("%q: kind %q", k, k.Kind())
	}
}

// TestIsolated checks that a demand for a level can only raise the level of a placement.
func TestIsolated(t *testing.T) {
	label := func(level string) Place {
		return NewPlace("w1", "etl", map[string]string{LabelIsolation: level, "disk": "isolation=fence", "z": "1"}).OfKind("k").With(Need{CPU: 5})
	}
	for _, c := range []struct{ place, demand, want string }{
		{"fence", "box", "box"}, {"box", "fence", "box"}, {"user", "user", "user"}, {"fence", "none", "fence"}, {"user", "", "user"},
	} {
		if got := label(c.place).Isolated(c.demand); got != label(c.want) || got.Isolation() != c.want {
			t.Errorf("%s with the demand %s: %q", c.place, c.demand, got)
		}
	}
	if p := Anywhere.Isolated("none"); p != Anywhere || p.Isolated("") != Anywhere {
		t.Errorf("%q", p)
	}
	if p := Anywhere.Isolated("user"); p != NewPlace("", "", map[string]string{LabelIsolation: "user"}) || p.String() != "isolation user" {
		t.Errorf("%q: %s", p, p)
	}
}
