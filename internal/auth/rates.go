package auth

import (
	"sync"
	"time"

	"skein.dev/skein/internal/store"
)

const (
	// SessionRateDefault is the number of calls a second of one person in browsers.
	SessionRateDefault = 50
	// rateBurst is the number of seconds whose calls may come at once.
	rateBurst = 4
	// ratedMax bounds the callers that are counted. Beyond it, all begin again.
	ratedMax = 10_000
)

// Rates bound the calls of one caller, in calls a second; 0: any number. A user, or a service, is one caller,
// however many sessions or tokens it has. The token of a node's start, workers and nodes are not bounded.
type Rates struct {
	Sessions int // the rate of a person, for all sessions together
	Tokens   int // the rate of a user or a service, for all tokens of the kind api together
}

// rated identifies a caller.
type rated struct {
	session   bool
	principal int64
}

// rates counts the calls of callers. Each has a bucket that fills up with time.
type rates struct {
	Rates
	now func() time.Time

	mu     sync.Mutex // protects following fields
	of     map[rated]*bucket
	spaces map[string]*bucket // by namespace, for namespaces with a quota
}

type bucket struct {
	room float64 // calls
	at   time.Time
}

// over counts a call, and reports whether the caller has used up its calls.
func (r *rates) over(c *credential) bool {
	who, rate := rated{c.session != nil, c.token.Principal}, 0
	switch {
	case c.session != nil && !c.session.Local && c.token.Kind == kindUser:
		rate = r.Sessions
	case c.session == nil && c.token.Kind == store.TokenAPI:
		rate = r.Tokens
	}
	if rate == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return takes(r.of, who, r.now(), float64(rate), float64(rate*rateBurst))
}

// spaceOver counts a call of a caller that has rights in one namespace only, and reports whether these
// callers have used up the calls of a minute.
func (r *rates) spaceOver(namespace string, perMinute int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return takes(r.spaces, namespace, r.now(), float64(perMinute)/60, float64(perMinute))
}

// takes takes a call out of a bucket that gets rate calls a second and holds most. It reports whether the
// bucket was empty.
func takes[K comparable](of map[K]*bucket, who K, now time.Time, rate, most float64) bool {
	b := of[who]
	if b == nil {
		if len(of) >= ratedMax {
			clear(of)
		}
		b = &bucket{most, now}
		of[who] = b
	}
	b.room = min(b.room, most)
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.room, b.at = min(most, b.room+passed*rate), now
	}
	if b.room < 1 {
		return true
	}
	b.room--
	return false
}

// spaceFull returns the quota of calls that the callers of a namespace have used up, or nil. A caller with
// rights in several namespaces counts for none of them, so the people who run the cluster are never refused.
func (g *Gate) spaceFull(t *store.Token) *store.QuotaError {
	if g.cfg.PerMinute == nil {
		return nil
	}
	p, _ := g.book.rightsOf(t)
	only, ok := p.Only()
	if !ok {
		return nil
	}
	bound := g.cfg.PerMinute(only)
	if bound == 0 || !g.rates.spaceOver(only, bound) {
		return nil
	}
	return &store.QuotaError{Namespace: only, Quota: store.QuotaRequests, Bound: bound, Used: bound}
}
