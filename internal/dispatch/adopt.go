package dispatch

import (
	"context"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/worker"
)

// Adopt adopts the attempts of the keeper, and returns their ids.
func (x *Executor) Adopt(a *worker.Adopted) []engine.AttemptID {
	x.mu.Lock()
	defer x.mu.Unlock()
	var held []engine.AttemptID
	take := func(k worker.Key) *handed {
		run, err := dag.ParseRunID(k.RunID)
		if err != nil {
			return nil // this program never writes such a text
		}
		id := engine.AttemptID{Run: run, Task: dag.TaskID(k.Ref), Token: dag.Token(k.Attempt)}
		h := &handed{Assignment: engine.Assignment{Run: id.Run, Task: id.Task, Token: id.Token, Name: k.Task},
			workflow: k.Workflow, key: k, given: true, adopted: true}
		x.live[h.id()], x.byKey[k.ID()] = h, h
		x.shipper.Begin(h.logRef())
		held = append(held, id)
		return h
	}
	for i := range a.Running {
		take(a.Running[i].Key)
	}
	for i := range a.Ended {
		take(a.Ended[i].Key)
	}
	return held
}

// Replay reports the events of adopted attempts that happened while no process was connected to the keeper.
func (x *Executor) Replay(a *worker.Adopted) {
	for i := range a.Running {
		if h := &a.Running[i]; !h.Started.IsZero() {
			x.Started(h.Key, h.Started, h.Handle, h.Adopts)
		}
	}
	x.Ended(a.Ended...)
}

// takenEvery is the pause between two messages to the keeper about durable ends.
const takenEvery = 500 * time.Millisecond

// lastTake bounds the time of the last message, which is sent when the process ends.
const lastTake = 5 * time.Second

// Acknowledge repeatedly sends the keeper the ends that it may delete. When ctx has ended, it sends them once
// more, and returns.
func (x *Executor) Acknowledge(ctx context.Context, pending func(engine.AttemptID) bool) {
	tick := time.NewTicker(takenEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.Background(), lastTake)
			defer cancel()
			x.take(last, pending)
			return
		case <-tick.C:
			x.take(ctx, pending)
		}
	}
}

// take sends the keeper the ends of attempts that it may delete. Their reports are durable: the ends came
// before a barrier of the engine that has succeeded, and no message is still carrying them to another node.
func (x *Executor) take(ctx context.Context, pending func(engine.AttemptID) bool) {
	x.mu.Lock()
	list := x.taken
	x.taken = nil
	x.mu.Unlock()
	if len(list) == 0 {
		return
	}
	written := x.engine().Barrier(ctx) == nil
	var done []worker.ID
	var rest []reported
	for _, r := range list {
		if written && !pending(r.id) {
			done = append(done, r.key)
		} else {
			rest = append(rest, r)
		}
	}
	x.mu.Lock()
	x.taken = append(rest, x.taken...)
	x.mu.Unlock()
	if len(done) > 0 {
		x.worker.Taken(done)
	}
}
