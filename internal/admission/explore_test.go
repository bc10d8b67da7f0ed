package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The exhaustive check plays every order of a few events over a few runs. It compares the state with the
// rules, and with a state that is filled from the rows. The owner may die between any two events.

// player is a run of the model.
type player struct {
	claim  dag.Claim // the claim that it asks for
	parent int       // the run that started it, + 1; 0 if there is none. The player asks only while its parent holds its claim
	tasks  int       // if its tasks name a queue: the number of tasks that may wait at once
}

// scenario holds the settings of an exploration.
type scenario struct {
	name   string
	queues []store.Queue
	runs   []player
	modes  []func(*store.Queue) // changes of the first queue that an operator makes
	steps  int                  // the length of a history
	room   int                  // the number of decisions in one transaction; 0 means any number
	circle bool                 // a denial because of a circle must occur
	bug    string               // a bug that the exploration must find; "" if there is none
}

// event is one event of a history.
type event struct {
	kind string
	run  int
}

// world is one history being played.
type world struct {
	*scenario
	s      State
	now    dag.Micros
	claims []*dag.Claim // the rows; nil for a run without a request
	ended  []bool
	shares []dag.Share
	queues map[string]store.Queue
	made   int // the number of decisions in the present transaction
	serial int64
	last   int64 // the newest grant
	faults []string
	cycles int
	rests  int // the number of decisions since the last event
}

func runID(i int) dag.RunID { return dag.RunID{15: byte(i + 1)} }

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func newWorld(sc *scenario) *world {
	w := &world{scenario: sc, now: 1_000_000_000, queues: map[string]store.Queue{}, claims: make([]*dag.Claim, len(sc.runs)),
		ended: make([]bool, len(sc.runs)), shares: make([]dag.Share, len(sc.runs))}
	for _, q := range sc.queues {
		w.queues[q.Name] = q
	}
	w.load()
	return w
}

// load fills the state from the rows, as a new owner does.
func (w *world) load() {
	w.s = New(0)
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		q := w.queues[name]
		w.s.AddQueue(&q)
	}
	rows := w.rows()
	for i := range w.runs {
		if s := w.shares[i]; s.Queue != "" {
			w.s.Enroll(Crew{Run: runID(i), Share: s})
		}
		if c := rows.Claims[runID(i)]; c != nil {
			w.s.Adopt(&Claimant{Run: runID(i), Claim: c})
		}
	}
	for i := range rows.Lines {
		w.s.AddLine(&rows.Lines[i])
	}
	w.s.Loaded = true
}

// rows returns the rows that the store would return.
func (w *world) rows() *Rows {
	r := &Rows{Claims: map[dag.RunID]*dag.Claim{}, Shares: map[CrewKey]dag.Share{}}
	lines := map[string]*store.Line{}
	for i, c := range w.claims {
		if s := w.shares[i]; s.Queue != "" {
			r.Shares[CrewKey{runID(i), s.Queue}] = s
		}
		if c.Holds() {
			row := *c
			r.Claims[runID(i)] = &row
		}
		if c.InLine() {
			k := fmt.Sprint(c.Line(), c.Level)
			if lines[k] == nil {
				lines[k] = &store.Line{Name: c.Line(), Level: c.Level}
			}
			lines[k].Runs++
		}
	}
	for _, k := range slices.Sorted(maps.Keys(lines)) {
		r.Lines = append(r.Lines, *lines[k])
	}
	return r
}

// read returns the next waiting runs of a line.
func (w *world) read(at Window) ([]store.Claimant, error) {
	var page []store.Claimant
	for i, c := range w.claims {
		if c.InLine() && c.Line() == at.Line && c.Level == at.Level && c.Asked >= at.From {
			page = append(page, store.Claimant{Run: runID(i), Claim: *c})
		}
	}
	slices.SortFunc(page, func(a, b store.Claimant) int { return cmp.Compare(a.Claim.Asked, b.Claim.Asked) })
	return page[:min(len(page), at.Limit)], nil
}

