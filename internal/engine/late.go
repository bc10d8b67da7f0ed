package engine

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// lateness knows when the deadlines of unfinished runs and of incidents are due. It has no rows of its own,
// because the rows of runs and incidents contain everything. alerts.load builds it again.
type lateness struct {
	heap    moments
	pruneAt int
	// late holds, by rule, the unfinished runs that have passed the rule's deadline. starting has, by run,
	// those of these rules whose deadline is for the start of the run.
	late     map[ruleOf]map[string]bool
	starting map[dag.RunID][]ruleOf
	// ahead holds, for each run that has not started, the rules whose deadline counts from the start of the
	// run.
	ahead   map[dag.RunID][]ruleOf
	aheadAt int
	// usual holds, by workflow, the durations of the last successful runs.
	usual map[dag.WorkflowID][]dag.Micros
	// barred are moments whose changes the store has refused. This process does not try them again.
	barred map[moment]bool
}

// moment is a time at which a rule checks a run, or its incident.
type moment struct {
	due  dag.Micros
	what sighting
}

// before orders moments. It also orders moments of the same time, so that a simulation with one seed is
// repeatable.
func (m *moment) before(o *moment) bool {
	return cmp.Or(cmp.Compare(m.due, o.due), bytes.Compare(m.what.run[:], o.what.run[:]), cmp.Compare(m.what.of.workflow, o.what.of.workflow),
		cmp.Compare(m.what.of.rule, o.what.of.rule)) < 0
}

// moments is a heap with the earliest moment first.
type moments []moment

func (h moments) Len() int           { return len(h) }
func (h moments) Less(i, j int) bool { return h[i].before(&h[j]) }
func (h moments) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *moments) Push(m any)        { *h = append(*h, m.(moment)) }

func (h *moments) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	*h = (*h)[:last]
	return m
}

type sighting struct {
	run dag.RunID // zero if the moment is about the incident of the rule
	of  ruleOf
}

type ruleOf struct {
	workflow dag.WorkflowID
	rule     string
}

const (
	// silenceLook is the interval at which a silenced incident checks whether its silence was ended early.
	silenceLook = dag.Micros(60_000_000)
	// silencesFresh is the age up to which a reading of the silences is used.
	silencesFresh = time.Second
	// barredMax bounds barred.
	barredMax = 1000
)

func (l *lateness) forget() {
	*l = lateness{late: map[ruleOf]map[string]bool{}, starting: map[dag.RunID][]ruleOf{}, ahead: map[dag.RunID][]ruleOf{},
		usual: map[dag.WorkflowID][]dag.Micros{}, barred: l.barred}
}

// expect begins to watch the times of a run that is in memory. If the store does not answer, everything is
// loaded again later.
func (a *alerts) expect(r *dag.Run) {
	if a.read == nil || !a.expecting {
		return // load watches the run
	}
	if err := a.expectOf(r, nil); errors.Is(err, errkind.ErrUnavailable) {
		a.broken(err)
	}
}

// expectOf does the same as expect, for given rules. If rules is nil, it finds the rules of the workflow. If
// the parameter only is given, it applies only these rules.
func (a *alerts) expectOf(r *dag.Run, rules []alert.Rule, only ...ruleOf) error {
	if rules == nil {
		c, err := a.current(r.Workflow)
		if err != nil || c == nil {
			return err
		}
		rules = c.rules
	}
	for i := range rules {
		rule := &rules[i]
		if !rule.Timed() || !rule.Covers(r.Origin, r.Tags()) || len(only) > 0 && !slices.Contains(only, ruleOf{r.Workflow, rule.Name}) {
			continue
		}
		// a panic in a faulty rule must not prevent the load of a shard
		if err := errkind.Guarded(func() { a.watch(r, rule) }); err != nil {
			a.log.Error("a deadline cannot be checked, so its incident is not opened", "code", "deadline_refused", "workflow", int64(r.Workflow),
				"rule", rule.Name, "run", r.ID.String(), "err", err)
		}
	}
	return nil
}

