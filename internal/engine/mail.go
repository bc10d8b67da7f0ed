package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Shards communicate by messages. A message is a row that the sender's transaction writes and the receiver's
// transaction deletes. The row contains all letters that one transaction sends to one shard. If one node owns
// both shards, no message is needed.

// letter is the content of one message to a shard.
type letter struct {
	// Ended is an ended run, which the message reports to a trigger.
	Trigger store.TriggerKey `json:"trigger"`
	Ended   Ended            `json:"ended"`
	// Child is a message about a run and the run that called it. If it is not nil, the other fields are not
	// used.
	Child *childLetter `json:"child,omitempty"`
	Word  *word        `json:"word,omitempty"` // about the claim of a run; if it is set, the other fields are not used
	// Back reports that the database has gone back. If it is not nil, the other fields are not used.
	Back *backWord `json:"back,omitempty"`
	// Posted is a verb on a run. If it is not nil, the other fields are not used.
	Posted *posted `json:"posted,omitempty"`
}

// mailMax bounds the messages of a shard that are read at a time.
const mailMax = 100

// heardFor is how long a node of a cluster relies on its knowledge that no trigger reacts to a workflow. If
// another node adds such a trigger, this node notices it after this time at the latest.
const heardFor = time.Second

// post writes the messages of the transaction.
func (w *writer) post() {
	if len(w.tx.letters) == 0 {
		return
	}
	for _, to := range slices.Sorted(maps.Keys(w.tx.letters)) {
		w.tx.batch.Messages = append(w.tx.batch.Messages, store.Message{From: w.fences[0].Shard, To: to,
			Payload: envelope(w.tx.letters[to]), Created: w.tx.now.Wall})
	}
}

func envelope(letters []letter) []byte {
	payload, err := json.Marshal(letters)
	if err != nil {
		panic("engine: a letter is not JSON: " + err.Error())
	}
	return payload
}

// announceMail notifies the owners of the shards to which messages were written.
func (w *writer) announceMail() {
	for _, to := range slices.Sorted(maps.Keys(w.tx.letters)) {
		w.e.cfg.Peers.Nudge(to)
	}
}

// collect reads the messages to the owned shards, so that the next transactions process them.
func (w *writer) collect(ctx context.Context) error {
	for _, s := range w.shards() {
		page, err := w.e.store.Messages(ctx, s, mailMax)
		if err != nil {
			return errkind.FromStore("read messages", err)
		}
		for i := range page {
			m := page[i]
			if _, known := w.reading[m.ID]; !known {
				w.reading[m.ID] = s
				w.todo.push(item{mail: m.ID, op: func(w *writer) answer { return w.receive(&m) }})
			}
		}
	}
	return nil
}

// unread drops the messages from the kept items, after the shards were taken again. The transaction in doubt,
// or another owner in between, may have processed them. The remaining messages are read again.
func (w *writer) unread() {
	w.kept = slices.DeleteFunc(w.kept, func(it item) bool { return it.mail != 0 })
}

// receive processes one message.
func (w *writer) receive(m *store.Message) answer {
	if w.held(m.To) == nil {
		delete(w.reading, m.ID)
		return answer{} // the next owner reads the message again
	}
	var letters []letter
	if err := json.Unmarshal(m.Payload, &letters); err != nil {
		w.e.log.Error("a message between shards is invalid and was dropped; run skein verify, and report this bug", "code", "message_invalid", "from", m.From, "to", m.To, "err", err)
	}
	if len(letters) == 1 && letters[0].Posted != nil {
		done, err := w.takeIn(letters[0].Posted)
		if err != nil {
			w.broken(err)
			return answer{err: err}
		}
		if !done {
			delete(w.reading, m.ID) // makes collect read the message again
			return answer{}
		}
		letters = nil
	}
	if len(letters) == 1 && letters[0].Back != nil {
		done, err := w.tellBack(m, letters[0].Back)
		if err != nil {
			w.broken(err)
			return answer{err: err}
		}
		if !done {
			w.todo.push(item{mail: m.ID, op: func(w *writer) answer { return w.receive(m) }}) // this item comes after the messages for these runs
			return answer{}
		}
		delete(w.telling, m.ID)
		letters = nil
	}
	w.tx.batch.Consumed = append(w.tx.batch.Consumed, m.ID)
	w.tx.addressed = append(w.tx.addressed, m.To)
	for i := range letters {
		if said := letters[i].Word; said != nil {
			if err := w.limits.listen(said); err != nil {
				w.broken(err)
				return answer{err: err}
			}
			continue
		}
		if letters[i].Child != nil { // if the workflow has moved to another shard, the message is sent on
			if err := w.calls.sendChild(letters[i]); err != nil {
				w.broken(err)
				return answer{err: err}
			}
			continue
		}
		t, err := w.schedule.trigger(letters[i].Trigger)
		if err == nil && t != nil && w.held(t.Shard) != nil {
			err = w.schedule.hear(t, &letters[i].Ended)
		}
		if err != nil {
			w.broken(err)
			return answer{err: err}
		}
	}
	return answer{}
}

// hear makes a trigger react to the end of a run.
func (s *schedule) hear(t *store.Trigger, ended *Ended) error {
	if t.State != store.TriggerActive {
		return nil
	}
	plan, err := s.planner.Heard(t, ended, s.dueNow())
	if err != nil { // the message itself is invalid, and the end of a run must not depend on it
		s.log.Error("a trigger cannot process the end of a run; start the missing run by hand", "code", "run_end_not_taken", "trigger", t.Name, "run", ended.Run.String(), "err", err)
		return nil
	}
	for i := range plan.Starts {
		plan.Starts[i].Trace = ended.Trace
	}
	return s.carryOut(t, &plan)
}

// listener reads a trigger that may belong to another shard. Triggers of other shards are not kept in
// memory.
func (s *schedule) listener(k store.TriggerKey) (*store.Trigger, error) {
	if t, known := s.triggers.known[k]; known || s.alone {
		if t == nil && !known {
			return s.trigger(k)
		}
		return t, nil
	}
	t, err := s.store.Trigger(context.Background(), k.Workflow, k.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, errkind.FromStore(fmt.Sprintf("read trigger %s", k.Name), err)
	}
	if s.held(t.Shard) != nil {
		return s.trigger(k)
	}
	return &t, nil
}
