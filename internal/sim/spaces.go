package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// spaces are the namespaces of a world, whose quotas and demanded levels change while runs begin and end.
// Nodes offer different levels of isolation. Some nodes stand for workers whose invitation has bound them to
// namespaces and to the group crew.
type spaces struct {
	all []*space
}

// space is one namespace.
type space struct {
	row     store.Namespace
	base    int64 // the stored bytes before any run
	was     int64 // the unfinished runs after the last commit
	demands []demand
}

// demand is a level that a namespace demands from an instant on.
type demand struct {
	at   int64
	rank int
}

const (
	// spacesMost is the number of namespaces.
	spacesMost = 3
	// levelLag bounds the time for which an owner may still assign tasks at the level before: it reads the
	// namespaces each quotasEach, and then makes its next transaction.
	levelLag = 2 * quotasEach
	// rulesLag bounds the time for which an attempt may still begin at the level before: the wait of
	// engine.Namespaces.Change.
	rulesLag = quotasEach + quotasEach/2 + 250*time.Millisecond
)

// namespaceOf returns the namespace of a workflow.
func namespaceOf(w *World, flow int) string {
	if !w.stage.Spaces {
		return "sim"
	}
	return fmt.Sprintf("ns%d", flow%spacesMost)
}

// drawQuotas makes room for more runs. In a world with namespaces it also makes room for changes, which take
// effect within quotasEach, so the history is longer. The witness does not know which instants of a trigger a
// quota skips.
func drawQuotas(w *World) {
	s := &w.swarm
	s.triggers, s.limit, s.runs = false, false, 3*s.runs+3
	if w.stage.Spaces {
		s.flows = spacesMost
		s.active += 8 * time.Second
	}
}

// openSpaces gives each namespace its first quotas. The quota of logs is too large to refuse a run.
func openSpaces(w *World) {
	if !w.stage.Spaces {
		return
	}
	for i := range spacesMost {
		sp := &space{row: store.Namespace{Name: namespaceOf(w, i), Quotas: store.Quotas{Runs: 2, LogsPerDay: 1 << 50}, By: "eve"}, demands: []demand{{0, 0}}}
		w.spaces.all = append(w.spaces.all, sp)
		putSpace(w, sp)
		sp.base = storedBytes(w, sp.row.Name)
	}
}

// putSpace writes the settings of a namespace, as an operator at another node does.
func putSpace(w *World, sp *space) {
	w.aside++
	defer func() { w.aside-- }()
	sp.row.Revision++
	_, err := w.st.PutNamespace(context.Background(), sp.row)
	must(err)
}

// changeSpaces plans the changes.
func changeSpaces(w *World) {
	if !w.stage.Spaces {
		return
	}
	for range 3 + w.rng.IntN(6) {
		w.after(time.Duration(w.rng.Int64N(int64(w.swarm.active))), func() {
			sp := w.spaces.all[w.rng.IntN(spacesMost)]
			if w.rng.IntN(3) == 0 {
				sp.row.Runs = 1 + w.rng.Int64N(4)
				w.tell("namespace %s may have %d runs", sp.row.Name, sp.row.Runs)
				putSpace(w, sp)
				return
			}
			demandLevel(w, sp, w.rng.IntN(len(dag.IsolationLevels)))
		})
	}
}

// demandLevel sets the level that a namespace demands.
func demandLevel(w *World, sp *space, rank int) {
	if sp.row.Isolation = dag.IsolationLevels[rank]; rank == 0 {
		sp.row.Isolation = ""
	}
	w.count("level changed")
	w.tell("namespace %s demands %s", sp.row.Name, dag.IsolationLevels[rank])
	putSpace(w, sp)
	sp.demands = append(sp.demands, demand{w.now, rank})
}

// healSpaces lowers all demands, and restarts the bound nodes without bounds. So every task finds a node.
func healSpaces(w *World) {
	for _, sp := range w.spaces.all {
		demandLevel(w, sp, 0)
	}
	for _, l := range w.lives {
		if l != nil && len(l.traits.Namespaces) > 0 {
			l.die()
		}
	}
}

// crew is the group of all nodes. boundPercent is the percentage of processes that are bound to namespaces.
const (
	crew         = "crew"
	boundPercent = 15
)

// crewPlans are the plans of a world with namespaces: every second task names the group crew. The others
// name only a label, which all nodes have. No task is without a placement: an engine gives every such task to
// its own process, because the process of a node is never bound.
var crewPlans = sync.OnceValue(func() (all []*plan) {
	for _, p := range plans() {
		all = append(all, newPlan(p.needs, func(i int, t *dag.TaskSpec, made *plan) {
			made.ifs[i], t.Policy = p.ifs[i], p.policies[i]
			if t.Policy.Place = dag.NewPlace("", "", map[string]string{"zone": "a"}); i%2 == 0 {
				t.Policy.Place = dag.NewPlace("", crew, nil)
			}
		}, p.endOnFailure, p.g.Timeout))
	}
	return all
})

