package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"encoding/json"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// flow is a workflow of the world.
type flow struct {
	row  store.Workflow
	plan *plan
}

// definitions holds the parsed workflows of all histories.
var definitions struct {
	sync.Mutex
	known map[string][]byte
}

// definitionsMax bounds the parsed workflows, because edits make new ones without end.
const definitionsMax = 10_000

// definition returns the stored form of a workflow's text.
func definition(text string) []byte {
	definitions.Lock()
	defer definitions.Unlock()
	if def, ok := definitions.known[text]; ok {
		return def
	}
	ws, errs := workflow.Parse([]byte(text), workflow.Options{File: "w.yaml"})
	if len(errs) > 0 {
		panic(fmt.Sprintf("%v in\n%s", errs, text))
	}
	def, err := json.Marshal(ws[0])
	if err != nil {
		panic(err)
	}
	if definitions.known == nil || len(definitions.known) > definitionsMax {
		definitions.known = map[string][]byte{}
	}
	definitions.known[text] = def
	return def
}

// setUp writes the workflows before the simulated world begins.
func (w *World) setUp() {
	w.aside++
	defer func() { w.aside-- }()
	ctx := context.Background()
	s := &w.swarm
	h, err := w.st.Register(ctx, "before", "before")
	must(err)
	got, err := w.st.Acquire(ctx, h.ID, w.allShards())
	must(err)
	var b store.Batch
	for i := range got {
		b.Fences = append(b.Fences, got[i].Fence)
		w.witness.seq[got[i].Shard] = 1
	}
	for i := range s.flows {
		f := flow{plan: plans()[w.rng.IntN(plansMax)]}
		if w.stage.Handles {
			f.plan = handlePlans()[w.rng.IntN(plansMax/2)]
		}
		if w.stage.Spaces {
			f.plan = crewPlans()[w.rng.IntN(plansMax)]
		}
		if w.stage.Events {
			f.plan = eventPlan(w, i)
		} else if w.rich != nil {
			f.plan = w.richPlans()[w.rng.IntN(plansMax/2)]
		}
		f.row = store.Workflow{ID: dag.WorkflowID(i + 1), Shard: dag.ShardID(i % s.shards), Namespace: namespaceOf(w, i), Name: fmt.Sprintf("w%d", i),
			State: store.WorkflowActive, Version: 1, Latest: 1, Revision: 1}
		if s.limit {
			f.row.MaxRuns = 1 + int32(w.rng.IntN(2))
		}
		lines := ""
		if s.triggers {
			lines = w.triggerLines(i)
		}
		def := definition(flowText(i, lines+w.names(i)))
		b.WorkflowInserts = append(b.WorkflowInserts, f.row)
		b.Versions = append(b.Versions, store.Version{Workflow: f.row.ID, Version: 1, Def: def, Graph: w.packed(f.plan), Digest: []byte{byte(i)}})
		b.TriggerInserts = append(b.TriggerInserts, w.declared(&f.row, def)...)
		w.flows = append(w.flows, f)
	}
	if w.timed != nil {
		w.timed.watch(w, &b)
	}
	if w.rich != nil {
		b.QueueInserts = w.rich.queues
	}
	_, err = w.st.Commit(ctx, &b)
	must(err)
	bound(w)
	openSpaces(w)
	w.follows.openFed(w)
}

func must(err error) {
	if err != nil {
		panic("sim: " + err.Error())
	}
}

func (w *World) triggerLines(i int) string {
	if w.stage.Events {
		return w.sending.lines(i == w.swarm.flows-1)
	}
	if w.timed != nil {
		return w.timed.lines(i)
	}
	text := "triggers:\n"
	policy := [...]string{"allow", "skip", "queue"}[w.rng.IntN(3)]
	if w.rng.IntN(2) == 0 || i == 0 {
		text += fmt.Sprintf("  - {name: t, every: %ds, count: %d, overlap: %s, catchup: all}\n", 1+w.rng.IntN(2), 1+w.rng.IntN(3), policy)
	} else {
		text += "  - {name: t, every: 1s, count: 1}\n"
	}
	if i > 0 {
		text += fmt.Sprintf("  - {name: heard, run_of: {workflow: sim/w%d, require: ended}, overlap: allow}\n", i-1)
	}
	return text
}

