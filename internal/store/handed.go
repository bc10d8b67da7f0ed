package store

import (
	"fmt"
	"sync"

	"skein.dev/skein/internal/dag"
)

// handedMax bounds what is known of attempts that are handed over: about 16 MiB.
const handedMax = 1 << 17

// Handed is what a store's writers know of the attempts that have been handed over and have not changed
// since. They have no row that a guard could look at, so this is looked at instead. It holds what was
// committed here, or read; what it does not know is read again. Nobody else writes for a shard without taking
// it, so what it says of one that is held is so; it forgets everything when a shard is taken and when
// a transaction fails.
//
// Its methods may be called from any goroutine.
type Handed struct {
	mu   sync.Mutex
	open map[attemptKey]hand
	plan uint64
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
	// First says of each of AttemptUpdates whether its attempt gets its row by it, and how it was handed over.
	First  []FirstRow
	packed map[dag.RunID]packedHands
}

// FirstRow is what is written once of an attempt, with its hand-over.
type FirstRow struct {
	Is         bool // the attempt has no row yet
	Generation int32
	Assigned   dag.Micros
}

type packedHands struct {
	b    []byte
	last *dag.AttemptRow
}

// Take gives the packed hand-overs of a run; the caller's row holds them.
func (p *HandPlan) Take(id dag.RunID) []byte {
	h := p.packed[id]
	if h.b != nil {
		delete(p.packed, id)
	}
	return h.b
}

// HandPacker is what a plan goes by.
type HandPacker struct {
	// Pack: the database takes hand-overs in the rows of histories.
	Pack bool
	// History reports whether the transaction writes history of a run.
	History func(dag.RunID) bool
	// Look reads which of some attempts, all different, have a row, and what has been handed over of their runs, packed.
	Look func(asked []*dag.AttemptRow, row func(i int), hands func(run dag.RunID, packed []byte) error) error
}

// Plan checks the attempts of a batch against what is known and decides how they are written. If the
// transaction then fails, call Forget.
func (h *Handed) Plan(b *Batch, with HandPacker) (*HandPlan, error) {
	p := &HandPlan{Own: make([]bool, len(b.AttemptInserts)), First: make([]FirstRow, len(b.AttemptUpdates))}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil || len(h.open) > handedMax {
		h.open = make(map[attemptKey]hand, len(b.AttemptInserts))
	}
	h.plan++
	for i := range b.AttemptInserts {
		if err := h.insert(b, i, &with, p); err != nil {
			return nil, err
		}
	}
	var missing []int
	for i := range b.AttemptUpdates {
		if known, err := h.update(b, i, p); err != nil {
			return nil, err
		} else if !known {
			missing = append(missing, i)
		}
	}
	if missing != nil {
		if err := h.look(b, missing, &with, p); err != nil {
			return nil, err
		}
	}
	for i, own := range p.Own {
		if own {
			continue
		}
		a := &b.AttemptInserts[i]
		if p.packed == nil {
			p.packed = make(map[dag.RunID]packedHands)
		}
		is := p.packed[a.Run]
		p.packed[a.Run] = packedHands{packHand(is.b, a, is.last), a}
	}
	for i := range b.RunUpdates {
		if r := &b.RunUpdates[i]; p.packed != nil && r.State.Terminal() && p.Take(r.ID) != nil {
			h.ownAll(b, r.ID, p)
		}
	}
	return p, nil
}

// ownAll gives rows to what was handed over of a run that ends in the same transaction.
func (h *Handed) ownAll(b *Batch, id dag.RunID, p *HandPlan) {
	for i := range b.AttemptInserts {
		a := &b.AttemptInserts[i]
		if is, handed := h.open[keyOf(a)]; a.Run == id && handed && !p.Own[i] {
			p.Own[i], is.row = true, true
			h.open[keyOf(a)] = is
		}
	}
}

func (h *Handed) insert(b *Batch, i int, with *HandPacker, p *HandPlan) error {
	a := &b.AttemptInserts[i]
	p.Own[i] = !with.Pack || !plainHand(a) || !with.History(a.Run)
	if a.State != dag.AttemptAssigned {
		return nil
	}
	k := keyOf(a)
	if _, exists := h.open[k]; exists {
		return fmt.Errorf("attempt %d of task %d of run %s exists: %w", a.Token, a.Task, a.Run, ErrRefused)
	}
	h.open[k] = hand{handler: a.Handler, assigned: a.Assigned, generation: a.Generation, plan: h.plan, at: int32(i), row: p.Own[i]}
	return nil
}

// update reports whether it is known how the attempt is stored.
func (h *Handed) update(b *Batch, i int, p *HandPlan) (known bool, err error) {
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
	case is.plan == h.plan && !is.row: // inserted and changed at once
		is.row, p.Own[is.at] = true, true
	}
	p.First[i] = FirstRow{!is.row, is.generation, is.assigned}
	delete(h.open, k) // from now on it has a row
	return true, nil
}

// look finds out how attempts are stored that nothing is known of. What it does not find is left to the guard of
// an update, which misses.
func (h *Handed) look(b *Batch, missing []int, with *HandPacker, p *HandPlan) error {
	var asked []*dag.AttemptRow
	wanted := make(map[attemptKey]bool, len(missing))
	for _, i := range missing {
		if a := &b.AttemptUpdates[i].AttemptRow; !wanted[keyOf(a)] {
			wanted[keyOf(a)] = true
			asked = append(asked, a)
		}
	}
	found := map[attemptKey]hand{}
	err := with.Look(asked, func(i int) { delete(wanted, keyOf(asked[i])) }, func(run dag.RunID, packed []byte) error {
		return UnpackHands(run, packed, func(a *dag.AttemptRow) {
			if wanted[keyOf(a)] {
				found[keyOf(a)] = hand{handler: a.Handler, assigned: a.Assigned, generation: a.Generation}
			}
		})
	})
	if err != nil {
		return err
	}
	for k, is := range found {
		if wanted[k] { // it has no row
			h.open[k] = is
		}
	}
	for _, i := range missing {
		if _, err := h.update(b, i, p); err != nil {
			return err
		}
	}
	return nil
}

// Knows reports whether an attempt is known to be handed over and to have no change yet.
func (h *Handed) Knows(id LogID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.open[attemptKey(id)]
	return known
}

// Forget drops everything.
func (h *Handed) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = nil
}
