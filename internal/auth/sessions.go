package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// SessionStore stores the sessions that every node accepts.
type SessionStore interface {
	store.Sessions
	Clock(ctx context.Context) (dag.Micros, error)
}

// Session is the session of a signed-in person.
type Session struct {
	store.Session
	// Local is true for a session that only this node accepts, until the node ends. It has the rights of the
	// local token.
	Local bool
	Name  string // the caller on whose behalf its calls are made
}

// ID returns the identifier of a session in the API.
func (s *Session) ID() string {
	if s.Local {
		return "local-" + strconv.FormatInt(s.Session.ID, 10)
	}
	return strconv.FormatInt(s.Session.ID, 10)
}

// ChildOf reports whether a session was opened with a code of another one.
func (s *Session) ChildOf(o *Session) bool { return s.Local == o.Local && s.Parent == o.Session.ID }

const (
	// CodeLife is how long a code of skein open is valid.
	CodeLife = time.Minute
	// kindUser is the kind of a caller whose session belongs to a person.
	kindUser = store.PrincipalUser
	// kindSession and kindCode are the kinds of sessions and codes in the book, which holds them under keys of
	// their own.
	kindSession, kindCode = "session", "code"
	// useEach is the least time between two writes of a session's last use.
	useEach = dag.Micros(5 * time.Minute / time.Microsecond)
	// useMax bounds the time of that write. If the write fails, the session may end too early.
	useMax = time.Second
	// localMax bounds the local sessions of a node, and its local codes.
	localMax = 50
)

// bounds are the bounds of sessions in the store.
var bounds = store.SessionBounds{OfOne: 50, All: 5000}

// ErrSignIn is returned for a credential that opens no session. Its text says why.
var ErrSignIn = errors.New("this credential cannot open a session")

// ErrChild is returned to a caller that has a session by a code of another session. Such a session makes no
// further code.
var ErrChild = errors.New("this session was opened with a code, and such a session makes no other codes; make one in the session in which you signed in")

// Sessions makes and ends the sessions of people. Sessions with the token of a start are in memory only,
// because they end with the node that made the token.
type Sessions struct {
	store SessionStore
	gate  *Gate // set by New

	mu      sync.Mutex // protects following fields
	local   map[string]*store.Session
	codes   map[string]localCode
	numbers int64
	noted   map[int64]dag.Micros // the last written use of each session of the store
}

// localCode is a code that is valid at this node only.
type localCode struct {
	ends   time.Time // zero means when the node ends
	parent int64     // the local session that made it; 0 if none did
}

// NewSessions returns the sessions of a node. A gate that gets them in its Config accepts them.
func NewSessions(st SessionStore) *Sessions {
	return &Sessions{store: st, local: map[string]*store.Session{}, codes: map[string]localCode{}, noted: map[int64]dag.Micros{}}
}

// Place describes where a sign-in came from.
type Place struct {
	Remote string // address and port
	Agent  string // name of the client program
	Origin string // the session at the identity provider, see store.Session; "" if none is known
}

// agentMax bounds the stored name of a client program, in bytes.
const agentMax = 200

// ByToken opens a session with the rights of a token: an API token, or the token of this start.
func (s *Sessions) ByToken(ctx context.Context, token string, p Place) (secret string, is Session, err error) {
	from := addressOf(p.Remote)
	t, err := s.gate.check(ctx, "Bearer "+token, func() bool { return s.gate.refusals.over(from) })
	if err == nil && t.Kind != store.TokenAPI && t.Kind != kindLocal {
		err = fmt.Errorf("%w: a token of the kind %s opens no session; one of the kind api does", ErrSignIn, t.Kind)
	}
	if err != nil {
		s.refused(from, err)
		return "", is, signInError(err)
	}
	return s.open(ctx, &t, 0, p)
}

// ByCode opens a session with a code. Afterwards the code is no longer valid. If a session made the code, the
// new session ends with that one.
func (s *Sessions) ByCode(ctx context.Context, code string, p Place) (secret string, is Session, err error) {
	from := addressOf(p.Remote)
	t, parent, err := s.takeCode(ctx, code, func() bool { return s.gate.refusals.over(from) })
	if err != nil {
		s.refused(from, err)
		return "", is, signInError(err)
	}
	return s.open(ctx, &t, parent, p)
}

// ByUser opens a session for a person whose password was checked.
func (s *Sessions) ByUser(ctx context.Context, who *store.Principal, p Place) (secret string, is Session, err error) {
	return s.open(ctx, userToken(who.ID, who.Name), 0, p)
}

