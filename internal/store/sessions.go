package store

import (
	"context"
	"time"

	"skein.dev/skein/internal/dag"
)

// Session is a browser, or a command line, whose person has signed in. The store keeps only the hash of the
// secret that its holder shows.
type Session struct {
	ID   int64  // never given twice
	Hash []byte // SHA-256 of the secret
	// Code says that this is a code, which is exchanged for a session once.
	Code bool
	// Principal is whose it is. Token is the token that was shown at sign-in: the session has the rights of
	// that token and ends with it. 0: the session has the rights of the principal.
	Principal, Token int64
	Created          dag.Micros
	Used             dag.Micros // the last use, to some minutes
	Expires          dag.Micros // the end, however much it is used
	Address, Agent   string     // where the person signed in from, and with which program
}

// The bounds of sessions. A node reads all of them as one list.
const (
	// SessionIdle is how long a session lasts without use.
	SessionIdle = dag.Micros(8 * time.Hour / time.Microsecond)
	// SessionMax is how long a session lasts, however much it is used.
	SessionMax = dag.Micros(24 * time.Hour / time.Microsecond)
)

// SessionBounds are how many sessions there may be.
type SessionBounds struct {
	OfOne int // of one principal and token; the oldest ends when there is one more
	All   int // with codes
}

// Ends is when a session ends unless it is used until then. A code is not used before its end.
func (s *Session) Ends() dag.Micros {
	if s.Code {
		return s.Expires
	}
	return min(s.Expires, s.Used+SessionIdle)
}

// Sessions is the part of a store that keeps sessions. Like tokens, they are independent of shards and are
// not part of Export.
type Sessions interface {
	// AddSession adds a session or a code and gives it its number and its times of creation and last use. It
	// deletes those that are over, and the oldest ones of the same principal and token beyond their bound. It
	// returns ErrRefused if there are as many as there may be.
	AddSession(ctx context.Context, s Session, b SessionBounds) (Session, error)
	// SessionList lists all by number, also those that are over and not deleted yet.
	SessionList(ctx context.Context) ([]Session, error)
	// UseSession notes that a session is used now. It does nothing if there is no such session.
	UseSession(ctx context.Context, id int64) error
	// EndSession deletes a session or a code. It returns ErrNotFound if there is none. If several callers end
	// the same one, exactly one of them succeeds.
	EndSession(ctx context.Context, id int64) error
}
