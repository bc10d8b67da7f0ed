package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Connection contains the address of a system and the names of the secrets for it, but no secret value.
type Connection struct {
	Namespace, Name string
	Version         int64  // counted from 1
	Data            []byte // in the format of package connection
	By              string // the user who set it last
	Created         dag.Micros
	Modified        dag.Micros
}

// ConnectionsMax bounds the connections of a database.
const ConnectionsMax = 10_000

// Connections is the part of a store that keeps connections. They are independent of shards.
type Connections interface {
	// PutConnection adds or replaces a connection. The store sets the times. It returns ErrFenced unless the
	// version follows the present one, and ErrRefused if there are ConnectionsMax connections.
	PutConnection(ctx context.Context, c Connection) (Connection, error)
	// DropConnection removes a connection. It returns ErrNotFound if there is none.
	DropConnection(ctx context.Context, namespace, name string) error
	// ConnectionOf returns a connection, or ErrNotFound.
	ConnectionOf(ctx context.Context, namespace, name string) (Connection, error)
	// ConnectionList lists at most limit connections after the given name, ordered by namespace and name.
	ConnectionList(ctx context.Context, namespace, name string, limit int) ([]Connection, error)
}