func (w *world) at(id dag.RunID) int { return int(id[15]) - 1 }

// The methods below implement Shell for an owner of all runs.
func (w *world) Serial() int64      { return w.serial }
func (w *world) Full() bool         { return w.room > 0 && w.made >= w.room }
func (w *world) FullForTasks() bool { return w.Full() }
func (w *world) Spend()             { w.made++; w.rests++ }

func (w *world) Paced(queue string, until dag.Micros) {
	q := w.queues[queue]
	q.Paced = until
	w.queues[queue] = q
}

func (w *world) Grant(c *Claimant) (bool, error) {
	w.Spend()
	w.granted(w.at(c.Run), c.Claim)
	return true, nil
}

// granted judges a grant by the rows before it.
func (w *world) granted(i int, c *dag.Claim) {
	if w.ended[i] {
		w.fault("run %d gets its claim after its end", i)
	}
	used := 0
	for j, o := range w.claims {
		if j != i && o.Slot() && o.Line() == c.Line() {
			used++
		}
	}
	q, is := w.queues[c.Queue]
	switch {
	case c.Queue != "" && !is:
		w.fault("run %d gets a slot of a queue that does not exist", i)
	case q.Limit > 0 && used >= int(q.Limit):
		w.fault("run %d gets slot %d of %d", i, used+1, q.Limit)
	case c.Queue != "" && q.State == store.QueuePaused:
		w.fault("run %d gets a slot of a paused queue", i)
	}
	if was := w.claims[i]; was == nil || was.Stage != dag.ClaimAgain { // a suspended run keeps its number
		if c.Grant <= w.last {
			w.fault("grant %d comes after %d", c.Grant, w.last)
		}
		w.last = c.Grant
	}
	w.claims[i] = c
}

func (w *world) Deny(c *Claimant, d *Denial) error {
	w.Spend()
	w.denied(w.at(c.Run), d)
	return nil
}

// denied ends a run.
func (w *world) denied(i int, d *Denial) {
	if w.ended[i] {
		w.fault("run %d is denied its claim after its end", i)
	}
	if d.Cause == dag.CauseCycle {
		w.cycles++
	}
	none := *w.claims[i]
	none.Stage = dag.ClaimNone
	w.claims[i], w.ended[i] = &none, true
}

func (w *world) Give(c *Crew) {
	i := w.at(c.Run)
	used := c.Share.Has()
	for j := range w.shares {
		if j != i && w.shares[j].Line() == c.Share.Line() {
			used += w.shares[j].Has()
		}
	}
	if q := w.queues[c.Share.Queue]; q.Limit > 0 && used > int64(q.Limit) {
		w.fault("the tasks of run %d get slot %d of %d", i, used, q.Limit)
	}
	w.shares[i] = c.Share
}

func (w *world) Refuse(c *Crew, _ string) {
	w.Spend()
	w.shares[w.at(c.Run)] = c.Share
}

// events returns the events that can happen now.
func (w *world) events() []event {
	all := []event{{"the owner dies", 0}, {"a second passes", 0}}
	for m := range w.modes {
		all = append(all, event{"change", m})
	}
	for i := range w.runs {
		c, p := w.claims[i], &w.runs[i]
		switch {
		case p.tasks > 0:
			if s := &w.shares[i]; !w.ended[i] {
				if s.Need-s.Back < int64(p.tasks) {
					all = append(all, event{"wants a slot for a task", i})
				}
				if s.Has() > 0 {
					all = append(all, event{"gives a slot back", i})
				}
				all = append(all, event{"ends", i})
			}
		case w.ended[i]:
		case c == nil:
			if p.parent == 0 || w.claims[p.parent-1].Holds() {
				all = append(all, event{"asks", i})
			}
		default:
			all = append(all, event{"ends", i})
			if c.Slot() {
				all = append(all, event{"is suspended", i})
			}
			if c.Stage == dag.ClaimLent {
				all = append(all, event{"goes on", i})
			}
		}
	}
	return all
}