// userToken returns the token that represents a person whose call shows a session.
func userToken(id int64, name string) *store.Token {
	return &store.Token{Kind: kindUser, ID: id, Name: name, Principal: id}
}

// refused counts a failed sign-in as the gate counts a refused call.
func (s *Sessions) refused(from addressPrefix, err error) {
	if errors.Is(err, errRefused) || errors.Is(err, ErrSignIn) {
		s.gate.refused.Add(1)
		s.gate.refusals.add(from)
	}
}

// Over reports whether an address must wait, because too many of its calls were refused.
func (s *Sessions) Over(remote string) bool { return s.gate.refusals.over(addressOf(remote)) }

// Refuse counts a sign-in from an address that failed outside of this package.
func (s *Sessions) Refuse(remote string) { s.refused(addressOf(remote), ErrSignIn) }

func signInError(err error) error {
	if errors.Is(err, errRefused) {
		return fmt.Errorf("%w: %s", ErrSignIn, textOf(err, errRefused))
	}
	return err
}

// IsBusy reports whether a sign-in was refused only because there are too many sign-ins.
func IsBusy(err error) bool { return errors.Is(err, errOften) || errors.Is(err, errStrangers) }

// SignInText returns the reason why a credential opens no session.
func SignInText(err error) string { return textOf(err, ErrSignIn) }

// open makes a session for the holder of a token. parent is the session that made its code, or 0 if none did.
func (s *Sessions) open(ctx context.Context, t *store.Token, parent int64, p Place) (secret string, is Session, err error) {
	secret = NewSecret(kindSession)
	hash, err := HashSecret(secret)
	if err != nil {
		return "", is, err
	}
	if len(p.Agent) > agentMax {
		p.Agent = p.Agent[:agentMax]
	}
	one := store.Session{Hash: hash, Parent: parent, Address: addressText(p.Remote), Agent: printable(p.Agent), Origin: p.Origin}
	if t.Kind == kindLocal {
		return secret, s.openLocal(one), nil
	}
	if one, err = s.add(ctx, t, one, time.Duration(store.SessionMax)*time.Microsecond); err != nil {
		return "", is, err
	}
	return secret, Session{Session: one, Name: t.Name}, nil
}

// add adds a holder's session or code to the store.
func (s *Sessions) add(ctx context.Context, t *store.Token, one store.Session, life time.Duration) (store.Session, error) {
	now, err := s.store.Clock(ctx)
	if err != nil {
		return one, err
	}
	one.Principal, one.Expires = t.Principal, now+dag.Micros(life.Microseconds())
	if t.Kind == store.TokenAPI {
		one.Token = t.ID
		if t.Expires != 0 {
			one.Expires = min(one.Expires, t.Expires)
		}
	}
	if one.Parent != 0 {
		parent := s.gate.book.session(one.Parent)
		one.Expires = min(one.Expires, parent.Expires)
	}
	if row := store.AuditIn(ctx); row != nil { // the call of a sign-in has no caller yet, so the audit row gets the caller here
		row.Principal, row.Kind, row.Token = t.Name, store.PrincipalUser, one.Token
		if t.Kind == store.TokenAPI {
			row.Kind = t.Kind
		}
	}
	return s.store.AddSession(ctx, one, bounds)
}

func (s *Sessions) openLocal(one store.Session) Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.Created = dag.Micro(time.Now())
	one.Used, one.Expires = one.Created, one.Created+store.SessionMax
	if parent := s.localOf(one.Parent); parent != nil {
		one.Expires = min(one.Expires, parent.Expires)
	}
	s.numbers++
	one.ID = s.numbers
	oldest := ""
	for hash, is := range s.local {
		switch {
		case is.Ends() <= one.Created:
			delete(s.local, hash)
		case oldest == "" || is.ID < s.local[oldest].ID:
			oldest = hash
		}
	}
	if len(s.local) >= localMax {
		delete(s.local, oldest)
	}
	s.local[string(one.Hash)] = &one
	return Session{Session: one, Local: true, Name: LocalName}
}

// localOf returns the local session of a number, or nil. The caller holds the mutex.
func (s *Sessions) localOf(id int64) *store.Session {
	for _, is := range s.local {
		if is.ID == id {
			return is
		}
	}
	return nil
}

// lives reports whether a local session and its parent have not ended. The caller holds the mutex.
func (s *Sessions) lives(is *store.Session, now dag.Micros) bool {
	if is.Ends() <= now {
		return false
	}
	parent := s.localOf(is.Parent)
	return is.Parent == 0 || parent != nil && parent.Ends() > now
}

