package home_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/store"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// patient makes polls wait longer than any test lasts.
func patient(c *home.Config) { c.Beat, c.Lag = time.Hour, 10*time.Hour }

// names returns the attempts of jobs.
func names(jobs []*workerv1.Job) (all []*workerv1.Attempt) {
	for _, j := range jobs {
		all = append(all, j.Attempt)
	}
	return all
}

// TestReportBringsWhatFollows: the slot that an end frees is used for the next task in the same
// transaction, and the answer to the report brings its job. The concurrent poll is never answered.
func TestReportBringsWhatFollows(t *testing.T) {
	t.Parallel()
	const tasks = 50
	tn := newTown(t, 1, patient)
	h := tn.hand(tn.nodes[0], "w", 2)
	run := tn.submit(tn.apply("w", places(tasks, dag.Anywhere)...))
	h.get(2)
	silent, heard := make(chan struct{}), h.pollRequest()
	go func() {
		defer close(silent)
		if out, err := h.c.Poll(t.Context(), heard); err == nil && len(out.Start) > 0 {
			t.Errorf("a poll brings %v", names(out.Start))
		}
	}()
	h.starts = true
	for n := 0; n < tasks; n++ {
		if want := min(2, tasks-n); len(h.running) != want {
			t.Fatalf("after %d ends it has %d attempts", n, len(h.running))
		}
		if v := h.end(h.running[0]); v != workerv1.Verdict_VERDICT_ACCEPTED {
			t.Fatalf("an end is %s", said(v))
		}
	}
	tn.until("the run has ended", func() bool { return tn.ended([]dag.RunID{run}) })
	h.away()
	<-silent
}

// TestAnswersThatDoNotArrive: if an answer to a report is lost, its jobs are sent again: at once if the
// worker reports the loss, and otherwise at the end of a poll.
func TestAnswersThatDoNotArrive(t *testing.T) {
	t.Parallel()
	for name, soon := range map[string]bool{"said": true, "not said": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var slow []func(*home.Config)
			if soon {
				slow = append(slow, patient)
			}
			tn := newTown(t, 1, slow...)
			h := tn.hand(tn.nodes[0], "w", 1)
			run := tn.submit(tn.apply("w", places(2, dag.Anywhere)...))
			h.get(1)
			h.starts, h.lost = true, func() bool { return true }
			h.end(h.running[0])
			if len(h.running) != 0 || !h.again {
				t.Fatalf("it has %v; an answer was lost: %v", h.running, h.again)
			}
			h.again = soon
			if out := h.poll(); len(out.Start) != 1 {
				t.Fatalf("the poll brings %v", names(out.Start))
			}
			h.end(h.running[0])
			tn.until("the run has ended", func() bool { return tn.ended([]dag.RunID{run}) })
			if lost := tn.nodes[0].h.Stats.Lost.Load(); lost != 0 {
				t.Errorf("%d attempts were taken for lost", lost)
			}
		})
	}
}

// TestStoppedOnItsWay: an attempt that is on its way in the answer to a report must end. The stop is
// repeated until the attempt has arrived.
func TestStoppedOnItsWay(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 1, patient)
	n := tn.nodes[0]
	h := tn.hand(n, "w", 1)
	id := tn.submit(tn.apply("w", places(2, dag.Anywhere)...))
	h.get(1)
	h.starts = true
	h.end(h.running[0])
	if len(h.running) != 1 {
		t.Fatalf("it has %v", h.running)
	}
	x := h.running[0]
	h.running = nil // the job has not arrived yet
	n.h.Cancel([]dag.Cancel{{Run: id, Task: dag.TaskID(x.Task), Token: dag.Token(x.Token), Handler: dag.HandlerID(h.handler)}})
	told := func(out *workerv1.PollResponse) bool {
		return slices.ContainsFunc(out.Stop, func(s *workerv1.Stop) bool { return same(s.Attempt, x) })
	}
	for range 2 { // without effect, because the worker has no such attempt
		out, err := h.c.Poll(t.Context(), h.pollRequest())
		if err != nil {
			t.Fatal(err)
		}
		if h.ack = out.Seq; !told(out) {
			t.Fatalf("it is told to end %v", out.Stop)
		}
	}
	h.running = []*workerv1.Attempt{x}
	if out := h.poll(); !told(out) || len(out.Start) != 0 {
		t.Fatalf("when it has arrived it is told to end %v, and to start %v", out.Stop, names(out.Start))
	}
	h.report(&workerv1.Result{Attempt: x, State: "stopped", Cause: "stopped", FinishedMicros: 1})
}

// aged makes jobs by rules whose reading is old at once, while old is set.
type aged struct {
	nothing
	old  *atomic.Bool
	made *atomic.Int64
}

func (a aged) Job(ctx context.Context, x *engine.Assignment, t *store.Traits, quick bool) (*workerv1.Job, engine.Reading, error) {
	a.made.Add(1)
	job, rules, err := a.nothing.Job(ctx, x, t, quick)
	if a.old.Load() {
		rules = engine.Reading{At: time.Now().Add(-time.Hour), Max: time.Minute}
	}
	return job, rules, err
}

// TestOldRules: a home sends no job that obeys rules of an old reading. It makes the job again until the
// rules are recent.
func TestOldRules(t *testing.T) {
	t.Parallel()
	var old atomic.Bool
	var made atomic.Int64
	old.Store(true)
	tn := newTown(t, 1, func(c *home.Config) { c.Jobs = aged{old: &old, made: &made} })
	h := tn.hand(tn.nodes[0], "w", 1)
	run := tn.submit(tn.apply("w", dag.Anywhere))
	tn.until("the job was made several times", func() bool {
		if out := h.poll(); len(out.Start) > 0 {
			t.Fatal("a job by old rules was sent")
		}
		return made.Load() > 3
	})
	old.Store(false)
	h.get(1)
	h.end(h.running[0])
	tn.until("the run has ended", func() bool { return tn.ended([]dag.RunID{run}) })
}
