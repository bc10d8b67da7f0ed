package engine_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// instants walks second by second: what a declaration owes in (after, until]. It knows
// every, at, and cron of the form "*/N * * * * *", and nothing of the cron package.
func instants(spec, kind string, after, until dag.Micros) []dag.Micros {
	var d struct {
		Every, Cron string
		At          []string
	}
	if err := json.Unmarshal([]byte(spec), &d); err != nil {
		panic(err)
	}
	is := func(dag.Micros) bool { return false }
	switch kind {
	case "every":
		every, err := time.ParseDuration(d.Every)
		if err != nil {
			panic(err)
		}
		is = func(at dag.Micros) bool { return at%dag.Micros(every.Microseconds()) == 0 }
	case "at":
		at, err := time.Parse(time.RFC3339, d.At[0])
		if err != nil {
			panic(err)
		}
		is = func(is dag.Micros) bool { return is == dag.Micro(at) }
	case "cron":
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(d.Cron, "*/"), " * * * * *"))
		if err != nil {
			panic(d.Cron)
		}
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

// audit walks over the history of what was declared: every instant of it up to where the
// trigger is decided has exactly one outcome, and nothing else has any; every line that says
// so has one run, and every run that a trigger started one line.
func (b *books) audit(x *timed) {
	b.at.Lock()
	defer b.at.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := map[store.TriggerKey][]declaration{}
	for k, all := range b.past {
		keys[k] = append(keys[k], all...)
	}
	for k, t := range b.triggers {
		keys[k] = append(keys[k], declaration{spec: string(t.Spec), kind: t.Kind, since: t.Since, until: t.Decided})
	}
	lined := map[dag.RunID]bool{}
	for k, all := range keys {
		lines := x.lines(k.Workflow, k.Name)
		b.auditInstants(k, all, lines)
		b.auditLines(k, lines, lined)
	}
	for id, r := range b.runs {
		if r.Fire != nil && r.Fire.Backfill == 0 && !lined[id] {
			b.t.Errorf("run %s of trigger %s at %s has no line in the ledger", id, r.Fire.Trigger, stamp(r.Fire.Instant))
		}
	}
	b.auditBackfills()
}

func (b *books) auditInstants(k store.TriggerKey, all []declaration, lines []store.Fire) {
	owed := map[dag.Micros]int{} // outcomes by instant
	for _, d := range all {
		for _, at := range instants(d.spec, d.kind, d.since, d.until) {
			owed[at] = 0
		}
	}
	for _, l := range lines {
		if l.Key != "" || sensor(all) {
			continue
		}
		n := int64(0)
		for at := l.At; at <= l.Last; at += second {
			if _, is := owed[at]; is {
				owed[at]++
				n++
			}
		}
		if n != l.Count {
			b.t.Errorf("%s: the line %s..%s %s counts %d instants, there are %d", k.Name, stamp(l.At), stamp(l.Last), l.Outcome, l.Count, n)
		}
	}
	wrong, first := 0, dag.Micros(0)
	for at, n := range owed {
		if n != 1 {
			if wrong++; first == 0 || at < first {
				first = at
			}
		}
	}
	if wrong > 0 {
		b.t.Errorf("%s: %d instants from %s have not one outcome, but %d", k.Name, wrong, stamp(first), owed[first])
	}
}

// sensor reports whether some of what was declared has no instants, or not only those.
func sensor(all []declaration) bool {
	for _, d := range all {
		if d.kind != "every" && d.kind != "at" && d.kind != "cron" {
			return true
		}
	}
	return false
}

func (b *books) auditLines(k store.TriggerKey, lines []store.Fire, lined map[dag.RunID]bool) {
	events := map[string]bool{}
	for _, l := range lines {
		if l.Key != "" && events[l.Key] {
			b.t.Errorf("%s: the event %s has two lines", k.Name, l.Key)
		}
		events[l.Key] = true
		started := l.Outcome == store.OutcomeFired || l.Outcome == store.OutcomeLate
		if started && l.Run.IsZero() {
			b.t.Errorf("%s: %s was %s, and there is no run", k.Name, stamp(l.At), l.Outcome)
		}
		if l.Run.IsZero() {
			continue
		}
		r, is := b.runs[l.Run]
		switch {
		case lined[l.Run]:
			b.t.Errorf("%s: the run of %s is in two lines", k.Name, stamp(l.At))
		case !is:
			b.t.Errorf("%s: the run of %s does not exist", k.Name, stamp(l.At))
		case r.Fire == nil || r.Fire.Trigger != k.Name || r.Workflow != k.Workflow || r.Fire.Key != l.Key || l.Key == "" && r.Fire.Instant != l.At:
			b.t.Errorf("%s: the run of %s says that it was started by %+v", k.Name, stamp(l.At), r.Fire)
		case !started && (l.Outcome != store.OutcomeMissed || r.State != dag.RunSkipped || r.Cause != dag.CauseMissed):
			b.t.Errorf("%s: %s was %s, its run is %s", k.Name, stamp(l.At), l.Outcome, r.State)
		case started && r.State == dag.RunSkipped:
			b.t.Errorf("%s: %s was %s, and its run did not begin", k.Name, stamp(l.At), l.Outcome)
		}
		lined[l.Run] = true
	}
}

// auditBackfills: the counts are those of the runs, and what is over is complete.
func (b *books) auditBackfills() {
	for id, f := range b.fills {
		list, err := dag.UnpackInstants(f.Instants, 0, 0)
		if err != nil {
			b.t.Errorf("backfill %d: %v", id, err)
			continue
		}
		ended, failed := 0, 0
		for at, run := range b.filled[id] {
			r := b.runs[run]
			if r.State.Terminal() || r.Generation > 1 {
				ended++
			}
			if r.State.Terminal() && r.State != dag.RunSucceeded {
				failed++
			}
			if r.Fire == nil || r.Fire.Backfill != id || r.Fire.Instant != at {
				b.t.Errorf("backfill %d: the run of %s says %+v", id, stamp(at), r.Fire)
			}
		}
		without := int(f.Started) - len(b.filled[id]) // their parameters could not be made
		if without < 0 || int(f.Ended) != ended+without || int(f.Failed) < failed {
			b.t.Errorf("backfill %d (%s): started %d, ended %d, failed %d; its runs: %d, %d, %d", id, f.State, f.Started, f.Ended, f.Failed, len(b.filled[id]), ended, failed)
		}
		for i, at := range list {
			if _, started := b.filled[id][at]; !started && without == 0 && i < int(f.Started) {
				b.t.Errorf("backfill %d: %s has no run, and %d instants are started", id, stamp(at), f.Started)
			}
		}
		switch {
		case f.State == store.BackfillDone && (f.Ended != f.Total || f.Started != f.Total):
			b.t.Errorf("backfill %d is done, and %d of %d have ended", id, f.Ended, f.Total)
		case (f.State == store.BackfillRunning || f.State == store.BackfillPaused) && f.Ended == f.Total:
			b.t.Errorf("backfill %d is %s, and all of it has ended", id, f.State)
		}
	}
}
