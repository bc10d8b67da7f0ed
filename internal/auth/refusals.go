package auth

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// refusalsMax is the number of refusals that one address gets in a second. Further calls get 429.
	refusalsMax = 20
	// addressesMax bounds the number of addresses that are counted. At this number, all counts of this second
	// begin again.
	addressesMax = 10_000
)

// addressPrefix identifies a caller: an IPv4 address, or the /64 network of an IPv6 address.
type addressPrefix = netip.Prefix

func newCounts() map[addressPrefix]*refused { return map[addressPrefix]*refused{} }

// refusals counts the refusals of the current second for each address.
type refusals struct {
	max int

	mu   sync.Mutex // protects following fields
	from map[addressPrefix]*refused
}

type refused struct {
	since time.Time
	n     int
}

// over reports whether an address has used up its refusals of this second.
func (f *refusals) over(a addressPrefix) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.from[a]
	return r != nil && r.n >= f.max && time.Since(r.since) < time.Second
}

// add counts a refusal.
func (f *refusals) add(a addressPrefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	r := f.from[a]
	switch {
	case r == nil && len(f.from) >= addressesMax:
		clear(f.from)
		fallthrough
	case r == nil:
		f.from[a] = &refused{since: now, n: 1}
	case now.Sub(r.since) >= time.Second:
		r.since, r.n = now, 1
	default:
		r.n++
	}
}

// addressOf returns the prefix that identifies a caller. Callers without an address are in this process, and
// share one prefix.
func addressOf(remote string) addressPrefix {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return addressPrefix{}
	}
	ip, bits := a.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // bits is valid for both families
	return p
}
