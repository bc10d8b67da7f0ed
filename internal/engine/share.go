package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// This file handles the queue slots of a run's tasks on the side of the run's owner. If this node is also the
// admission owner, the same transaction decides about the slots. Otherwise the owner sends a message, and
// slots arrive in another message.

// balance sends the changed shares of a run to the admission owner. It is called for every run that a
// transaction touches.
func (l *limits) balance(r *dag.Run) {
	refused, err := l.newKeys(r)
	if err != nil {
		l.broken(err)
		return
	}
	if refused { // the run has changed, and may have ended
		l.touch(r)
		return
	}
	told, over := r.Balance(l.txn().now.Wall)
	for i := range told {
		l.tellShare(r, &told[i], over)
	}
}

// newKeys gives new shares of a run their keys, and fails the tasks of shares without a valid key. If this
// transaction has used up its time for evaluations, the other shares get their keys in the next
// transactions. Until then, their tasks wait.
func (l *limits) newKeys(r *dag.Run) (refused bool, err error) {
	var events []dag.Event
	for names := r.NewShares(); len(names) > 0; names = r.NewShares() {
		events = events[:0]
		for _, name := range names {
			if l.expr.full() {
				keysLater(l, r)
				break
			}
			queue, key, why, err := l.shareKey(r, name)
			switch {
			case err != nil:
				return refused, err
			case why != "":
				events = append(events, dag.Event{Kind: dag.EvRefuse, Queue: name, Reason: why})
			default:
				r.PutKey(name, queue, key)
			}
		}
		moved, tx := false, l.txn()
		was := tx.current
		tx.current = r
		for i := range events {
			moved = r.Step(&events[i], tx.now, &tx.fx) == dag.Accepted || moved
		}
		tx.current = was
		if !moved {
			break
		}
		refused = true // other tasks may be ready now, so newKeys looks again
	}
	return refused, nil
}

// keysLater makes the next transaction touch a run whose shares need keys.
func keysLater(l *limits, r *dag.Run) {
	id := r.ID
	if l.keyless[id] {
		return
	}
	if l.keyless == nil {
		l.keyless = map[dag.RunID]bool{}
	}
	l.keyless[id] = true
	// The inbox is closed if this process ends. Then the next owner computes the keys.
	_ = l.expr.inbox.put(item{op: func(w *writer) answer {
		delete(w.limits.keyless, id)
		if r := w.runs[id]; r != nil {
			w.touch(r)
		}
		return answer{}
	}})
}

// shareKey finds the queue that the tasks of a run name, and computes the key of the run in it. why describes
// the fault of a missing queue or an invalid key.
func (l *limits) shareKey(r *dag.Run, name string) (queue, key, why string, err error) {
	q, err := l.queueNamed(r, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", "", admission.NoQueue(name, "a task"), nil
	case err != nil:
		return "", "", "", errkind.FromStore("read queue "+name, err)
	}
	if key, err = l.keyOf(&q, r.Params, r.Instant()); err != nil {
		return "", "", clean(fmt.Sprintf("the per_key %s of queue %s: %v", q.PerKey, q.Name, err)), nil
	}
	return q.Name, key, "", nil
}

func (l *limits) tellShare(r *dag.Run, s *dag.Share, over bool) {
	if !l.gateHere() {
		kind := wordShare
		if over {
			kind = wordOver
		}
		l.say(store.GateShard, word{Kind: kind, Run: r.ID, Shard: r.Shard, Level: r.Priority, Share: s})
		return
	}
	if over {
		l.admission.Dismiss(r.ID, s)
		return
	}
	l.admission.Enroll(admission.Crew{Run: r.ID, Shard: r.Shard, Priority: r.Priority, Share: *s})
}

// receiveShare adds the queue slots that the admission owner has granted to a run. The run returns slots that
// it does not need. A run that has ended has already sent a message that returns its slots.
func (l *limits) receiveShare(id dag.RunID, given *dag.Share) {
	if r := l.inMemory()[id]; r != nil && r.PutShare(given) {
		l.touch(r)
	}
}

// refuseTasks fails the tasks of a run that wait for a queue slot.
func (l *limits) refuseTasks(id dag.RunID, queue, why string) {
	if r := l.inMemory()[id]; r != nil {
		l.stepSelf(r, dag.Event{Kind: dag.EvRefuse, Queue: queue, Reason: why})
	}
}

// listenShare processes a message about queue slots for tasks. It returns false for any other message.
func (l *limits) listenShare(said *word) (done bool, err error) {
	s := said.Share
	switch {
	case s == nil:
		return false, nil
	case said.Kind == wordGave:
		l.receiveShare(said.Run, s)
	case said.Kind == wordRefuse:
		l.refuseTasks(said.Run, s.Queue, said.Why)
	case !l.gateHere():
		return true, fmt.Errorf("%w: this node is not the admission owner; send the message to the owner", errkind.ErrUnavailable)
	case said.Kind == wordOver:
		l.admission.Dismiss(said.Run, s)
	case said.Kind == wordShare:
		if !l.admission.Knows(said.Run, s) {
			// The message may have waited here while the admission owner loaded the rows. If the run has
			// ended meanwhile, it would never return the slots that the message requests. So the row of the
			// run, and not the message, says how many slots it wants.
			if s, err = l.shareNow(said.Run, s); s == nil {
				return true, err
			}
		}
		l.admission.Enroll(admission.Crew{Run: said.Run, Shard: said.Shard, Priority: said.Level, Share: *s})
	}
	return true, nil
}

// shareNow returns the present state of a share. It returns nil if the run has no such share now.
func (l *limits) shareNow(id dag.RunID, was *dag.Share) (*dag.Share, error) {
	var all []dag.Share
	if r := l.inMemory()[id]; r != nil {
		all = r.Shares()
	} else {
		row, err := l.store.Run(context.Background(), id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, errkind.FromStore("read which tasks of run "+id.String()+" want", err)
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

// releasedShares releases the queue slots of the tasks of a quarantined run, as released does with the run's
// claim.
func (l *limits) releasedShares(r *dag.RunRow, b *store.Batch) {
	var letters []letter
	for i := range r.Shares {
		letters = append(letters, letter{Word: &word{Kind: wordOver, Run: r.ID, Share: &r.Shares[i]}})
	}
	if r.Shares = nil; len(letters) == 0 {
		return
	}
	if l.held(store.GateShard) != nil {
		l.forgetAdmission() // the next transaction loads the state without this run
		return
	}
	b.Messages = append(b.Messages, store.Message{From: r.Shard, To: store.GateShard, Created: r.FinishedAt, Payload: envelope(letters)})
}
