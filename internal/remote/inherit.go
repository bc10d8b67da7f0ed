package remote

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/session"
)

// tag is the data that a worker stores in its keeper, so that the next process can continue with the same
// identity. The tag of a node has another form, and is ignored.
type tag struct {
	Life *life `json:"remote_worker"`
}

// life is the identity of a worker in the cluster: its name and its handler.
type life struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	Handler int64  `json:"handler"`
}

// brand stores in the keeper the identity of the worker whose attempts the keeper will hold.
func (r *Worker) brand(l life) {
	text, err := json.Marshal(tag{&l})
	if err != nil {
		panic("remote: a tag cannot be written: " + err.Error())
	}
	r.work.Brand(string(text))
}

// inherit takes over the attempts that an earlier process has left in the keeper. It runs before the first
// report.
func (r *Worker) inherit(a *worker.Adopted) error {
	defer r.sweep()
	var t tag
	if len(a.Running)+len(a.Ended) == 0 {
		if json.Unmarshal([]byte(a.Tag), &t) == nil && t.Life != nil && t.Life.Name == r.cfg.Name {
			r.former = t.Life
		}
		return nil
	}
	if json.Unmarshal([]byte(a.Tag), &t) != nil || t.Life == nil || t.Life.Name != r.cfg.Name {
		r.log.Warn("the keeper kills attempts of another worker or node; give each one a data folder of its own", "code", "foreign_attempts_killed", "attempts", len(a.Running))
		return r.work.Forsake()
	}
	r.s.Resume(t.Life.UUID, t.Life.Handler, a.Anew)
	r.branded = t.Life.Handler
	for i := range a.Running {
		r.take(a.Running[i].Key, a.Running[i].CPU, a.Running[i].Memory)
	}
	for i := range a.Ended {
		r.take(a.Ended[i].Key, 0, 0)
	}
	r.log.Info("the worker continues with the attempts of its earlier process", "code", "attempts_taken_over", "running", len(a.Running), "ended_since", len(a.Ended))
	return nil
}

// take takes over an attempt from the keeper.
func (r *Worker) take(k worker.Key, cpu, memory int64) {
	a := &entry{Task: k.Task, Of: &attempt{key: k, kept: true, files: true},
		Wire: &workerv1.Attempt{Run: k.RunID, Task: int32(k.Ref), Token: int64(k.Attempt), CpuMillis: cpu, MemoryBytes: memory}}
	r.s.Adopt(a)
	r.begin(a)
}

// replay reports the events of adopted attempts that happened while no process of this worker ran.
func (r *Worker) replay(a *worker.Adopted) {
	for i := range a.Running {
		if h := &a.Running[i]; !h.Started.IsZero() {
			r.started(h.Key, h.Started, h.Handle, h.Adopts)
		}
	}
	for i := range a.Ended {
		r.ended(a.Ended[i])
	}
}

// bequeath delivers results with the former handler, if the cluster still lists that handler, and ends its
// registration. This worker cannot continue with the former handler: the keeper with the attempts has died,
// and no process knows which other attempts it had started. An attempt that the home node sends again could
// run twice with one token.
func (r *Worker) bequeath(ctx context.Context) {
	open := func() int { return r.s.Counts().Open }
	if !r.adopted.Anew || open() == 0 {
		return
	}
	r.log.Info("the worker delivers results of its earlier process", "code", "results_redelivered", "results", open())
	ctx, cancel := context.WithCancel(ctx)
	var polling sync.WaitGroup
	polling.Go(func() { r.stay(ctx) })
	for began := time.Now(); ctx.Err() == nil && open() > 0 && (r.brought() > 0 || time.Since(began) < bequeathMax); {
		if r.s.Attached() {
			r.s.Flush(ctx)
		} else if why := session.Reason(r.s.Attach(ctx)); why == session.Fenced || why == session.NameTaken {
			break
		}
		session.Wait(ctx, session.PauseMin)
	}
	if n := open(); n > 0 {
		r.log.Warn("results of an earlier process were not accepted; their attempts run again", "code", "results_lost", "results", n)
	} else if err := r.shipper.Flush(ctx); err != nil { // with this handler, because no later handler may deliver these bytes
		r.log.Warn("the end of some logs is on this machine only", "code", "logs_unsent", "err", err)
	}
	cancel()
	polling.Wait()
	r.s.Leave() // otherwise the name would be in use until the lease ends
	id := r.s.Identity()
	r.mu.Lock()
	// if no node was notified, this registration ends later, when a node refuses the name as used
	r.former = &life{r.cfg.Name, id.UUID, id.Handler}
	r.mu.Unlock()
	r.forget()
}

// bury ends the registration of an earlier process of this worker, so that its name is free. None of its
// attempts runs, because the keeper has ended them. Only this worker knows the uuid of the registration. bury
// returns false if there is no such registration, or if no node can end it now.
func (r *Worker) bury(ctx context.Context) bool {
	r.mu.Lock()
	old := r.former
	r.mu.Unlock()
	if old == nil {
		return false
	}
	for _, url := range r.s.Nodes() {
		try, cancel := context.WithTimeout(ctx, session.RegisterMax)
		out, err := r.s.Client(url).Register(try, &workerv1.RegisterRequest{Name: old.Name, Uuid: old.UUID, Handler: old.Handler, Slots: 1, Version: r.cfg.Version, Draining: true})
		if err == nil {
			_, err = r.s.Client(url).Leave(try, &workerv1.LeaveRequest{Handler: out.Handler, Lease: out.Lease, Uuid: old.UUID})
		}
		cancel()
		if why := session.Reason(err); err == nil || why == session.Fenced || why == session.NameTaken {
			r.log.Info("the worker has ended its earlier registration, which held no attempts", "code", "earlier_life_ended", "handler", old.Handler)
			r.mu.Lock()
			r.former = nil
			r.mu.Unlock()
			return err == nil
		}
	}
	return false
}

const bequeathMax = 10 * time.Second

// stay keeps the worker attached until ctx ends, while results are delivered. Attempts that the home node
// assigns during this time are lost when the registration ends.
func (r *Worker) stay(ctx context.Context) {
	for ctx.Err() == nil {
		if r.s.Attached() && r.s.Poll(ctx) != nil && ctx.Err() == nil { // a canceled poll loses no message
			r.s.Detach()
		}
		session.Wait(ctx, session.PauseMin)
	}
}

// brought returns the number of attempts whose artifacts are being sent.
func (r *Worker) brought() (n int) {
	open := r.s.Select(func(a *entry) bool { return true })
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range open {
		if a.Of.halt != nil {
			n++
		}
	}
	return n
}
