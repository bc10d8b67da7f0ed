// Package remote is a worker that is no node. It attaches to a node, its home node, runs the attempts that it
// gets, and reports each result until a node acknowledges it. It has no access to the database.
//
// Any node can be its home node: when the worker loses its home node, it attaches to the next one within its
// lease, and keeps its attempts. If no node has answered for the length of the lease, the keeper ends the
// attempts, and other workers may run their tasks.
//
// The keeper outlives this process. The next process over the same data folder continues with the keeper's
// attempts, under the same handler, and delivers the results that no node has acknowledged.
//
// The protocol is package session (sdk/go/shared/session). Reading order: remote.go (what it is), attempts.go
// (from a job to its result), inherit.go.
package remote
