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
	// triesOfName and triesOfAddress limit the failed sign-ins within a window. Each exhausted window makes
	// the next window twice as long, up to windowMax. A window without a failure ends this growth.
	triesOfName    = 5
	triesOfAddress = 20
	windowMin      = time.Minute
	windowMax      = 16 * time.Minute
	// pairsMax and addressesMax bound the memory of tries. The entry that was used longest ago is forgotten
	// first.
	pairsMax     = 20_000
	addressesMax = 10_000
	// nameSlots is the number of counters for names. Several names may share a counter. So unknown names take
	// no memory, and are refused in the same way as known names.
	nameSlots = 1 << 14
)

// Often is the error of an attempt that is refused because too many attempts have failed.
type Often struct{ After time.Duration }

// Error returns a text with the time of the next permitted attempt.
func (o *Often) Error() string {
	return fmt.Sprintf("too many attempts to sign in have failed; try again in %s", o.After)
}

// window counts failures. The zero window has none.
type window struct {
	failed int
	level  int // the number of times that the window has doubled
	since  time.Time
}

func (w *window) lasts() time.Duration { return min(windowMin<<w.level, windowMax) }

// left returns the remaining time of an exhausted window. It returns 0 if the window is not exhausted.
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

// pair is a name and the address of the caller that uses the name.
type pair struct {
	name uint64
	from netip.Addr
}

type pairTries struct {
	window
	// signedIn reports whether a sign-in with this name from this address has succeeded. If it has, neither
	// guesses from other addresses nor guesses of other names from this address can block it.
	signedIn bool
}

// tries counts the failed sign-ins on this node.
//
// If a name has used up its tries, two kinds of callers may still try: callers at an address from which the
// name has signed in, and, once per window, each address that has not failed with the name. So the guesses of
// a stranger do not block the user, even from many addresses.
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

// attempt is an attempt that take has counted as failed in advance.
type attempt struct {
	of      *tries
	key     pair
	trusted bool // the name has signed in from this address
}

// take counts an attempt as failed before the attempt is made, so that concurrent attempts do not exceed the
// bounds.
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

// undo reverses the count of an attempt, because the password was right, or was not checked at all.
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
	// undo subtracts one instead of resetting the count. Otherwise a caller could sign in to an own account
	// to get more guesses for other accounts.
	for _, w := range [...]*window{t.addresses.of(a.key.from), &t.names[a.key.name%nameSlots]} {
		w.failed = max(w.failed-1, 0)
	}
}

// network returns the unit that counts as one caller: an IPv4 address, or the 64-bit network of an IPv6
// address.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if p, err := a.Prefix(64); err == nil && a.Is6() {
		return p.Addr()
	}
	return a
}

// recent keeps a bounded number of mutable values. It removes the value that was used longest ago.
type recent[K comparable, V any] struct {
	max   int
	order *list.List // list of *kept[K, V]; the front was used last
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