func (w *World) declared(wf *store.Workflow, def []byte) []store.Trigger {
	if !w.swarm.triggers {
		return nil
	}
	p := trigger.New(w.st)
	d, err := p.Declared(wf.Namespace, wf.Name, def)
	must(err)
	for i := range d.Triggers {
		t := &d.Triggers[i]
		t.Workflow, t.Shard, t.Version, t.Revision = wf.ID, wf.Shard, 1, 1
		must(p.Begin(t, w.clock()))
		t.Created, t.Modified = w.clock(), w.clock()
	}
	return d.Triggers
}

// client submits runs, and records what the answers promise.
type client struct {
	asked []*asked
	names map[dag.RunID]string
	open  int // number of calls without an answer; they are repeated until they get one
}

// asked is a submission of a run.
type asked struct {
	n        int
	flow     int
	id       dag.RunID // zero if the engine chooses the id
	key      string
	bad      bool
	priority dag.Priority
	acked    dag.RunID
	refused  bool
	quits    bool // the client gives up after some tries
	tries    int
}

func (c *client) script(w *World) {
	c.names = map[dag.RunID]string{}
	s := &w.swarm
	for n := range s.runs {
		a := &asked{n: n, flow: w.rng.IntN(len(w.flows)), priority: dag.Priority(w.rng.IntN(dag.Levels)), quits: w.rng.IntN(4) == 0}
		switch w.rng.IntN(4) {
		case 0:
			a.id = dag.RunID(w.id())
		case 1, 2:
			a.key = fmt.Sprintf("key%d", w.rng.IntN(s.runs))
			a.flow = int(a.key[3]) % len(w.flows)
		}
		a.bad = n == 0 && s.badRuns > 0
		c.asked = append(c.asked, a)
		c.open++
		w.after(time.Duration(w.rng.Int64N(int64(s.active))), func() { c.ask(w, a) })
		if a.key != "" && w.rng.IntN(2) == 0 { // start twice at the same time with one key
			twin := *a
			twin.n += 100
			c.asked = append(c.asked, &twin)
			c.open++
			w.after(time.Duration(w.rng.Int64N(int64(s.active))), func() { c.ask(w, &twin) })
		}
	}
	for range s.verbs {
		w.after(time.Duration(w.rng.Int64N(int64(s.active))), func() { c.verb(w) })
	}
}

const askAgain = 300 * time.Millisecond

// ask submits a start, and repeats the call until there is an answer.
func (c *client) ask(w *World, a *asked) {
	a.tries++
	if a.quits && a.tries > 2 {
		c.open--
		return
	}
	again := func() { w.after(askAgain+w.delay(time.Second), func() { c.ask(w, a) }) }
	wf := w.flows[a.flow].row
	l := w.anyLife()
	if owner := w.shardOwner(wf.Shard); owner != nil && owner.eng != nil && w.rng.IntN(4) > 0 {
		l = owner
	}
	if l == nil || l.frozen {
		again()
		return
	}
	sub := engine.Submission{ID: a.id, Workflow: wf, Priority: a.priority, Key: a.key, Origin: dag.OriginAPI, User: "ada"}
	if a.key != "" {
		sub.KeyHash = []byte{byte(a.flow)}
	}
	if a.bad {
		sub.Params = poison
	}
	w.tell("client asks %s for run %d (key %q)", l, a.n, a.key)
	answered := false
	reply := func(got engine.Accepted, err error) {
		if answered {
			return
		}
		answered = true
		c.answered(w, a, got, err, again)
	}
	w.spawn(l, "ask", func() {
		got, err := l.eng.Submit(l.root, sub)
		var elsewhere *errkind.Elsewhere
		if errors.As(err, &elsewhere) && w.rng.IntN(2) == 0 {
			got, err = l.eng.Deposit(l.root, sub)
		}
		if !l.dead {
			w.after(w.delay(w.swarm.latency), func() { reply(got, err) })
		}
	})
	// A call that has no answer after five seconds fails.
	w.after(5*time.Second, func() { reply(engine.Accepted{}, errkind.ErrUnavailable) })
}

