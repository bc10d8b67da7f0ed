package store

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
)

// Session is the sign-in of a person in a browser or on a command line. The store keeps only the hash of the
// secret that the client sends.
type Session struct {
	ID   int64  // no later session gets the same ID
	Hash []byte // SHA-256 of the secret
	// Code says that this is a code, which can be exchanged for a session once.
	Code bool
	// Principal is the owner of the session. Token is the token with which the person signed in. The session
	// has the rights of that token, and ends with it. If Token is 0, the session has the rights of the
	// principal.
	Principal, Token int64
	// Parent is the session that made this code, or the code from which this session was made. The session
	// ends with its parent, whatever the reason. Parent is 0 if no session made a code for it.
	Parent int64
	// Origin names the session at an identity provider by which the person signed in: a hash of the provider
	// and its claim sid. It is "" if the provider has named none, or if no provider took part.
	Origin         string
	Created        dag.Micros
	Used           dag.Micros // the time of the last use, accurate to some minutes
	Expires        dag.Micros // the time at which the session ends, whether it is used or not
	Address, Agent string     // the address and the program of the sign-in
}

// The bounds of sessions. A node reads all of them as one list.
const (
	// SessionIdle is the time for which a session lasts without use.
	SessionIdle = dag.Micros(8 * time.Hour / time.Microsecond)
	// SessionMax is the longest life of a session, used or not.
	SessionMax = dag.Micros(24 * time.Hour / time.Microsecond)
)

// SessionBounds bound the number of sessions.
type SessionBounds struct {
	OfOne int // the largest number of sessions of one principal and token; a further one ends the oldest
	All   int // sessions and codes together
}

// SessionRefused returns the error of AddSession if a session was not added.
func SessionRefused(b SessionBounds) error {
	return fmt.Errorf("there are already %d sessions, which is the limit, or the session that made the code has ended: %w", b.All, ErrRefused)
}

// Ends returns the time at which a session ends if it is not used before. For a code it is the end of the
// code.
func (s *Session) Ends() dag.Micros {
	if s.Code {
		return s.Expires
	}
	return min(s.Expires, s.Used+SessionIdle)
}

// Sessions is the part of a store that keeps sessions. Like tokens, they belong to no shard and are not part
// of Export.
type Sessions interface {
	// AddSession adds a session or a code. It sets the number and the times of creation and last use. It
	// deletes sessions that have ended. If the same principal and token have more sessions than their bound,
	// it deletes the oldest of them. It returns ErrRefused if the bound of all sessions is reached, or if there
	// is no session Parent.
	AddSession(ctx context.Context, s Session, b SessionBounds) (Session, error)
	// SessionList lists all sessions, ordered by number. It includes ended sessions that are not deleted yet.
	SessionList(ctx context.Context) ([]Session, error)
	// UseSession records that a session is used now. It does nothing if the session does not exist.
	UseSession(ctx context.Context, id int64) error
	// EndSession deletes a session with its children, or a code. It returns ErrNotFound if there is no such
	// session or code. If several callers end the same one, exactly one of them succeeds.
	EndSession(ctx context.Context, id int64) error
}
