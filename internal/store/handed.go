package store

import (
	"fmt"
	"sync"

	"skein.dev/skein/internal/dag"
)

// handedMax bounds what is known of attempts that are handed over: about 16 MiB.
const handedMax = 1 << 17

// Handed is what a store's writers know of the attempts that have been handed over and have not changed
// since. They have no row that a guard could look at, so this is looked at instead, and is as good: no transaction is written
// for a shard but by who wrote the one before it, and knows what that left. It holds what was
// committed here, or read; what it does not know is read again. Nobody else writes for a shard without taking
// it, so what it says of one that is held is so; it forgets everything when a shard is taken, when a transaction that has
// attempts fails, and when there is too much of it.
//
// Its methods may be called from any goroutine.
type Handed struct {
	mu    sync.Mutex
	open  map[attemptKey]hand
	plans uint64 // made
}

type attemptKey struct {
	Run   dag.RunID
	Task  dag.TaskID
	Token dag.Token
}

func keyOf(a *dag.AttemptRow) attemptKey { return attemptKey{a.Run, a.Task, a.Token} }

type hand struct {
	handler    dag.HandlerID
	assigned   dag.Micros
	plan       uint64 // that handed it over
	generation int32
	at         int32 // its place among the inserts of that one
	row        bool  // it has a row
}

// HandPlan says how the attempts of one transaction are written.
type HandPlan struct {
	// Own says of each of AttemptInserts whether it gets a row of its own now.
	Own []bool
	// Changes says the same of each of AttemptUpdates.
	Changes []AttemptWrite
	number  uint64
	packed  map[dag.RunID]*packed
	room    []packed // of those
	last    *packed  // the latest
	lastRun dag.RunID
}

// AttemptForm is how a change of an attempt is written.
type AttemptForm uint8

// The forms of a change.
const (
	FormUpdate AttemptForm = iota // the attempt has a row
	FormFirst                     // it gets its row now
	FormPacked                    // it ends without ever having one
)

// AttemptWrite is how a change is written, and what was settled by the hand-over: the first row has that, too.
type AttemptWrite struct {
	Form       AttemptForm
	Generation int32
	Assigned   dag.Micros
}

// Take gives what is packed of a run; the caller's row holds it.
func (p *HandPlan) Take(id dag.RunID) []byte {
	is := p.packed[id]
	if is == nil {
		return nil
	}
	delete(p.packed, id)
	p.last = nil
	return is.bytes()
}

// of is what is packed of a run, of so many at most. The attempts of a run mostly follow one another.
func (p *HandPlan) of(id dag.RunID, runs int) *packed {
	if p.last != nil && p.lastRun == id {
		return p.last
	}
	is := p.packed[id]
	if is == nil {
		if p.packed == nil {
			p.packed = make(map[dag.RunID]*packed, runs)
		}
		if len(p.room) == 0 {
			p.room = make([]packed, max(runs-len(p.packed), 1))
		}
		is, p.room = &p.room[0], p.room[1:]
		p.packed[id] = is
	}
	p.last, p.lastRun = is, id
	return is
}

// HandPacker is what a plan goes by.
type HandPacker struct {
	// Hands: the database takes hand-overs in the rows of histories. Ends: it takes ends as well.
	Hands, Ends bool
	// History reports whether the transaction writes history of a run.
	History func(dag.RunID) bool
	// Look reads which attempts of some runs have rows, and what is packed of them.
	Look func(runs []dag.RunID, row func(dag.RunID, dag.TaskID, dag.Token), hands func(run dag.RunID, packed []byte) error) error
}

// Plan checks the attempts of a batch against what is known and decides how they are written. If the
// transaction then fails, call Failed. A damaged hand-over is an ErrRefused: the rest of the batch may pass without its run.
func (h *Handed) Plan(b *Batch, with HandPacker) (*HandPlan, error) {
	p := &HandPlan{Own: make([]bool, len(b.AttemptInserts)), Changes: make([]AttemptWrite, len(b.AttemptUpdates))}
	missing, err := h.check(b, &with, p)
	if err == nil && missing != nil {
		err = h.look(b, missing, &with, p)
	}
	if err != nil {
		return nil, err
	}
	for i, own := range p.Own {
		if a := &b.AttemptInserts[i]; !own {
			p.of(a.Run, len(b.Events)).hand(a)
		}
	}
	for i := range b.RunUpdates { // a run's end has no room for hand-overs, which come with it hardly ever
		if r := &b.RunUpdates[i]; p.packed != nil && r.State.Terminal() && p.Take(r.ID) != nil {
			h.ownAll(b, r.ID, p)
		}
	}
	for i := range p.Changes {
		if w := &p.Changes[i]; w.Form == FormPacked {
			a := &b.AttemptUpdates[i].AttemptRow
			p.of(a.Run, len(b.Events)).end(a, w)
		}
	}
	return p, nil
}