// play makes one event and its consequences happen, in one transaction.
func (w *world) play(e event) {
	w.now++
	w.serial++
	w.made = 0
	w.s.Begin()
	switch i := e.run; e.kind {
	case "the owner dies":
		w.load()
	case "a second passes":
		w.now += 1_000_000
	case "change":
		for _, q := range w.queues {
			if q.Name == w.scenario.queues[0].Name {
				w.modes[i](&q)
				w.queues[q.Name] = q
				w.s.SetQueue(&q)
			}
		}
	case "asks":
		c := w.runs[i].claim
		c.Stage, c.Asked = dag.ClaimAsked, w.now
		if p := w.runs[i].parent; p != 0 {
			c.Family = runID(p - 1)
		}
		w.claims[i] = &c
		_, d, _ := w.s.Ask(&Claimant{Run: runID(i), Claim: &c}, w.now, w)
		switch {
		case d != nil:
			w.denied(i, d)
		case c.Stage == dag.ClaimGranted:
			w.claims[i] = nil // the run had no claim until now
			w.granted(i, &c)
		}
	case "is suspended":
		c := *w.claims[i]
		c.Stage = dag.ClaimLent
		w.claims[i] = &c
		w.s.Lend(runID(i), c.Asked)
	case "goes on":
		c := *w.claims[i]
		c.Stage, c.Asked = dag.ClaimAgain, max(w.now, c.Asked+1)
		w.claims[i] = &c
		w.s.AskAgain(&Claimant{Run: runID(i), Claim: &c})
	case "ends":
		w.ended[i] = true
		if w.runs[i].tasks > 0 {
			s := w.shares[i]
			w.shares[i] = dag.Share{}
			w.s.Dismiss(runID(i), &s)
			break
		}
		asked := w.claims[i].Asked
		w.claims[i] = nil
		if w.bug != "an end that is not told" {
			w.s.Leave(runID(i), asked)
		}
	case "wants a slot for a task", "gives a slot back":
		s := &w.shares[i]
		if s.Queue, s.Asked = w.scenario.queues[0].Name, cmp.Or(s.Asked, w.now); e.kind[0] == 'w' {
			s.Need++
		} else {
			s.Back++
		}
		s.Rev++
		w.s.Enroll(Crew{Run: runID(i), Share: *s})
	}
	w.rest()
}

// rest makes further transactions until no run or task can be admitted.
func (w *world) rest() {
	for range 30 {
		_ = w.s.Fill(w.read)
		w.s.Tick(w.now)
		_ = w.s.Serve(w.now, w)
		w.s.ServeTasks(w.now, w)
		if !w.s.RunsMayPass() && !w.s.TasksMayPass() {
			return
		}
		w.now++
		w.serial++
		w.made = 0
		w.s.Begin()
	}
	w.fault("the owner does not come to rest")
}

