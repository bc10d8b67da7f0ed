package trigger

import (
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// TestVerifyFindsBadHistories: each rule finds its bad history.
func TestVerifyFindsBadHistories(t *testing.T) {
	p := New(noDefinitions{})
	hourOf := func(h dag.Micros) dag.Micros { return at(t, "2026-01-01T00:00:00Z") + h*hour }
	fired := func(h dag.Micros) store.Fire {
		return store.Fire{At: hourOf(h), Last: hourOf(h), Count: 1, Outcome: store.OutcomeFired, Run: runOf(hourOf(h))}
	}
	skipped := func(from, to dag.Micros) store.Fire {
		return store.Fire{At: hourOf(from), Last: hourOf(to), Count: int64(to - from + 1), Outcome: store.OutcomeSkipped}
	}
	event := store.Fire{At: hourOf(2) + 7, Last: hourOf(2) + 7, Key: "e", Count: 1, Outcome: store.OutcomeFired, Run: dag.RunID{1}}
	good := func() (store.Trigger, []store.Fire) {
		row := declaredAt(t, p, cronDecl("0 * * * *", nil), hourOf(0))
		row.Decided, row.Next = hourOf(6)+5, hourOf(7)
		return row, []store.Fire{skipped(4, 5), fired(1), fired(2), fired(3), event, fired(6)}
	}
	if row, lines := good(); len(Verify(&row, lines, 0)) > 0 {
		t.Fatal(Verify(&row, lines, 0))
	}
	gap := event
	gap.Key, gap.Count, gap.Outcome, gap.Run = engine.LostKey+"0a", 3, store.OutcomeMissed, dag.RunID{}
	if row, lines := good(); len(Verify(&row, append(lines, gap), 0)) > 0 {
		t.Error("a line that counts lost events", Verify(&row, append(lines, gap), 0))
	}
	if row, lines := good(); len(Verify(&row, lines[3:], hourOf(5))) > 0 {
		t.Error("what is older than the ledger is kept is missed", Verify(&row, lines[3:], hourOf(5)))
	}
	for _, c := range []struct {
		name, rule, what string
		spoil            func(*store.Trigger, *[]store.Fire)
	}{
		{"a hole", ruleEach, "1 instants from 2026-01-01T02:00:00Z", func(_ *store.Trigger, l *[]store.Fire) { (*l)[2] = fired(1); *l = append((*l)[:1], (*l)[2:]...) }},
		{"nothing at the end", ruleEach, "1 instants from 2026-01-01T06:00:00Z", func(_ *store.Trigger, l *[]store.Fire) { *l = (*l)[:5] }},
		{"nothing at all", ruleEach, "6 instants", func(_ *store.Trigger, l *[]store.Fire) { *l = nil }},
		{"twice", ruleOnce, "2026-01-01T03:00:00Z is in two ledger lines", func(_ *store.Trigger, l *[]store.Fire) { *l = append(*l, skipped(3, 3)) }},
		{"inside of a span", ruleOnce, "2026-01-01T05:00:00Z is in two ledger lines", func(_ *store.Trigger, l *[]store.Fire) { *l = append(*l, fired(5)) }},
		{"an event twice", ruleOnce, "event e has two ledger lines", func(_ *store.Trigger, l *[]store.Fire) {
			again := event
			again.At, again.Last, again.Run = event.At+1, event.At+1, dag.RunID{2}
			*l = append(*l, again)
		}},
		{"a run twice", ruleOnce, "is in two ledger lines", func(_ *store.Trigger, l *[]store.Fire) { (*l)[1].Run = (*l)[2].Run }},
		{"at a non-instant", ruleInstant, "covers 1 instants, but the schedule has 0", func(_ *store.Trigger, l *[]store.Fire) {
			f := fired(1)
			f.At, f.Last, f.Run = f.At+60*second, f.At+60*second, dag.RunID{3}
			*l = append(*l, f)
		}},
		{"a wrong count", ruleInstant, "covers 3 instants, but the schedule has 2", func(_ *store.Trigger, l *[]store.Fire) { (*l)[0].Count = 3 }},
		{"not from instant to instant", ruleInstant, "does not begin and end at instants", func(_ *store.Trigger, l *[]store.Fire) { (*l)[0].At -= 1 }},
		{"backwards", ruleInstant, "ends at", func(_ *store.Trigger, l *[]store.Fire) { (*l)[0].Last = hourOf(4) - 1 }},
		{"of the future", ruleEach, "decided only up to", func(_ *store.Trigger, l *[]store.Fire) { *l = append(*l, fired(7)) }},
		{"fired without a run", ruleInstant, "no run is recorded", func(_ *store.Trigger, l *[]store.Fire) { (*l)[1].Run = dag.RunID{} }},
		{"skipped with a run", ruleInstant, "is skipped, but run", func(_ *store.Trigger, l *[]store.Fire) { (*l)[1].Outcome = store.OutcomeSkipped }},
		{"a run for several", ruleInstant, "covers 2 instants, but a line with a run or an event covers one", func(_ *store.Trigger, l *[]store.Fire) { (*l)[1].Count = 2 }},
		{"a wrong next", ruleNext, "its next instant is", func(r *store.Trigger, _ *[]store.Fire) { r.Next = hourOf(8) }},
		{"no next", ruleNext, "its next instant is", func(r *store.Trigger, _ *[]store.Fire) { r.Next = 0 }},
		{"paused, and due", ruleNext, "it is paused", func(r *store.Trigger, _ *[]store.Fire) { r.State = store.TriggerPaused }},
		{"decided before it was declared", ruleNext, "before", func(r *store.Trigger, l *[]store.Fire) {
			r.Decided, r.Next, *l = r.Since-1, hourOf(0), nil
		}},
		{"an unreadable declaration", ruleSpec, "trigger t", func(r *store.Trigger, _ *[]store.Fire) { r.Spec = []byte("{") }},
		{"an older line that is too short", ruleInstant, "after 2026-01-01T00:00:00Z alone", func(_ *store.Trigger, l *[]store.Fire) {
			*l = (*l)[4:]
			s := skipped(-2, 5)
			s.Count = 4
			*l = append(*l, s)
		}},
		{"more runs than count", ruleCount, "count is 3, but 5 runs", func(r *store.Trigger, _ *[]store.Fire) {
			*r = declaredAt(t, p, decl(workflow.KindEvery, func(d *workflow.Trigger) { d.Every, d.Count = workflow.Duration(3600e9), 3 }), hourOf(0))
			r.Decided, r.Next = hourOf(6)+5, hourOf(7)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			row, lines := good()
			c.spoil(&row, &lines)
			for _, v := range Verify(&row, lines, 0) {
				if v.Rule == c.rule && strings.Contains(v.What, c.what) {
					return
				}
			}
			t.Errorf("found %v", Verify(&row, lines, 0))
		})
	}
	row, _ := good()
	row.Decided = hourOf(6) + 5000*hour
	var many []store.Fire
	for h := range dag.Micros(500) {
		f := fired(h)
		f.At, f.Last = f.At+1, f.At+1
		many = append(many, f)
	}
	if n := len(Verify(&row, many, 0)); n != reportMax {
		t.Errorf("%d violations are reported", n)
	}
}
