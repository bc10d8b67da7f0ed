package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Ledger records the declarations of triggers, from the batches that a store accepted. It compares the ledger
// of fires with a walk over all seconds. It supports every, at, and cron expressions of the form "*/N * * * *
// *", and does not use package cron. The caller must hold a lock.
type Ledger struct {
	Triggers map[store.TriggerKey]store.Trigger // the current declarations
	past     map[store.TriggerKey][]declaration // replaced declarations
}

// declaration says that a trigger had a specification during (since, until].
type declaration struct {
	spec, kind   string
	since, until dag.Micros
}

// NewLedger returns a ledger without triggers.
func NewLedger() *Ledger {
	return &Ledger{Triggers: map[store.TriggerKey]store.Trigger{}, past: map[store.TriggerKey][]declaration{}}
}

// Commit records a transaction. It returns the triggers whose declarations have changed, and the violations
// of rules in the transaction.
func (l *Ledger) Commit(b *store.Batch) (changed []store.TriggerKey, wrong []string) {
	wrong = l.paused(b)
	for _, t := range b.TriggerInserts {
		l.Triggers[keyOf(&t)] = t
	}
	for _, t := range b.TriggerUpdates {
		k := keyOf(&t)
		was := l.Triggers[k]
		if string(was.Spec) != string(t.Spec) || was.Since != t.Since {
			until := t.Since // the old declaration applies until the new one begins
			if was.State == store.TriggerEnded {
				until = was.Decided
			}
			l.ended(k, &was, until)
			changed = append(changed, k)
		}
		if t.Decided < was.Decided && t.Since == was.Since {
			wrong = append(wrong, fmt.Sprintf("trigger %s was decided up to %s, and now up to %s", t.Name, was.Decided.Time(), t.Decided.Time()))
		}
		l.Triggers[k] = t
	}
	for _, t := range b.TriggerDeletes {
		k := keyOf(&t)
		was := l.Triggers[k]
		l.ended(k, &was, was.Decided)
		delete(l.Triggers, k)
		changed = append(changed, k)
	}
	return changed, wrong
}

// paused returns the violations of planned pauses in a transaction: an instant of a pause must be skipped,
// and no other instant may be skipped because of the pause. It leaves out triggers whose pauses the
// transaction changes.
func (l *Ledger) paused(b *store.Batch) (wrong []string) {
	lines := slices.Clone(b.Fires)
	for _, u := range b.FireUpdates {
		lines = append(lines, u.Fire)
	}
	for _, f := range lines {
		k := store.TriggerKey{Workflow: f.Workflow, Name: f.Trigger}
		t, known := l.Triggers[k]
		changes := func(o store.Trigger) bool { return keyOf(&o) == k && string(o.Data) != string(t.Data) }
		if f.Key != "" || !known || t.State == store.TriggerPaused || slices.ContainsFunc(b.TriggerUpdates, changes) {
			continue
		}
		var data struct {
			Pauses []struct{ From, Until dag.Micros }
		}
		if len(t.Data) > 0 {
			must(json.Unmarshal(t.Data, &data))
		}
		skipped := f.Outcome == store.OutcomeSkipped && strings.HasPrefix(f.Reason.String(), "paused from")
		for _, at := range instants(string(t.Spec), t.Kind, max(f.At-1, t.Decided), f.Last) {
			is := false
			for _, p := range data.Pauses {
				is = is || p.From <= at && at < p.Until
			}
			if is && f.Outcome != store.OutcomeSkipped || !is && skipped {
				wrong = append(wrong, fmt.Sprintf("%s: %s is %s (%s), and in a planned pause: %v", k.Name, at.Time(), f.Outcome, f.Reason, is))
			}
		}
	}
	return wrong
}

func keyOf(t *store.Trigger) store.TriggerKey {
	return store.TriggerKey{Workflow: t.Workflow, Name: t.Name}
}

func (l *Ledger) ended(k store.TriggerKey, was *store.Trigger, until dag.Micros) {
	l.past[k] = append(l.past[k], declaration{spec: string(was.Spec), kind: was.Kind, since: was.Since, until: until})
}

// Audit walks over the recorded declarations. Every instant that the trigger has decided must have exactly
// one outcome, and no other instant may have one. Every line with a fire must have one run, and every run of
// a trigger one line. lines returns all lines of a trigger. runs holds all runs.
func (l *Ledger) Audit(lines func(store.TriggerKey) []store.Fire, runs map[dag.RunID]dag.RunRow) (wrong []string) {
	all := map[store.TriggerKey][]declaration{}
	for k, ds := range l.past {
		all[k] = append(all[k], ds...)
	}
	for k, t := range l.Triggers {
		all[k] = append(all[k], declaration{spec: string(t.Spec), kind: t.Kind, since: t.Since, until: t.Decided})
	}
	lined := map[dag.RunID]bool{}
	for _, k := range slices.SortedFunc(maps.Keys(all), byKey) {
		of := lines(k)
		wrong = append(wrong, auditInstants(k, all[k], of)...)
		wrong = append(wrong, auditLines(k, of, runs, lined)...)
	}
	for id, r := range runs {
		if r.Fire != nil && r.Fire.Backfill == 0 && !lined[id] {
			wrong = append(wrong, fmt.Sprintf("run %s of trigger %s at %s has no line in the ledger", id, r.Fire.Trigger, r.Fire.Instant.Time()))
		}
	}
	return wrong
}

