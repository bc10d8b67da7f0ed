// Package inspect answers questions and writes nothing. It reads runs, tasks, queues, triggers and histories,
// explains why a run waits, and checks the invariants of the rows.
//
// Every node can answer from the rows of the database. The owner of a run's shard has further data in memory:
// start deadlines, due retries, and the order in which runs get the next slot. A Reader gets these data only
// through [Memory], which package engine implements. Without a Memory (no server runs, or the caller is
// [Verify]), a Reader uses only rows.
//
// Reading order: reader.go (the parts of a Reader), read.go (runs and tasks), states.go (all tasks of a run
// at one moment), sight.go and explain.go (why a run waits; one file for each kind of reason), circle.go
// (runs that wait for each other), verify.go (the invariants).
package inspect
