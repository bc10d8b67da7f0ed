package inspect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Runs that wait for each other in a circle form a deadlock. A run waits
//
//	- for each run that it has called;
//	- at its workflow's max_concurrent_runs, for one of the admitted runs;
//	- for a lock, for each run that holds it. If the lock is free, for the runs that requested it earlier.
//
// No other wait can be part of a circle. A run with a queue slot is running, and it returns the slot while it
// only waits. The end of an attempt returns its slot. A run that waits at a trigger's limit holds nothing
// that other runs need. Any run of the other workflow can satisfy a dependent task.
//
// The admission owner finds circles of locks at once (package admission). Only the sweep reads the limits of
// several shards together, so only the sweep can find a circle that includes such limits. In each circle, the
// run that began to wait last fails. Runs cannot leave a circle, so if two successive readings find the same
// circle, it existed in between.

// waiter is a run for which others may wait.
type waiter struct {
	store.Standing
	calls []*waiter // runs that it has called, and that have not ended
	moves bool      // the run may end without an event of another waiting run
	past  bool      // the gate of the run's workflow has admitted the run
}

// Waits says which run waits for which, among the runs of all shards.
type Waits struct {
	now    dag.Micros
	limits map[dag.WorkflowID]int32
	// before is an earlier reading, or nil. A run is stuck only if it already waited in that reading, by the
	// same request.
	before *Waits

	all     []*waiter // all waiters, in the order of reading
	of      map[dag.RunID]*waiter
	through map[dag.WorkflowID]*queueOf
	has     map[string][]*waiter // locks
	wants   map[string]*queueOf
}

// queueOf is a list of waiters. A waiter that can continue stays so during Settle. So the list never examines
// again the waiters before its first stuck waiter, and many runs that wait for the same thing cost one pass
// in total.
type queueOf struct {
	list  []*waiter
	moved int // the number of runs at the head that can continue
	stuck int // the number of admitted runs that cannot continue
}

// rest returns the part of the list that begins with the first run that cannot continue.
func (q *queueOf) rest() []*waiter {
	if q == nil {
		return nil
	}
	for q.moved < len(q.list) && q.list[q.moved].moves {
		q.moved++
	}
	return q.list[q.moved:]
}

func add[K comparable](to map[K]*queueOf, key K, w *waiter) {
	if to[key] == nil {
		to[key] = &queueOf{}
	}
	to[key].list = append(to[key].list, w)
}

// NewWaits makes an empty Waits. limits are the limits on concurrent runs of workflows; 0 means no limit.
func NewWaits(now dag.Micros, limits map[dag.WorkflowID]int32) *Waits {
	return &Waits{now: now, limits: limits, of: map[dag.RunID]*waiter{}, through: map[dag.WorkflowID]*queueOf{},
		has: map[string][]*waiter{}, wants: map[string]*queueOf{}}
}

// atGate reports whether a run waits at its trigger's or its workflow's gate.
func atGate(s *store.Standing) bool { return s.State == dag.RunWaiting && s.Claim == nil }

// WaitsSince returns the time since which a run waits for something that other runs hold. It returns 0 if the
// run does not wait.
func WaitsSince(s *store.Standing) dag.Micros {
	switch {
	case s.State != dag.RunWaiting:
		return 0
	case s.Claim == nil:
		return s.Created
	case s.Claim.InLine():
		return s.Claim.Asked
	}
	return 0
}

// See adds a run for which other runs may wait, because it has a lock, was admitted at a gate, or was called.
func (g *Waits) See(s *store.Standing) {
	past := g.limits[s.Workflow] > 0 && !atGate(s) && s.State != dag.RunSubmitted
	locks := s.Claim != nil && (s.Claim.Holds() && len(s.Claim.Locks) > 0 || s.Claim.InLine() && len(s.Claim.Locks) > 1)
	if s.Bad != nil || s.Parent.IsZero() && !past && !locks {
		return
	}
	w := &waiter{Standing: *s}
	w.Live = nil
	g.all = append(g.all, w)
	g.of[w.Run] = w
	if w.past = past; past {
		add(g.through, w.Workflow, w)
	}
	if s.Claim == nil {
		return
	}
	for _, name := range s.Claim.Locks {
		if s.Claim.Holds() {
			g.has[name] = append(g.has[name], w)
		} else if s.Claim.InLine() {
			add(g.wants, name, w)
		}
	}
}

