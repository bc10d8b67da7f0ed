package remote

import (
	"context"
	"slices"
	"time"

	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// pastMax bounds the attempts with acknowledged results that are remembered. They are not started again.
const pastMax = 8192

type attemptName struct {
	Run   string
	Task  int32
	Token int64
}

// nameOf returns the name of an attempt. For nil it returns the zero name, which no attempt has.
func nameOf(a *workerv1.Attempt) attemptName {
	return attemptName{a.GetRun(), a.GetTask(), a.GetToken()}
}

// past remembers the attempts that ended last.
type past struct {
	names []attemptName
	next  int
	in    map[attemptName]bool
}

func newPast(n int) past { return past{names: make([]attemptName, n), in: map[attemptName]bool{}} }

func (p *past) add(n attemptName) {
	if p.in[n] {
		return
	}
	delete(p.in, p.names[p.next])
	p.names[p.next], p.in[n] = n, true
	p.next = (p.next + 1) % len(p.names)
}

// startAll runs attempts. It returns false if there was no slot for all of them.
func (r *Worker) startAll(jobs []*workerv1.Job, home string, lease int64) (all bool) {
	all = true
	for _, j := range jobs {
		all = r.start(j, home, lease) && all
	}
	return all
}

// start runs an attempt unless it is or was here. It returns false if there is no slot.
func (r *Worker) start(j *workerv1.Job, home string, lease int64) bool {
	if j.Attempt == nil {
		return true
	}
	name := nameOf(j.Attempt)
	in := &workerv1.FilesRequest{Lease: lease, Attempt: j.Attempt}
	job, err := job(j, func() ([]worker.File, error) {
		ctx, cancel := context.WithTimeout(context.Background(), filesMax)
		defer cancel()
		out, err := r.client(home).Files(ctx, in)
		if err != nil {
			return nil, err
		}
		return filesOf(out), nil
	})
	r.mu.Lock()
	in.Handler, in.Uuid = r.handler, r.uuid
	if job.HTTP != nil {
		job.HTTP.Egress = r.rules(j.Request)
	}
	switch {
	case r.has[name] != nil || r.lease != lease:
		r.mu.Unlock()
		return true
	case r.past.in[name]:
		r.refute(name, j.Attempt)
		r.mu.Unlock()
		r.wake()
		return true
	case r.running >= r.cfg.Slots:
		r.mu.Unlock()
		r.log.Warn("all slots are taken; an attempt is refused", "code", "attempt_refused", "run", name.Run, "task", j.Task)
		return false
	}
	j.Attempt.CpuMillis, j.Attempt.MemoryBytes = j.CpuMillis, j.MemoryBytes
	if job.ArtifactsIn = r.outgoing.Path; j.Inputs {
		job.Inputs = &inputs{r, j.Attempt}
	}
	a := &attempt{name: j.Attempt, key: job.Key, kept: err == nil, files: len(job.Artifacts) > 0}
	r.has[name], r.byKey[a.key.ID()] = a, a
	r.running++
	r.begin(a)
	r.mu.Unlock()
	if err != nil {
		now := time.Now()
		r.ended(worker.Result{Key: job.Key, State: worker.Failed, Cause: worker.CauseStart, Message: err.Error(), Finished: now})
		return true
	}
	r.work.Start(*job)
	return true
}

const filesMax = time.Minute

// refute reports that an attempt does not run: it ended here long ago, and its result was accepted. A home
// that sends the attempt again has forgotten the result, as after a failover that lost it. The caller holds
// r.mu.
func (r *Worker) refute(name attemptName, wire *workerv1.Attempt) {
	r.has[name] = &attempt{name: wire, result: &workerv1.Result{Attempt: wire, State: "lost", Cause: causeDone}}
}

// causeDone is why an attempt is lost that is given out again after its result was taken.
const causeDone = "it has ended at this worker before"

// begin starts to send the output of an attempt. The caller holds r.mu, if other goroutines run already.
func (r *Worker) begin(a *attempt) {
	if ref, ok := a.logOf(a.key.Namespace, a.key.Workflow); ok {
		a.ref = ref
		r.shipper.Begin(ref)
	}
}

// end ends an attempt, if it is here.
func (r *Worker) end(name *workerv1.Attempt, mode worker.Mode) {
	r.mu.Lock()
	a := r.has[nameOf(name)]
	runs := a != nil && a.result == nil
	if runs && a.halt != nil {
		a.mode, runs = max(a.mode, mode), false
		a.halt(errEnded)
	}
	r.mu.Unlock()
	if runs {
		r.work.Stop(a.key, mode)
	}
}

// stopCause is the cause of an attempt that was stopped while its artifacts were uploaded.
func (a *attempt) stopCause() string {
	if a.mode == worker.ModeKill {
		return worker.CauseKilled
	}
	return worker.CauseStopped
}

// started receives the notice of the worker that an attempt has run for a second.
func (r *Worker) started(k worker.Key, at time.Time) {
	r.mu.Lock()
	if a := r.byKey[k.ID()]; a != nil {
		a.told = &workerv1.Result{Attempt: a.name, Running: true, StartedMicros: micros(at)}
	}
	r.mu.Unlock()
	r.wake()
}

// told receives a report of the worker.
func (r *Worker) told(ends ...worker.Result) {
	for i := range ends {
		r.ended(ends[i])
	}
}

// ended processes the end of an attempt.
func (r *Worker) ended(res worker.Result) {
	r.mu.Lock()
	a := r.byKey[res.Key.ID()]
	if a == nil { // of an earlier registration
		r.mu.Unlock()
		r.work.Taken([]worker.ID{res.Key.ID()})
		return
	}
	delete(r.byKey, a.key.ID())
	r.running--
	r.shipper.End(a.ref, res.LogBytes)
	if res.Cause == worker.CauseClosed { // nothing is known of the task: it is lost with this process
		delete(r.has, nameOf(a.name))
		r.mu.Unlock()
		return
	}
	if a.files && res.State == worker.Succeeded { // first its artifacts
		ctx, halt := context.WithCancelCause(r.life)
		a.halt = halt
		r.mu.Unlock()
		r.bringing.Go(func() {
			defer halt(nil)
			r.bring(ctx, a, res)
		})
		return
	}
	r.mu.Unlock()
	r.settled(a, &res)
}

// settled queues the result of an attempt for the next report.
func (r *Worker) settled(a *attempt, res *worker.Result) {
	r.mu.Lock()
	a.told, a.result = nil, resultOf(a.name, res)
	r.mu.Unlock()
	r.wake()
	r.stir()
}

func (r *Worker) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

func (r *Worker) stir() {
	select {
	case r.idle <- struct{}{}:
	default:
	}
}

const (
	// reportsMax bounds the concurrent reports. Results that arrive in the meantime share the next report.
	reportsMax = 4
	// resultsMax bounds the results of one report.
	resultsMax = 500
	reportMax  = 10 * time.Second
)

// reports sends results until each has its verdict.
func (r *Worker) reports(ctx context.Context) {
	room := make(chan struct{}, reportsMax)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			for range reportsMax {
				room <- struct{}{} // those under way
			}
			return
		case <-r.kick:
		case <-again.C:
			r.taken()
		}
		room <- struct{}{}
		go func() {
			defer func() { <-room }()
			r.flush(ctx)
		}()
	}
}

