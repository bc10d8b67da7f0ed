package home

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/engine"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// errand is a job of an attempt on its way to the worker. It ends when the worker has confirmed the attempt.
type errand struct {
	job   *workerv1.Job
	rules engine.Reading // the reading of the rules for the job; when it is old, the job is not sent
	// beside says that the job was sent in an answer to a report. The worker may have sent its next poll
	// before that answer arrived. So a poll without the attempt proves nothing.
	beside bool
	ready  bool // the errand is in the list worker.ready
}

const (
	// preparersMax bounds the goroutines that make jobs of one worker.
	preparersMax = 8
	// prepareBatch bounds the jobs that are made before the worker gets them. prepareLeast is the number of
	// jobs from which on two goroutines are better than one.
	prepareBatch = 32
	prepareLeast = 8
	// takeMax bounds how long the answer to a report waits for the jobs of the attempts that follow.
	takeMax = 2 * time.Millisecond
)

// begin makes a worker start an attempt in a claimed slot.
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

// refute reports an attempt to the owner as lost, because it ended here long ago. This is needed if the
// owner's rows have gone back to a time before the end. The caller must hold h.mu.
func (h *Home) refute(w *worker, x *holding) {
	k := keyOf(&x.Assignment)
	x.missing = true
	go func() {
		v := h.answerFor(w, engine.Report{Run: k.run, Task: k.task, Token: k.token, Lost: "it has ended before, and its end is not known any more"})
		if v != workerv1.Verdict_VERDICT_ACCEPTED {
			return // the attempt was only delivered twice
		}
		h.Stats.Lost.Add(1)
		h.log.Warn("a worker got an attempt whose end it had reported; the attempt counts as lost", "code", "attempt_over", "worker", w.member.Name,
			"run", k.run.String(), "task", k.task, "token", k.token)
	}()
}

// Settled implements engine.Market. The workers whose reports were settled take the attempts that were
// assigned in the same transaction. If a worker has only few of them, its answer is sent before the writer
// does its remaining work, because a network hop takes longer.
func (h *Home) Settled() {
	if h.handOn() {
		runtime.Gosched()
	}
}

// hasteMax is the largest number of attempts for which the answer to a worker is sent before the writer's
// remaining work.
const hasteMax = 8

// handOn starts goroutines that make the jobs of workers for which no call of Report takes jobs now. haste
// reports whether there is a worker for which a call of Report takes jobs, and which has at most hasteMax of
// them.
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

// prepare starts goroutines that make the pending jobs. The caller must hold h.mu.
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

// make makes the jobs of some attempts, and stores them for the worker's next answer. The caller must hold
// h.mu, which make releases while it makes the jobs.
func (h *Home) make(w *worker, most int) {
	batch := slices.Clone(w.fresh[:min(most, len(w.fresh))])
	w.fresh = slices.Delete(w.fresh, 0, len(batch))
	h.mu.Unlock()
	made := h.jobs(w, batch)
	h.mu.Lock()
	for i, x := range batch {
		w.made(x, made[i])
	}
	if len(w.ready) > 0 && w.takers == 0 {
		w.poke()
	}
}

// made stores the job of an attempt for the worker's next answer. It returns false if the worker no longer
// has the attempt.
func (w *worker) made(x *holding, made errand) bool {
	k := keyOf(&x.Assignment)
	if w.out == nil || w.running[k] != x {
		return false
	}
	if job := made.job; job != nil {
		w.names.add(k, Names{job.Namespace, job.Workflow, job.Task, len(job.Artifacts) > 0}, x.affirmed)
		w.out[k] = &made
		w.offer(k)
	}
	return true
}

// makeAlone makes a job that may take long. It uses a separate goroutine, so that no other job waits for it.
// If the attempt is cancelled, makeAlone stops waiting.
func (h *Home) makeAlone(w *worker, x *holding) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h.mu.Lock()
	x.unwant = cancel
	if x.unwanted {
		cancel()
	}
	h.mu.Unlock()
	made := h.job(ctx, w, x, false)
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.unwant = nil; !w.made(x, made) {
		h.cfg.Jobs.Left(x.Run) // the worker does not have the attempt any more
	} else if len(w.ready) > 0 && w.takers == 0 {
		w.poke()
	}
}

// offer marks a job for the worker's next answer.
func (w *worker) offer(k key) {
	if o := w.out[k]; !o.ready {
		o.ready = true
		w.ready = append(w.ready, k)
	}
}

