package engine

import (
	"context"
	"errors"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// This file handles the claim of a run on the side of the run's owner. If this node is also the admission
// owner, the same transaction decides about the claim. Otherwise the owner sends a message, and the answer
// comes in another message.

// queueUp makes a run ask for its claim after it has passed the limits of its trigger and its workflow. why
// says which claim the run has to wait for.
func (l *limits) queueUp(r *dag.Run) (why string, d *admission.Denial, err error) {
	var c *dag.Claim
	if r.Claim == nil {
		if c, d, err = l.claimOf(r); c == nil {
			return "", d, err
		}
	} else { // the run asks again, because it was paused meanwhile or is in a new generation
		again := *r.Claim
		c = &again
	}
	c.Asked = max(l.txn().now.Wall, c.Asked+1)
	c.Grant, c.Granted, c.Limit = 0, 0, 0
	if r.Intent == dag.IntentPause {
		c.Stage = dag.ClaimNone
		r.PutClaim(c)
		return "it is paused and not queued", nil, nil
	}
	if c.Kept, err = l.mustKeep(r); err != nil {
		return "", nil, err
	}
	c.Stage = dag.ClaimAsked
	if !l.gateHere() {
		r.PutClaim(c)
		l.say(store.GateShard, word{Kind: wordAsk, Run: r.ID, Shard: r.Shard, Claim: c})
		return "it asks for " + c.What(), nil, nil
	}
	in := &admission.Claimant{Run: r.ID, Shard: r.Shard, Claim: c}
	why, d = l.comeIn(in)
	if d != nil {
		c.Stage = dag.ClaimNone
	}
	r.PutClaim(c)
	return why, d, nil
}

// unclaim gives up a requested or granted claim of a run, because the run has ended, or is paused while it
// waits.
func (l *limits) unclaim(r *dag.Run) {
	c := r.Claim
	if c == nil || c.Stage == dag.ClaimNone {
		return
	}
	if !l.gateHere() {
		left := *c
		l.say(store.GateShard, word{Kind: wordLeft, Run: r.ID, Claim: &left})
		return
	}
	l.admission.Leave(r.ID, c.Asked)
}

// released gives up the claim of a quarantined run, whose end is written without a step.
func (l *limits) released(r *dag.RunRow, b *store.Batch) {
	if r.Claim == nil {
		return
	}
	over := *r.Claim
	over.Stage = dag.ClaimOver
	r.Claim = &over
	if l.held(store.GateShard) != nil {
		l.forgetAdmission() // the next transaction loads the state without this run
		return
	}
	b.Messages = append(b.Messages, store.Message{From: r.Shard, To: store.GateShard, Created: r.FinishedAt,
		Payload: envelope([]letter{{Word: &word{Kind: wordLeft, Run: r.ID, Claim: &over}}})})
}

// lend returns the queue slot of a suspended run. The run keeps its locks.
func (l *limits) lend(r *dag.Run) {
	c := *r.Claim
	c.Stage = dag.ClaimLent
	r.PutClaim(&c)
	if !l.gateHere() {
		l.say(store.GateShard, word{Kind: wordLend, Run: r.ID, Claim: &c})
		return
	}
	l.admission.Lend(r.ID, c.Asked)
}

// rejoin queues a suspended run again, before new runs.
func (l *limits) rejoin(r *dag.Run) {
	c := *r.Claim
	c.Stage, c.Asked = dag.ClaimAgain, max(l.txn().now.Wall, c.Asked+1)
	r.PutClaim(&c)
	if !l.gateHere() {
		l.say(store.GateShard, word{Kind: wordAsk, Run: r.ID, Shard: r.Shard, Claim: &c})
		return
	}
	l.admission.AskAgain(&admission.Claimant{Run: r.ID, Shard: r.Shard, Claim: &c})
}

// claimed requests or gives up the claim of a run after a change of the run's state. It is called for every
// run that a transaction touches.
func (l *limits) claimed(r *dag.Run) {
	switch c := r.Claim; {
	case !r.Unfinished():
		l.unclaim(r)
	case c.Slot() && r.State == dag.RunSuspended:
		l.lend(r)
	case c.Stage == dag.ClaimLent && r.State == dag.RunRunning:
		l.rejoin(r)
	case c.Stage == dag.ClaimAsked && r.Intent == dag.IntentPause:
		l.unclaim(r)
		none := *c
		none.Stage = dag.ClaimNone
		r.PutClaim(&none)
	}
}

// anew makes a run ask for its claim again, if the run was paused while it waited or begins a new generation.
func (l *limits) anew(r *dag.Run, ev *dag.Event) error {
	resumed := ev.Kind == dag.EvIntent && r.Claim.Stage == dag.ClaimNone
	recovered := ev.Kind == dag.EvRecover || ev.Kind == dag.EvMark && ev.Wait != ""
	if r.State != dag.RunWaiting || r.Gate != atCommons || r.Intent != dag.IntentRun || !resumed && !recovered {
		return nil
	}
	return l.askFor(r)
}

// askFor requests the claim of a run, and applies the answer to the run.
func (l *limits) askFor(r *dag.Run) error {
	why, d, err := l.queueUp(r)
	switch {
	case err != nil:
		return err
	case d != nil:
		l.deny(r, d)
	case why != "":
		l.stepSelf(r, dag.Event{Kind: dag.EvAdmit, Wait: why})
	default:
		r.Gate = through
		l.admit(r)
	}
	return nil
}

func (l *limits) deny(r *dag.Run, d *admission.Denial) {
	l.txn().rows += rowsPerItem
	l.stepSelf(r, denial(d))
}

func denial(d *admission.Denial) dag.Event {
	return dag.Event{Kind: dag.EvDeny, Cause: d.Cause, Reason: d.Why, Skip: d.Skip}
}

// asking returns the run if it waits for this answer of the admission owner, and nil otherwise.
func (l *limits) asking(id dag.RunID, asked dag.Micros) (*dag.Run, error) {
	r, err := l.fetch(id)
	if err != nil || r == nil || !asks(r.Claim, asked) {
		return nil, err
	}
	return r, nil
}

// asks reports whether a run waits now for the request of this time.
func asks(c *dag.Claim, asked dag.Micros) bool {
	return c != nil && c.Asked == asked && (c.Stage == dag.ClaimAsked || c.Stage == dag.ClaimAgain)
}

// goOn continues a run whose claim was granted. It returns false if the run no longer waits for that claim.
func (l *limits) goOn(id dag.RunID, granted *dag.Claim) (bool, error) {
	r, err := l.asking(id, granted.Asked)
	if r == nil {
		return false, err
	}
	r.PutClaim(granted)
	if r.State != dag.RunWaiting { // the run is suspended, not waiting
		l.txn().rows += rowsPerItem
		l.touch(r)
		return true, nil
	}
	r.Gate = through
	l.admit(r)
	return true, nil
}

// sendAway ends a run that is denied its claim.
func (l *limits) sendAway(id dag.RunID, asked *dag.Claim, d *admission.Denial) error {
	r, err := l.asking(id, asked.Asked)
	if r == nil {
		return err
	}
	l.deny(r, d)
	return nil
}

// listen processes a message about claims.
func (l *limits) listen(said *word) error {
	if done, err := l.listenShare(said); done || err != nil || said.Claim == nil {
		return err
	}
	switch said.Kind {
	case wordGrant:
		_, err := l.goOn(said.Run, said.Claim) // if the run no longer waits, it has already sent a message about that
		return err
	case wordDeny:
		return l.sendAway(said.Run, said.Claim, &admission.Denial{Cause: said.Cause, Why: said.Why, Skip: said.Skip})
	}
	return l.hearClaim(said)
}

// stillAsks reports whether the run still waits for the claim of this message. The message may be old: while
// the admission owner loaded the rows, another node that owned both shards may have admitted the run, and the
// run may have ended. Such a run would never return the grant.
func (l *limits) stillAsks(said *word) (bool, error) {
	if r := l.inMemory()[said.Run]; r != nil {
		return asks(r.Claim, said.Claim.Asked), nil
	}
	row, err := l.store.Run(context.Background(), said.Run)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, errkind.FromStore("look whether run "+said.Run.String()+" asks", err)
	}
	return !row.State.Terminal() && asks(row.Claim, said.Claim.Asked), nil
}