// timedFor reports whether a rule watches the times of a run.
func (a *alerts) timedFor(r *dag.Run) (bool, error) {
	if a.read == nil {
		return false, nil
	}
	c, err := a.current(r.Workflow)
	if err != nil || c == nil {
		return false, err
	}
	return slices.ContainsFunc(c.rules, func(rule alert.Rule) bool { return rule.Timed() && rule.Covers(r.Origin, r.Tags()) }), nil
}

// expectAll begins to watch the unfinished runs of a workflow that has new rules.
func (a *alerts) expectAll(wf *store.Workflow, rules []alert.Rule) {
	if !slices.ContainsFunc(rules, func(r alert.Rule) bool { return r.Timed() }) {
		return
	}
	for _, r := range a.inMemory() {
		if r.Workflow == wf.ID {
			_ = a.expectOf(r, rules) // the rules are known, so nothing is read
		}
	}
}

// watch computes when a rule checks a run next.
func (a *alerts) watch(r *dag.Run, rule *alert.Rule) {
	c := alert.CourseOf(&r.Header, r.State, r.StartedAt, r.Generation)
	if rule.Met(&c) {
		return
	}
	due, ahead := rule.Due(&c, a.usualOf(r.Workflow))
	of := ruleOf{r.Workflow, rule.Name}
	if ahead {
		a.startsLater(r.ID, of)
		return
	}
	if is := a.open[of.workflow][of.rule]; due != 0 && is != nil && is.State != store.IncidentCounting && is.Counted(due) {
		a.isLate(of, r, rule) // an incident of this rule has already taken the run's deadline into account
		return
	}
	if due != 0 {
		a.push(moment{due, sighting{r.ID, of}})
	}
}

// startsLater records that the deadline of a rule counts from the start of a run that has not started yet.
func (a *alerts) startsLater(id dag.RunID, of ruleOf) {
	l := &a.times
	if len(l.ahead) >= max(l.aheadAt, pruneMin) {
		maps.DeleteFunc(l.ahead, func(id dag.RunID, _ []ruleOf) bool { return a.inMemory()[id] == nil })
		l.aheadAt = 2 * len(l.ahead)
	}
	if !slices.Contains(l.ahead[id], of) {
		l.ahead[id] = append(l.ahead[id], of)
	}
}

// isLate records that a run has passed the deadline of a rule.
func (a *alerts) isLate(of ruleOf, r *dag.Run, rule *alert.Rule) {
	if a.times.late[of] == nil {
		a.times.late[of] = map[string]bool{}
	}
	a.times.late[of][r.ID.String()] = true
	if rule.Goal() == alert.ForStart {
		a.times.starting[r.ID] = append(a.times.starting[r.ID], of)
	}
}

// await computes the next moment of an incident that does not come from a run: a deadline without a run, the
// end of a silence, an escalation.
func (a *alerts) await(n *alert.Incident) {
	if n.Ended != 0 {
		return
	}
	due := earliest(n.Waits(), n.Climbs())
	if n.Silent() {
		due = earliest(due, min(n.Detail.Silenced.Until, a.clock()+silenceLook))
	}
	if due != 0 {
		a.push(moment{due, sighting{of: ruleOf{n.Workflow, n.Rule}}})
	}
}

// woken applies the rules to an incident at one of its moments.
func (a *alerts) woken(rules []alert.Rule, is *alert.Incident, wf *store.Workflow) {
	if is == nil {
		return
	}
	rule, now := &alert.Rule{Name: is.Rule}, a.now()
	for i := range rules {
		// The rule of an incident about the cluster has the name of the incident's row.
		if name := rules[i].Name; name == is.Rule || name == is.RuleName() {
			rule = &rules[i]
		}
	}
	if is.Waits() != 0 && !rule.Timed() {
		return // an edit has changed the rule, or the rule cannot be read
	}
	var c alert.Change
	switch {
	case is.Waits() != 0 && is.Waits() <= now:
		c = a.fell(rule, is, wf)
	case is.Silent():
		c = rule.Speak(is, a.silences(), now)
	case is.Climbs() != 0 && is.Climbs() <= now:
		c = rule.Climb(is, now)
	}
	if c.Incident == nil {
		a.await(is) // the step is not due yet, or the incident is still silenced
		return
	}
	a.write(c)
}

