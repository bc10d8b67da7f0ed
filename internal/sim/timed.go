package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// In a timed world, triggers are due all the time. People edit, roll back, pause and resume triggers at the
// instants when they are due. Owners die, freeze or lose their connection just when they write fires. A walk
// over the seconds (ledger.go) checks the outcome of every instant.

// timed holds the random choices of a timed world. It is nil in other worlds. It has its own source of random
// numbers, so that the histories of other worlds do not change.
type timed struct {
	r      *rand.Rand
	pauses *rand.Rand // draws planned pauses, so that the histories of other changes stay
	edits  int
	snipe  int // percent of the commits with fires at which the owner is lost
	ledger *Ledger
}

func (w *World) drawTimed() {
	if w.Seed%6 != 2 || w.stage.Handles { // no seed with this remainder makes a rich world
		return
	}
	r := rand.New(rand.NewPCG(w.Seed, 0x71de))
	w.timed = &timed{r: r, pauses: rand.New(rand.NewPCG(w.Seed, 0xca1e)), edits: 2 + r.IntN(12), snipe: [...]int{0, 5, 30}[r.IntN(3)], ledger: NewLedger()}
	w.swarm.triggers = true
	w.swarm.active += time.Duration(r.IntN(6000)) * time.Millisecond
	w.swarm.jumps += r.IntN(3)
	w.swarm.slots, w.swarm.long = 4+w.swarm.slots, min(w.swarm.long, 5) // many runs start, and all must end
}

// lines draws new triggers of a workflow.
func (d *timed) lines(i int) string {
	pick := func(all ...string) string { return all[d.r.IntN(len(all))] }
	text := "triggers:\n"
	for n := range 1 + d.r.IntN(2) {
		text += fmt.Sprintf("  - {name: t%d, ", n) + pick("every: 1s", "every: 2s", "every: 3s", "cron: '*/2 * * * * *'", "cron: '*/7 * * * * *'")
		text += pick("", ", overlap: allow", ", overlap: queue, overlap_limit: 2", ", overlap: cancel_running", ", overlap: allow, max_concurrent_runs: 2")
		text += pick("", "", ", catchup: none", ", catchup: all, catchup_limit: 5")
		text += pick("", "", "", ", delay_tolerance: 2s", ", delay_tolerance: 30s") + pick("", "", "", ", paused: true") + "}\n"
	}
	text += pick("", "", "  - {name: hook, webhook: {secret: s}, overlap: allow}\n", "  - {name: loop, again: {max_per_hour: 20}}\n")
	if i > 0 { // a workflow listens only to the previous one, so there is no cycle
		text += pick("", "", fmt.Sprintf("  - {name: after, run_of: {workflow: sim/w%d, require: ended}, overlap: allow}\n", i-1),
			fmt.Sprintf("  - {name: gone, absent: {run_of: {workflow: sim/w%d}, by: 5s}}\n", i-1))
	}
	return text + pick("", "", "max_concurrent_runs: 2\n", "max_concurrent_runs: 1\n")
}

// flowText returns a whole workflow file. Its single task stands for the graph of the simulated workflow.
func flowText(i int, lines string) string {
	// In a world with alerts, alertRules replaces the alert rule in this text.
	return fmt.Sprintf("name: w%d\nnamespace: sim\nalerts: [{on: failed, to: a}]\n%stasks:\n  a: {run: \"true\"}\n", i, lines)
}

// people simulates a person who changes due triggers, mostly at the due instant itself.
func (c *client) people(w *World) {
	if w.timed == nil {
		return
	}
	for range w.timed.edits {
		at := time.Duration(w.timed.r.Int64N(int64(w.swarm.active)))
		if w.timed.r.IntN(3) > 0 { // choose an instant close to a full second
			at = at.Truncate(time.Second) + time.Duration(w.timed.r.IntN(60)-20)*time.Millisecond
		}
		w.after(at, func() { c.change(w) })
	}
}

// change draws a person's change of a workflow or of one of its triggers.
func (c *client) change(w *World) {
	d := w.timed
	i := d.r.IntN(len(w.flows))
	f := &w.flows[i].row
	l := w.shardOwner(f.Shard)
	if l == nil || l.eng == nil || l.frozen || d.r.IntN(6) == 0 {
		l = w.anyLife()
	}
	if l == nil || l.frozen {
		return
	}
	k := store.TriggerKey{Workflow: f.ID, Name: fmt.Sprintf("t%d", d.r.IntN(2))}
	var do func(context.Context) error
	what := ""
	switch n := d.r.IntN(8); n {
	case 0, 1, 2:
		what = d.lines(i)
		do = func(ctx context.Context) error { return w.apply(ctx, l, i, what) }
	case 3, 4:
		resume := d.r.IntN(3) > 0
		if d.pauses.IntN(3) == 0 {
			what, do = d.planned(w, l, k)
			break
		}
		what = fmt.Sprintf("pause %s (resume %v)", k.Name, resume)
		do = func(ctx context.Context) error {
			return l.eng.PauseTrigger(ctx, k, engine.Pause{Resume: resume, Actor: "ada"}, nil)
		}
	case 5:
		state := [...]string{store.WorkflowPaused, store.WorkflowActive, store.WorkflowActive}[d.r.IntN(3)]
		what = state
		do = func(ctx context.Context) error { return w.become(ctx, l, i, state) }
	case 6:
		to := 1 + d.r.Int32N(max(f.Latest, 1))
		what = fmt.Sprintf("roll back to %d", to)
		do = func(ctx context.Context) error {
			got, err := l.eng.Rollback(ctx, *f, to, 0, nil)
			return w.became(i, got, err)
		}
	default:
		k.Name = [...]string{"hook", k.Name}[d.r.IntN(2)]
		o := engine.Occurrence{Key: fmt.Sprint("call ", d.r.IntN(3))}
		if k.Name != "hook" {
			o.Actor = "ada"
		}
		what = fmt.Sprintf("%s of %s", o.Key, k.Name)
		do = func(ctx context.Context) error { _, err := l.eng.Occur(ctx, k, o); return err }
	}
	w.spawn(l, "change", func() {
		w.tell("somebody tells %s about w%d: %s", l, i, what)
		err := do(l.root)
		w.tell("%s answered about w%d: %v", l, i, err)
		if errors.Is(err, errkind.ErrInvalid) && !l.dead {
			w.violate("refused", "%s of w%d: %v", what, i, err)
		}
	})
}