// Settle finds the runs that wait for ever. It first marks each waiting run as stuck, and then clears the
// mark of runs that wait for a run that can continue, until nothing changes.
func (g *Waits) Settle() {
	for _, w := range g.all {
		if up := g.of[w.Parent]; up != nil {
			up.calls = append(up.calls, w)
		}
		since := WaitsSince(&w.Standing)
		w.moves = w.Intent >= dag.IntentStop || since != 0 && (w.Intent == dag.IntentPause || g.now-since <= dag.Micros(Standstill.Microseconds())) ||
			g.before != nil && !g.before.had(w)
	}
	for _, q := range g.wants {
		slices.SortFunc(q.list, func(a, b *waiter) int {
			return cmp.Or(cmp.Compare(a.Claim.Asked, b.Claim.Asked), bytes.Compare(a.Run[:], b.Run[:]))
		})
	}
	for _, q := range g.through {
		for _, w := range q.list {
			if !w.moves {
				q.stuck++
			}
		}
	}
	// Callers come before the runs that they called, and a run that requests a lock usually comes after the
	// runs that requested it earlier. Passes in both directions resolve a long chain in one pass.
	end := len(g.all) - 1
	for pass, more := 0, true; more; pass++ {
		more = false
		for i := range g.all {
			if pass%2 == 1 {
				i = end - i
			}
			w := g.all[i]
			if w.moves || g.waitsFor(w) != nil {
				continue
			}
			if w.moves, more = true, true; w.past {
				g.through[w.Workflow].stuck--
			}
		}
	}
}

// had reports whether the earlier reading has the same run as waiting for the same thing.
func (g *Waits) had(w *waiter) bool {
	was := g.of[w.Run]
	if was == nil || was.moves || was.State != w.State || (was.Claim == nil) != (w.Claim == nil) {
		return false
	}
	return w.Claim == nil || was.Claim.Stage == w.Claim.Stage && was.Claim.Asked == w.Claim.Asked && was.Claim.Grant == w.Claim.Grant
}

// waitsFor returns a stuck waiter that the run waits for, or nil if the run may continue.
func (g *Waits) waitsFor(w *waiter) *waiter {
	switch {
	case atGate(&w.Standing):
		if q, limit := g.through[w.Workflow], g.limits[w.Workflow]; q != nil && limit > 0 && q.stuck >= int(limit) {
			return q.rest()[0]
		}
	case WaitsSince(&w.Standing) != 0:
		_, o, _ := g.lockFor(w)
		return o
	case w.State != dag.RunWaiting:
		for _, o := range w.calls {
			if !o.moves {
				return o
			}
		}
	}
	return nil
}

// lockFor returns a lock that a run cannot get because of a stuck run o. ahead is true if o does not hold the
// lock, but requested it earlier.
func (g *Waits) lockFor(w *waiter) (name string, o *waiter, ahead bool) {
	for _, name := range w.Claim.Locks {
		for _, o := range g.has[name] {
			if !o.moves && family(o) != family(w) {
				return name, o, false
			}
		}
		if len(g.has[name]) > 0 {
			continue
		}
		for _, o := range g.wants[name].rest() {
			if o == w {
				break
			}
			if !o.moves && !g.yields(o, w) {
				return name, o, true
			}
		}
	}
	return "", nil, false
}

// yields reports whether run o lets run w go first, although o requested the lock earlier. It does so if o
// waits for a lock that w's family holds.
func (g *Waits) yields(o, w *waiter) bool {
	if w.Claim.Family.IsZero() || family(o) == family(w) {
		return false
	}
	return slices.ContainsFunc(o.Claim.Locks, func(name string) bool {
		return len(g.has[name]) > 0 && family(g.has[name][0]) == family(w)
	})
}

