package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// freshFor is the age up to which the tokens in memory are used without reading them again. After staleAfter,
	// a call waits for the next reading. So every node refuses a revoked token after at most staleAfter. A stream
	// ends within staleAfter plus recheckEach, which is less than 5 s.
	freshFor   = 1250 * time.Millisecond
	staleAfter = 2500 * time.Millisecond
	// recheckEach is the time between two checks of a call that lasts.
	recheckEach = 2 * time.Second
	// readGap is the least time between two readings of the tokens, however many calls show unknown tokens.
	// readGapFailed is the least time after a failed reading.
	readGap       = 100 * time.Millisecond
	readGapFailed = 500 * time.Millisecond
	// readMax bounds one reading.
	readMax = 5 * time.Second
	// strangersMax bounds the calls that wait for a reading because their token is unknown.
	strangersMax = 1000
)

var (
	// errStrangers refuses a call with an unknown token because too many such calls are waiting.
	errStrangers = errors.New("the node is checking too many unknown tokens, from all addresses together; try again in 1 s")
	errAway      = errors.New("the last attempt to read the tokens failed")
)

// book holds the tokens of the store in memory. The store has at most store.TokensMax of them, so one reading
// gets all. An unknown token takes no memory and evicts no known token. Calls with unknown tokens cause at
// most one reading each readGap.
type book struct {
	store Store
	log   *slog.Logger

	mu        sync.Mutex             // protects following fields
	tokens    map[string]store.Token // tokens by hash; tokens of the kind api also by keyOf
	family    store.Family           // the same tokens by ID
	revision  int64                  // revision of the rights in memory
	rights    rights
	sessions  map[int64]store.Session // sessions by number
	read      time.Time               // start of the last read; zero if not read yet
	clock     dag.Micros              // time of the store at that start
	outdated  bool                    // this node has changed the tokens since the last read
	tried     time.Time               // end of the last reading
	err       error                   // error of the last reading
	flight    chan struct{}
	strangers int
	forgotten int // count of calls of forget
	changed   int // count of changes that made the tokens in memory stale
}

// noRevision is the revision of a book that holds no rights.
const noRevision = -1

// forget makes the next call read the rights, even if their revision has not changed. If the database loses
// its newest transactions, another revision or token may get the number of a lost one.
func (b *book) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision = noRevision
	b.forgotten++
}

// find returns the token of a hash. ok is false if the token is unknown, revoked or expired. While the
// store does not answer, known tokens stay valid, so an outage of the database ends no worker's attempts.
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
		if b.outdated {
			age = max(age, staleAfter)
		}
		switch {
		case known && (age < freshFor || b.flight != nil && (age < staleAfter || b.err != nil)):
			ok = b.valid(&t, now)
			b.mu.Unlock()
			return t, ok, nil
		case !known && !b.outdated && b.read.After(arrived):
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

// turn decides whether a call that needs fresh data reads them itself, or waits for the reading of another
// call. The caller holds the mutex.
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

// reads reads all tokens. If the call that began the reading ends, the reading continues, because other calls
// wait for it.
func (b *book) reads(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readMax)
	defer cancel()
	b.mu.Lock()
	forgotten, changed := b.forgotten, b.changed
	b.mu.Unlock()
	began := time.Now()
	var all []store.Token
	clock, err := b.store.Clock(ctx)
	if err == nil {
		all, err = b.store.TokenList(ctx)
	}
	revision, rights, err := b.readRights(ctx, all, err)
	var sessions []store.Session
	if err == nil {
		sessions, err = b.store.SessionList(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.flight)
	b.flight, b.tried, b.err = nil, time.Now(), err
	if err != nil {
		if b.log != nil {
			b.log.Warn("the tokens cannot be read; calls with tokens are refused until the database answers", "code", "tokens_unreadable", "err", err)
		}
		return
	}
	b.read, b.clock = began, clock
	b.tokens = make(map[string]store.Token, 2*len(all))
	for i := range all {
		b.tokens[string(all[i].Hash)] = all[i]
		b.tokens[keyOf(all[i].ID)] = all[i]
		if t := &all[i]; t.Kind == store.TokenCertificate && t.Revoked == 0 {
			b.tokens[nameKeyOf(t.Name)] = *t
		}
	}
	b.family = store.FamilyOf(all)
	b.putSessions(sessions, &rights)
	b.outdated = changed != b.changed
	if b.revision, b.rights = revision, rights; forgotten != b.forgotten { // forget was called during the reading
		b.revision = noRevision
	}
}

// putSessions stores sessions and codes under keys of their own, and the people that have sessions. The
// caller holds the mutex.
func (b *book) putSessions(all []store.Session, r *rights) {
	b.sessions = make(map[int64]store.Session, len(all))
	for i := range all {
		s := &all[i]
		kind := kindSession
		if s.Code {
			kind = kindCode
		}
		b.sessions[s.ID] = *s
		ends := s.Ends()
		if s.Parent != 0 { // numbers rise, so the parent is in the map, unless it was deleted
			parent := b.sessions[s.Parent]
			ends = min(ends, max(parent.Ends(), s.Created)) // 0 would mean no end
		}
		b.tokens[kind+string(s.Hash)] = store.Token{ID: s.ID, Kind: kind, Hash: s.Hash, Created: s.Created, Expires: ends, Principal: s.Principal}
		if p := r.users[s.Principal]; s.Token == 0 && p != nil {
			b.tokens[userKeyOf(s.Principal)] = *userToken(s.Principal, p.Name)
		}
	}
}

// userKeyOf returns the key of a person in the book. id is the ID of the person's principal.
func userKeyOf(id int64) string { return fmt.Sprint("u#", id) }

// session returns a session as it was last read.
func (b *book) session(id int64) store.Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[id]
}