// offers draws the levels that a node offers, and the namespaces to which it is bound.
func (l *life) offers() store.Traits {
	w := l.w
	if !w.stage.Spaces {
		return store.Traits{}
	}
	least := (l.node + l.number) % 2
	levels := dag.IsolationLevels[least : least+1+w.rng.IntN(len(dag.IsolationLevels)-least)]
	is := store.Traits{Groups: []string{crew}, Labels: map[string]string{dag.LabelIsolation: levels[0], "zone": "a"}, Levels: slices.Clone(levels)}
	if !w.calm && w.chance(boundPercent) {
		first := w.rng.IntN(spacesMost)
		for i := range 1 + w.rng.IntN(spacesMost-1) {
			is.Namespaces = append(is.Namespaces, namespaceOf(w, first+i))
		}
		w.count("bound")
		w.tell("%s is bound to %v", l, is.Namespaces)
	}
	return is
}

// granted judges a task that a node gets: a bound node gets only tasks of its namespaces that name its group.
func (v *witness) granted(l *life, a *engine.Assignment) {
	w := v.w
	if len(l.traits.Namespaces) == 0 || a.Task == dag.LeaderTask {
		return
	}
	w.count("granted to a bound node")
	namespace := w.spaces.all[int(a.Workflow-1)%spacesMost].row.Name
	if !slices.Contains(l.traits.Namespaces, namespace) || a.Graph != nil && a.Graph.Policy(a.Task).Place.Group() != crew {
		w.violate("bound", "%s is bound to %v and the group %s, and gets %s of namespace %s with the placement %q", l, l.traits.Namespaces, crew,
			w.name(attemptKey{a.Run, a.Task, a.Token}), namespace, a.Place)
	}
}

// fit judges a start: the node offers the level that the task was assigned for, and the level is one that the
// namespace has demanded in the last levelLag. After a hindrance, the node has this time to read again.
func (v *witness) fit(l *life, a *engine.Assignment) {
	w := v.w
	if !w.stage.Spaces || a.Task == dag.LeaderTask {
		return
	}
	given := max(slices.Index(dag.IsolationLevels, a.Place.Isolation()), 0)
	if !l.traits.Isolates(dag.IsolationLevels[given]) {
		w.violate("level", "%s starts %s, which requires the level %s, and offers %v", l, w.name(attemptKey{a.Run, a.Task, a.Token}), dag.IsolationLevels[given], l.traits.Levels)
	}
	sp := w.spaces.all[int(a.Workflow-1)%spacesMost]
	since := w.now - int64(levelLag)
	if l.hindered >= since {
		return
	}
	if least := sp.least(since); given < least {
		w.violate("level", "%s starts %s at the level %s, and namespace %s has demanded at least %s for %v", l, w.name(attemptKey{a.Run, a.Task, a.Token}),
			dag.IsolationLevels[given], sp.row.Name, dag.IsolationLevels[least], levelLag)
	}
}

// obeys begins an attempt at the level that its namespace demands, as far as the node knows. While the node
// cannot read this level, the attempt waits, as at a home node.
func (wk *worker) obeys(at *attempt, a *engine.Assignment) {
	l, w := wk.life, wk.life.w
	begin := func() {
		w.witness.fit(l, a)
		wk.begin(at, a.Graph)
		wk.reaches(at, a)
	}
	if !w.stage.Spaces || a.Task == dag.LeaderTask {
		begin()
		return
	}
	later := func() {
		w.after(askRules, func() {
			l.do(func() {
				if at.result.Finished == 0 { // otherwise the attempt was cancelled
					wk.obeys(at, a)
				}
			})
		})
	}
	if l.eng == nil {
		later()
		return
	}
	sp := w.spaces.all[int(a.Workflow-1)%spacesMost]
	is, _, err := engine.NamespacesOf(l.eng).Demands(l.root, sp.row.Name)
	if err != nil {
		w.count("rules unknown")
		later()
		return
	}
	level := dag.Stricter(a.Place.Isolation(), is.Isolation)
	w.witness.obeyed(l, a, level)
	if l.traits.Isolates(level) {
		begin()
		return
	}
	w.count("level refused")
	at.result = dag.Result{State: dag.AttemptFailed, Cause: "start", Finished: wk.told()}
	w.after(time.Millisecond, func() { l.do(func() { wk.end(at) }) })
}

// askRules is the pause of an attempt whose rules are not known.
const askRules = 50 * time.Millisecond

// obeyed judges the level of an attempt that begins: the namespace has demanded no higher one for rulesLag. A
// hindrance of the node is no excuse, unless its clock stood still meanwhile.
func (v *witness) obeyed(l *life, a *engine.Assignment, level string) {
	w := v.w
	sp, since := w.spaces.all[int(a.Workflow-1)%spacesMost], w.now-int64(rulesLag)
	if l.slept >= since {
		return
	}
	if given, least := max(slices.Index(dag.IsolationLevels, level), 0), sp.least(since); given < least {
		w.violate("level", "%s begins %s at the level %s, and namespace %s has demanded at least %s for %v", l, w.name(attemptKey{a.Run, a.Task, a.Token}),
			dag.IsolationLevels[given], sp.row.Name, dag.IsolationLevels[least], rulesLag)
	}
}

