// Package inspect reads: it shows runs, tasks, queues, triggers and histories, explains why a run waits, and
// checks the invariants from the rows. It writes nothing.
//
// Every node can answer from rows. The owner of a run's shard has further data in memory: start deadlines,
// due retries, and the order in which runs get the next slot. A Reader gets these data only through [Memory];
// package engine implements it. Without a Memory (no server runs, or [Verify]) a Reader uses rows alone.
//
// Reading order: reader.go (what a Reader consists of), read.go (runs and tasks), states.go (all tasks of a
// run at one moment), sight.go and explain.go (why a run waits; one file for each kind of reason), circle.go
// (runs that wait for each other), verify.go (the invariants).
package inspect
