package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// What the owner of a run does about what it claims. If the gate is here, too, that is done in
// the same transaction; else a message goes there, and the answer is another one.

// queueUp has a run ask for what it names, after the limits of its trigger and its workflow. why
// says what for it has to wait.
func (w *writer) queueUp(r *dag.Run) (why string, d *denial, err error) {
	var c *dag.Claim
	if r.Claim == nil {
		if c, d, err = w.claimOf(r); c == nil {
			return "", d, err
		}
	} else { // it asks again: it was paused meanwhile, or is in a new generation
		again := *r.Claim
		c = &again
	}
	c.Asked = max(w.tx.now.Wall, c.Asked+1)
	c.Grant, c.Granted, c.Limit = 0, 0, 0
	if r.Intent == dag.IntentPause {
		c.Stage = dag.ClaimNone
		r.PutClaim(c)
		return "it is paused and not queued", nil, nil
	}
	if c.Kept, err = w.mustKeep(r); err != nil {
		return "", nil, err
	}
	c.Stage = dag.ClaimAsked
	if !w.gateHere() {
		r.PutClaim(c)
		w.say(store.GateShard, word{Kind: wordAsk, Run: r.ID, Shard: r.Shard, Claim: c})
		return "it asks for " + c.What(), nil, nil
	}
	in := &claimant{run: r.ID, shard: r.Shard, claim: c}
	why, d = w.comeIn(in)
	if d != nil {
		c.Stage = dag.ClaimNone
	}
	r.PutClaim(c)
	return why, d, nil
}

// unclaim gives up what a run has or asks for: it ended, or is paused while it waits.
func (w *writer) unclaim(r *dag.Run) {
	c := r.Claim
	if c == nil || c.Stage == dag.ClaimNone {
		return
	}
	if !w.gateHere() {
		left := *c
		w.say(store.GateShard, word{Kind: wordLeft, Run: r.ID, Claim: &left})
		return
	}
	w.left(r.ID, c.Asked)
}

// left takes from a run what it has by this asking, or by an earlier one: the gate may have found that
// it asks no more, and not taken the last one in.
func (w *writer) left(id dag.RunID, asked dag.Micros) {
	if c := w.commons.of[id]; c != nil && c.claim.Asked <= asked {
		w.commons.leave(c)
	}
}

// released gives back the claim of a quarantined run, whose end is written without a step.
func (w *writer) released(r *dag.RunRow, b *store.Batch) {
	if r.Claim == nil {
		return
	}
	over := *r.Claim
	over.Stage = dag.ClaimOver
	r.Claim = &over
	if w.held(store.GateShard) != nil {
		w.commons.forget() // the next transaction loads it without this run
		return
	}
	b.Messages = append(b.Messages, store.Message{From: r.Shard, To: store.GateShard, Created: r.FinishedAt,
		Payload: envelope([]letter{{Word: &word{Kind: wordLeft, Run: r.ID, Claim: &over}}})})
}

// lend gives back the place in the queue of a run that is suspended. Its locks it keeps.
func (w *writer) lend(r *dag.Run) {
	c := *r.Claim
	c.Stage = dag.ClaimLent
	r.PutClaim(&c)
	if !w.gateHere() {
		w.say(store.GateShard, word{Kind: wordLend, Run: r.ID, Claim: &c})
		return
	}
	w.lent(r.ID, c.Asked)
}

func (w *writer) lent(id dag.RunID, asked dag.Micros) {
	c := w.commons.of[id]
	if c == nil || c.claim.Asked != asked || c.claim.Stage != dag.ClaimGranted {
		return
	}
	next := *c.claim // the one it has is its run's
	next.Stage = dag.ClaimLent
	c.claim = &next
	if c.slot {
		c.slot = false
		c.line.past--
		w.commons.open[c.line.name] = true
	}
}

// rejoin has a run that was suspended ask for its place again: it comes before new ones.
func (w *writer) rejoin(r *dag.Run) {
	c := *r.Claim
	c.Stage, c.Asked = dag.ClaimAgain, max(w.tx.now.Wall, c.Asked+1)
	r.PutClaim(&c)
	if !w.gateHere() {
		w.say(store.GateShard, word{Kind: wordAsk, Run: r.ID, Shard: r.Shard, Claim: &c})
		return
	}
	w.commons.again(&claimant{run: r.ID, shard: r.Shard, claim: &c})
}

