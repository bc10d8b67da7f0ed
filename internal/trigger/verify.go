package trigger

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// Rules of [Verify].
const (
	ruleOnce    = "fire-once"    // no instant and no event has two outcomes
	ruleEach    = "fire-each"    // every instant up to Decided has an outcome
	ruleInstant = "fire-instant" // each line covers instants of the schedule, and states their number
	ruleNext    = "trigger-next" // Next is the first instant after Decided; only an active trigger has one
	ruleCount   = "trigger-count"
	ruleSpec    = "trigger-spec"
)

// reportMax bounds the number of violations that are reported for one trigger, because one bug can affect
// every line.
const reportMax = 20

// Verify checks the ledger of a trigger from Since to Decided. If older lines may have been deleted, the
// check begins at the instant from. Every instant of the schedule in this span must have exactly one outcome,
// and no other instant may have one. lines contains all lines of the trigger that overlap the span, in any
// order.
func Verify(t *store.Trigger, lines []store.Fire, from dag.Micros) []inspect.Violation {
	d, err := compile(t)
	if err != nil {
		return []inspect.Violation{{Rule: ruleSpec, What: err.Error()}}
	}
	v := audit{declared: d, row: t, since: max(t.Since, from)}
	v.events(lines)
	if v.next(); d.when != nil {
		v.instants(lines)
	}
	return v.found
}

type audit struct {
	*declared
	row   *store.Trigger
	since dag.Micros
	found []inspect.Violation
}

func (v *audit) fail(rule, format string, args ...any) {
	if len(v.found) < reportMax {
		v.found = append(v.found, inspect.Violation{Rule: rule, What: fmt.Sprintf("trigger %s of workflow %d: %s", v.row.Name, v.row.Workflow, fmt.Sprintf(format, args...))})
	}
}

// events checks the rules that apply to every line.
func (v *audit) events(lines []store.Fire) {
	keys, runs, started := map[string]bool{}, map[dag.RunID]bool{}, int64(0)
	for i := range lines {
		l := &lines[i]
		ran := !l.Run.IsZero()
		switch {
		case l.Key != "" && keys[l.Key]:
			v.fail(ruleOnce, "event %s has two ledger lines", l.Key)
		case ran && runs[l.Run]:
			v.fail(ruleOnce, "run %s is in two ledger lines", l.Run)
		case ran && l.Count != 1, l.Key != "" && l.Count != 1 && !(l.Outcome == store.OutcomeMissed && strings.HasPrefix(l.Key, engine.LostKey)):
			v.fail(ruleInstant, "the ledger line of %s covers %d instants, but a line with a run or an event covers one", clock(l.At), l.Count)
		case !ran && (l.Outcome == store.OutcomeFired || l.Outcome == store.OutcomeLate):
			v.fail(ruleInstant, "the outcome of %s is %s, but no run is recorded", clock(l.At), l.Outcome)
		case ran && (l.Outcome == store.OutcomeSkipped || l.Outcome == store.OutcomeMerged):
			v.fail(ruleInstant, "the outcome of %s is %s, but run %s is recorded", clock(l.At), l.Outcome, l.Run)
		}
		keys[l.Key], runs[l.Run] = true, true
		if ran && l.At > v.row.Since {
			started++
		}
	}
	if v.Count > 0 && started > v.Count {
		v.fail(ruleCount, "count is %d, but %d runs were started", v.Count, started)
	}
}

// next checks Next in the row.
func (v *audit) next() {
	t := v.row
	switch {
	case t.Decided < t.Since:
		v.fail(ruleNext, "it is decided up to %s, which is before its declaration at %s", clock(t.Decided), clock(t.Since))
	case t.State != store.TriggerActive && t.Next != 0:
		v.fail(ruleNext, "it is %s, and its next instant is %s", t.State, clock(t.Next))
	case v.when != nil && t.State == store.TriggerActive && t.Next != v.declared.next(t.Decided):
		v.fail(ruleNext, "its next instant is %s, the first after %s is %s", clock(t.Next), clock(t.Decided), clock(v.declared.next(t.Decided)))
	}
}

// instants checks that the lines of the schedule are consecutive, that each line covers the number of
// instants that it states, and that no instant is outside of the lines.
func (v *audit) instants(lines []store.Fire) {
	var own []store.Fire
	for _, l := range lines {
		if l.Key == "" && l.Last > v.since {
			own = append(own, l)
		}
	}
	sort.Slice(own, func(i, j int) bool { return own[i].At < own[j].At })
	done := v.since // every instant up to done is in a line
	for i := range own {
		l := &own[i]
		switch {
		case l.Last < l.At:
			v.fail(ruleInstant, "the ledger line of %s ends at %s", clock(l.At), clock(l.Last))
		case l.At <= done && l.At > v.since:
			v.fail(ruleOnce, "%s is in two ledger lines", clock(l.At))
		case l.Last > v.row.Decided:
			v.fail(ruleEach, "%s has an outcome, but instants are decided only up to %s", clock(l.Last), clock(v.row.Decided))
		}
		v.gap(done, l.At-1)
		v.line(l)
		done = max(done, l.Last)
	}
	v.gap(done, v.row.Decided)
}

func (v *audit) gap(after, until dag.Micros) {
	if n := v.count(after, until); n > 0 {
		v.fail(ruleEach, "%d instants from %s to %s have no outcome", n, clock(v.declared.next(after)), clock(v.last(until)))
	}
}

func (v *audit) line(l *store.Fire) {
	n := v.count(max(l.At-1, v.since), l.Last)
	switch {
	case l.At <= v.since:
		// The line began under another declaration. So the check is only that this declaration does not have more
		// instants than the line.
		if n > l.Count {
			v.fail(ruleInstant, "the ledger line from %s covers %d instants, but there are %d after %s alone", clock(l.At), l.Count, n, clock(v.since))
		}
	case n != l.Count:
		v.fail(ruleInstant, "the ledger line from %s to %s covers %d instants, but the schedule has %d there", clock(l.At), clock(l.Last), l.Count, n)
	case v.declared.next(l.At-1) != l.At || v.last(l.Last) != l.Last:
		v.fail(ruleInstant, "the ledger line from %s to %s does not begin and end at instants of the schedule", clock(l.At), clock(l.Last))
	}
}

// Forgotten returns the instant up to which lines of a trigger may have been deleted. It returns 0 if none
// were deleted. A list of lines that was read before the call is complete after that instant.
func Forgotten(ctx context.Context, st store.Schedules, k store.TriggerKey) (dag.Micros, error) {
	days, err := st.FireDays(ctx, k, 0, 1)
	if err != nil || len(days) == 0 {
		return 0, err
	}
	return days[0].Until, nil
}