// judge compares the state with the rules after an event.
func (w *world) judge() {
	if diff := w.s.Diff(w.rows(), w.now); diff != "" {
		w.fault("%s", diff)
	}
	kin := 0
	for _, c := range w.s.of {
		if !c.locks && !c.Claim.Family.IsZero() {
			kin++
		}
	}
	if kin != w.s.kin {
		w.fault("%d claimants of families wait for locks, %d are counted", kin, w.s.kin)
	}
	family := func(i int) int { return cmp.Or(w.runs[i].parent, i+1) }
	has := map[string]int{}
	for i, c := range w.claims {
		if !c.Holds() {
			continue
		}
		for _, lock := range c.Locks {
			if f := has[lock]; f != 0 && f != family(i) {
				w.fault("lock %s is held by two families", lock)
			}
			has[lock] = family(i)
		}
	}
	// A family waits for another if one of its members wants a lock that the other holds.
	waits := map[int]map[int]bool{}
	for i, c := range w.claims {
		if !c.InLine() {
			continue
		}
		for _, lock := range c.Locks {
			if f := has[lock]; f != 0 && f != family(i) {
				if waits[family(i)] == nil {
					waits[family(i)] = map[int]bool{}
				}
				waits[family(i)][f] = true
			}
		}
	}
	for a := range waits {
		for b := range waits[a] {
			if waits[b][a] {
				w.fault("families %d and %d wait for each other", a, b)
			}
		}
	}
	// A new owner that has only the rows would admit no other run.
	next := *w
	next.claims, next.ended, next.shares, next.queues = slices.Clone(w.claims), slices.Clone(w.ended), slices.Clone(w.shares), maps.Clone(w.queues)
	next.faults = nil
	next.load()
	next.rests = 0
	next.rest()
	if next.rests > 0 {
		w.fault("a new owner lets %d more through", next.rests)
	}
}

// key names the rows and the memory, without absolute times. Two histories with one key continue in the same
// way.
func (w *world) key() string {
	var times []dag.Micros
	for _, c := range w.claims {
		if c != nil {
			times = append(times, c.Asked)
		}
	}
	for i := range w.shares {
		times = append(times, w.shares[i].Asked)
	}
	slices.Sort(times)
	rank := func(t dag.Micros) int { n, _ := slices.BinarySearch(times, t); return n }
	var b strings.Builder
	for i, c := range w.claims {
		fmt.Fprint(&b, w.ended[i])
		if c != nil {
			fmt.Fprint(&b, c.Stage, rank(c.Asked))
		}
		s := &w.shares[i]
		fmt.Fprint(&b, s.Has(), s.Wants(), rank(s.Asked), ";")
	}
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		q := w.queues[name]
		fmt.Fprint(&b, q.Limit, q.State, max(q.Paced-w.now, 0)/1000)
	}
	fmt.Fprint(&b, w.s.kin, slices.Sorted(maps.Keys(w.s.open)), slices.Sorted(maps.Keys(w.s.lines)), slices.Sorted(maps.Keys(w.s.locks)), len(w.s.of))
	return b.String()
}

// explored is the result of an exploration.
type explored struct {
	states, cycles int
	fault          string
}

// explore plays every history up to the length of the scenario, breadth first, each state once.
func explore(sc *scenario) explored {
	var out explored
	seen := map[string]bool{}
	for level := [][]event{nil}; len(level) > 0; {
		var next [][]event
		for _, past := range level {
			w := newWorld(sc)
			for _, e := range past {
				w.play(e)
			}
			choices := w.events()
			for i, e := range choices {
				if i > 0 { // the first event continues in the present world
					w = newWorld(sc)
					for _, p := range past {
						w.play(p)
					}
				}
				w.faults = nil
				w.play(e)
				w.judge()
				out.cycles += w.cycles
				history := append(slices.Clone(past), e)
				if len(w.faults) > 0 {
					out.fault = fmt.Sprintf("%v\nhistory: %v", w.faults, history)
					return out
				}
				if k := w.key(); !seen[k] && len(history) < sc.steps {
					seen[k] = true
					next = append(next, history)
				}
			}
		}
		level = next
	}
	out.states = len(seen)
	return out
}

func fifo(limit int32) store.Queue {
	return store.Queue{Name: "q", Limit: limit, State: store.QueueActive, Order: store.QueueFIFO, Overflow: store.OverflowWait}
}

func with(q store.Queue, f func(*store.Queue)) store.Queue {
	f(&q)
	return q
}

