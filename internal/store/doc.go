// Package store is the contract between the engine and a database. It contains no code that uses a disk. The
// engines of the store are memory (tests), sqlite (one node) and postgres (a cluster). The tests of storetest
// require the same behaviour of all of them.
//
// # The three rules
//
//   - A writer's transaction raises seq of each shard that it writes for, where id, epoch and seq are what
//     the writer holds (Fence). If this update, or any other guarded update, matches no row, the whole
//     transaction is rolled back. The update is the first statement of the transaction, except in a
//     transaction that is written ahead on PostgreSQL, where it is the last.
//   - Callers that do not own the shard only insert: runs in state submitted, messages, requests.
//   - A commit whose outcome cannot be known is [ErrUnknown]. The writer then takes its shards again, and the
//     seq that it gets tells whether the transaction happened.
//
// # A transaction
//
//	Stage(b)   optional (Stager): the engine may write b while the batch before it is being committed
//	Commit(b)  waits for the batch before, writes what Stage has not, commits, and returns when the batch
//	           is on the disk
//	Unstage()  after a failed commit: no staged batch will be committed
//
// Engines write a [Batch] in the order that their guards need. The order within a batch has no meaning for a
// reader, because a reader sees all of it or nothing.
//
// # Forms of rows
//
// A row is an image of memory (dag.Run.Flush). To save writes, the SQL engines pack attempts, histories and
// lists into other rows: package packed. Store.Attempts and Store.Load return all attempts, also those that
// have no row. docs/internal/rows.md describes each packed column, and the code that reads it.
//
// # Why a run waits, from the rows
//
//	run.state waiting, run.claim not NULL  a queue or locks: stage and names in the claim, order in table line
//	run.state waiting, run.claim NULL      a concurrency limit: the last record "waiting" has the sentence
//	run.state submitted or splitting       its owner has not begun, or Leader work is open (task −1)
//	run.state running or suspended         see its tasks: dag.Derive of graph, row and attempts
//	run.intent pause                       an operator paused it: the last record "intent" says who
//
// inspect.Explain does all of this without a server: skein db show RUN prints the explanation and the rows.
//
// Reading order: store.go (the contract), cluster.go (members and shards), schedules.go, claims.go (queues),
// errors in store.go; then storetest/fences.go and guards.go, which show by example what the contract means;
// then package packed.
package store