// Code makes a code that the caller of a request can exchange for one session, within CodeLife. If the caller
// has a session, the new session ends with it.
func (s *Sessions) Code(ctx context.Context) (code string, err error) {
	maker, _ := SessionOf(ctx)
	if maker.Parent != 0 {
		return "", ErrChild
	}
	code = NewSecret(kindCode)
	hash, err := HashSecret(code)
	if err != nil {
		return "", err
	}
	t, held := Holder(ctx)
	if !held { // the caller is a program on the node's machine
		s.keepCode(hash, localCode{time.Now().Add(CodeLife), maker.Session.ID})
		return code, nil
	}
	_, err = s.add(ctx, &t, store.Session{Hash: hash, Code: true, Parent: maker.Session.ID}, CodeLife)
	return code, err
}

// FirstCode makes a code with the rights of the local token. It is valid until it is used or the node ends.
func (s *Sessions) FirstCode() string {
	code := NewSecret(kindCode)
	if hash, err := HashSecret(code); err == nil {
		s.keepCode(hash, localCode{})
	}
	return code
}

func (s *Sessions) keepCode(hash []byte, code localCode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, oldest := time.Now(), ""
	for is, c := range s.codes {
		switch {
		case c.ends.IsZero():
		case c.ends.Before(now):
			delete(s.codes, is)
		case oldest == "" || c.ends.Before(s.codes[oldest].ends):
			oldest = is
		}
	}
	if len(s.codes) >= localMax {
		delete(s.codes, oldest)
	}
	s.codes[string(hash)] = code
}

// takeCode uses up a code and returns the token behind it, and the session that made the code (0 if none
// did). If several callers show the code at the same time, one of them gets the token.
func (s *Sessions) takeCode(ctx context.Context, code string, over func() bool) (t store.Token, parent int64, err error) {
	hash, err := HashSecret(code)
	if err != nil {
		return t, 0, fmt.Errorf("%w: the code is incomplete; copy all of it", errRefused)
	}
	used := fmt.Errorf("%w: the code was used or has expired; skein open makes a new one", errRefused)
	s.mu.Lock()
	local, ours := s.codes[string(hash)]
	delete(s.codes, string(hash))
	maker := s.localOf(local.parent)
	ended := local.parent != 0 && (maker == nil || !s.lives(maker, dag.Micro(time.Now())))
	s.mu.Unlock()
	if ours {
		if ended || !local.ends.IsZero() && local.ends.Before(time.Now()) {
			return t, 0, used
		}
		return localToken, local.parent, nil
	}
	key := kindCode + string(hash)
	if !s.gate.book.knows([]byte(key)) && over() {
		return t, 0, errOften
	}
	row, ok, err := s.gate.book.find(ctx, []byte(key))
	if err == nil && !ok {
		err = used
	}
	if err != nil {
		return t, 0, err
	}
	parent = s.gate.book.session(row.ID).Parent
	// holderOf must be called first, because the next read drops a removed code.
	t, refusal := s.gate.book.holderOf(&row)
	err = s.store.EndSession(store.WithAudit(ctx, nil), row.ID) // the end of the code is part of the sign-in, so it gets no audit row
	if errors.Is(err, store.ErrNotFound) {
		err = used
	}
	if err = cmp.Or(err, refusal); err != nil {
		return store.Token{}, 0, err
	}
	return t, parent, nil
}

// find returns the session with a given secret, and the token that represents the session.
func (s *Sessions) find(ctx context.Context, secret string, over func() bool) (is Session, t store.Token, err error) {
	gone := fmt.Errorf("%w: the session has ended; sign in again on the page, or by skein login", errRefused)
	hash, err := HashSecret(secret)
	if err != nil {
		return is, t, gone
	}
	now := dag.Micro(time.Now())
	s.mu.Lock()
	local := s.local[string(hash)]
	lives := local != nil && s.lives(local, now)
	if local != nil {
		is = Session{Session: *local, Local: true, Name: LocalName}
	}
	s.mu.Unlock()
	if local != nil {
		if !lives {
			return is, t, gone
		}
		return is, localToken, nil
	}
	key := []byte(kindSession + string(hash))
	if over != nil && !s.gate.book.knows(key) && over() {
		return is, t, errOften
	}
	row, ok, err := s.gate.book.find(ctx, key)
	if err == nil && !ok {
		err = gone
	}
	if err != nil {
		return is, t, err
	}
	t, err = s.gate.book.holderOf(&row)
	is = Session{Session: s.gate.book.session(row.ID), Name: t.Name}
	return is, t, err
}