func family(w *waiter) dag.RunID {
	if w.Claim.Family.IsZero() {
		return w.Run
	}
	return w.Claim.Family
}

// Circle is a set of runs that wait for each other.
type Circle struct {
	Last  store.Standing // the run that began to wait last
	Since dag.Micros     // the time at which that run began to wait
	Words string         // a sentence: which run waits for which
}

// Circles returns the circles in which runs wait. After Settle, each stuck run waits for a stuck run. So a
// walk from any stuck run reaches a circle.
func (g *Waits) Circles() (all []Circle) {
	seen := map[*waiter]int{} // for each run, the number of the walk that visited the run
	for i, w := range g.all {
		if c := g.follow(w, i+1, seen); c != nil {
			all = append(all, g.circle(c))
		}
	}
	return all
}

func (g *Waits) circle(c []*waiter) Circle {
	w := last(c)
	name := func(w *waiter) string { return "run " + w.Run.String() }
	return Circle{Last: w.Standing, Since: WaitsSince(&w.Standing), Words: g.tell(c, name)}
}

// follow returns the circle that a walk reaches. It returns nil if an earlier walk has already reached that
// circle.
func (g *Waits) follow(w *waiter, walk int, seen map[*waiter]int) []*waiter {
	var path []*waiter
	for ; w != nil && !w.moves; w = g.waitsFor(w) {
		if seen[w] == walk {
			return path[slices.Index(path, w):]
		}
		if seen[w] != 0 {
			return nil
		}
		seen[w] = walk
		path = append(path, w)
	}
	return nil
}

// last returns the run of a circle that was the last to join a line. There always is one: without a line, the
// circle would consist of calls only, and no run descends from itself.
func last(circle []*waiter) *waiter {
	lines := slices.DeleteFunc(slices.Clone(circle), func(w *waiter) bool { return WaitsSince(&w.Standing) == 0 })
	return slices.MaxFunc(lines, func(a, b *waiter) int {
		return cmp.Or(cmp.Compare(WaitsSince(&a.Standing), WaitsSince(&b.Standing)), bytes.Compare(a.Run[:], b.Run[:]))
	})
}

// circleShown bounds the number of runs that the description of a circle names.
const circleShown = 12

// tell describes a circle of waiting runs.
func (g *Waits) tell(circle []*waiter, name func(*waiter) string) string {
	var parts []string
	for i, w := range circle[:min(len(circle), circleShown)] {
		is, o := name(w), name(circle[(i+1)%len(circle)])
		switch {
		case atGate(&w.Standing):
			parts = append(parts, fmt.Sprintf("%s waits at its workflow's limit of %d, which %s is through", is, g.limits[w.Workflow], o))
		case WaitsSince(&w.Standing) != 0:
			if lock, _, ahead := g.lockFor(w); ahead {
				parts = append(parts, fmt.Sprintf("%s waits for lock %s behind %s", is, dag.LockName(lock), o))
			} else {
				parts = append(parts, fmt.Sprintf("%s waits for lock %s, which %s has", is, dag.LockName(lock), o))
			}
		default:
			parts = append(parts, fmt.Sprintf("%s waits for %s, which it has called", is, o))
		}
	}
	if more := len(circle) - circleShown; more > 0 {
		parts = append(parts, fmt.Sprintf("and so on, through %d more runs", more))
	}
	return strings.Join(parts, "; ")
}

// Limits reads for each workflow how many of its runs may be active.
func (rd *Reader) Limits(ctx context.Context) (map[dag.WorkflowID]int32, error) {
	limits := map[dag.WorkflowID]int32{}
	for q := (store.WorkflowQuery{Limit: pageRows}); ; {
		page, err := rd.store.Workflows(ctx, q)
		if err != nil {
			return nil, errkind.FromStore("read the limits of workflows", err)
		}
		for i := range page {
			limits[page[i].ID] = page[i].MaxRuns
			q.After = page[i].Namespace + "/" + page[i].Name
		}
		if len(page) < pageRows {
			return limits, nil
		}
	}
}