// check goes through the batch and gives the updates of attempts that nothing is known of.
func (h *Handed) check(b *Batch, with *HandPacker, p *HandPlan) (missing []int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) > handedMax {
		h.open = nil
	}
	if h.open == nil {
		h.open = make(map[attemptKey]hand, len(b.AttemptInserts))
	}
	h.plans++
	p.number = h.plans
	for i := range b.AttemptInserts {
		if err := h.insert(b, i, with, p); err != nil {
			return nil, err
		}
	}
	for i := range b.AttemptUpdates {
		if known, err := h.update(b, i, with, p); err != nil {
			return nil, err
		} else if !known {
			missing = append(missing, i)
		}
	}
	return missing, nil
}

// ownAll gives rows to what was handed over of a run that ends in the same transaction.
func (h *Handed) ownAll(b *Batch, id dag.RunID, p *HandPlan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range b.AttemptInserts {
		a := &b.AttemptInserts[i]
		if a.Run != id || p.Own[i] {
			continue
		}
		p.Own[i] = true
		if is, known := h.open[keyOf(a)]; known {
			is.row = true
			h.open[keyOf(a)] = is
		}
	}
}

func (h *Handed) insert(b *Batch, i int, with *HandPacker, p *HandPlan) error {
	a := &b.AttemptInserts[i]
	p.Own[i] = !with.Hands || !plainHand(a) || !with.History(a.Run)
	if a.State != dag.AttemptAssigned {
		return nil
	}
	k := keyOf(a)
	if _, exists := h.open[k]; exists {
		return fmt.Errorf("attempt %d of task %d of run %s exists: %w", a.Token, a.Task, a.Run, ErrRefused)
	}
	h.open[k] = hand{handler: a.Handler, assigned: a.Assigned, generation: a.Generation, plan: p.number, at: int32(i), row: p.Own[i]}
	return nil
}

// update reports whether it is known how the attempt is stored.
func (h *Handed) update(b *Batch, i int, with *HandPacker, p *HandPlan) (known bool, err error) {
	u := &b.AttemptUpdates[i]
	if u.Was != dag.AttemptAssigned {
		return true, nil // it has a row, or misses it
	}
	k := keyOf(&u.AttemptRow)
	is, known := h.open[k]
	switch {
	case !known:
		return false, nil
	case is.handler != u.Handler:
		return true, fmt.Errorf("attempt %d of task %d of run %s is not as its owner believes: %w", u.Token, u.Task, u.Run, ErrFenced)
	case is.plan == p.number && !is.row: // inserted and changed at once
		is.row, p.Own[is.at] = true, true
	}
	if w := &p.Changes[i]; !is.row {
		*w = AttemptWrite{FormFirst, is.generation, is.assigned}
		if with.Ends && u.Plain && plainEnd(&u.AttemptRow) && with.History(u.Run) {
			w.Form = FormPacked
		}
	}
	if is.row = true; u.State == dag.AttemptAssigned { // only something about it was noted
		h.open[k] = is
	} else {
		delete(h.open, k)
	}
	return true, nil
}

// look reads what has been handed over of the runs of attempts that nothing is known of. Nobody else plans for
// them meanwhile: a shard has one writer. What it does not find is left to the guard of an update, which misses.
func (h *Handed) look(b *Batch, missing []int, with *HandPacker, p *HandPlan) error {
	var runs []dag.RunID
	asked := make(map[dag.RunID]bool, len(missing))
	for _, i := range missing {
		if id := b.AttemptUpdates[i].Run; !asked[id] {
			asked[id] = true
			runs = append(runs, id)
		}
	}
	found, over := map[attemptKey]hand{}, map[attemptKey]bool{}
	has := func(run dag.RunID, task dag.TaskID, token dag.Token) { over[attemptKey{run, task, token}] = true }
	err := with.Look(runs, has, func(run dag.RunID, packed []byte) error {
		err := UnpackHands(run, packed, func(a *dag.AttemptRow) {
			if a.State.Ended() {
				over[keyOf(a)] = true
			}
			found[keyOf(a)] = hand{handler: a.Handler, assigned: a.Assigned, generation: a.Generation}
		})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range p.Changes { // the database cannot know of this very batch
		if p.Changes[i].Form != FormUpdate {
			over[keyOf(&b.AttemptUpdates[i].AttemptRow)] = true
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = make(map[attemptKey]hand, len(found))
	}
	for k, is := range found {
		if _, known := h.open[k]; !known && !over[k] {
			h.open[k] = is
		}
	}
	for _, i := range missing {
		if _, err := h.update(b, i, with, p); err != nil {
			return err
		}
	}
	return nil
}

// Knows reports whether an attempt is known to be handed over, or about to be, and not to have ended.
func (h *Handed) Knows(id LogID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.open[attemptKey(id)]
	return known
}

// Failed takes in that a batch was not surely written.
func (h *Handed) Failed(b *Batch) {
	if len(b.AttemptInserts)+len(b.AttemptUpdates) > 0 {
		h.Forget()
	}
}

// Forget drops everything.
func (h *Handed) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = nil
}
