package remote

import (
	"context"
	"slices"
	"time"

	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/session"
)

const filesMax = time.Minute

// Prepare implements session.Owner.
func (r *Worker) Prepare(j *workerv1.Job, from session.Caller) *attempt {
	job, err := job(j, func() ([]worker.File, error) {
		return r.cache.files(j.FilesDigest, func() ([]worker.File, error) {
			ctx, cancel := context.WithTimeout(context.Background(), filesMax)
			defer cancel()
			out, err := from.Home.Files(ctx, &workerv1.FilesRequest{Handler: from.Handler, Lease: from.Lease, Uuid: from.UUID, Attempt: j.Attempt})
			if err != nil {
				return nil, err
			}
			return filesOf(out), nil
		})
	})
	if job.HTTP != nil {
		job.HTTP.Egress = r.rules(j.Request.Egress, j.Request.Own)
	}
	if p := j.Process; p != nil && err == nil {
		err = Furnish(job, r.cfg.Extensions, r.rules(p.Egress, p.Own))
	}
	j.Attempt.CpuMillis, j.Attempt.MemoryBytes = j.CpuMillis, j.MemoryBytes
	if job.ArtifactsIn = r.outgoing.Path; j.Inputs {
		job.Inputs = &inputs{r, j.Attempt}
	}
	return &attempt{key: job.Key, job: job, err: err, kept: err == nil, files: len(job.Artifacts) > 0}
}

// Start implements session.Owner.
func (r *Worker) Start(a *entry) {
	job := a.Of.job
	r.mu.Lock()
	a.Of.job = nil
	r.begin(a)
	r.mu.Unlock()
	if a.Of.err != nil {
		r.ended(worker.Result{Key: job.Key, State: worker.Failed, Cause: worker.CauseStart, Message: a.Of.err.Error(), Finished: time.Now()})
		return
	}
	r.work.Start(*job)
}

// begin expects the end of an attempt, and starts to send its output. If other goroutines already run, the
// caller holds r.mu.
func (r *Worker) begin(a *entry) {
	r.byKey[a.Of.key.ID()] = a
	if ref, ok := logOf(a); ok {
		a.Of.ref = ref
		r.shipper.Begin(ref)
	}
}

// End implements session.Owner. It ends an attempt that runs, or whose artifacts are being sent.
func (r *Worker) End(a *entry, why session.Ending) {
	if a.Of == nil {
		return
	}
	mode := worker.ModeKill
	if why == session.Stopped {
		mode = worker.ModeTerm
	}
	r.mu.Lock()
	runs := r.byKey[a.Of.key.ID()] == a
	if a.Of.halt != nil {
		a.Of.mode = max(a.Of.mode, mode)
		a.Of.halt(errEnded)
	}
	r.mu.Unlock()
	if runs {
		r.work.Stop(a.Of.key, mode)
	}
}

// stopCause returns the cause of an attempt that was stopped while its artifacts were uploaded.
func (r *Worker) stopCause(a *entry) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Of.mode == worker.ModeKill {
		return worker.CauseKilled
	}
	return worker.CauseStopped
}

// started receives the notice of the worker that an attempt has run for a second, or that it has a handle.
func (r *Worker) started(k worker.Key, at time.Time, handle string, adopts bool) {
	r.mu.Lock()
	a := r.byKey[k.ID()]
	r.mu.Unlock()
	if a != nil {
		r.s.Started(a, at, handle, adopts)
	}
}

// told receives results from the keeper's worker.
func (r *Worker) told(ends ...worker.Result) {
	for i := range ends {
		r.ended(ends[i])
	}
}

// ended processes the end of an attempt.
func (r *Worker) ended(res worker.Result) {
	r.mu.Lock()
	a := r.byKey[res.Key.ID()]
	if a == nil { // the attempt belongs to an earlier registration
		r.mu.Unlock()
		r.work.Taken([]worker.ID{res.Key.ID()})
		return
	}
	delete(r.byKey, res.Key.ID())
	r.shipper.End(a.Of.ref, res.LogBytes)
	brings := a.Of.files && res.State == worker.Succeeded // first its artifacts
	var ctx context.Context
	if brings {
		ctx, a.Of.halt = context.WithCancelCause(r.life)
	}
	halt := a.Of.halt
	r.mu.Unlock()
	r.s.Free()
	switch {
	case brings:
		r.bringing.Go(func() {
			defer halt(nil)
			r.bring(ctx, a, res)
		})
	case res.Cause == worker.CauseClosed: // the result of the task is unknown: the attempt is lost with this process
		r.s.Drop(a)
	default:
		r.s.Settle(a, resultOf(a.Wire, &res))
	}
}

// taken sends the keeper the ends that it may delete: acknowledged ends, if all output of their attempts is
// also acknowledged. Before that, a new process would have to continue with the attempt.
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
