package packed

import (
	"fmt"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// handedMax bounds the number of attempts that Handed remembers: about 16 MiB.
const handedMax = 1 << 17

// Handed is what the writers of a store know about attempts that were assigned and have not changed since.
// These attempts have no row that a guard could check, so the writers check Handed instead. This is as safe
// as a guard: a shard has only one writer, and it knows the result of its last transaction. Another writer
// has to take the shard first. After that, the fence of this writer misses. Handed holds attempts that were
// committed here or read. It forgets everything when a shard is taken, when a transaction with attempts
// fails, and when it becomes too large.
//
// Invariant: open holds only attempts that are in the state assigned after the batches that were committed or
// staged so far. Whenever that is in doubt, open is emptied.
//
// Any goroutine may call the methods.
type Handed struct {
	mu     sync.Mutex
	open   map[dag.AttemptKey]hand
	plans  uint64 // the number of plans that were made
	staged map[*store.Batch]*HandPlan
	// late and later hold attempts that have ended without ever having a row. They are kept for a while, because
	// the last part of their output may arrive after their end.
	late, later map[dag.AttemptKey]struct{}
}

// lateMax bounds the number of attempts in each of late and later.
const lateMax = 1 << 14

func keyOf(a *dag.AttemptRow) dag.AttemptKey { return dag.KeyOf(a.Run, a.Task, a.Token) }

type hand struct {
	handler    dag.HandlerID
	assigned   dag.Micros
	plan       uint64 // the plan that assigned it
	generation int32
	at         int32 // the index in the inserts of the plan
	row        bool  // whether the attempt has a row
}

// HandPlan says how the attempts of one transaction are written.
type HandPlan struct {
	// Own reports, for each of AttemptInserts, whether it gets a row of its own now.
	Own []bool
	// Changes gives the form of each of AttemptUpdates.
	Changes []AttemptWrite
	weights bool // the value of HandPacker.Weights
	number  uint64
	err     error      // the reason why the batch is refused
	missing []int      // updates of unknown attempts
	runs    RunIndex   // runs with packed attempts
	packed  []runHands // sorted by number
	last    int        // the index of the element that was last packed into
	turn    int        // the index of the element that Take returns next if all are taken in order
}

// AttemptForm says how a change of an attempt is written.
type AttemptForm uint8

// The forms of a change.
const (
	FormUpdate AttemptForm = iota // the attempt has a row
	FormFirst                     // the attempt gets its row now
	FormPacked                    // the attempt ends without ever having a row
)

// AttemptWrite says how a change of an attempt is written. It includes the values of the assignment,
// because the first row of an attempt needs them.
type AttemptWrite struct {
	Form       AttemptForm
	Generation int32
	Assigned   dag.Micros
}

// Take returns the packed attempts of a run, for the row that the caller writes. It returns them only once.
// Rows are mostly written in the order in which their runs were packed, so Take rarely needs the map.
func (p *HandPlan) Take(id dag.RunID) []byte {
	i := p.turn
	if i >= len(p.packed) || p.packed[i].run != id {
		if i = p.runs.Find(id); i < 0 {
			return nil
		}
	}
	p.turn = i + 1
	whole := p.packed[i].whole
	p.packed[i].whole = nil
	return whole
}

// of returns the packed attempts of a run. runs is the expected number of runs. Attempts of one run mostly
// follow one another.
func (p *HandPlan) of(id dag.RunID, runs int) *runHands {
	if p.packed == nil {
		p.runs.Reset(runs)
		p.packed = make([]runHands, 0, runs)
	} else if p.packed[p.last].run == id {
		return &p.packed[p.last]
	}
	i, added := p.runs.Add(id)
	if added {
		p.packed = append(p.packed, runHands{run: id})
	}
	p.last = i
	return &p.packed[i]
}

// HandPacker holds the answers of an engine to the questions of a plan.
type HandPacker struct {
	// Hands reports whether the rows of histories in the database may contain packed assignments. Ends
	// reports whether they may contain packed ends as well.
	Hands, Ends bool
	// Weights reports whether these rows may contain weights. If not, the weights are lost.
	Weights bool
	// Late makes Handed remember attempts that end without a row for a while; see Knows.
	Late bool
	// History reports whether the transaction writes history of a run.
	History func(dag.RunID) bool
	// Look reads which attempts of some runs have rows, and their packed attempts.
	Look func(runs []dag.RunID, row func(dag.RunID, dag.TaskID, dag.Token), hands func(run dag.RunID, packed []byte) error) error
}

// Plan checks the attempts of a batch and decides how they are written. If the transaction fails, the caller
// must call Failed. If an assignment is damaged, Plan returns ErrRefused: without that run, the rest of the
// batch may be accepted.
func (h *Handed) Plan(b *store.Batch, with HandPacker) (*HandPlan, error) {
	p := h.takeStaged(b)
	if p == nil {
		p = h.check(b, &with)
	}
	if p.err != nil {
		return nil, p.err
	}
	if p.missing != nil {
		if err := h.look(b, &with, p); err != nil {
			return nil, err
		}
		p.pack(b)
	}
	return p, nil
}

// Stage makes the part of a batch's plan for which nothing must be read. The batch will be committed after
// all batches whose plans have been made.
func (h *Handed) Stage(b *store.Batch, with HandPacker) {
	h.mu.Lock()
	if h.staged[b] != nil { // the batch gets a new plan
		h.open = nil
	}
	h.mu.Unlock()
	p := h.check(b, &with)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.staged == nil {
		h.staged = map[*store.Batch]*HandPlan{}
	}
	h.staged[b] = p
}

// Planned reports whether a batch is staged in its present form and its whole plan is made.
func (h *Handed) Planned(b *store.Batch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.staged[b]
	return p != nil && p.err == nil && p.missing == nil && p.fits(b)
}

// takeStaged returns the plan of a batch that was staged in its present form.
func (h *Handed) takeStaged(b *store.Batch) *HandPlan {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.staged[b]
	if p == nil {
		return nil
	}
	delete(h.staged, b)
	if !p.fits(b) {
		h.open = nil // open contains attempts that will not be committed, so it is emptied
		return nil
	}
	return p
}

// fits reports whether the plan is for a batch in its present form.
func (p *HandPlan) fits(b *store.Batch) bool {
	return len(p.Own) == len(b.AttemptInserts) && len(p.Changes) == len(b.AttemptUpdates)
}

// check goes through the batch, and packs the attempts for which nothing must be read.
func (h *Handed) check(b *store.Batch, with *HandPacker) *HandPlan {
	p := &HandPlan{Own: make([]bool, len(b.AttemptInserts)), Changes: make([]AttemptWrite, len(b.AttemptUpdates)), weights: with.Weights}
	ending := endingRuns(b)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) > handedMax {
		h.open = nil
	}
	if h.open == nil {
		h.open = make(map[dag.AttemptKey]hand, len(b.AttemptInserts))
	}
	h.plans++
	p.number = h.plans
	for i := range b.AttemptInserts {
		if p.err = h.insert(b, i, with, p, &ending); p.err != nil {
			return p
		}
	}
	for i := range b.AttemptUpdates {
		known, err := h.update(b, i, with, p)
		if p.err = err; err != nil {
			return p
		}
		if !known {
			p.missing = append(p.missing, i)
		}
	}
	if p.missing == nil {
		p.pack(b)
	}
	return p
}