// silences returns the silences of the database. It reads them again at most once per second. If the read
// fails, the store does not answer, and the present transaction will fail as well.
func (a *alerts) silences() []store.Silence {
	if at := a.mono(); a.quietRead.IsZero() || at.Sub(a.quietRead) > silencesFresh {
		if all, err := a.store.Silences(context.Background()); err == nil {
			a.quiet, a.quietRead = all, at
		}
	}
	return a.quiet
}

// loadTimes builds lateness from the runs and incidents in memory.
func (a *alerts) loadTimes() error {
	a.times.forget()
	for _, r := range a.inMemory() {
		if err := a.expectOf(r, nil); errors.Is(err, errkind.ErrUnavailable) {
			return err
		}
	}
	for _, of := range a.open {
		for _, n := range of {
			a.await(n)
		}
	}
	a.expecting = true
	return nil
}

func (a *alerts) push(m moment) {
	l := &a.times
	if l.barred[m] {
		return
	}
	if len(l.heap) >= max(l.pruneAt, pruneMin) {
		a.prune()
	}
	heap.Push(&l.heap, m)
}

// prune removes the moments of ended runs, and duplicates.
func (a *alerts) prune() {
	l, at, runs := &a.times, map[sighting]int{}, a.inMemory()
	var kept []moment
	// The order within the heap's array does not matter here. Of two moments for the same incident or run,
	// the earlier one is kept, because a check that comes too early changes nothing.
	for _, m := range l.heap {
		i, twice := at[m.what]
		switch {
		case !m.what.run.IsZero() && runs[m.what.run] == nil:
		case !twice:
			at[m.what] = len(kept)
			kept = append(kept, m)
		case m.due < kept[i].due:
			kept[i] = m
		}
	}
	l.heap, l.pruneAt = kept, 2*len(kept)
	heap.Init(&l.heap)
}

func (l *lateness) pop() moment { return heap.Pop(&l.heap).(moment) }

// due reports whether a moment is due.
func (a *alerts) due() bool { return len(a.times.heap) > 0 && a.times.heap[0].due <= a.clock() }

// wait bounds the sleep of the writer.
func (a *alerts) wait() time.Duration {
	if len(a.times.heap) == 0 {
		return waitMax
	}
	left := min(a.times.heap[0].due-a.clock(), dag.Micros(waitMax.Microseconds()))
	return max(time.Duration(left)*time.Microsecond, 0)
}

// dueItems turns moments that are due into items.
func (a *alerts) dueItems(to []item, most int) []item {
	for ; most > 0 && a.due(); most-- {
		m := a.times.pop()
		to = append(to, item{
			op: func(w *writer) answer {
				err := w.alerts.struck(&m)
				if err != nil {
					w.broken(err)
				}
				return answer{err: err}
			},
			done: func(got answer) { a.refused(m, got.err) },
		})
	}
	return to
}

// refused notes a moment whose changes the store has refused, so that the writer does not try it for ever.
func (a *alerts) refused(m moment, err error) {
	if err == nil {
		return
	}
	if a.times.barred == nil || len(a.times.barred) >= barredMax {
		a.times.barred = map[moment]bool{}
	}
	a.times.barred[m] = true
	a.log.Error("a deadline cannot be checked, so its incident is not opened", "code", "deadline_refused", "workflow", int64(m.what.of.workflow),
		"rule", m.what.of.rule, "run", m.what.run.String(), "err", err)
}