// errands returns the jobs that were not sent to a worker yet. A job that has waited for the worker until the
// rules of its namespace are old is made again. The caller must hold h.mu.
func (h *Home) errands(w *worker, beside bool) (jobs []*workerv1.Job) {
	now, old := time.Now(), false
	for _, k := range w.ready {
		o := w.out[k]
		switch x := w.running[k]; {
		case o == nil || !o.ready:
		case x != nil && o.rules.Old(now):
			delete(w.out, k)
			w.fresh, old = append(w.fresh, x), true
			h.cfg.Jobs.Left(x.Run)
		default:
			o.ready, o.beside = false, beside
			jobs = append(jobs, o.job)
		}
	}
	if w.ready = w.ready[:0]; old {
		h.prepare(w)
	}
	return jobs
}

// arrived records which attempts the worker has, according to its poll. Attempts of earlier answers that are
// missing in the poll are sent again. Attempts in answers to reports are sent again only if the parameter
// again is set, because they may still be on their way.
func (w *worker) arrived(has map[key]*workerv1.Attempt, again bool) {
	for k, o := range w.out {
		if _, ok := has[k]; ok {
			delete(w.out, k)
		} else if !o.beside || again {
			w.offer(k)
		}
	}
}

// take returns the jobs for the answer to a worker's report: the jobs that follow from the report, and those
// that were waiting before. It does the work of a poll, because no poll was woken for these jobs.
func (h *Home) take(w *worker) []*workerv1.Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	for began := time.Now(); len(w.fresh) > 0 && time.Since(began) < takeMax; {
		h.make(w, prepareLeast)
	}
	w.takers--
	h.prepare(w)
	return h.errands(w, true)
}

// jobs makes the jobs of attempts. An element of the result may have no job: see job.
func (h *Home) jobs(w *worker, batch []*holding) []errand {
	made := make([]errand, len(batch))
	for i, x := range batch {
		made[i] = h.job(context.Background(), w, x, true)
	}
	return made
}

// job makes the job of an attempt, or returns none. If the job cannot be made, the home reports the end of
// the attempt, unless this process is ending. If quick is true and the job may take long, job also returns
// none, and another goroutine makes the job.
func (h *Home) job(ctx context.Context, w *worker, x *holding, quick bool) errand {
	k := keyOf(&x.Assignment)
	job, rules, err := h.cfg.Jobs.Job(ctx, &x.Assignment, &w.member.Traits, quick)
	switch {
	case errors.Is(err, ErrEnding):
		return errand{}
	case errors.Is(err, ErrSlow):
		go h.makeAlone(w, x)
		return errand{}
	case err == nil:
		err = w.cannot(x.Name, job)
	}
	if err != nil {
		if ctx.Err() == nil || h.still(w, x) {
			go h.answerFor(w, failed(k, h.cfg.Jobs.Refused(err)))
		}
		return errand{}
	}
	job.Attempt = wireAttempt(k)
	return errand{job: job, rules: rules}
}

// still reports whether a worker is attached here and has an attempt.
func (h *Home) still(w *worker, x *holding) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.made(x, errand{})
}

// cannot returns the reason why the version of a worker cannot run a job. The home then refuses the job and
// names the feature, because the worker would silently ignore it.
func (w *worker) cannot(task string, job *workerv1.Job) error {
	switch {
	case !w.spaces(cmp.Or(job.WorksFor, job.Namespace)):
		return fmt.Errorf("task %s belongs to the namespace %s, but worker %s was invited for %s only: name another group, or invite a worker for this namespace",
			task, cmp.Or(job.WorksFor, job.Namespace), w.member.Name, strings.Join(w.member.Traits.Namespaces, ", "))
	case job.Isolation != "" && !w.member.Traits.Isolates(job.Isolation): // the attempt was assigned before the namespace or the worker changed
		return fmt.Errorf("task %s needs the isolation %s, and worker %s does not offer it: start the worker with --isolation %s", task, job.Isolation, w.member.Name, job.Isolation)
	case job.RunAs != "" && job.Kind == "" && !slices.Contains(w.member.Traits.Users, job.RunAs):
		return fmt.Errorf("namespace %s runs its tasks as the user %s, and worker %s does not permit that user: start the worker with --task-users %s", cmp.Or(job.WorksFor, job.Namespace), job.RunAs, w.member.Name, job.RunAs)
	case len(job.Artifacts) > 0 && !w.deposits:
		return fmt.Errorf("task %s keeps artifacts, and worker %s has a version that cannot send them: use a newer one", task, w.member.Name)
	case job.Inputs && !w.fetches:
		return fmt.Errorf("task %s gets files of other tasks, and worker %s has a version that cannot fetch them: use a newer one", task, w.member.Name)
	case (job.Handle || len(job.Given) > 0) && !w.handles:
		return fmt.Errorf("task %s has handles, and worker %s has a version that does not report them: use a newer one", task, w.member.Name)
	case len(job.Secrets) > 0 && !w.masks:
		return fmt.Errorf("task %s uses secrets, and worker %s has a version that does not mask them: use a newer one", task, w.member.Name)
	}
	return nil
}
