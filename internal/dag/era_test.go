package dag

import (
	"math/rand/v2"
	"testing"
)

// TestTokensOfAnEra: a token from a lost history is never given to another attempt of the task. The numbers
// for people continue from the last known one.
func TestTokensOfAnEra(t *testing.T) {
	t.Parallel()
	for range 1000 {
		lost, known := Token(0), Token(0)
		given := map[Token]bool{}
		for era := range Era(5) {
			known = Token(rand.Int64N(int64(lost-known)+1)).past(known, lost)
			for range 1 + rand.IntN(4) {
				before := known
				known = known.Next(era)
				if given[known] || known <= before || known.Era() != era || known.Number() != before.Number()+1 {
					t.Fatalf("in era %d attempt %d (%d of era %d) follows %d", era, known, known.Number(), known.Era(), before)
				}
				given[known] = true
			}
			lost = known
		}
	}
	if last := Token(TokensOfEra - 2).Next(EraMax); last != 1<<31-1 {
		t.Errorf("the greatest token is %d", last)
	}
	if at := Token(7).Next(2).Next(1); at.Era() != 2 || at.Number() != 9 {
		t.Errorf("a token fell to era %d", at.Era())
	}
}

// past returns the newest token in a task's rows after the database has gone back: one of its tokens, or 0 if
// the task had not begun.
func (t Token) past(first, last Token) Token {
	if at := first + t; at.Era() == last.Era() && at <= last {
		return at
	}
	return first
}

// TestReportOfAnOlderEra: whatever the holder of an attempt of an older era reports, the attempt is lost,
// and the task is assigned again under a token of the new era.
func TestReportOfAnOlderEra(t *testing.T) {
	t.Parallel()
	g, err := NewGraph(spec("a"))
	must(err)
	for _, state := range []AttemptState{AttemptSucceeded, AttemptFailed, AttemptStopped} {
		r, fx := NewRun(Header{ID: RunID{7}}), Effects{}
		step := func(era Era, ev Event) Verdict { return r.Step(&ev, Now{Wall: 1, Era: era, Floor: era}, &fx) }
		step(0, Event{Kind: EvSubmit, Graph: g})
		r.unlist(0)
		step(0, Event{Kind: EvAssign, Handler: 1})
		if v := step(1, Event{Kind: EvReport, Token: 1, Handler: 1, Result: Result{State: state}}); v != Accepted {
			t.Fatalf("%s: %s", state, v)
		}
		if is, token := r.Task(0); is != Ready || token != 1 || r.tasks[0].losses != 1 {
			t.Errorf("%s: the task is %s, and has lost %d attempts", state, is, r.tasks[0].losses)
		}
		r.unlist(0)
		step(1, Event{Kind: EvAssign, Handler: 1})
		if _, token := r.Task(0); token != TokensOfEra+2 {
			t.Errorf("%s: the next token is %d", state, token)
		}
		if v := step(1, Event{Kind: EvReport, Token: 1, Handler: 1, Result: Result{State: state}}); v != Stale {
			t.Errorf("%s, said again: %s", state, v)
		}
	}
}

// TestReportAfterAQuietEra: an era that began without a loss ends no attempt, and later tokens are of that
// era.
func TestReportAfterAQuietEra(t *testing.T) {
	t.Parallel()
	g, err := NewGraph(spec("a; b"))
	must(err)
	r, fx := NewRun(Header{ID: RunID{7}}), Effects{}
	step := func(era Era, ev Event) Verdict { return r.Step(&ev, Now{Wall: 1, Era: era}, &fx) }
	step(0, Event{Kind: EvSubmit, Graph: g})
	for task := range TaskID(2) {
		r.unlist(task)
		step(Era(task), Event{Kind: EvAssign, Task: task, Handler: 1})
	}
	if v := step(1, Event{Kind: EvReport, Token: 1, Handler: 1, Result: Result{State: AttemptSucceeded}}); v != Accepted {
		t.Errorf("the report of the earlier era: %s", v)
	}
	if is, _ := r.Task(0); is != Succeeded {
		t.Errorf("its task is %s", is)
	}
	if _, token := r.Task(1); token != TokensOfEra+1 {
		t.Errorf("the next token is %d", token)
	}
}
