package people

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/store"
)

// Store is the part of the store that holds principals and the hashes of passwords.
type Store interface {
	RightsRevision(ctx context.Context) (int64, error)
	Rights(ctx context.Context) (store.Rights, error)
	PasswordOf(ctx context.Context, principal int64) (store.Password, error)
	ChangeRights(ctx context.Context, expect int64, c store.RightsChange) (int64, error)
}

var (
	// ErrWrong is the error of every sign-in that fails. So a caller learns neither whether the name exists
	// nor which part is wrong.
	ErrWrong = errors.New("the name or the password is wrong, or this account cannot sign in")
	// ErrBusy means that an attempt is refused because too many passwords are being checked.
	ErrBusy = errors.New("the node is checking too many passwords; try again in a few seconds")
)

const (
	// The node makes at most one hash at a time for callers that have signed in before or have another
	// credential, and at most one for all other callers. So strangers do not delay known callers.
	hashesAtOnce = 1
	// queueMax bounds the number of callers that wait for each of these two hashes. waitMax bounds their
	// wait.
	queueMax = 32
	waitMax  = 5 * time.Second
)

// Passwords checks and hashes passwords. All handlers of a node share one Passwords, because it counts the
// attempts.
type Passwords struct {
	store     Store
	tries     *tries
	strangers lane
	known     lane
	dummy     func() string // the hash that is checked for a name without one

	mu       sync.Mutex // protects following fields
	revision int64
	people   map[string]store.Principal // the people with rights at revision, by name
}

// New returns the Passwords of a node.
func New(s Store) *Passwords {
	return &Passwords{store: s, tries: newTries(), strangers: newLane(), known: newLane(),
		dummy: sync.OnceValue(func() string { return hash("no password has this hash", present) })}
}

// lane limits the number of concurrent hashes.
type lane struct {
	slots   chan struct{}
	waiting *atomic.Int32
}

func newLane() lane { return lane{make(chan struct{}, hashesAtOnce), new(atomic.Int32)} }

// enter waits for a slot. It returns ErrBusy if the wait is too long.
func (l lane) enter(ctx context.Context) (leave func(), err error) {
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > queueMax {
		return nil, ErrBusy
	}
	timer := time.NewTimer(waitMax)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
		return func() { <-l.slots }, nil
	case <-timer.C:
		return nil, ErrBusy
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Verify returns the user who has a name and a password. from is the address of the caller. The error is
// ErrWrong, *Often, ErrBusy, or an error of the store. A user without a password and a disabled user are
// refused like an unknown one, after the same work.
func (p *Passwords) Verify(ctx context.Context, name, password string, from netip.Addr) (store.Principal, error) {
	if len(password) > bytesMax {
		return store.Principal{}, ErrWrong
	}
	folded, err := access.Name(name)
	if err != nil {
		folded = "" // no user has this name, but the same work is done nevertheless
	}
	try, err := p.tries.take(folded, from, time.Now())
	if err != nil {
		return store.Principal{}, err
	}
	who, err := p.inTurn(ctx, try.trusted, folded, password)
	if errors.Is(err, ErrWrong) {
		return store.Principal{}, ErrWrong
	}
	try.undo(err == nil)
	return who, err
}

// inTurn checks a password as soon as there is a slot.
func (p *Passwords) inTurn(ctx context.Context, trusted bool, name, password string) (store.Principal, error) {
	lane := p.strangers
	if trusted {
		lane = p.known
	}
	leave, err := lane.enter(ctx)
	if err != nil {
		return store.Principal{}, err
	}
	defer leave()
	return p.check(ctx, name, password)
}

// check compares a password with the stored hash, and replaces a hash of another cost.
func (p *Passwords) check(ctx context.Context, name, password string) (store.Principal, error) {
	none := store.Principal{}
	revision, who, err := p.find(ctx, name)
	if err != nil {
		return none, err
	}
	kept, err := p.hashOf(ctx, who.ID)
	if err != nil {
		return none, err
	}
	same, cost, err := matches(password, kept)
	switch {
	case err != nil:
		return none, fmt.Errorf("the password of %s: %w", name, err)
	case !same || who.ID == 0:
		return none, ErrWrong
	}
	// In the meantime, the password may have been changed, or the account disabled or replaced.
	now, err := p.store.Rights(ctx)
	if err != nil {
		return none, err
	}
	again, err := p.hashOf(ctx, who.ID)
	if err != nil {
		return none, err
	}
	if is := usersOf(&now)[name]; is.ID != who.ID || again != kept {
		return none, ErrWrong
	}
	if cost != present {
		// If the write fails, the next sign-in tries again. A password that was changed since the revision stays.
		// The password is the same as before, so the audit log gets no row.
		_, _ = p.store.ChangeRights(store.WithAudit(ctx, nil), revision, store.RightsChange{
			Password: &store.Password{Principal: who.ID, Hash: hash(password, present)}, SamePassword: true})
	}
	return who, nil
}

// hashOf returns the hash of a user, or a hash that belongs to no password. It reads the store also for an
// unknown name (ID 0), because a faster answer would reveal that the name is unknown.
func (p *Passwords) hashOf(ctx context.Context, id int64) (string, error) {
	kept, err := p.store.PasswordOf(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return p.dummy(), nil
	}
	return kept.Hash, err
}

// find returns the active user with a name. The user has no ID if there is none. find also returns a revision
// of the rights that is not newer than the result. If the database loses its newest transactions, the same
// revision may be given again with other people, so the result is checked again before a caller is accepted.
func (p *Passwords) find(ctx context.Context, name string) (int64, store.Principal, error) {
	is, err := p.store.RightsRevision(ctx)
	if err != nil {
		return 0, store.Principal{}, err
	}
	p.mu.Lock()
	people, was := p.people, p.revision
	p.mu.Unlock()
	if people == nil || was != is {
		all, err := p.store.Rights(ctx)
		if err != nil {
			return 0, store.Principal{}, err
		}
		people = usersOf(&all)
		p.mu.Lock()
		p.people, p.revision = people, all.Revision
		p.mu.Unlock()
	}
	return is, people[name], nil
}

// usersOf returns the active users by name.
func usersOf(r *store.Rights) map[string]store.Principal {
	all := map[string]store.Principal{}
	for _, one := range r.Principals {
		if one.Kind == store.PrincipalUser && one.State == store.PrincipalActive {
			all[one.Name] = one
		}
	}
	return all
}

// Hash checks a new password of a user and returns the text to be stored. The error is ErrWeak or ErrBusy.
func (p *Passwords) Hash(ctx context.Context, name, password string) (string, error) {
	if err := Check(name, password); err != nil {
		return "", err
	}
	leave, err := p.known.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	return hash(password, present), nil
}
