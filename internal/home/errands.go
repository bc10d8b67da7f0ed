package home

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/internal/engine"
)

// errand is the job of an attempt for its worker, until that has said that it has it.
type errand struct {
	job *workerv1.Job
	// beside: it was given in an answer to a report. The next poll may have been sent before that arrived, so
	// that it says nothing of it tells nothing.
	beside bool
	ready  bool // it is in worker.ready
}

const (
	// preparersMax is how many jobs of a worker are made at a time.
	preparersMax = 8
	// prepareBatch is how many jobs are made at most before the worker is told of them; prepareLeast is from how
	// many on two are better than one.
	prepareBatch = 32
	prepareLeast = 8
	// takeMax is for how long an answer to a report waits for the jobs that go with it.
	takeMax = 2 * time.Millisecond
)

// begin has a worker start an attempt, in a slot that was claimed.
func (h *Home) begin(w *worker, x *holding) {
	k := keyOf(&x.Assignment)
	w.running[k], x.at = x, time.Now()
	if x.over {
		h.refute(w, x)
		return
	}
	if w.local {
		h.cfg.Executor.Start([]engine.Assignment{x.Assignment})
		return
	}
	x.asked = true
	w.fresh = append(w.fresh, x)
	switch {
	case !h.settling:
		h.prepare(w)
	case len(w.fresh) == 1:
		h.unmade = append(h.unmade, w)
	}
}

// refute tells the owner of an attempt that has long ended here that the attempt is lost: the owner's rows
// have gone back to a time before the end. h.mu is held.
func (h *Home) refute(w *worker, x *holding) {
	k := keyOf(&x.Assignment)
	x.missing = true
	go func() {
		v := h.answerFor(w, engine.Report{Run: k.run, Task: k.task, Token: k.token, Lost: "it has ended before, and its end is not known any more"})
		if v != workerv1.Verdict_VERDICT_ACCEPTED {
			return // it was delivered twice
		}
		h.Stats.Lost.Add(1)
		h.log.Warn("an attempt was assigned although its end was reported; it is lost", "code", "attempt_over", "worker", w.member.Name,
			"run", k.run.String(), "task", k.task, "token", k.token)
	}()
}

// Settled implements engine.Market: who has reported what was settled takes what was handed out with it. If
// that is little, he goes first: what the writer has to tidy up can wait, a hop cannot.
func (h *Home) Settled() {
	if h.handOn() {
		runtime.Gosched()
	}
}

// hasteMax is up to how many attempts a worker's answer goes before what the writer has to do.
const hasteMax = 8

// handOn has the jobs made that nobody is about to make; haste: somebody is, and they are few.
func (h *Home) handOn() (haste bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settling = false
	for i, w := range h.unmade {
		if h.unmade[i] = nil; w.takers == 0 {
			h.prepare(w)
		} else if len(w.fresh) <= hasteMax {
			haste = true
		}
	}
	h.unmade = h.unmade[:0]
	return haste
}

// prepare has the jobs made that are to be made, beside whoever calls; h.mu is held.
func (h *Home) prepare(w *worker) {
	for most := min((len(w.fresh)+prepareLeast-1)/prepareLeast, preparersMax); w.preparing < most; w.preparing++ {
		go func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			for len(w.fresh) > 0 {
				h.make(w, min((len(w.fresh)+preparersMax-1)/preparersMax, prepareBatch))
			}
			w.preparing--
		}()
	}
}

// make makes the jobs of some attempts and puts them where the worker's next answer takes them from. h.mu is
// held, but while they are made.
func (h *Home) make(w *worker, most int) {
	batch := slices.Clone(w.fresh[:min(most, len(w.fresh))])
	w.fresh = slices.Delete(w.fresh, 0, len(batch))
	h.mu.Unlock()
	made := h.jobs(w, batch)
	h.mu.Lock()
	for i, x := range batch {
		k := keyOf(&x.Assignment)
		if job := made[i]; job != nil && w.out != nil && w.running[k] == x {
			w.names.add(k, Names{job.Namespace, job.Workflow, job.Task, len(job.Artifacts) > 0}, x.affirmed)
			w.out[k] = &errand{job: job}
			w.offer(k)
		}
	}
	if len(w.ready) > 0 && w.takers == 0 {
		w.poke()
	}
}

// offer has an errand given with the next answer.
func (w *worker) offer(k key) {
	if o := w.out[k]; !o.ready {
		o.ready = true
		w.ready = append(w.ready, k)
	}
}

// errands are those that a worker is to be given now: those that it was not given yet.
func (w *worker) errands(beside bool) (jobs []*workerv1.Job) {
	for _, k := range w.ready {
		if o := w.out[k]; o != nil && o.ready {
			o.ready, o.beside = false, beside
			jobs = append(jobs, o.job)
		}
	}
	w.ready = w.ready[:0]
	return jobs
}

// arrived takes what a poll says of the attempts that a worker has. What came with the answer before and is
// not among them is given once more; what came with answers to reports only if it is asked for: it may be on
// its way.
func (w *worker) arrived(has map[key]*workerv1.Attempt, again bool) {
	for k, o := range w.out {
		if _, ok := has[k]; ok {
			delete(w.out, k)
		} else if !o.beside || again {
			w.offer(k)
		}
	}
}

// take gives who has reported the errands that came of it, with those that wait. It takes the place of a
// poll: nobody else was woken for them.
func (h *Home) take(w *worker) []*workerv1.Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	for began := time.Now(); len(w.fresh) > 0 && time.Since(began) < takeMax; {
		h.make(w, prepareLeast)
	}
	w.takers--
	h.prepare(w)
	return w.errands(true)
}

// jobs makes the jobs of attempts; nil: it cannot be made, and the attempt is answered for, unless this
// process ends.
func (h *Home) jobs(w *worker, batch []*holding) []*workerv1.Job {
	made := make([]*workerv1.Job, len(batch))
	for i, x := range batch {
		k := keyOf(&x.Assignment)
		job, err := h.cfg.Jobs.Job(context.Background(), &x.Assignment)
		if err == nil && len(job.Artifacts) > 0 && !w.deposits { // refused by name, never ignored
			err = fmt.Errorf("task %s keeps artifacts, and worker %s is of a version that brings none: use a newer one", x.Name, w.member.Name)
		}
		if errors.Is(err, ErrEnding) {
			continue
		}
		if err == nil && job.Inputs && !w.fetches {
			err = fmt.Errorf("task %s gets files of other tasks, and worker %s is of a version that fetches none: use a newer one", x.Name, w.member.Name)
		}
		if err != nil {
			go h.answerFor(w, failed(k, h.cfg.Jobs.Refused(err)))
			continue
		}
		job.Attempt = wireAttempt(k)
		made[i] = job
	}
	return made
}