// endingRuns returns the runs that end in a batch, if the batch assigns any attempt. The last row of a run
// has no room for assignments.
func endingRuns(b *store.Batch) (ending RunIndex) {
	if len(b.AttemptInserts) == 0 {
		return ending
	}
	for i := range b.RunUpdates {
		if r := &b.RunUpdates[i]; r.State.Terminal() {
			if ending.places == nil {
				ending.Reset(len(b.RunUpdates))
			}
			ending.Add(r.ID)
		}
	}
	return ending
}

// pack packs the attempts without a row.
func (p *HandPlan) pack(b *store.Batch) {
	for i, own := range p.Own {
		if a := &b.AttemptInserts[i]; !own {
			p.of(a.Run, len(b.Events)).hand(a)
		}
	}
	for i := range p.Changes {
		if w := &p.Changes[i]; w.Form == FormPacked {
			a := &b.AttemptUpdates[i].AttemptRow
			p.of(a.Run, len(b.Events)).end(a, w)
		}
	}
	for i := range b.Events {
		if e := &b.Events[i]; p.weights && e.Weight != 0 {
			p.of(e.Run, len(b.Events)).weight += e.Weight
		}
	}
	for i := range p.packed {
		p.packed[i].whole = p.packed[i].bytes()
	}
}

func (h *Handed) insert(b *store.Batch, i int, with *HandPacker, p *HandPlan, ending *RunIndex) error {
	a := &b.AttemptInserts[i]
	p.Own[i] = !with.Hands || !plainHand(a) || ending.Has(a.Run) || !with.History(a.Run)
	if a.State != dag.AttemptAssigned {
		return nil
	}
	k := keyOf(a)
	if _, exists := h.open[k]; exists {
		return fmt.Errorf("attempt %d of task %d of run %s exists: %w", a.Token, a.Task, a.Run, store.ErrRefused)
	}
	h.open[k] = hand{handler: a.Handler, assigned: a.Assigned, generation: a.Generation, plan: p.number, at: int32(i), row: p.Own[i]}
	return nil
}

