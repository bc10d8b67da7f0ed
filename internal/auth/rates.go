package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"skein.dev/skein/internal/store"
)

const (
	// SessionRateDefault is the number of calls a second of one person in browsers.
	SessionRateDefault = 50
	// SessionStreamsDefault is the number of streams that one person in browsers may have open.
	SessionStreamsDefault = 20
	// rateBurst is the number of seconds whose calls may come at once.
	rateBurst = 4
	// ratedMax bounds the number of callers that are counted. At this number, all counts begin again.
	ratedMax = 10_000
)

// Rates limits the calls a second of one caller, and its open streams. 0 means that there is no limit. A user
// or a service is one caller, with all of its sessions and tokens. The local token, workers and nodes have no
// limit.
type Rates struct {
	Sessions int // the rate of a person, for all sessions together
	Tokens   int // the rate of a user or a service, for all tokens of the kind api together
	// SessionStreams and TokenStreams bound the open streams of the same callers.
	SessionStreams, TokenStreams int
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
	calls  map[rated]*bucket
	spaces map[string]*bucket // namespace → its bucket, for namespaces with a quota
	open   map[rated]int      // streams
	since  map[string]int     // calls since told, by the name of the caller
	told   time.Time          // time at which the use of callers was last published
	elsewhere
}

type bucket struct {
	room float64 // calls
	at   time.Time
}

// of returns the caller of a call, and its bounds. A call that another node has passed on shows no session.
func (r *rates) of(c *credential) (who rated, rate, streams int) {
	switch {
	case c.token.Kind == kindUser && (c.session == nil || !c.session.Local):
		return rated{true, c.token.Principal}, r.Sessions, r.SessionStreams
	case c.session == nil && c.token.Kind == store.TokenAPI:
		return rated{false, c.token.Principal}, r.Tokens, r.TokenStreams
	}
	return rated{}, 0, 0
}

// ErrStreams means that a caller has too many open streams.
var ErrStreams = errors.New("too many streams are open")

// stream counts a stream of the holder of a credential until ctx ends.
func (r *rates) stream(ctx context.Context, c *credential) error {
	who, _, most := r.of(c)
	if most == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if most := r.streams(who.name(), most, r.now()); r.open[who] >= most {
		return fmt.Errorf("%w: %s has %d at this node, the limit; close one", ErrStreams, c.token.Name, r.open[who])
	}
	r.open[who]++
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open[who]--; r.open[who] == 0 {
			delete(r.open, who)
		}
	})
	return nil
}

// OpenStream counts a stream of the caller of ctx until ctx ends. If the caller has too many open streams, it
// returns an ErrStreams.
func OpenStream(ctx context.Context) error {
	k, _ := ctx.Value(streamKey{}).(*call)
	if k == nil {
		return nil
	}
	return k.rates.stream(ctx, &k.credential)
}

// over counts a call, and reports whether the caller has used up its calls.
func (r *rates) over(c *credential) bool {
	who, rate, _ := r.of(c)
	if rate == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	share := r.rate(who.name(), float64(rate), r.now())
	if takes(r.calls, who, r.now(), share, max(1, share*rateBurst)) {
		return true
	}
	r.note(who.name())
	return false
}

// spaceOver counts a call of a caller that has rights in one namespace only, and reports whether these
// callers have used up the calls of a minute.
func (r *rates) spaceOver(namespace string, perMinute int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	share := r.rate(spaceName(namespace), float64(perMinute)/60, r.now())
	if takes(r.spaces, namespace, r.now(), share, max(1, share*60)) {
		return true
	}
	r.note(spaceName(namespace))
	return false
}

// takes takes one call from a bucket. The bucket gets rate calls a second, and holds at most the number of
// calls in the parameter most. takes reports whether the bucket was empty.
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

// spaceFull returns the quota that the callers of a namespace have exhausted. It returns nil if the quota is
// not exhausted. A caller with rights in several namespaces is not counted, so administrators of the cluster
// are never refused.
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