// flush sends all waiting reports once.
func (r *Worker) flush(ctx context.Context) {
	r.mu.Lock()
	in, home := &workerv1.ReportRequest{Handler: r.handler, Lease: r.lease, Uuid: r.uuid, Starts: !r.draining && !r.anew}, r.home
	var sent []*attempt
	for _, a := range r.has {
		if res := a.news(); res != nil && !a.busy && len(sent) < resultsMax && r.lease != 0 {
			a.busy = true
			in.Results = append(in.Results, res)
			sent = append(sent, a)
		}
	}
	more := len(sent) == resultsMax
	r.mu.Unlock()
	if len(sent) == 0 {
		return
	}
	if more {
		r.wake()
	}
	try, cancel := context.WithTimeout(ctx, reportMax)
	defer cancel()
	out, err := r.client(home).Report(try, in)
	if err != nil && ctx.Err() == nil {
		r.log.Debug("results do not reach the home yet", "err", err)
	}
	later := false
	for i, a := range sent {
		verdict := workerv1.Verdict_VERDICT_UNAVAILABLE
		if err == nil && i < len(out.Verdicts) {
			verdict = out.Verdicts[i]
		}
		later = r.acknowledge(a, in.Results[i], verdict) || later
	}
	if err != nil && in.Starts || !r.startAll(out.GetStart(), home, in.Lease) {
		r.missed()
	}
	r.stir()
	if later {
		wait(ctx, pauseMin)
		r.wake()
	}
}

// taken tells the keeper which ends it may drop: ends that were acknowledged, if all output of their attempts
// was acknowledged, too. Until then another process would have to continue the attempt.
func (r *Worker) taken() {
	var sent []worker.ID
	r.mu.Lock()
	r.unsent = slices.DeleteFunc(r.unsent, func(a *attempt) bool {
		has := r.shipper.Has(a.ref)
		if !has {
			sent = append(sent, a.key.ID())
		}
		return !has
	})
	r.mu.Unlock()
	if len(sent) > 0 {
		r.work.Taken(sent)
	}
}

// news returns the next report about an attempt.
func (a *attempt) news() *workerv1.Result {
	if a.result != nil {
		return a.result
	}
	return a.told
}

// acknowledge processes the verdict on a report. It returns true if the report must be sent again, or if
// there is more to report.
func (r *Worker) acknowledge(a *attempt, said *workerv1.Result, v workerv1.Verdict) bool {
	r.mu.Lock()
	a.busy = false
	if v == workerv1.Verdict_VERDICT_UNAVAILABLE || v == workerv1.Verdict_VERDICT_UNSPECIFIED {
		r.mu.Unlock()
		return true
	}
	if said.Running {
		defer r.mu.Unlock()
		if a.told == said {
			a.told = nil
		}
		if v == workerv1.Verdict_VERDICT_STALE || v == workerv1.Verdict_VERDICT_RUN_ENDED { // another attempt holds the task
			go r.work.Stop(a.key, worker.ModeKill)
		}
		return a.result != nil
	}
	name := nameOf(a.name)
	if r.has[name] == a {
		delete(r.has, name)
		r.past.add(name)
	}
	r.mu.Unlock()
	if a.kept {
		r.mu.Lock()
		r.unsent = append(r.unsent, a)
		r.mu.Unlock()
		r.taken()
	}
	if v != workerv1.Verdict_VERDICT_ACCEPTED && v != workerv1.Verdict_VERDICT_DUPLICATE {
		r.log.Warn("a result was rejected", "code", "result_rejected", "run", name.Run, "task", name.Task, "token", name.Token, "verdict", v.String())
	}
	return false
}
