// Package nodes finds the artifacts of attempts on the nodes of a cluster. [Source] searches this machine.
// [Finder] also calls the other nodes, and [Handle] answers such calls.
//
// If the nodes share a store of artifacts, every machine can read it, so no node is called.
package nodes

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/peer"
	"skein.dev/skein/internal/store"
)

// Others are the other nodes of a cluster.
type Others interface {
	Directory
	// Call sends in to a path of a node, and decodes the answer into out.
	Call(ctx context.Context, to store.Member, path string, in, out any) error
}

// Directory lists the members of a cluster.
type Directory interface {
	Self() store.Member
	Member(h dag.HandlerID) (store.Member, bool)
	View() ([]store.Member, []store.ShardRow)
}

// Paths of the calls to other nodes.
const (
	hasPath  = peer.Prefix + "artifacts"
	listPath = peer.Prefix + "artifacts/list"
	readPath = peer.Prefix + "artifacts/read"
)