// EachStanding passes the states of all unfinished runs of a shard to the function see. It adds the limits of
// deleted workflows to the map limits.
func (rd *Reader) EachStanding(ctx context.Context, s dag.ShardID, limits map[dag.WorkflowID]int32, see func(*store.Standing)) error {
	for after := (dag.RunID{}); ; {
		page, err := rd.store.Standing(ctx, s, after, pageRows)
		if err != nil {
			return errkind.FromStore(fmt.Sprintf("read the runs of shard %d", s), err)
		}
		for i := range page {
			after = page[i].Run
			if _, known := limits[page[i].Workflow]; !known && page[i].Bad == nil {
				wf, err := rd.store.WorkflowByID(ctx, page[i].Workflow)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return errkind.FromStore("read the limit of a workflow", err)
				}
				limits[page[i].Workflow] = wf.MaxRuns
			}
			see(&page[i])
		}
		if len(page) < pageRows {
			return nil
		}
	}
}

// Waits reads which run waits for which. If an earlier reading is given, it keeps only the waits that the
// earlier reading contains.
func (rd *Reader) Waits(ctx context.Context, now dag.Micros, before *Waits) (*Waits, error) {
	limits, err := rd.Limits(ctx)
	if err != nil {
		return nil, err
	}
	g := NewWaits(now, limits)
	g.before = before
	for _, s := range rd.cfg.Shards {
		if err := rd.EachStanding(ctx, s, limits, g.See); err != nil {
			return nil, err
		}
	}
	g.Settle()
	return g, nil
}

// explainPatience bounds the time for which Explain searches a circle, because the search takes long among
// very many runs.
const explainPatience = time.Second

// explainCircle reports whether a run waits in a circle, or for a run in a circle.
func (x *explaining) explainCircle(ctx context.Context) error {
	since := WaitsSince(&store.Standing{State: x.run.State, Created: x.run.Created, Claim: x.run.Claim})
	if since == 0 && !slices.ContainsFunc(x.Reasons, func(r Reason) bool { return r.Kind == dag.Call.String() }) {
		return nil
	}
	now, err := x.rd.store.Clock(ctx)
	if err != nil || since != 0 && now-since <= dag.Micros(Standstill.Microseconds()) {
		return errkind.FromStore("read the clock", err)
	}
	short, cancel := context.WithTimeout(ctx, explainPatience)
	defer cancel()
	g, err := x.rd.Waits(short, now, nil)
	switch {
	case ctx.Err() == nil && short.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	w := g.of[x.run.ID]
	if w == nil { // no run waits for this one, but this one may wait
		w = &waiter{Standing: store.Standing{Run: x.run.ID, Workflow: x.run.RunRow.Workflow, State: x.run.State, Intent: x.run.Intent, Created: x.run.Created, Claim: x.run.Claim}}
		for _, o := range g.all {
			if o.Parent == x.run.ID {
				w.calls = append(w.calls, o)
			}
		}
	}
	circle := g.follow(w, 1, map[*waiter]int{})
	if circle == nil {
		return nil
	}
	return x.addCircle(ctx, g, circle)
}

// addCircle adds the reason for a run that waits in a circle, or for a run in a circle.
func (x *explaining) addCircle(ctx context.Context, g *Waits, circle []*waiter) error {
	names := map[*waiter]string{}
	for _, w := range circle[:min(len(circle), circleShown+1)] { // tell names the neighbour of each shown run
		name, err := x.nameOf(ctx, w.Run, w.Workflow)
		if err != nil {
			return err
		}
		names[w] = name
	}
	name := func(w *waiter) string { return names[w] }
	w := last(circle)
	who, err := x.nameOf(ctx, w.Run, w.Workflow)
	if err != nil {
		return err
	}
	r := Reason{Kind: "circle", Code: "wait_circle", Since: WaitsSince(&w.Standing), Holder: who,
		What:     "runs wait for each other in a circle, so none of them can continue: " + g.tell(circle, name),
		Unblocks: "the next recovery sweep, which fails the last of them"}
	if who != elseRun {
		r.Actions = on(w.Run, "", "stop")
		r.Unblocks += "; or stop one: skein run stop " + w.Run.String()
	}
	x.add(r)
	return nil
}
