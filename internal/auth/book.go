package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// freshFor is for how long the tokens that were read count without another look; staleAfter is when
	// a call waits for that look. A token that is revoked is refused by every node after staleAfter, and
	// a stream ends within staleAfter and one recheck: five seconds in all.
	freshFor   = 1250 * time.Millisecond
	staleAfter = 2500 * time.Millisecond
	// recheckEach is how often a call that lasts is checked again.
	recheckEach = 2 * time.Second
	// readGap is the least time between two readings of the tokens, however many calls show unknown ones;
	// readGapFailed is that after a reading that failed.
	readGap       = 100 * time.Millisecond
	readGapFailed = 500 * time.Millisecond
	// readMax bounds one reading.
	readMax = 5 * time.Second
	// strangersMax bounds the calls that wait for a reading because their token is unknown.
	strangersMax = 1000
)

var (
	// errStrangers refuses a call with an unknown token because too many of these wait.
	errStrangers = errors.New("the node is checking too many unknown tokens, from all addresses together; try again in 1 s")
	errAway      = errors.New("the tokens could not be read a moment ago")
)

// book holds the tokens of the store in memory. The store keeps at most store.TokensMax of them, so they are
// read as one list: an unknown token takes no place in memory and evicts no known one, and any number of
// calls with unknown tokens cost one reading each readGap.
type book struct {
	store Store
	log   *slog.Logger

	mu        sync.Mutex                  // protects following fields
	tokens    map[string]store.Token      // by hash, and API tokens also by keyOf
	revision  int64                       // of the rights
	rights    map[int64]*access.Principal // of API tokens, by their IDs
	read      time.Time                   // when the reading of tokens began; zero: never
	clock     dag.Micros                  // of the store, at that time
	tried     time.Time                   // when the last reading ended
	err       error                       // of the last reading
	flight    chan struct{}
	strangers int
	forgotten int // how often the revision was forgotten
}

// noRevision is of no rights.
const noRevision = -1

// forget has the next reading read the rights, whatever their revision. A database that has gone back
// gives the number of a lost revision, or of a lost token, to another one.
func (b *book) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision = noRevision
	b.forgotten++
}

// find returns the token of a hash; ok is false if it is unknown, revoked or expired. While the store does
// not answer, known tokens go on, so that an outage of the database ends no worker's attempts.
func (b *book) find(ctx context.Context, hash []byte) (t store.Token, ok bool, err error) {
	arrived, stranger := time.Now(), false
	defer func() {
		if stranger {
			b.mu.Lock()
			b.strangers--
			b.mu.Unlock()
		}
	}()
	for {
		b.mu.Lock()
		t, known := b.tokens[string(hash)]
		now := time.Now()
		age := now.Sub(b.read)
		switch {
		case known && (age < freshFor || b.flight != nil && (age < staleAfter || b.err != nil)):
			ok = b.valid(&t, now)
			b.mu.Unlock()
			return t, ok, nil
		case !known && b.read.After(arrived):
			b.mu.Unlock()
			return t, false, nil
		case !known && !stranger && b.strangers >= strangersMax:
			b.mu.Unlock()
			return t, false, errStrangers
		case b.err != nil && now.Sub(b.tried) < readGapFailed:
			ok, err = b.doubt(&t, known, now)
			b.mu.Unlock()
			return t, ok, err
		}
		if !known && !stranger {
			stranger = true
			b.strangers++
		}
		wait, reads := b.turn(now)
		b.mu.Unlock()
		if reads {
			b.reads(ctx)
			continue
		}
		if err := wait(ctx); err != nil {
			return t, false, err
		}
	}
}

// knows reports whether a hash was among the tokens at the last reading.
func (b *book) knows(hash []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.tokens[string(hash)]
	return known
}

// turn says how a call gets on that needs a reading: it reads itself, or waits. The caller holds the mutex.
func (b *book) turn(now time.Time) (wait func(context.Context) error, reads bool) {
	if flight := b.flight; flight != nil {
		return func(ctx context.Context) error {
			select {
			case <-flight:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, false
	}
	if left := readGap - now.Sub(b.tried); left > 0 {
		return func(ctx context.Context) error {
			timer := time.NewTimer(left)
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, false
	}
	b.flight = make(chan struct{})
	return nil, true
}

// reads reads all tokens. It outlives the call that makes it: others wait for it.
func (b *book) reads(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readMax)
	defer cancel()
	b.mu.Lock()
	forgotten := b.forgotten
	b.mu.Unlock()
	began := time.Now()
	var all []store.Token
	clock, err := b.store.Clock(ctx)
	if err == nil {
		all, err = b.store.TokenList(ctx)
	}
	revision, rights, err := b.readRights(ctx, all, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.flight)
	b.flight, b.tried, b.err = nil, time.Now(), err
	if err != nil {
		if b.log != nil {
			b.log.Warn("the tokens cannot be read", "code", "tokens_unreadable", "err", err)
		}
		return
	}
	b.read, b.clock = began, clock
	b.tokens = make(map[string]store.Token, 2*len(all))
	for i := range all {
		b.tokens[string(all[i].Hash)] = all[i]
		b.tokens[keyOf(all[i].ID)] = all[i]
	}
	if b.revision, b.rights = revision, rights; forgotten != b.forgotten { // meanwhile
		b.revision = noRevision
	}
}

// keyOf finds a token by its ID, as a hash does.
func keyOf(id int64) string { return fmt.Sprint("#", id) }

// readRights reads the rights if they or the tokens have changed. Only one call at a time is here. It reads
// the revision before the tokens' rights: a change in between is seen the next time.
func (b *book) readRights(ctx context.Context, tokens []store.Token, failed error) (int64, map[int64]*access.Principal, error) {
	if failed != nil {
		return 0, nil, failed
	}
	revision, err := b.store.RightsRevision(ctx)
	if err != nil {
		return 0, nil, err
	}
	b.mu.Lock()
	was, known := b.revision, b.rights
	b.mu.Unlock()
	same := revision == was
	for i := range tokens {
		_, there := known[tokens[i].ID]
		same = same && (there || tokens[i].Kind != store.TokenAPI)
	}
	if same {
		return revision, known, nil
	}
	all, err := b.store.Rights(ctx)
	if err != nil {
		return 0, nil, err
	}
	return all.Revision, principals(tokens, &all), nil
}

// valid reports whether a token counts now, by the clock of the store. The caller holds the mutex.
func (b *book) valid(t *store.Token, now time.Time) bool {
	return t.Valid(b.clock + dag.Micros(now.Sub(b.read).Microseconds()))
}

// doubt answers while the store does not. The caller holds the mutex.
func (b *book) doubt(t *store.Token, known bool, now time.Time) (bool, error) {
	if known {
		return b.valid(t, now), nil
	}
	return false, errors.Join(errAway, b.err)
}
