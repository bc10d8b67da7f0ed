package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// What the owner of a run does about places of queues for its tasks. If the gate is here, too, that is
// done in the same transaction; else a message goes there, and places come by another one.

// balance tells the gate what has changed of a run's shares; it is called for every run that a
// transaction touches.
func (w *writer) balance(r *dag.Run) {
	for _, name := range r.NewShares() {
		key, why, err := w.shareKey(r, name)
		switch {
		case err != nil:
			w.broken(err)
			return
		case why != "":
			w.stepSelf(r, &dag.Event{Kind: dag.EvRefuse, Queue: name, Reason: why})
		default:
			r.PutKey(name, key)
		}
	}
	told, over := r.Balance(w.tx.now.Wall)
	for i := range told {
		w.tellShare(r, &told[i], over)
	}
}

// shareKey finds the key of a run in a queue that its tasks name; why says what is wrong with that.
func (w *writer) shareKey(r *dag.Run, name string) (key, why string, err error) {
	q, err := w.queueNamed(name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", noQueue(name, "a task"), nil
	case err != nil:
		return "", "", fromStore("read queue "+name, err)
	}
	if key, err = w.keyOf(&q, r.Params, r.Instant()); err != nil {
		return "", clean(fmt.Sprintf("the per_key %s of queue %s: %v", q.PerKey, q.Name, err)), nil
	}
	return key, "", nil
}

func (w *writer) tellShare(r *dag.Run, s *dag.Share, over bool) {
	if !w.gateHere() {
		kind := wordShare
		if over {
			kind = wordOver
		}
		w.say(store.GateShard, word{Kind: kind, Run: r.ID, Shard: r.Shard, Level: r.Priority, Share: s})
		return
	}
	if over {
		w.shareOver(r.ID, s)
		return
	}
	w.commons.enroll(&crew{run: r.ID, shard: r.Shard, priority: r.Priority, share: *s})
}

// shareOver forgets what a run had that has ended.
func (w *writer) shareOver(id dag.RunID, s *dag.Share) {
	if c := w.commons.crews[crewKey{id, s.Queue}]; c != nil && c.share.Life <= s.Life {
		w.commons.dismiss(c)
	}
}

// receiveShare takes in the queue slots that the admission owner has given to a run. The run gives unused
// slots back. A run that has ended has said so already.
func (w *writer) receiveShare(id dag.RunID, given *dag.Share) {
	if r := w.runs[id]; r != nil && r.PutShare(given) {
		w.touch(r)
	}
}

// refuseTasks fails the tasks of a run that wait for a place in a queue.
func (w *writer) refuseTasks(id dag.RunID, queue, why string) {
	if r := w.runs[id]; r != nil {
		w.stepSelf(r, &dag.Event{Kind: dag.EvRefuse, Queue: queue, Reason: why})
	}
}

// listenShare takes in a word about places for tasks; false: it is about something else.
func (w *writer) listenShare(said *word) (done bool, err error) {
	s := said.Share
	switch {
	case s == nil:
		return false, nil
	case said.Kind == wordGave:
		w.receiveShare(said.Run, s)
	case said.Kind == wordRefuse:
		w.refuseTasks(said.Run, s.Queue, said.Why)
	case !w.gateHere():
		return true, fmt.Errorf("%w: a word for the gate, which is elsewhere", ErrUnavailable)
	case said.Kind == wordOver:
		w.shareOver(said.Run, s)
	case said.Kind == wordShare:
		c := w.commons.crews[crewKey{said.Run, s.Queue}]
		if c == nil || c.share.Life != s.Life {
			// The message may have waited here while the admission owner loaded the rows, and the run may have ended:
			// slots given to it would never come back. So the run's row says what it wants.
			if s, err = w.shareNow(said.Run, s); s == nil {
				return true, err
			}
		}
		w.commons.enroll(&crew{run: said.Run, shard: said.Shard, priority: said.Level, share: *s})
	}
	return true, nil
}

// shareNow is how a share stands now, or nil.
func (w *writer) shareNow(id dag.RunID, was *dag.Share) (*dag.Share, error) {
	var all []dag.Share
	if r := w.runs[id]; r != nil {
		all = r.Shares()
	} else {
		row, err := w.e.store.Run(context.Background(), id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, fromStore("look what tasks of run "+id.String()+" want", err)
		case !row.State.Terminal():
			all = row.Shares
		}
	}
	for i := range all {
		if all[i].Queue == was.Queue && all[i].Life >= was.Life {
			return &all[i], nil
		}
	}
	return nil, nil
}

// releasedShares takes what the tasks of a quarantined run have, like released.
func (w *writer) releasedShares(r *dag.RunRow, b *store.Batch) {
	var letters []letter
	for i := range r.Shares {
		letters = append(letters, letter{Word: &word{Kind: wordOver, Run: r.ID, Share: &r.Shares[i]}})
	}
	if r.Shares = nil; len(letters) == 0 {
		return
	}
	if w.held(store.GateShard) != nil {
		w.commons.forget() // the next transaction loads it without this run
		return
	}
	b.Messages = append(b.Messages, store.Message{From: r.Shard, To: store.GateShard, Created: r.FinishedAt, Payload: envelope(letters)})
}