// struck makes a rule check its run or incident at a moment.
func (a *alerts) struck(m *moment) error {
	of := m.what.of
	if of.workflow == clusterWide {
		a.wokenCluster(of.rule)
		return nil
	}
	wf, err := a.defs.workflow(of.workflow)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil
	}
	if err != nil || a.held(wf.Shard) == nil || wf.State == store.WorkflowDeleted {
		return err
	}
	rules, err := a.of(&wf)
	if err != nil {
		return err
	}
	var rule *alert.Rule
	for i := range rules {
		if rules[i].Name == of.rule && rules[i].Timed() {
			rule = &rules[i]
		}
	}
	is := a.open[of.workflow][of.rule]
	switch {
	case m.what.run.IsZero():
		a.woken(rules, is, &wf)
		return nil
	case rule == nil:
		return nil
	}
	r := a.inMemory()[m.what.run]
	if r == nil || !r.Unfinished() || a.times.late[of][r.ID.String()] {
		return nil
	}
	c, now := alert.CourseOf(&r.Header, r.State, r.StartedAt, r.Generation), a.now()
	due, ahead := rule.Due(&c, a.usualOf(of.workflow))
	switch {
	case ahead:
		a.startsLater(r.ID, of)
		return nil
	case rule.Met(&c) || due == 0:
		return nil
	case due > now:
		a.push(moment{due, m.what})
		return nil
	}
	h := course(&r.Header, now)
	h.Event, h.Due, h.Course, h.Message = rule.Event(), due, c, running(rule, r, due)
	if err := a.pass(rule, is, &wf, h); err != nil {
		return err
	}
	a.isLate(of, r, rule)
	return nil
}

// fell opens the incident for an instant of a schedule whose deadline has passed and whose run has ended
// without success.
func (a *alerts) fell(rule *alert.Rule, is *alert.Incident, wf *store.Workflow) alert.Change {
	h := is.Detail.Last
	h.Event, h.Due, h.At, h.ID = rule.Event(), is.Waits(), a.now(), a.newID()
	h.Of = alert.Subject{Shard: wf.Shard, Workflow: wf.ID, Namespace: wf.Namespace, Name: wf.Name}
	return rule.Pass(is, &h, true, false)
}

// pass writes in the transaction being made that a deadline has passed, unless an earlier incident, possibly
// a resolved one, has already counted it.
func (a *alerts) pass(rule *alert.Rule, is *alert.Incident, wf *store.Workflow, h *alert.Happening) error {
	if is == nil {
		if told, err := a.counted(wf.ID, rule.Name, h.Due); told || err != nil {
			return err
		}
	}
	h.ID = a.newID()
	h.Of = alert.Subject{Shard: wf.Shard, Workflow: wf.ID, Namespace: wf.Namespace, Name: wf.Name}
	if c := rule.Pass(is, h, false, false); c.Incident != nil {
		a.write(c)
	}
	return nil
}

// counted reports whether the last incident of a rule has already counted a deadline, even if a person has
// resolved that incident.
func (a *alerts) counted(wf dag.WorkflowID, rule string, due dag.Micros) (bool, error) {
	row, err := a.store.LastIncident(context.Background(), wf, rule)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, errkind.FromStore("look for incidents", err)
	}
	n, err := alert.Read(row)
	return err == nil && n.Counted(due), nil
}

// now returns the time with which the transaction being made compares deadlines.
func (a *alerts) now() dag.Micros { return max(a.txn().now.Wall, a.clock()) }

// course returns the event for the course of a run.
func course(r *dag.Header, now dag.Micros) *alert.Happening {
	h := &alert.Happening{Run: r.ID.String(), Origin: r.Origin, Tags: r.Tags(), At: now}
	if r.Fire != nil {
		h.Trigger, h.Instant = r.Fire.Trigger, r.Fire.Instant
	}
	return h
}

// running describes the progress of a late run.
func running(rule *alert.Rule, r *dag.Run, due dag.Micros) string {
	what := map[string]string{alert.ForSuccess: "succeeded", alert.ForEnd: "ended", alert.ForStart: "begun"}[rule.Goal()]
	return fmt.Sprintf("it should have %s by %s, and is %s", what, due.Time().UTC().Format(time.RFC3339), r.State)
}

