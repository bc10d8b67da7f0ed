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
	Sessions int // of a person, by all sessions together
	Tokens   int // of a user or a service, by all tokens of the kind api together
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

	mu sync.Mutex // protects following fields
	of map[rated]*bucket
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
	now, most := r.now(), float64(rate*rateBurst)
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.of[who]
	if b == nil {
		if len(r.of) >= ratedMax {
			clear(r.of)
		}
		b = &bucket{most, now}
		r.of[who] = b
	}
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.room, b.at = min(most, b.room+passed*float64(rate)), now
	}
	if b.room < 1 {
		return true
	}
	b.room--
	return false
}