// update decides the form of one change of an attempt. It reports whether the form is known without a read.
func (h *Handed) update(b *store.Batch, i int, with *HandPacker, p *HandPlan) (known bool, err error) {
	u := &b.AttemptUpdates[i]
	if u.Was != dag.AttemptAssigned {
		return true, nil // the attempt has a row, or its update will miss
	}
	k := keyOf(&u.AttemptRow)
	is, known := h.open[k]
	switch {
	case !known:
		return false, nil
	case is.handler != u.Handler:
		return true, fmt.Errorf("attempt %d of task %d of run %s is not in the state that its owner has in memory: %w", u.Token, u.Task, u.Run, store.ErrFenced)
	case is.plan == p.number && !is.row: // the attempt is inserted and changed in the same batch
		is.row, p.Own[is.at] = true, true
	}
	if w := &p.Changes[i]; !is.row {
		*w = AttemptWrite{FormFirst, is.generation, is.assigned}
		if with.Ends && u.Plain && plainEnd(&u.AttemptRow) && with.History(u.Run) {
			w.Form = FormPacked
			if with.Late {
				h.remember(k)
			}
		}
	}
	if is.row = true; u.State == dag.AttemptAssigned { // the update does not change the state of the attempt
		h.open[k] = is
	} else {
		delete(h.open, k)
	}
	return true, nil
}

func (h *Handed) remember(k dag.AttemptKey) {
	if len(h.late) >= lateMax {
		h.later, h.late = h.late, nil
	}
	if h.late == nil {
		h.late = make(map[dag.AttemptKey]struct{}, lateMax)
	}
	h.late[k] = struct{}{}
}

// look reads the packed attempts of the runs with unknown attempts. No other writer plans for these runs at
// the same time, because a shard has one writer. If look does not find an attempt, the update of the attempt
// misses its guard.
func (h *Handed) look(b *store.Batch, with *HandPacker, p *HandPlan) error {
	var runs []dag.RunID
	asked := make(map[dag.RunID]bool, len(p.missing))
	for _, i := range p.missing {
		if id := b.AttemptUpdates[i].Run; !asked[id] {
			asked[id] = true
			runs = append(runs, id)
		}
	}
	found, over := map[dag.AttemptKey]hand{}, map[dag.AttemptKey]bool{}
	has := func(run dag.RunID, task dag.TaskID, token dag.Token) {
		over[dag.KeyOf(run, task, token)] = true
	}
	err := with.Look(runs, has, func(run dag.RunID, packed []byte) error {
		err := UnpackHands(run, packed, func(a *dag.AttemptRow) {
			if a.State.Ended() {
				over[keyOf(a)] = true
			}
			found[keyOf(a)] = hand{handler: a.Handler, assigned: a.Assigned, generation: a.Generation}
		})
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrRefused, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range p.Changes { // the database cannot know the attempts of this batch
		if p.Changes[i].Form != FormUpdate {
			over[keyOf(&b.AttemptUpdates[i].AttemptRow)] = true
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = make(map[dag.AttemptKey]hand, len(found))
	}
	if len(h.staged) > 0 { // a batch that was staged later may have ended other attempts
		found = onlyOf(b, p.missing, found)
	}
	for k, is := range found {
		if _, known := h.open[k]; !known && !over[k] {
			h.open[k] = is
		}
	}
	for _, i := range p.missing {
		if _, err := h.update(b, i, with, p); err != nil {
			return err
		}
	}
	return nil
}

// onlyOf keeps the parts of a batch that belong to some updates.
func onlyOf(b *store.Batch, updates []int, found map[dag.AttemptKey]hand) map[dag.AttemptKey]hand {
	left := make(map[dag.AttemptKey]hand, len(updates))
	for _, i := range updates {
		k := keyOf(&b.AttemptUpdates[i].AttemptRow)
		if is, there := found[k]; there {
			left[k] = is
		}
	}
	return left
}

// Knows reports whether memory has an attempt without a row: the attempt is assigned, is about to be
// assigned, or is one of the newest ended ones.
func (h *Handed) Knows(id store.LogID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := dag.KeyOf(id.Run, id.Task, id.Token)
	_, open := h.open[k]
	_, late := h.late[k]
	_, later := h.later[k]
	return open || late || later
}

// Failed handles a batch that may not have been written.
func (h *Handed) Failed(b *store.Batch) {
	h.mu.Lock()
	staged := len(h.staged) > 0 // whether batches were staged on top of the failed batch
	h.mu.Unlock()
	if staged || len(b.AttemptInserts)+len(b.AttemptUpdates) > 0 {
		h.Forget()
	}
}

// Forget drops everything.
func (h *Handed) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open, h.staged = nil, nil
}
