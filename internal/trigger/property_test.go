package trigger

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// naive is a simple form of a schedule: it examines every second.
type naive struct {
	name string
	step dag.Micros // every instant is a multiple of it
	has  func(time.Time) bool
	decl func() *workflow.Trigger
}

func naives() []naive {
	return []naive{
		{"every 10s", 10 * second, func(t time.Time) bool { return t.Unix()%10 == 0 }, func() *workflow.Trigger { return everyDecl(10*time.Second, nil) }},
		{"every 7m", 60 * second, func(t time.Time) bool { return t.Unix()%420 == 0 }, func() *workflow.Trigger { return everyDecl(7*time.Minute, nil) }},
		{"each minute", 60 * second, func(t time.Time) bool { return true }, func() *workflow.Trigger { return cronDecl("* * * * *", nil) }},
		{"quarters by day", 60 * second, func(t time.Time) bool { return t.Minute()%15 == 0 && t.Hour() >= 8 && t.Hour() <= 17 },
			func() *workflow.Trigger { return cronDecl("*/15 8-17 * * *", nil) }},
		{"twice in the night", 60 * second, func(t time.Time) bool { return t.Minute() == 30 && (t.Hour() == 2 || t.Hour() == 23) },
			func() *workflow.Trigger { return cronDecl("30 2,23 * * *", nil) }},
		{"until noon of the second day", 60 * second, func(t time.Time) bool {
			return t.Minute()%5 == 0 && !t.After(time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC))
		}, func() *workflow.Trigger {
			return cronDecl("*/5 * * * *", func(d *workflow.Trigger) { d.End = "2026-05-02T12:00:00Z" })
		}},
	}
}

// in returns the instants in (after, until].
func (n *naive) in(after, until dag.Micros) []dag.Micros {
	var all []dag.Micros
	for at := (after/n.step + 1) * n.step; at <= until; at += n.step {
		if n.has(moment(at)) {
			all = append(all, at)
		}
	}
	return all
}

// outcomes states the rule for the outcomes of due instants, one by one.
func outcomes(d *workflow.Trigger, due []dag.Micros, now dag.Micros) map[dag.Micros]string {
	out := map[dag.Micros]string{}
	var rest, late []dag.Micros
	for _, at := range due {
		if d.DelayTolerance > 0 && now-at > micros(d.DelayTolerance) {
			out[at] = store.OutcomeMissed
			continue
		}
		rest = append(rest, at)
		if out[at] = store.OutcomeFired; now-at > 60*second {
			late = append(late, at)
			out[at] = store.OutcomeLate
		}
	}
	outage := len(due) > 0 && now-due[0] > 60*second
	for i, at := range rest {
		newest := i == len(rest)-1
		switch {
		case d.Catchup == "all":
			if i < len(late)-int(d.CatchupLimit) {
				out[at] = store.OutcomeMissed
			}
		case outage && d.Catchup == "none" && (!newest || out[at] == store.OutcomeLate):
			out[at] = store.OutcomeMissed
		case outage && d.Catchup == "latest" && !newest:
			out[at] = store.OutcomeMerged
		}
	}
	return out
}

// world is one trigger and its whole history.
type world struct {
	t       *rapid.T
	clock   dag.Micros
	mark    dag.Micros // watermark
	n       naive
	decl    *workflow.Trigger
	row     store.Trigger
	ledger  []store.Fire
	given   map[dag.Micros]string
	planner *Planner
}

func TestEveryInstantHasOneOutcome(t *testing.T) {
	all := naives()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, clock: dag.Micro(time.Date(2026, 5, 1, 7, 59, 30, 250_000_000, time.UTC)), given: map[dag.Micros]string{}, planner: New(noDefinitions{})}
		w.declare(all)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			w.step(all)
		}
		w.settle()
		w.audit()
	})
}

func (w *world) now() dag.Micros { return max(w.clock, w.mark) }