// least returns the lowest level that the namespace has demanded since an instant.
func (sp *space) least(since int64) int {
	least := len(dag.IsolationLevels)
	for i := range sp.demands {
		if last := i == len(sp.demands)-1; last || sp.demands[i+1].at >= since {
			least = min(least, sp.demands[i].rank)
		}
	}
	return least
}

// spaces judges, after each commit, the counts of the namespaces: no run begins beyond a quota, each shard
// counts its unfinished runs, and the stored bytes are those of the rows.
func (v *witness) spaces() {
	w := v.w
	if !w.stage.Spaces {
		return
	}
	ctx := context.Background()
	rows, err := w.st.UnfinishedOf(ctx, w.allShards())
	must(err)
	for i, sp := range w.spaces.all {
		counted, total := map[dag.ShardID]int64{}, int64(0)
		for k := range rows {
			if r := &rows[k]; r.Workflow != 0 && int(r.Workflow-1)%spacesMost == i {
				counted[r.Shard] += r.Runs
				total += r.Runs
			}
		}
		if total > sp.was && total > sp.row.Runs {
			w.violate("quota", "namespace %s has %d unfinished runs, and %d may be", sp.row.Name, total, sp.row.Runs)
		}
		sp.was = total
		uses, err := w.st.NamespaceUses(ctx, sp.row.Name)
		must(err)
		for k := range uses {
			if u := &uses[k]; u.Runs != counted[u.Shard] {
				w.violate("quota", "namespace %s has %d unfinished runs in shard %d, and its count is %d", sp.row.Name, counted[u.Shard], u.Shard, u.Runs)
			}
			delete(counted, uses[k].Shard)
		}
		for shard, n := range counted {
			if n > 0 {
				w.violate("quota", "namespace %s has %d unfinished runs in shard %d, and no count", sp.row.Name, n, shard)
			}
		}
		kept := int64(0)
		for _, sh := range v.runs {
			if int(sh.row.Workflow-1)%spacesMost == i {
				kept += sh.row.Kept
			}
		}
		if is := storedBytes(w, sp.row.Name) - sp.base; is != kept {
			w.violate("quota", "the runs of namespace %s keep %d bytes, and its count is %d", sp.row.Name, kept, is)
		}
	}
}

// weighed judges the bytes that an ended run adds to the stock: the bytes of all its attempts, including
// attempts that ended under an earlier owner.
func (v *witness) weighed(rec *store.RunRecord) {
	w := v.w
	if !w.stage.Spaces || !rec.Run.State.Terminal() || rec.Run.Cause == dag.CauseCorrupt {
		return
	}
	if n := dag.WeightOf(&rec.Run, rec.Attempts); n != rec.Run.Kept {
		w.violate("quota", "%s keeps %d bytes, and its row counts %d", w.runName(rec.Run.ID), n, rec.Run.Kept)
	}
}

func storedBytes(w *World, namespace string) (n int64) {
	w.aside++
	defer func() { w.aside-- }()
	all, err := w.st.NamespaceStocks(context.Background(), namespace)
	must(err)
	for i := range all {
		n += all[i].Bytes
	}
	return n
}

// sizes draws the log and the artifacts of an attempt. In every second world there are only logs, so that the
// rows have the bytes that count in the quota of logs.
func sizes(w *World, r *dag.Result) {
	if w.stage.Spaces {
		if r.Logged, r.Left = w.rng.Int64N(3)*700, w.rng.Int64N(2)*300; onlyLogs(w) {
			r.Left = 0
		}
	}
}

func onlyLogs(w *World) bool { return w.Seed%2 == 0 }

// logged judges the counted logs of the namespaces at the end: each equals the sum of the logs of the
// attempts that ended in its day.
func (v *witness) logged(ctx context.Context) {
	w := v.w
	if !w.stage.Spaces || !onlyLogs(w) {
		return
	}
	type part struct {
		namespace string
		shard     dag.ShardID
		day       dag.Micros
	}
	sums := map[part]int64{}
	must(w.st.Scan(ctx, func(rec store.RunRecord, events []dag.EventRow) error {
		for i := range events {
			sums[part{w.spaces.all[int(rec.Run.Workflow-1)%spacesMost].row.Name, rec.Run.Shard, store.QuotaDay(events[i].At)}] += events[i].Weight
		}
		return nil
	}))
	uses, err := w.st.NamespaceUses(ctx, "")
	must(err)
	for i := range uses {
		u := &uses[i]
		if is := sums[part{u.Namespace, u.Shard, u.Day}]; u.Day != 0 && u.Logged != is {
			w.violate("quota", "attempts of namespace %s have logged %d bytes in shard %d, and its count is %d", u.Namespace, is, u.Shard, u.Logged)
		}
		w.count("logs recounted")
	}
}