// again takes in one that has its locks and wants its place. It is granted when the line is
// served, in this transaction if there is room.
func (c *commons) again(in *claimant) {
	if was := c.of[in.run]; was != nil {
		if was.claim.Asked == in.claim.Asked {
			return
		}
		c.leave(was)
	}
	c.enter(in)
	for _, name := range in.claim.Locks {
		c.hold(c.lockOf(name), in)
	}
}

// claimed does what the state of a run makes of its claim; it is called for every run that a
// transaction touches.
func (w *writer) claimed(r *dag.Run) {
	switch c := r.Claim; {
	case !r.Unfinished():
		w.unclaim(r)
	case c.Slot() && r.State == dag.RunSuspended:
		w.lend(r)
	case c.Stage == dag.ClaimLent && r.State == dag.RunRunning:
		w.rejoin(r)
	case c.Stage == dag.ClaimAsked && r.Intent == dag.IntentPause:
		w.unclaim(r)
		none := *c
		none.Stage = dag.ClaimNone
		r.PutClaim(&none)
	}
}

// anew makes a run ask for its claim again if it was paused while it waited, or if it begins a new
// generation.
func (w *writer) anew(r *dag.Run, ev *dag.Event) error {
	resumed := ev.Kind == dag.EvIntent && r.Claim.Stage == dag.ClaimNone
	recovered := ev.Kind == dag.EvRecover || ev.Kind == dag.EvMark && ev.Wait != ""
	if r.State != dag.RunWaiting || r.Gate != atCommons || r.Intent != dag.IntentRun || !resumed && !recovered {
		return nil
	}
	return w.askFor(r)
}

// askFor asks, and does with the run what the answer says.
func (w *writer) askFor(r *dag.Run) error {
	why, d, err := w.queueUp(r)
	switch {
	case err != nil:
		return err
	case d != nil:
		w.deny(r, d)
	case why != "":
		w.stepSelf(r, &dag.Event{Kind: dag.EvAdmit, Wait: why})
	default:
		r.Gate = through
		w.admit(r)
	}
	return nil
}

// stepSelf does one event of the engine's own.
func (w *writer) stepSelf(r *dag.Run, ev *dag.Event) {
	w.tx.current = r
	r.Step(ev, w.tx.now, &w.tx.fx)
	w.touch(r)
	w.tx.current = nil
}

func (w *writer) deny(r *dag.Run, d *denial) {
	w.tx.rows += rowsPerItem
	w.stepSelf(r, d.event())
}

func (d *denial) event() *dag.Event {
	return &dag.Event{Kind: dag.EvDeny, Cause: d.cause, Reason: d.why, Skip: d.skip}
}

// asking finds the run that is in the stage in which an answer of the gate finds it, or nil.
func (w *writer) asking(id dag.RunID, asked dag.Micros) (*dag.Run, error) {
	r := w.runs[id]
	if r == nil && w.bad[id] == "" {
		var err error
		if r, err = w.fetch(id); err != nil || r == nil {
			return nil, err
		}
	}
	if r == nil || !asks(r.Claim, asked) {
		return nil, nil
	}
	return r, nil
}

// asks reports whether a run asks now, and this is the asking.
func asks(c *dag.Claim, asked dag.Micros) bool {
	return c != nil && c.Asked == asked && (c.Stage == dag.ClaimAsked || c.Stage == dag.ClaimAgain)
}

// fetch loads a run that stood aside.
func (w *writer) fetch(id dag.RunID) (*dag.Run, error) {
	page, err := w.e.store.Load(context.Background(), store.LoadQuery{IDs: []dag.RunID{id}})
	if err != nil {
		return nil, fromStore("load run "+id.String(), err)
	}
	if len(page) == 0 || page[0].Bad == nil && (!page[0].Run.Claim.Aside() || w.held(page[0].Run.Shard) == nil) {
		return nil, nil
	}
	r, err := w.revived(&page[0], &w.tx.fx)
	if errors.Is(err, ErrUnavailable) { // its graph could not be read: what the gate says is heard again
		return nil, err
	}
	if err != nil {
		w.e.log.Error("a waiting run cannot be loaded", "code", "waiting_run_unreadable", "run", id.String(), "err", err)
		return nil, nil
	}
	w.runs[id] = r
	w.count(r)
	w.aside = max(w.aside-1, 0)
	return r, nil
}

