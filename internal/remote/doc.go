// Package remote is a worker that is no node: it attaches to a node, its home, runs what it is given,
// and says what became of it, again and again until somebody has it. It has no access to the
// database.
//
// Of homes it needs any one: when it loses its own it attaches to the next, with all that it runs,
// within its lease. When no home has answered for that long its keeper ends what it runs: afterwards its
// attempts are others'.
//
// The keeper outlives this process. The next one over the same data folder goes on with what it holds,
// under the same handler, and delivers the ends that nobody has taken.
//
// Reading order: remote.go (attaching, polling), attempts.go (from a job to its verdict), inherit.go.
package remote