// holderOf returns the token that represents the holder of a session or code. It returns an error if the
// token that opened the session has ended, or if the person may no longer make calls.
func (b *book) holderOf(row *store.Token) (store.Token, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, now := b.sessions[row.ID], time.Now()
	if s.Token == 0 {
		if p := b.rights.users[s.Principal]; p != nil {
			return *userToken(s.Principal, p.Name), nil
		}
		return store.Token{}, fmt.Errorf("%w: this account is disabled or deleted; ask an administrator", errRefused)
	}
	t, known := b.tokens[keyOf(s.Token)]
	if !known || !b.valid(&t, now) {
		return store.Token{}, fmt.Errorf("%w: the token that was shown at sign-in has ended; sign in again", errRefused)
	}
	return t, nil
}

// nameOf returns the name on whose behalf the calls of a session are made. It is "" if the principal or the
// token has gone.
func (b *book) nameOf(s *store.Session) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Token != 0 {
		return b.tokens[keyOf(s.Token)].Name
	}
	if p := b.rights.users[s.Principal]; p != nil {
		return p.Name
	}
	return ""
}

// stale makes the next call read the tokens again, because this node has made a change.
func (b *book) stale() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outdated = true
	b.changed++
}

// keyOf returns the key in the book for the token with an ID.
func keyOf(id int64) string { return fmt.Sprint("#", id) }

// readRights reads the rights if they or the tokens have changed. Only one call at a time runs it. It reads
// the revision before the rights, so the next reading sees a change in between.
func (b *book) readRights(ctx context.Context, tokens []store.Token, failed error) (int64, rights, error) {
	if failed != nil {
		return 0, rights{}, failed
	}
	revision, err := b.store.RightsRevision(ctx)
	if err != nil {
		return 0, rights{}, err
	}
	b.mu.Lock()
	was, known := b.revision, b.rights
	b.mu.Unlock()
	same := revision == was
	for i := range tokens {
		_, there := known.tokens[tokens[i].ID]
		same = same && (there || tokens[i].Kind != store.TokenAPI && tokens[i].Maker == 0 && tokens[i].Parent == 0)
	}
	if same {
		return revision, known, nil
	}
	all, err := b.store.Rights(ctx)
	if err != nil {
		return 0, rights{}, err
	}
	return all.Revision, principals(tokens, &all), nil
}

// valid reports whether a token and all its ancestors are valid now, by the store's clock. Tokens of workers
// and nodes reach the runs of all namespaces, so they end when their maker no longer has every verb in every
// namespace. The caller holds the mutex.
func (b *book) valid(t *store.Token, now time.Time) bool {
	at := b.clock + dag.Micros(now.Sub(b.read).Microseconds())
	switch {
	case !b.family.Valid(t, at):
		return false
	case t.Maker == 0 && t.Parent == 0, !reachesAll(t.Kind):
		return true
	}
	return madeByAll(b.rights.tokens[t.ID], at)
}

// reachesAll reports whether tokens of a kind authenticate a worker or a node. Such a token needs a maker
// with all verbs.
func reachesAll(kind string) bool {
	switch kind {
	case store.TokenWorker, store.TokenNode, store.TokenInvite, store.TokenCertificate:
		return true
	}
	return false
}

// doubt decides about a token while the store does not answer. The caller holds the mutex.
func (b *book) doubt(t *store.Token, known bool, now time.Time) (bool, error) {
	if known {
		return b.valid(t, now), nil
	}
	return false, errors.Join(errAway, b.err)
}