func (w *world) declare(all []naive) {
	w.n = rapid.SampledFrom(all).Draw(w.t, "schedule")
	w.decl = w.n.decl()
	w.decl.Name = "t"
	w.decl.Catchup = rapid.SampledFrom([]string{"none", "latest", "all"}).Draw(w.t, "catchup")
	w.decl.CatchupLimit = rapid.SampledFrom([]int32{1, 3, 100, 5000}).Draw(w.t, "limit")
	w.decl.DelayTolerance = workflow.Duration(rapid.SampledFrom([]time.Duration{0, 0, 5 * time.Second, 90 * time.Second, time.Hour}).Draw(w.t, "tolerance"))
	w.row = declaredAt(w.t, w.planner, w.decl, w.now())
	if w.row.Next != 0 && w.row.Next <= w.now() {
		w.t.Fatalf("a declaration at %s is due at %s", clock(w.now()), clock(w.row.Next))
	}
}

func (w *world) step(all []naive) {
	w.clock += dag.Micros(rapid.SampledFrom([]int{0, 1, 400_000, 9_000_000, 61_000_000, 1_800_000_000, 20_000_000_000, 90_000_000_000}).Draw(w.t, "pass"))
	switch rapid.SampledFrom([]string{"tick", "tick", "tick", "restart", "jump", "edit", "pause", "resume", "plan", "unplan"}).Draw(w.t, "what") {
	case "tick":
		if w.row.State == store.TriggerActive && w.row.Next != 0 && w.row.Next <= w.now() {
			w.plan()
		}
	case "restart":
		w.planner = New(noDefinitions{})
	case "jump":
		w.clock += rapid.SampledFrom([]dag.Micros{-hour, hour}).Draw(w.t, "by")
	case "edit":
		w.settle()
		w.audit()
		w.declare(all)
	case "pause":
		if w.row.State == store.TriggerActive {
			w.settle()
			if w.row.State == store.TriggerActive {
				w.row.State, w.row.Next = store.TriggerPaused, 0
			}
		}
	case "plan", "unplan":
		if w.row.State != store.TriggerEnded {
			w.settle()
			w.planPauses()
		}
	case "resume":
		if w.row.State == store.TriggerPaused {
			w.settle()
			if w.row.State == store.TriggerPaused {
				w.row.State = store.TriggerActive
			}
		}
	}
}

// settle decides everything up to now, as an edit does.
func (w *world) settle() {
	switch w.row.State {
	case store.TriggerActive:
		for w.plan(); w.row.State == store.TriggerActive && w.row.Next != 0 && w.row.Next <= w.now(); {
			w.plan()
		}
	case store.TriggerPaused:
		due := w.n.in(w.row.Decided, w.now())
		p, err := w.planner.Passed(&w.row, w.now(), "paused")
		if err != nil {
			w.t.Fatal(err)
		}
		want := map[dag.Micros]string{}
		for _, at := range due {
			want[at] = store.OutcomeSkipped
		}
		w.compare(want, p.Lines, nil)
		carry(&w.row, &p)
		w.mark = max(w.mark, p.Decided)
		if w.row.State == store.TriggerPaused {
			w.row.Next = 0
		}
	}
}

// planPauses draws other planned pauses, of which some have begun or ended.
func (w *world) planPauses() {
	var all []engine.PlannedPause
	from := w.now() - hour
	for range rapid.IntRange(0, 3).Draw(w.t, "pauses") {
		from += dag.Micros(rapid.SampledFrom([]int{1, 30_000_000, 3_600_000_000, 20_000_000_000}).Draw(w.t, "after"))
		until := from + dag.Micros(rapid.SampledFrom([]int{1, 40_000_000, 600_000_000, 30_000_000_000}).Draw(w.t, "long"))
		all = append(all, engine.PlannedPause{From: from, Until: until, Actor: "ada"})
		from = until
	}
	data, err := w.planner.WithPauses(&w.row, all)
	if err != nil {
		w.t.Fatal(err)
	}
	w.row.Data = data
}

// open splits due instants into those that may fire and the outcomes of those that a planned pause skips.
func (w *world) open(due []dag.Micros) (rest []dag.Micros, skipped map[dag.Micros]string) {
	pauses, err := w.planner.Pauses(&w.row)
	if err != nil {
		w.t.Fatal(err)
	}
	skipped = map[dag.Micros]string{}
	for _, at := range due {
		if slices.ContainsFunc(pauses, func(p engine.PlannedPause) bool { return at >= p.From && at < p.Until }) {
			skipped[at] = store.OutcomeSkipped
			continue
		}
		rest = append(rest, at)
	}
	return rest, skipped
}

