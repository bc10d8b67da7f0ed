package session

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// owner is an Owner that records the names of the attempts that the session passes to it.
type owner struct{ taken, acknowledged []string }

func (o *owner) Refused(context.Context, Refusal) bool                     { return false }
func (o *owner) Fenced(context.Context)                                    {}
func (o *owner) Prepare(j *workerv1.Job, _ Caller) string                  { return j.Task }
func (o *owner) Start(*Attempt[string])                                    {}
func (o *owner) Attached(out *workerv1.RegisterResponse, url string) error { return nil }
func (o *owner) Heard(_, _ time.Duration)                                  {}
func (o *owner) Give([]*workerv1.LogRead)                                  {}
func (o *owner) End(a *Attempt[string], why Ending) {
	if why == TakenAway {
		o.taken = append(o.taken, a.Of)
	}
}
func (o *owner) Acknowledged(all []*Attempt[string]) {
	for _, a := range all {
		o.acknowledged = append(o.acknowledged, a.Of)
	}
}

func newTest() (*Session[string], *owner) {
	o := &owner{}
	return New(Config{Slots: 2, HTTP: http.DefaultClient, Token: func() string { return "" }, Clock: func() time.Duration { return 0 }, Log: slog.New(slog.DiscardHandler)}, o, o), o
}

func job(task string, token int64) *workerv1.Job {
	return &workerv1.Job{Task: task, Attempt: &workerv1.Attempt{Run: "r", Token: token}}
}

// reported returns the content of the next report, and a function that returns the verdict on all of its
// results.
func reported(s *Session[string]) (said []*workerv1.Result, verdict func(workerv1.Verdict) (later bool)) {
	in := &workerv1.ReportRequest{}
	s.mu.Lock()
	sent := s.next(in)
	s.mu.Unlock()
	return in.Results, func(v workerv1.Verdict) bool {
		all := make([]workerv1.Verdict, len(sent))
		for i := range all {
			all[i] = v
		}
		return s.judge(sent, in.Results, all)
	}
}

// TestReportsOfAnAttempt checks a result that comes while the notice of its attempt is being sent. The result
// is sent afterwards, and repeated until it has a verdict. If the attempt is assigned again after that, it is
// refuted.
func TestReportsOfAnAttempt(t *testing.T) {
	s, o := newTest()
	if !s.start(job("a", 1), Caller{}) {
		t.Fatal("there is no slot")
	}
	a := s.All()[0]
	s.Started(a, time.UnixMicro(5), "", false)
	notice, judged := reported(s)
	if len(notice) != 1 || !notice[0].Running || notice[0].StartedMicros != 5 {
		t.Fatalf("the notice is %v", notice)
	}
	s.Free()
	s.Settle(a, &workerv1.Result{Attempt: a.Wire, State: "succeeded"})
	if said, _ := reported(s); len(said) != 0 {
		t.Fatalf("while the notice is on its way, %v is sent", said)
	}
	if judged(workerv1.Verdict_VERDICT_ACCEPTED) {
		t.Error("the notice is sent again")
	}
	for _, v := range []workerv1.Verdict{workerv1.Verdict_VERDICT_UNAVAILABLE, workerv1.Verdict_VERDICT_UNSPECIFIED, workerv1.Verdict_VERDICT_DUPLICATE} {
		said, judged := reported(s)
		if len(said) != 1 || said[0].State != "succeeded" {
			t.Fatalf("before the verdict %v, %v is sent", v, said)
		}
		if later := judged(v); later != (v != workerv1.Verdict_VERDICT_DUPLICATE) {
			t.Errorf("after the verdict %v it is sent again: %v", v, later)
		}
	}
	if len(o.acknowledged) != 1 || len(s.All()) != 0 {
		t.Fatalf("acknowledged: %v; left: %v", o.acknowledged, s.All())
	}
	s.start(job("a", 1), Caller{})
	said, judged := reported(s)
	if len(said) != 1 || said[0].State != stateLost || said[0].Cause != causeDone {
		t.Fatalf("an attempt that has ended here and is given out again: %v", said)
	}
	judged(workerv1.Verdict_VERDICT_ACCEPTED)
	if len(o.acknowledged) != 1 || s.Counts() != (Counts{}) {
		t.Errorf("after the refutation: acknowledged %v, %+v", o.acknowledged, s.Counts())
	}
}

// TestAttemptsOfOthers checks that an attempt with a stale notice is taken from the worker, that an attempt
// that was given up while its report was being sent is not reported again, and that slots bound the attempts.
func TestAttemptsOfOthers(t *testing.T) {
	s, o := newTest()
	if !s.start(job("a", 1), Caller{}) || !s.start(job("b", 2), Caller{}) || s.start(job("c", 3), Caller{}) {
		t.Fatal("two slots do not take two of three attempts")
	}
	for _, a := range s.All() {
		s.Started(a, time.Time{}, "", false)
	}
	said, judged := reported(s)
	if len(said) != 2 {
		t.Fatalf("two notices are %v", said)
	}
	judged(workerv1.Verdict_VERDICT_STALE)
	if len(o.taken) != 2 {
		t.Errorf("taken away: %v", o.taken)
	}
	a := s.All()[0]
	s.Settle(a, &workerv1.Result{Attempt: a.Wire, State: "failed"})
	_, judged = reported(s)
	s.Forget()
	if judged(workerv1.Verdict_VERDICT_UNAVAILABLE) {
		t.Error("the result of a former life is sent again")
	}
	if said, _ := reported(s); len(said) != 0 || len(o.acknowledged) != 0 {
		t.Errorf("of a former life: %v is sent, %v acknowledged", said, o.acknowledged)
	}
}

// TestRecentIsBounded checks that the oldest end is forgotten first.
func TestRecentIsBounded(t *testing.T) {
	p := newRecent(2)
	for token := range int64(3) {
		p.add(Name{Run: "r", Token: token})
		p.add(Name{Run: "r", Token: token})
	}
	if p.in[Name{Run: "r", Token: 0}] || !p.in[Name{Run: "r", Token: 1}] || !p.in[Name{Run: "r", Token: 2}] {
		t.Errorf("remembered: %v", p.in)
	}
}
