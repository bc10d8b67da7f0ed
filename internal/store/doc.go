// Package store is the contract between the engine and a database. It contains no code that touches a disk.
// The engines of the store are memory (tests), sqlite (one node) and postgres (a cluster); storetest holds
// all of them to one meaning.
//
// # The three rules
//
//   - A writer's transaction raises seq of each shard that it writes for, where id, epoch and seq are what
//     the writer holds (Fence). If this misses, or any guarded update misses, nothing of the transaction
//     stays. The statement is the first of the transaction. In a transaction that is written ahead on
//     PostgreSQL it is the last.
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
// A row is an image of memory (dag.Run.Flush). To save writes, an attempt need not have a row:
//
//	assigned, nothing else     packed into the row of the history of its transaction (hands.go)
//	any other first change     its row is inserted now (FormFirst): running, failed, lost, with outputs
//	a plain success            packed again, if it is the first attempt and has no row yet (FormPacked)
//	later changes              guarded update of the row (FormUpdate): state and handler must be as expected
//
// [Handed] is the writer's memory of attempts without a row: it stands in for the guard that such an attempt
// cannot have. Readers use [WithHands], which adds the attempts without a row to those with one. So never
// read table attempt alone: Store.Attempts and Store.Load give all of them.
//
// The history of a transaction is one row per run. For a run of the first generation it is in the run's row
// if the transaction inserted the run (events_first), let it begin after a wait (events_begun) or ended it
// (events_last). Any other is a row of table event. Past finds the row that takes it.
//
// # Packed columns, and the code that reads them
//
//	run.events_first, events_begun, events_last, event.records   dag.UnpackRecords
//	run.hands, hands_begun, ends, event.hands                     UnpackHands, WithHands
//	(events_begun and hands_begun are in SQLite only)
//	run.claim (claim and shares of queues)                        dag.UnpackClaims
//	run.fire (trigger, parent, start_by)                          dag.UnpackFire
//	run.base, run.final (states of tasks)                         dag.CountStates, dag.TasksIn, dag.Derive
//	run.graph (what the run adds to its version's graph)          inspect.Graphs.Own
//	version.graph                                                 dag.UnpackGraph (with workflow.Compiler)
//	version.def                                                   workflow.Decode
//	message.payload                                               JSON, a list of engine.letter
//	backfill.instants                                             dag.UnpackInstants
//	trigger.spec, trigger.data                                    packages workflow and trigger
//	roll.bits (SQLite)           bit i of page p: run.n = 2048 p + i is on the list; sqlite/roll.go
//	line.runs (SQLite)           JSON, distances from line.first; the view stander shows one run a row
//	wave.runs (PostgreSQL)       ids; the view unfinished shows one run a row
//
// Instants are microseconds since 1970 UTC, and 0 is none. A token is era × 2^20 + number (dag.Token); an
// epoch is era × 2^32 + count (Fence.Epoch). Tasks are numbered as in the version's graph; task −1 is Leader
// work. On SQLite run.n is the run's number in this file, and tables attempt and event refer to it.
//
// # Why a run waits, from the rows
//
//	run.state waiting, run.claim not NULL  a queue or locks: stage and names in the claim, order in table line
//	run.state waiting, run.claim NULL      a concurrency limit: the last record "waiting" has the sentence
//	run.state submitted or splitting       its owner has not begun, or Leader work is open (task −1)
//	run.state running or suspended         see its tasks: dag.Derive of graph, row and attempts
//	run.intent pause                       an operator paused it: the last record "intent" says who
//
// inspect.Explain does all of this. It needs no server: see docs/internal/life-of-a-run.md.
//
// Reading order: store.go (the contract), cluster.go (members and shards), schedules.go, claims.go (queues),
// handed.go and hands.go (attempts without a row), past.go (histories), errors in store.go; then
// storetest/fences.go and guards.go, which show by example what the contract means.
package store
