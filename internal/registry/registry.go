package registry

import (
	"context"
	"errors"
)

// ErrEnded means that the registry has ended a session: it was not renewed in time, or the registry has lost
// it.
var ErrEnded = errors.New("the registry has ended the session of this node")

// Registry is a service that lists lives of nodes while they renew their sessions. Any goroutine may call its
// methods. Each call ends when its context ends.
type Registry interface {
	// Announce begins a session, during which the registry lists a life. The registry removes the entry if
	// the session is not renewed within its time to live.
	Announce(ctx context.Context, life Life) (Session, error)
	// Probe reads the list and changes nothing. It returns the number of lives.
	Probe(ctx context.Context) (int, error)
}

// Life is one life of a node.
type Life struct {
	UUID string // unique among all clusters
	Name string // the name of the node, for people who read the registry
}

// Session is the entry of one life. Only one goroutine uses it.
type Session interface {
	// Renew makes the session last for its time to live from now on. It returns ErrEnded if the registry has
	// ended the session. After any other error the session may still exist.
	Renew(ctx context.Context) error
	// List returns the UUIDs of all lives, as they are listed at the time of the call or later.
	List(ctx context.Context) ([]string, error)
	// Leave ends the session and frees what this process holds for it. If the registry does not answer, the
	// session ends by itself.
	Leave(ctx context.Context) error
}

// livesMax bounds the entries of a list.
const livesMax = 10_000
