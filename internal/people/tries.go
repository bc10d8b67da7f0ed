package people

import (
	"container/list"
	"fmt"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// triesOfName and triesOfAddress are how many attempts to sign in may fail within a window. Each exhausted
	// window makes the next one twice as long, up to windowMax; a window without a failure forgets that.
	triesOfName    = 5
	triesOfAddress = 20
	windowMin      = time.Minute
	windowMax      = 16 * time.Minute
	// pairsMax and addressesMax bound what is remembered. Whatever was used longest ago is forgotten first.
	pairsMax     = 20_000
	addressesMax = 10_000
	// nameSlots are the counters of names. Names share one by chance, so that unknown names take no room and
	// are refused as known ones are.
	nameSlots = 1 << 14
)

// Often refuses an attempt because too many have failed.
type Often struct{ After time.Duration }

// Error says when to try again.
func (o *Often) Error() string {
	return fmt.Sprintf("too many attempts to sign in have failed; try again in %s", o.After)
}

// window counts failures. The zero window has none.
type window struct {
	failed int
	level  int // how often it doubled
	since  time.Time
}

func (w *window) lasts() time.Duration { return min(windowMin<<w.level, windowMax) }

// left is how long a window lasts that has no more tries; 0: it has some.
func (w *window) left(free int, now time.Time) time.Duration {
	over := now.Sub(w.since) - w.lasts()
	switch {
	case over >= w.lasts() || over >= 0 && w.failed < free:
		*w = window{since: now}
	case over >= 0:
		*w = window{level: min(w.level+1, 4), since: now}
	}
	if w.failed < free {
		return 0
	}
	return w.lasts() - now.Sub(w.since)
}

// pair is a name and the address of the caller that gives it.
type pair struct {
	name uint64
	from netip.Addr
}

type pairTries struct {
	window
	// signedIn: a sign-in with this name from this address has succeeded. Then neither guesses from other
	// addresses nor those of other names from this address refuse it.
	signedIn bool
}

// tries counts the failed attempts to sign in, on this node.
//
// A name that has used up its tries is still open to two kinds of callers: those at an address from which the
// name has signed in, and, once per window, each address that has not failed with it. So a stranger's guesses
// do not keep anybody out, however many addresses the stranger has.
type tries struct {
	seed maphash.Seed

	mu        sync.Mutex // protects following fields
	names     []window
	pairs     recent[pair, pairTries]
	addresses recent[netip.Addr, window]
}

func newTries() *tries {
	return &tries{seed: maphash.MakeSeed(), names: make([]window, nameSlots),
		pairs: newRecent[pair, pairTries](pairsMax), addresses: newRecent[netip.Addr, window](addressesMax)}
}

// attempt is one that take has counted as failed.
type attempt struct {
	of      *tries
	key     pair
	trusted bool // the name has signed in from this address
}

// take counts an attempt as failed before it is made, so that attempts at once do not exceed the bounds.
func (t *tries) take(name string, from netip.Addr, now time.Time) (attempt, error) {
	key := pair{maphash.String(t.seed, name), network(from)}
	t.mu.Lock()
	defer t.mu.Unlock()
	p, a, n := t.pairs.of(key), t.addresses.of(key.from), &t.names[key.name%nameSlots]
	wait := p.left(triesOfName, now)
	if !p.signedIn {
		wait = max(wait, a.left(triesOfAddress, now))
		if left := n.left(triesOfName, now); left > 0 && p.failed > 0 {
			wait = max(wait, p.lasts()-now.Sub(p.since))
		}
	}
	if wait > 0 {
		return attempt{}, &Often{After: wait.Truncate(time.Second) + time.Second}
	}
	p.failed++
	if !p.signedIn {
		a.failed++
		n.failed++
	}
	return attempt{t, key, p.signedIn}, nil
}

// undo takes back that an attempt failed: the password was right, or was not checked at all.
func (a attempt) undo(signedIn bool) {
	t := a.of
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pairs.of(a.key)
	if signedIn {
		*p = pairTries{signedIn: true}
	} else {
		p.failed = max(p.failed-1, 0)
	}
	if a.trusted {
		return
	}
	// One less, and not none: an account of one's own must not buy guesses for others.
	for _, w := range [...]*window{t.addresses.of(a.key.from), &t.names[a.key.name%nameSlots]} {
		w.failed = max(w.failed-1, 0)
	}
}

// network is what one caller counts as: an address of IPv4, the 64 bits of a network of IPv6.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if p, err := a.Prefix(64); err == nil && a.Is6() {
		return p.Addr()
	}
	return a
}

// recent keeps a bounded number of values that change, and forgets the one that was used longest ago.
type recent[K comparable, V any] struct {
	max   int
	order *list.List // of *kept[K, V]; the one used last in front
	at    map[K]*list.Element
}

type kept[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{max: limit, order: list.New(), at: map[K]*list.Element{}}
}

// of returns the value of a key, which begins as the zero value.
func (r *recent[K, V]) of(key K) *V {
	e := r.at[key]
	if e == nil {
		for r.order.Len() >= r.max {
			delete(r.at, r.order.Remove(r.order.Back()).(*kept[K, V]).key)
		}
		e = r.order.PushFront(&kept[K, V]{key: key})
		r.at[key] = e
	}
	r.order.MoveToFront(e)
	return &e.Value.(*kept[K, V]).value
}