func (c *client) answered(w *World, a *asked, got engine.Accepted, err error, again func()) {
	switch {
	case err == nil:
		w.tell("client: run %d is accepted as %s", a.n, got.Run)
		a.acked = got.Run
		if _, named := c.names[got.Run]; !named {
			c.names[got.Run] = fmt.Sprintf("r%d", a.n)
		}
		c.open--
		w.witness.promised(a)
	case errors.Is(err, errkind.ErrInvalid):
		w.tell("client: run %d is refused: %v", a.n, err)
		a.refused = true
		c.open--
		if !a.bad {
			w.violate("refused", "run %d: %v", a.n, err)
		}
	// A workflow may be paused only in a timed world.
	case errors.Is(err, errkind.ErrConflict) && w.timed == nil:
		w.violate("conflict", "run %d: %v", a.n, err)
	default:
		again()
	}
}

// verb makes a person pause, resume, stop or kill a run.
func (c *client) verb(w *World) {
	l := w.anyLife()
	if l == nil || l.frozen || len(w.witness.order) == 0 {
		return
	}
	id := w.witness.order[w.rng.IntN(len(w.witness.order))]
	if owner := w.ownerOf(id); owner != nil && owner.eng != nil && !owner.frozen {
		l = owner
	}
	intent := [...]dag.Intent{dag.IntentPause, dag.IntentStop, dag.IntentKill, dag.IntentPause}[w.rng.IntN(4)]
	w.spawn(l, "verb", func() {
		w.tell("client tells %s to %s %s", l, intent, w.runName(id))
		err := c.order(w, l, engine.Command{Run: id, Intent: intent, Actor: "ada"})
		if err == nil && !l.dead && !w.stage.Audit { // a posted order takes effect later
			w.witness.ordered(id, intent)
		}
	})
}

// heal resumes paused runs until the end of the history.
func (c *client) heal(w *World) {
	c.healTriggers(w)
	c.healEvents(w)
	for _, id := range w.witness.order {
		c.healTasks(w, id, w.witness.runs[id])
		row, ok := w.peekRun(id)
		if !ok || row.State.Terminal() || row.Intent != dag.IntentPause {
			continue
		}
		if l := w.ownerOf(id); l != nil && l.eng != nil && !l.frozen {
			w.spawn(l, "resume", func() {
				cmd := engine.Command{Run: id, Intent: dag.IntentRun, Actor: "ada"}
				_ = audited(w, l, order{id, cmd.Intent}, func(ctx context.Context) error { return l.eng.Do(ctx, cmd) })
			})
		}
	}
	w.after(time.Second, func() { c.heal(w) })
}

func (w *World) runName(id dag.RunID) string {
	if n, ok := w.client.names[id]; ok {
		return n
	}
	if sh := w.witness.runs[id]; sh != nil {
		return sh.name
	}
	return id.String()
}

// poisoned reports whether a batch holds content that this world's store refuses.
func poisoned(b *store.Batch) bool {
	for i := range b.RunInserts {
		if string(b.RunInserts[i].Params) == string(poison) {
			return true
		}
	}
	for i := range b.AttemptUpdates {
		if string(b.AttemptUpdates[i].Outputs) == string(poison) {
			return true
		}
	}
	return false
}

var _ database = (*memory.Store)(nil)