func byKey(a, b store.TriggerKey) int {
	return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Name, b.Name))
}

const second = dag.Micros(1_000_000)

func auditInstants(k store.TriggerKey, all []declaration, lines []store.Fire) (wrong []string) {
	owed := map[dag.Micros]int{} // number of outcomes that an instant must have
	for _, d := range all {
		for _, at := range instants(d.spec, d.kind, d.since, d.until) {
			owed[at] = 0
		}
	}
	for _, f := range lines {
		if f.Key != "" || sensor(all) {
			continue
		}
		n := int64(0)
		for at := f.At; at <= f.Last; at += second {
			if _, is := owed[at]; is {
				owed[at]++
				n++
			}
		}
		if n != f.Count {
			wrong = append(wrong, fmt.Sprintf("%s: the line %s..%s %s counts %d instants, there are %d", k.Name, f.At.Time(), f.Last.Time(), f.Outcome, f.Count, n))
		}
	}
	bad, first := 0, dag.Micros(0)
	for at, n := range owed {
		if n != 1 {
			if bad++; first == 0 || at < first {
				first = at
			}
		}
	}
	if bad > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: %d instants from %s have not one outcome, but %d", k.Name, bad, first.Time(), owed[first]))
	}
	return wrong
}

// sensor reports whether a declaration has events other than instants, such as those of a sensor.
func sensor(all []declaration) bool {
	for _, d := range all {
		if d.kind != "every" && d.kind != "at" && d.kind != "cron" {
			return true
		}
	}
	return false
}

func auditLines(k store.TriggerKey, lines []store.Fire, runs map[dag.RunID]dag.RunRow, lined map[dag.RunID]bool) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, k.Name+": "+fmt.Sprintf(format, args...)) }
	events := map[string]bool{}
	for _, f := range lines {
		if f.Key != "" && events[f.Key] {
			say("the event %s has two lines", f.Key)
		}
		events[f.Key] = true
		started := f.Outcome == store.OutcomeFired || f.Outcome == store.OutcomeLate
		if started && f.Run.IsZero() {
			say("%s was %s, and there is no run", f.At.Time(), f.Outcome)
		}
		if f.Run.IsZero() {
			continue
		}
		r, is := runs[f.Run]
		switch {
		case lined[f.Run]:
			say("the run of %s is in two lines", f.At.Time())
		case !is:
			say("the run of %s does not exist", f.At.Time())
		case r.Fire == nil || r.Fire.Trigger != k.Name || r.Workflow != k.Workflow || r.Fire.Key != f.Key || f.Key == "" && r.Fire.Instant != f.At:
			say("the run of %s says that it was started by %+v", f.At.Time(), r.Fire)
		case !started && (f.Outcome != store.OutcomeMissed || r.State != dag.RunSkipped || r.Cause != dag.CauseMissed):
			say("%s was %s, its run is %s", f.At.Time(), f.Outcome, r.State)
		case started && r.State == dag.RunSkipped:
			say("%s was %s, and its run did not begin", f.At.Time(), f.Outcome)
		}
		lined[f.Run] = true
	}
	return wrong
}

// instants walks over the seconds, and returns the instants that a declaration owes in (after, until].
func instants(spec, kind string, after, until dag.Micros) []dag.Micros {
	var d struct {
		Every, Cron string
		At          []string
	}
	must(json.Unmarshal([]byte(spec), &d))
	is := func(dag.Micros) bool { return false }
	switch kind {
	case "every":
		every, err := time.ParseDuration(d.Every)
		must(err)
		is = func(at dag.Micros) bool { return at%dag.Micros(every.Microseconds()) == 0 }
	case "at":
		at, err := time.Parse(time.RFC3339, d.At[0])
		must(err)
		is = func(is dag.Micros) bool { return is == dag.Micro(at) }
	case "cron":
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(d.Cron, "*/"), " * * * * *"))
		must(err)
		is = func(at dag.Micros) bool { return int(at/second%60)%n == 0 }
	}
	var all []dag.Micros
	for at := (after/second + 1) * second; at <= until; at += second {
		if is(at) {
			all = append(all, at)
		}
	}
	return all
}
