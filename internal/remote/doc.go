// Package remote is a worker that is no node: it attaches to a node, its home, runs what it is given,
// and says what became of it, again and again until somebody has it. It has no access to the
// database.
//
// Of homes it needs any one: when it loses its own it attaches to the next, with all that it runs,
// within its lease. When it has not been heard for that long it ends what it runs: by then its
// attempts are others'.
//
// Results wait in a journal in the data folder, so that an end of this process in between does not
// cost them: the next one delivers them under the handler of before, then begins a life of its own.
package remote
