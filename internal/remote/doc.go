// Package remote is a worker that is not part of a node. It attaches to a node, its home node. It runs the
// attempts that it gets from the home node, and reports each result until a node acknowledges the result. It
// has no access to the database.
//
// Any node can be the home node. If the worker loses its home node, it attaches to another node within its
// lease, and keeps its attempts. If no node has answered for the length of the lease, the keeper ends the
// attempts, because other workers may run their tasks then.
//
// The keeper outlives this process. The next process over the same data folder takes over the keeper's
// attempts with the same handler, and delivers the results that no node has acknowledged.
//
// Package session (sdk/go/shared/session) implements the protocol. Reading order: remote.go (the types),
// attempts.go (from a job to its result), inherit.go.
package remote
