package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"skein.dev/skein/internal/access"
)

// call is the context of a call whose caller has shown a credential. It has everything that handlers may ask
// about the caller, because one context for each answer would cost every call several allocations.
type call struct {
	context.Context
	credential
	held  held
	rates *rates

	// cancel and the following fields are used if the gate checks the credential again while the call lasts.
	cancel context.CancelCauseFunc
	due    time.Time // the next check
	open   bool      // the call has not ended; protected by the mutex of watch
	prev   *call     // neighbours in the list of watch, and protected by its mutex
	next   *call
}

type (
	holderKey  struct{}
	heldKey    struct{}
	sessionKey struct{}
	provenKey  struct{}
	streamKey  struct{}
)

// Value implements context.Context.
func (k *call) Value(key any) any {
	switch key.(type) {
	case holderKey:
		return &k.token
	case heldKey:
		return &k.held
	case provenKey:
		return k.proven
	case sessionKey:
		return k.session
	case streamKey:
		return k
	}
	return k.Context.Value(key)
}

// callOf makes the context of a call with a credential.
func (g *Gate) callOf(ctx context.Context, c *credential) *call {
	k := &call{Context: ctx, credential: *c, rates: &g.rates}
	if k.proven != nil { // the certificate takes precedence
		k.session = nil
	}
	p, now := g.book.rightsOf(&k.token)
	k.held = held{p, now, g.book.behind(&k.token)}
	return k
}

// watch checks the credentials of calls again while the calls last, each recheckEach after the begin of the
// call or after its last check. So the list of calls is in the order of the checks, and one timer suffices.
type watch struct {
	lost func(*call) error // returns why a call must end, or nil

	mu    sync.Mutex // protects following fields
	first *call
	last  *call
	timer *time.Timer
	armed bool // the timer is running
}

// begin adds a call. The caller must call end when the call has ended.
func (w *watch) begin(k *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.open = true
	w.add(k)
}

// add puts a call behind all others. The caller holds the mutex.
func (w *watch) add(k *call) {
	k.due = time.Now().Add(recheckEach)
	if k.prev, w.last = w.last, k; k.prev == nil {
		w.first = k
	} else {
		k.prev.next = k
	}
	w.arm(recheckEach)
}

// remove takes a call out of the list, if the call is in it. The caller holds the mutex.
func (w *watch) remove(k *call) {
	if k.prev == nil && w.first != k {
		return
	}
	if k.prev == nil {
		w.first = k.next
	} else {
		k.prev.next = k.next
	}
	if k.next == nil {
		w.last = k.prev
	} else {
		k.next.prev = k.prev
	}
	k.prev, k.next = nil, nil
}

// end removes a call that has ended.
func (w *watch) end(k *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.open = false
	w.remove(k)
}

// arm starts the timer, unless it is running. The caller holds the mutex.
func (w *watch) arm(wait time.Duration) {
	if w.armed {
		return
	}
	if w.armed = true; w.timer == nil {
		w.timer = time.AfterFunc(wait, w.look)
	} else {
		w.timer.Reset(wait)
	}
}

// look starts the checks that are due. Each check has its own goroutine, because it may wait for the store.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	now := time.Now()
	for w.first != nil && !w.first.due.After(now) {
		k := w.first
		w.remove(k)
		go w.check(k)
	}
	if w.first != nil {
		w.arm(w.first.due.Sub(now))
	}
}

// check ends a call whose credential has ended or has lost a right.
func (w *watch) check(k *call) {
	if k.Err() != nil {
		return
	}
	if err := w.lost(k); err != nil {
		k.cancel(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if k.open {
		w.add(k)
	}
}

// lost returns why a call must end: the credential has ended, or has lost a right since the call began.
func (g *Gate) lost(k *call) error {
	t, err := k.again(k)
	if err == nil && access.Lost(access.Can(k.held.p, k.held.now), access.Can(g.book.rightsOf(&t))) {
		err = fmt.Errorf("%w: the token has lost a right since the call began; call again", errRefused)
	}
	if errors.Is(err, errRefused) {
		return err
	}
	return nil
}
