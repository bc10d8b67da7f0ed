// Package session implements the worker's side of the protocol of workers (api/worker/v1), for workers of
// every kind. It attaches the worker to a home node, polls the home, starts attempts, and reports each result
// until a node has returned a verdict on it. If the home is lost, the session attaches the worker to another
// node and keeps the worker's attempts.
//
// A session holds the table of attempts. Its [Owner] runs the attempts, ends them and handles their logs:
// package skein runs task functions, and internal/remote runs process trees. The attempts of internal/remote
// outlive the process of the worker, so internal/remote also implements [Keeper].
//
// Reading order: session.go (the types), attach.go (attaching, polling, leaving), report.go (from a job to
// its verdict), line.go (frequent reports).
package session