func (w *world) plan() {
	now := w.now()
	due, skipped := w.open(w.n.in(w.row.Decided, now))
	p, err := w.planner.Plan(&w.row, now)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(p.Starts) > startsMax || len(p.Lines) > 2+3*4 {
		w.t.Fatalf("%d runs and %d lines in one plan", len(p.Starts), len(p.Lines))
	}
	want := outcomes(w.decl, due, now)
	maps.Copy(want, skipped)
	for _, l := range p.Lines {
		if len(p.Starts) > 0 && l.Last > p.Starts[0].Instant {
			w.t.Fatalf("a line up to %s follows the start of %s", clock(l.Last), clock(p.Starts[0].Instant))
		}
	}
	maps.DeleteFunc(want, func(at dag.Micros, _ string) bool { return at > p.Decided })
	starts := map[dag.Micros]string{}
	for i, s := range p.Starts {
		starts[s.Instant] = store.OutcomeFired
		if s.Late {
			starts[s.Instant] = store.OutcomeLate
		}
		if i > 0 && s.Instant <= p.Starts[i-1].Instant {
			w.t.Fatal("runs are not in the order of their instants")
		}
		if tol := micros(w.decl.DelayTolerance); s.StartBy != 0 && s.StartBy != s.Instant+tol || tol > 0 && s.StartBy < now {
			w.t.Fatalf("%s has to begin by %s", clock(s.Instant), clock(s.StartBy))
		}
		w.ledger = append(w.ledger, store.Fire{At: s.Instant, Last: s.Instant, Count: 1, Outcome: starts[s.Instant], Run: runOf(s.Instant)})
	}
	w.compare(want, p.Lines, starts)
	carry(&w.row, &p)
	w.mark = max(w.mark, p.Decided)
}

func runOf(at dag.Micros) dag.RunID {
	var id dag.RunID
	copy(id[:], fmt.Sprint(at))
	return id
}

// compare compares the decisions with the expected ones, and with earlier decisions.
func (w *world) compare(want map[dag.Micros]string, lines []store.Fire, starts map[dag.Micros]string) {
	got := maps.Clone(starts)
	if got == nil {
		got = map[dag.Micros]string{}
	}
	for _, l := range lines {
		covered := w.n.in(l.At-1, l.Last)
		if int64(len(covered)) != l.Count {
			w.t.Fatalf("a line says %d instants from %s to %s, there are %d", l.Count, clock(l.At), clock(l.Last), len(covered))
		}
		for _, at := range covered {
			if got[at] != "" {
				w.t.Fatalf("%s is decided twice in one plan", clock(at))
			}
			got[at] = l.Outcome
		}
		w.ledger = append(w.ledger, l)
	}
	if !maps.Equal(got, want) {
		w.t.Fatalf("at %s after %s, %+v:\ngot  %v\nwant %v", clock(w.now()), clock(w.row.Decided), *w.decl, listed(got), listed(want))
	}
	for at, o := range got {
		if at > w.now() {
			w.t.Fatalf("%s is decided at %s", clock(at), clock(w.now()))
		}
		if was := w.given[at]; was != "" && at > w.row.Since {
			w.t.Fatalf("%s was %s, and is %s", clock(at), was, o)
		}
		w.given[at] = o
	}
}

func listed(m map[dag.Micros]string) []string {
	var all []string
	for _, at := range slices.Sorted(maps.Keys(m)) {
		all = append(all, clock(at)+" "+m[at])
	}
	return all
}

// audit walks over everything since the declaration, and makes Verify do the same.
func (w *world) audit() {
	for _, at := range w.n.in(w.row.Since, w.row.Decided) {
		if w.given[at] == "" {
			w.t.Fatalf("%s has no outcome", clock(at))
		}
	}
	if w.row.Decided < w.now() && w.row.State != store.TriggerEnded {
		w.t.Fatalf("decided up to %s at %s", clock(w.row.Decided), clock(w.now()))
	}
	if bad := Verify(&w.row, w.ledger, 0); len(bad) > 0 {
		w.t.Fatalf("%+v\n%v", w.row, bad)
	}
}
