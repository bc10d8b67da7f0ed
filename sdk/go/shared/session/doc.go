// Package session is the worker's side of the protocol of workers (api/worker/v1), for workers of every kind.
// It attaches to a home node, polls it, starts attempts, and reports each result until a node has given a
// verdict on it. If the home node is lost, it attaches to another one and keeps its attempts.
//
// A session holds the table of attempts. How an attempt runs, ends and logs is the business of its [Owner]:
// package skein runs task functions, and internal/remote runs process trees. The attempts of internal/remote
// outlive its process, so it has a [Keeper], too.
//
// Reading order: session.go (what it is), attach.go (attaching, polling, leaving), report.go (from a job to
// its verdict), line.go (frequent reports).
package session