// timed applies a rule about the times of runs to an event: the end of a run, its start, or an instant
// without a run.
func (a *alerts) timed(rule *alert.Rule, is *alert.Incident, h *alert.Happening) (alert.Change, error) {
	of := ruleOf{h.Of.Workflow, rule.Name}
	late := a.times.late[of]
	was := late[h.Run]
	if delete(late, h.Run); len(late) == 0 {
		delete(a.times.late, of)
	}
	if !rule.Covers(h.Origin, h.Tags) {
		return alert.Change{}, nil
	}
	if c := rule.Finish(is, h, len(late)); c.Incident != nil || h.Success || rule.Goal() != alert.ForSuccess {
		return c, nil
	}
	due, _ := rule.Due(&h.Course, a.usualOf(h.Of.Workflow))
	last := *h
	last.Due = due
	switch {
	case due == 0:
		return alert.Change{}, nil
	case due > h.At:
		return rule.Fall(is, &last), nil
	}
	if is == nil && !was {
		if told, err := a.counted(h.Of.Workflow, rule.Name, due); told || err != nil {
			return alert.Change{}, err
		}
	}
	if is == nil && was { // a person has resolved the incident
		return alert.Change{}, nil
	}
	return rule.Pass(is, &last, true, was), nil
}

// usualOf returns the durations of the last runs of a workflow that succeeded.
func (a *alerts) usualOf(id dag.WorkflowID) alert.Usual {
	return func(percentile int) (dag.Micros, bool) {
		all, known := a.times.usual[id]
		if !known {
			page, err := a.store.Runs(context.Background(), store.RunQuery{Workflow: id, States: []string{dag.RunSucceeded.String()}, Limit: alert.UsualOf})
			if err != nil {
				return 0, false // the next run computes the duration again
			}
			for i := len(page.Runs) - 1; i >= 0; i-- {
				if r := &page.Runs[i]; r.StartedAt != 0 {
					all = append(all, r.FinishedAt-r.StartedAt)
				}
			}
			a.times.usual[id] = all
		}
		if len(all) < alert.UsualLeast {
			return 0, false
		}
		return alert.Percentile(append([]dag.Micros(nil), all...), percentile), true
	}
}

// lasted records the duration of a succeeded run, if a rule needs the durations of its workflow.
func (a *alerts) lasted(r *dag.Run) {
	all, known := a.times.usual[r.Workflow]
	if !known || r.State != dag.RunSucceeded || r.StartedAt == 0 {
		return
	}
	if all = append(all, r.FinishedAt-r.StartedAt); len(all) > alert.UsualOf {
		all = append(all[:0], all[1:]...)
	}
	a.times.usual[r.Workflow] = all
}

// begun resolves incidents about runs that had not begun in time and now have. It also begins to watch the
// deadlines that count from the start of a run.
func (a *alerts) begun() error {
	if len(a.times.starting) == 0 && len(a.times.ahead) == 0 {
		return nil
	}
	for _, r := range a.txn().touched {
		if of := a.times.ahead[r.ID]; len(of) > 0 && (r.StartedAt != 0 && r.State != dag.RunWaiting || !r.Unfinished()) {
			delete(a.times.ahead, r.ID)
			if r.Unfinished() {
				if err := a.expectOf(r, nil, of...); err != nil {
					return err
				}
			}
		}
		if len(a.times.starting[r.ID]) == 0 || r.StartedAt == 0 || r.State == dag.RunWaiting {
			continue
		}
		delete(a.times.starting, r.ID)
		h := course(&r.Header, a.now())
		h.Course = alert.CourseOf(&r.Header, r.State, r.StartedAt, r.Generation)
		if h.Over = !r.Unfinished(); h.Over {
			continue // the function ended has already decided about this run
		}
		if err := a.happenedTo(r.Workflow, h, (*alert.Rule).Starts); err != nil {
			return err
		}
	}
	return nil
}
