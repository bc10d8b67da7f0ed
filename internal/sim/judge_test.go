package sim

import (
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// step is a hand-made history: an earlier and a present state of a run.
type step struct {
	was  shadow
	is   store.RunRecord
	said map[attemptKey]dag.AttemptState
}

var theRun = dag.RunID{1}

func row(task dag.TaskID, token dag.Token, state dag.AttemptState) dag.AttemptRow {
	a := dag.AttemptRow{Run: theRun, Task: task, Token: token, Handler: 7, State: state, Generation: 1, Assigned: 1}
	if state.Ended() {
		a.Finished = 2
	}
	return a
}

// goodStep returns a step that breaks no rule: in a diamond, the first task ends and frees the next two.
func goodStep() step {
	p := diamond()
	r := dag.RunRow{Header: dag.Header{ID: theRun, Workflow: 1}, State: dag.RunRunning, SplitAt: 1, StartedAt: 1, Generation: 1}
	return step{
		was: shadow{name: "r", plan: p, row: r, attempts: []dag.AttemptRow{row(0, 1, dag.AttemptAssigned)}},
		is: store.RunRecord{Run: r, Attempts: []dag.AttemptRow{row(0, 1, dag.AttemptSucceeded), row(1, 1, dag.AttemptAssigned),
			row(2, 1, dag.AttemptAssigned)}},
		said: map[attemptKey]dag.AttemptState{{theRun, 0, 1}: dag.AttemptSucceeded, {theRun, 1, 1}: dag.AttemptSucceeded,
			{theRun, 2, 1}: dag.AttemptSucceeded, {theRun, 3, 1}: dag.AttemptSucceeded},
	}
}

// over makes every task of the run succeed.
func (s *step) over() {
	s.was.attempts = []dag.AttemptRow{row(0, 1, dag.AttemptSucceeded), row(1, 1, dag.AttemptSucceeded), row(2, 1, dag.AttemptSucceeded), row(3, 1, dag.AttemptAssigned)}
	s.is.Attempts = slices.Clone(s.was.attempts)
	s.is.Attempts[3] = row(3, 1, dag.AttemptSucceeded)
	s.is.Run.State, s.is.Run.FinishedAt = dag.RunSucceeded, 2
	states := make([]dag.TaskState, 4)
	for i := range states {
		states[i] = dag.Succeeded
	}
	s.is.Run.Final = final(states)
}

// TestJudgeCanFail checks that each rule about a run finds its bad history, and that no rule objects to the
// good ones.
func TestJudgeCanFail(t *testing.T) {
	for _, c := range []struct {
		rule   string
		damage func(s *step)
	}{
		{"", func(*step) {}},
		{"", (*step).over},
		{"quarantine", func(s *step) { s.is.Run.Cause = dag.CauseCorrupt }},
		{"terminal is absorbing", func(s *step) { s.was.row.State = dag.RunFailed }},
		{"intent", func(s *step) { s.was.row.Intent = dag.IntentStop; s.is.Attempts = s.is.Attempts[:1] }},
		{"outcome", func(s *step) { s.over(); s.is.Attempts[3].State = dag.AttemptFailed }},
		{"outcome", func(s *step) { s.over(); s.is.Run.State = dag.RunFailed }},
		{"outcome", func(s *step) { s.over(); s.is.Attempts[3] = row(3, 1, dag.AttemptAssigned) }},
		{"finalised at once", func(s *step) { s.over(); s.is.Run.State, s.is.Run.Final = dag.RunRunning, nil }},
		{"derive", func(s *step) { s.is.Attempts = append(s.is.Attempts, row(9, 1, dag.AttemptAssigned)) }},
		{"closure", func(s *step) { // the graph passes the failure on to t3, but by the rules t3 waits
			p := *s.was.plan
			p.ifs = slices.Clone(p.ifs)
			p.ifs[3] = "always"
			s.was.plan, s.is.Attempts[1] = &p, row(1, 1, dag.AttemptFailed)
		}},
		{"tokens", func(s *step) { s.is.Attempts[1].Token = 2 }},
		{"one holder", func(s *step) {
			s.is.Attempts = append(s.is.Attempts[:2], row(1, 2, dag.AttemptAssigned), row(2, 1, dag.AttemptAssigned))
		}},
		{"one holder", func(s *step) { s.is.Attempts[0].Handler = 8; s.is.Attempts[0].State = dag.AttemptRunning }},
		{"one end", func(s *step) { s.was.attempts[0] = row(0, 1, dag.AttemptFailed) }},
		{"token", func(s *step) { delete(s.said, attemptKey{theRun, 0, 1}) }},
		{"none lost", func(s *step) { s.was.attempts = append(s.was.attempts, row(3, 1, dag.AttemptLost)) }},
		{"retries", func(s *step) { s.is.Attempts[1] = row(1, 1, dag.AttemptFailed); s.is.Attempts[1].RetryAt = 9 }},
		{"poison", func(s *step) {
			s.is.Attempts = s.is.Attempts[:1]
			for n := range dag.Token(lossesMax + 1) {
				s.is.Attempts = append(s.is.Attempts, row(1, n+1, dag.AttemptLost))
			}
		}},
		{"stopped", func(s *step) { s.was.row.Intent, s.is.Run.Intent = dag.IntentPause, dag.IntentPause }},
		{"order", func(s *step) { s.is.Attempts[0] = row(0, 1, dag.AttemptFailed) }},
		{"order", func(s *step) { s.is.Attempts = append(s.is.Attempts, row(3, 1, dag.AttemptAssigned)) }},
	} {
		s := goodStep()
		c.damage(&s)
		found := judgeRun(&s.was, &s.is, s.said)
		is := func(f finding) bool { return f.rule == c.rule }
		if c.rule == "" && len(found) > 0 || c.rule != "" && !slices.ContainsFunc(found, is) {
			t.Errorf("%q: found %v", c.rule, found)
		}
	}
}

// TestRichJudgeCanFail checks that each rule of rich worlds finds its bad history.
func TestRichJudgeCanFail(t *testing.T) {
	claim := func(stage dag.ClaimStage) *dag.Claim { return &dag.Claim{Queue: "q", Stage: stage} }
	other := dag.RunID{2}
	for _, c := range []struct {
		rule   string
		damage func(s *step)
	}{
		{"", func(*step) {}},
		{"quarantine", func(s *step) { s.is.Run.Cause = dag.CauseCorrupt }},
		{"generation", func(s *step) { s.was.row.Generation = 2 }},
		{"terminal is absorbing", func(s *step) { s.was.row.State = dag.RunFailed }},
		{"intent", func(s *step) { s.was.row.Intent = dag.IntentStop; s.is.Attempts = s.is.Attempts[:1] }},
		{"claims end with the run", func(s *step) { s.over(); s.is.Run.Claim = claim(dag.ClaimGranted) }},
		{"suspended", func(s *step) { s.is.Run.State, s.is.Run.Claim = dag.RunSuspended, claim(dag.ClaimGranted) }},
		{"claims", func(s *step) { s.is.Run.Claim = claim(dag.ClaimOver) }},
		{"derive", func(s *step) { s.is.Attempts = append(s.is.Attempts, row(9, 1, dag.AttemptAssigned)) }},
		{"finalised at once", func(s *step) { s.over(); s.is.Run.State, s.is.Run.Final = dag.RunRunning, nil }},
		{"stopped", func(s *step) { s.was.row.Intent, s.is.Run.Intent = dag.IntentPause, dag.IntentPause }},
	} {
		s := goodStep()
		c.damage(&s)
		s.was.graph = s.was.plan.g
		judged(t, c.rule, judgeRich(&s.was, &s.is, s.said))
	}
	held := []store.Claimant{{Run: theRun, Claim: dag.Claim{Queue: "q", Locks: []string{"l"}, Stage: dag.ClaimGranted}},
		{Run: other, Claim: dag.Claim{Queue: "q", Locks: []string{"l"}, Stage: dag.ClaimGranted, Family: theRun}}}
	judged(t, "", judgeCommons(held, []store.Queue{{Name: "q", Limit: 2}}))
	judged(t, "limit of a queue", judgeCommons(held, []store.Queue{{Name: "q", Limit: 1}}))
	held[1].Claim.Family = dag.RunID{}
	judged(t, "one holder of a lock", judgeCommons(held, nil))
	held = []store.Claimant{{Run: theRun, Shares: []dag.Share{{Queue: "q", Got: 3, Back: 1}}}, {Run: other, Shares: []dag.Share{{Queue: "q", Got: 1}}}}
	judged(t, "", judgeCommons(held, []store.Queue{{Name: "q", Limit: 3}}))
	judged(t, "limit of a queue", judgeCommons(held, []store.Queue{{Name: "q", Limit: 2}}))

	call := row(0, 1, dag.AttemptSucceeded)
	call.Signal = other.String() + "/1/1"
	child := &shadow{row: dag.RunRow{State: dag.RunSucceeded, Generation: 1, Header: dag.Header{ID: other,
		Fire: &dag.Fire{Parent: &dag.Parent{Line: []dag.Ancestor{{Run: theRun}}}}}}}
	runs := map[dag.RunID]*shadow{theRun: {attempts: []dag.AttemptRow{call}}, other: child}
	order := []dag.RunID{theRun, other}
	judged(t, "", judgeFamilies(order, runs))
	child.row.State = dag.RunFailed
	judged(t, "families", judgeFamilies(order, runs))
	runs[theRun].attempts = nil
	judged(t, "families", judgeFamilies(order, runs))
}

func judged(t *testing.T, rule string, found findings) {
	t.Helper()
	if rule == "" && len(found) > 0 || rule != "" && !slices.ContainsFunc(found, func(f finding) bool { return f.rule == rule }) {
		t.Errorf("%q: found %v", rule, found)
	}
}

// final returns the packed form of the states of all tasks.
func final(states []dag.TaskState) []byte {
	var b []byte
	for _, s := range states {
		b = append(b, byte(s), 1)
	}
	return b
}
