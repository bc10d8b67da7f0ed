// Package nodes finds the artifacts of attempts on the nodes of a cluster. [Source] looks on this machine,
// [Finder] also asks the other nodes, and [Handle] answers them.
//
// Artifacts in a store that the nodes share can be read on every machine, so that no node is asked.
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
	// Call posts in to path of a node, and reads the answer into out.
	Call(ctx context.Context, to store.Member, path string, in, out any) error
}

// Directory lists the members of a cluster.
type Directory interface {
	Self() store.Member
	Member(h dag.HandlerID) (store.Member, bool)
	View() ([]store.Member, []store.ShardRow)
}

// Paths at which the other nodes are asked.
const (
	hasPath  = peer.Prefix + "artifacts"
	listPath = peer.Prefix + "artifacts/list"
	readPath = peer.Prefix + "artifacts/read"
)