// note writes the use of a session to the store, at most once each useEach.
func (s *Sessions) note(ctx context.Context, is *Session) {
	now := dag.Micro(time.Now())
	s.mu.Lock()
	if is.Local {
		if local := s.local[string(is.Hash)]; local != nil {
			local.Used = now
		}
		s.mu.Unlock()
		return
	}
	noted := max(is.Used, s.noted[is.Session.ID])
	due := now-noted >= useEach || noted-now >= useEach // clocks may differ
	if due {
		if len(s.noted) >= bounds.All {
			clear(s.noted)
		}
		s.noted[is.Session.ID] = now
	}
	s.mu.Unlock()
	if due {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), useMax)
		defer cancel()
		_ = s.store.UseSession(ctx, is.Session.ID) // an error is harmless, see useMax
	}
}

// SessionOf returns the session that a call showed. ok is false if it showed none.
func SessionOf(ctx context.Context) (Session, bool) {
	if s, _ := ctx.Value(sessionKey{}).(*Session); s != nil {
		return *s, true
	}
	return Session{}, false
}

// List returns the sessions that the caller of a request may end: its own, or all of them.
func (s *Sessions) List(ctx context.Context, all bool) ([]Session, error) {
	t, held := Holder(ctx)
	now, err := s.store.Clock(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.store.SessionList(ctx)
	if err != nil {
		return nil, err
	}
	list, lives := []Session{}, map[int64]bool{0: true}
	for _, row := range rows {
		lives[row.ID] = row.Ends() > now && lives[row.Parent] // a child comes after its parent
		if !row.Code && lives[row.ID] && (all || held && owns(&t, &row)) {
			list = append(list, Session{Session: row, Name: s.gate.book.nameOf(&row)})
		}
	}
	if !held || all {
		s.mu.Lock()
		for _, row := range s.local {
			if s.lives(row, dag.Micro(time.Now())) {
				list = append(list, Session{Session: *row, Local: true, Name: LocalName})
			}
		}
		s.mu.Unlock()
	}
	return list, nil
}

// owns reports whether a session belongs to the caller. A token owns only the sessions that it opened,
// because several people may use tokens of one service.
func owns(t *store.Token, row *store.Session) bool {
	if t.Kind == kindUser {
		return row.Principal == t.Principal
	}
	return t.Kind == store.TokenAPI && row.Token == t.ID
}

// End ends a session. It returns store.ErrNotFound if the session has ended before.
func (s *Sessions) End(ctx context.Context, is *Session) error {
	if !is.Local {
		err := s.store.EndSession(ctx, is.Session.ID)
		if err == nil || errors.Is(err, store.ErrNotFound) {
			s.gate.book.stale()
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local[string(is.Hash)] == nil {
		return store.ErrNotFound
	}
	delete(s.local, string(is.Hash)) // its children have no parent any more, so find refuses them
	return nil
}

// EndOf ends the sessions that a principal has opened without a token, and deletes the principal's codes for
// sign-in. It returns the number of ended sessions. If there is an origin, it ends only the sessions with
// that origin, and those of the principal whose origin is not known. Principal 0 then stands for all of them.
func (s *Sessions) EndOf(ctx context.Context, principal int64, origin string) (n int, err error) {
	if principal == 0 && origin == "" {
		return 0, nil
	}
	of := func(is *store.Session) bool {
		switch {
		case is.Token != 0 || principal != 0 && is.Principal != principal:
			return false
		case origin == "" || is.Origin == origin:
			return true
		}
		return principal != 0 && is.Origin == "" && is.Parent == 0 // a child ends with its parent
	}
	rows, err := s.store.SessionList(ctx)
	if err != nil {
		return 0, err
	}
	defer s.gate.book.stale()
	for i := range rows {
		if !of(&rows[i]) {
			continue
		}
		err := s.store.EndSession(ctx, rows[i].ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return n, err
		}
		if err == nil && !rows[i].Code {
			n++
		}
	}
	return n, nil
}

// CookieOf returns the session of a request's cookie.
func (s *Sessions) CookieOf(ctx context.Context, header http.Header, secure bool) (Session, bool) {
	r := http.Request{Header: header}
	is, _, err := s.find(ctx, cookieOf(&r, secure), func() bool { return true })
	return is, err == nil
}

// sessionable reports whether a session can give a verb. A session gives the verbs of people and programs,
// but not those of workers, nodes or a monitoring system.
func sessionable(v access.Verb) bool {
	return v != access.WorkerCall && v != access.NodeCall && v != access.WorkerJoin && v != access.Metrics && v != access.Public && v != 0
}