func scenarios() []scenario {
	queued, key := dag.Claim{Queue: "q"}, dag.Claim{Queue: "q", Key: "b"}
	locks := func(names ...string) dag.Claim { return dag.Claim{Locks: names} }
	both := func(level dag.Priority, names ...string) dag.Claim {
		return dag.Claim{Queue: "q", Locks: names, Level: level}
	}
	set := func(limit int32) func(*store.Queue) { return func(q *store.Queue) { q.Limit = limit } }
	state := func(s string) func(*store.Queue) { return func(q *store.Queue) { q.State = s } }
	return []scenario{
		{name: "a limit that changes", queues: []store.Queue{fifo(1)}, runs: []player{{claim: queued}, {claim: queued}, {claim: queued}},
			modes: []func(*store.Queue){set(1), set(2)}, steps: 8},
		{name: "a pause and a drain", queues: []store.Queue{fifo(1)}, runs: []player{{claim: queued}, {claim: queued}},
			modes: []func(*store.Queue){state(store.QueuePaused), state(store.QueueDraining), state(store.QueueActive)}, steps: 7},
		{name: "runs that do not wait", queues: []store.Queue{with(fifo(1), func(q *store.Queue) { q.Overflow = store.OverflowSkip })},
			runs: []player{{claim: queued}, {claim: both(0, "a")}, {claim: dag.Claim{Locks: []string{"a"}, Fail: true}}}, steps: 8},
		{name: "priority and locks", queues: []store.Queue{with(fifo(1), func(q *store.Queue) { q.Order = store.QueuePriority })},
			runs: []player{{claim: both(1, "a")}, {claim: both(0, "a", "b")}, {claim: both(2, "b")}}, steps: 8},
		{name: "a rate of two keys", queues: []store.Queue{with(fifo(0), func(q *store.Queue) { q.Rate, q.Each = 1, PerSecond })},
			runs: []player{{claim: queued}, {claim: key}, {claim: queued}}, steps: 8},
		{name: "small transactions", queues: []store.Queue{fifo(2)}, room: 1,
			runs: []player{{claim: both(0, "a")}, {claim: both(0, "a")}, {claim: queued}, {claim: queued}}, steps: 6},
		{name: "families", runs: []player{{claim: locks("a")}, {claim: locks("b")}, {claim: locks("b"), parent: 1}, {claim: locks("a"), parent: 2}}, steps: 8, circle: true},
		{name: "families and a third", runs: []player{{claim: locks("a")}, {claim: locks("b")}, {claim: locks("b", "c"), parent: 1}, {claim: locks("a", "c"), parent: 2}, {claim: locks("c")}},
			steps: 7, circle: true},
		{name: "a circle that a free lock closes", runs: []player{{claim: locks("a")}, {claim: locks("b")}, {claim: locks("c")}, {claim: locks("c"), parent: 1},
			{claim: locks("a", "c"), parent: 2}, {claim: locks("c"), parent: 2}}, steps: 7, circle: true},
		{name: "tasks", queues: []store.Queue{fifo(2)}, runs: []player{{tasks: 2}, {tasks: 2}, {tasks: 1}}, modes: []func(*store.Queue){set(1), set(3)}, steps: 6},
		{name: "tasks at a rate, small transactions", queues: []store.Queue{with(fifo(2), func(q *store.Queue) { q.Rate, q.Each = 1, PerSecond })}, room: 1,
			runs: []player{{tasks: 2}, {tasks: 2}}, steps: 7},
	}
}

// TestExhaustive: whatever the order of events, the state follows the rules, and admits every run that can be
// admitted.
func TestExhaustive(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			is := explore(&sc)
			if is.fault != "" {
				t.Error(is.fault)
			} else if sc.circle != (is.cycles > 0) {
				t.Errorf("%d denials because of a circle", is.cycles)
			}
			t.Logf("%d states", is.states)
		})
	}
}

// TestExhaustiveCanFail: the exploration finds a shell that does not report an end.
func TestExhaustiveCanFail(t *testing.T) {
	sc := scenarios()[0]
	sc.bug = "an end that is not told"
	if is := explore(&sc); is.fault == "" {
		t.Errorf("nothing found in %d states", is.states)
	}
}