// goOn lets a run go on that has been granted what it asked for; it is false if the run does
// not ask for that any more.
func (w *writer) goOn(id dag.RunID, granted *dag.Claim) (bool, error) {
	r, err := w.asking(id, granted.Asked)
	if r == nil {
		return false, err
	}
	r.PutClaim(granted)
	if r.State != dag.RunWaiting { // it was suspended
		w.tx.rows += rowsPerItem
		w.touch(r)
		return true, nil
	}
	r.Gate = through
	w.admit(r)
	return true, nil
}

// sendAway ends a run that is denied what it asked for.
func (w *writer) sendAway(id dag.RunID, asked *dag.Claim, d *denial) error {
	r, err := w.asking(id, asked.Asked)
	if r == nil {
		return err
	}
	w.deny(r, d)
	return nil
}

// listen takes in a word.
func (w *writer) listen(said *word) error {
	if done, err := w.listenShare(said); done || err != nil || said.Claim == nil {
		return err
	}
	switch said.Kind {
	case wordGrant:
		_, err := w.goOn(said.Run, said.Claim) // a run that has left has sent its own message
		return err
	case wordDeny:
		return w.sendAway(said.Run, said.Claim, &denial{cause: said.Cause, why: said.Why, skip: said.Skip})
	}
	if !w.gateHere() {
		return fmt.Errorf("%w: a word for the gate, which is elsewhere", ErrUnavailable)
	}
	switch said.Kind {
	case wordLeft:
		w.left(said.Run, said.Claim.Asked)
	case wordLend:
		w.lent(said.Run, said.Claim.Asked)
	case wordAsk:
		if now, err := w.stillAsks(said); !now {
			return err
		}
		claim := *said.Claim
		in := &claimant{run: said.Run, shard: said.Shard, claim: &claim}
		if in.claim.Stage == dag.ClaimAgain {
			w.commons.again(in)
			return nil
		}
		if was := w.commons.of[in.run]; was != nil && was.claim.Asked == in.claim.Asked {
			if was.claim.Stage != dag.ClaimAsked {
				return nil // its row was read before, and it was let through
			}
			w.commons.leave(was) // its row was read before: only now it is seen whether it may wait
		}
		_, d := w.comeIn(in)
		switch {
		case d != nil:
			w.say(said.Shard, word{Kind: wordDeny, Run: in.run, Claim: in.claim, Cause: d.cause, Why: d.why, Skip: d.skip})
		case in.claim.Stage == dag.ClaimGranted:
			return w.granted(in)
		}
	}
	return nil
}

// stillAsks reports whether the run still asks for the claim of this message. The message may be old: while
// the admission owner loaded the rows, an owner of both shards may have let the run through, and the run may
// have ended. A grant to it would never come back.
func (w *writer) stillAsks(said *word) (bool, error) {
	if r := w.runs[said.Run]; r != nil {
		return asks(r.Claim, said.Claim.Asked), nil
	}
	row, err := w.e.store.Run(context.Background(), said.Run)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fromStore("look whether run "+said.Run.String()+" asks", err)
	}
	return !row.State.Terminal() && asks(row.Claim, said.Claim.Asked), nil
}

// standAside forgets, after a commit, queued runs that no limit counts, if there are many. Their rows hold
// the whole state, except for runs that a transaction made ahead has changed again.
func (w *writer) standAside() {
	if len(w.runs) < asideMin {
		return
	}
	for _, r := range w.tx.touched {
		if w.tx.next != nil && w.tx.next.touches(r) {
			continue
		}
		if r.State == dag.RunWaiting && r.Claim.Aside() && w.runs[r.ID] == r {
			w.leave(r.ID)
			w.aside++
		}
	}
}

// asideMin is how many runs a writer has in memory before it forgets those that wait in lines.
const asideMin = 20_000