// planned draws a planned pause of a trigger, or the end of one.
func (d *timed) planned(w *World, l *life, k store.TriggerKey) (what string, do func(context.Context) error) {
	from := w.clock()/second*second + dag.Micros(d.pauses.IntN(4)-1)*second
	p := engine.Pause{Actor: "ada", From: from, Until: from + dag.Micros(1+d.pauses.IntN(5))*second, Resume: d.pauses.IntN(4) == 0}
	what = fmt.Sprintf("pause %s from %s until %s (end it: %v)", k.Name, p.From.Time(), p.Until.Time(), p.Resume)
	return what, func(ctx context.Context) error {
		err := l.eng.PauseTrigger(ctx, k, p, nil)
		if errors.Is(err, errkind.ErrInvalid) { // the range has passed when the request arrives
			return nil
		}
		return err
	}
}

func (w *World) apply(ctx context.Context, l *life, i int, lines string) error {
	text := flowText(i, lines)
	f := &w.flows[i]
	got, _, err := l.eng.Apply(ctx, engine.Definition{Namespace: f.row.Namespace, Name: f.row.Name, Source: []byte(text), Def: definition(text),
		Graph: w.packed(f.plan), Digest: []byte(text), User: "ada"})
	return w.became(i, got, err)
}

func (w *World) become(ctx context.Context, l *life, i int, state string) error {
	got, err := l.eng.SetState(ctx, w.flows[i].row, state, 0, nil)
	return w.became(i, got, err)
}

func (w *World) became(i int, row store.Workflow, err error) error {
	if err == nil && row.ID == w.flows[i].row.ID {
		w.flows[i].row = row
	}
	return err
}

// snipe kills the owner that writes fires, before the write or between the write and the answer.
func (w *World) snipe(l *life, op memory.Op) {
	if w.timed == nil || w.calm || l.dead || op.Batch == nil || len(op.Batch.Fires) == 0 || w.timed.r.IntN(100) >= w.timed.snipe {
		return
	}
	switch n := w.timed.r.IntN(3); {
	case n == 0:
		l.crash(fmt.Sprintf("at a fire, %s", op.Kind))
	case w.swarm.nodes == 1:
	case n == 1:
		l.freeze()
		w.after(lag/2+time.Duration(w.timed.r.Int64N(int64(2*lag))), l.thaw)
	default:
		w.count("cut")
		l.cut = true
		w.tell("%s does not reach the database at a fire", l)
		w.after(lag/2+time.Duration(w.timed.r.Int64N(int64(lag))), func() { l.cut = false })
	}
}

// healTriggers deletes due triggers until the end of the history.
func (c *client) healTriggers(w *World) {
	if w.timed == nil {
		return
	}
	w.aside++
	all, err := w.st.Triggers(context.Background(), store.TriggerQuery{Limit: 1000})
	must(err)
	w.aside--
	for i := range w.flows {
		f := &w.flows[i].row
		l := w.shardOwner(f.Shard)
		if l == nil || l.eng == nil || l.frozen {
			continue
		}
		has := slices.ContainsFunc(all, func(t store.Trigger) bool { return t.Workflow == f.ID })
		w.spawn(l, "calm", func() {
			_ = w.become(l.root, l, i, store.WorkflowActive)
			if has {
				_ = w.apply(l.root, l, i, "")
			}
		})
	}
}

// watch records the changes of triggers and runs in a commit.
func (d *timed) watch(w *World, b *store.Batch) {
	_, wrong := d.ledger.Commit(b)
	for _, text := range wrong {
		w.violate("walk", "%s", text)
	}
}

// walk checks every instant that was ever declared.
func (v *witness) walk(ctx context.Context) {
	w := v.w
	runs := map[dag.RunID]dag.RunRow{}
	for id, sh := range v.runs {
		runs[id] = sh.row
	}
	for _, text := range w.timed.ledger.Audit(func(k store.TriggerKey) []store.Fire { return w.lines(ctx, k) }, runs) {
		w.violate("walk", "%s", text)
	}
}

// lines reads the whole ledger of a trigger.
func (w *World) lines(ctx context.Context, k store.TriggerKey) (all []store.Fire) {
	for q := (store.FireQuery{Workflow: k.Workflow, Trigger: k.Name, Limit: 1000}); ; {
		page, err := w.st.Fires(ctx, q)
		must(err)
		if all = append(all, page...); len(page) < q.Limit {
			return all
		}
		last := page[len(page)-1]
		q.Before = store.FireKey{Decided: last.Decided, Workflow: last.Workflow, Trigger: last.Trigger, At: last.At, Key: last.Key}
	}
}
