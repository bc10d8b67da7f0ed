// Package engine owns shards: it takes events in, steps runs, and makes the decisions durable before it
// answers.
//
// A [writer] is one goroutine, the only one that writes for its shards. It drains its inbox, applies every
// item to runs in memory (dag.Run.Step, which is pure), fills free slots with the best ready tasks, and
// writes everything as one transaction. Only when that transaction has certainly committed does it answer,
// dispatch and publish. An idle writer makes a transaction of one item; a busy one makes a transaction of
// thousands.
//
// # The life of a transaction
//
//	inbox ── take ──► kept items
//	                     │ make     apply each item: submit, define, op or event → dag.Run.Step
//	                     │          fill:  a slot for each of the best ready tasks → Step(EvAssign)
//	                     │          flush: dag.Run.Flush turns changed memory into rows of a store.Batch
//	                     │          post:  letters to shards of other nodes become message rows
//	                     ▼
//	                  transaction (writer.tx)
//	                     │ commit   Store.Commit under the fences of the shards: seq + 1 where epoch is ours
//	                     │          while a large one is written (a flight), the next is made and staged
//	        ┌────────────┴───────────────┬───────────────────────────┐
//	        ▼ committed                  ▼ refused, or a bug         ▼ fenced, unknown or away
//	     settle                       halve                       retake
//	        dispatch assignments         load the touched runs       drop all memory (forget)
//	        arm timers, send cancels     try half of the items       take the shards, load the rows (own)
//	        answer the items             one left: punish or         seq tells whether it happened (resolve)
//	        publish to watchers          quarantine                  yes: answer; no: apply the items again
//	        retire ended runs
//
// make and settle are in writer.go, the flights in ahead.go, retake in own.go, halve in halve.go.
//
// The state after a crash, by the step in which the process dies:
//
//	before commit  nothing. Callers get no answer. Reports come again, because they have no verdict yet
//	during commit  all or nothing. The next owner loads what is there
//	after commit   the rows have it. The next owner loads the runs (loadShards) and takes up each attempt that
//	               the rows name (takeUp): it is running, or sent again under its token, or lost
//
// At most two transactions exist: the one in flight, which the store is writing, and the one that the writer
// makes meanwhile, on top of the state in memory. The second is sent only after the first has committed. If
// the first fails, both are dropped from memory and their items are applied again (fold). Only a plain
// transaction can be in flight: see departs and plain.
//
// Invariant: an effect of a transaction (answer, dispatch, cancel, notice) follows its commit. settle
// releases the effects; after an unknown outcome, resolve does. An answer that is an error may come earlier
// (refuse).
//
// Invariant: memory is a cache of the rows. After each commit, dag.Load of the rows gives the run in memory.
// So forget is always allowed, and in any doubt the writer calls it.
//
// Invariant: an item that is applied twice changes nothing the second time. A report is known by its token, a
// submission by its id or key, a message by its row. item.again marks an item whose first application may
// have been committed.
//
// # Where effects go
//
//	Executor.Start   attempts of this process, and of its keeper
//	Market.Handed    attempts of workers, and of other nodes (package home)
//	Peers            reports and cancels of attempts whose run another node owns (package peer)
//	hub              watchers of runs in this process; remote.go reads for watchers of other runs
//	w.lead           Leader work and tasks of the system, in goroutines of this process, without a slot
//
// A slot of this process is booked by the attempt's name (type slots in slots.go), so a repeated message
// counts once.
//
// # Reading order
//
// engine.go (the interface for callers), inbox.go (items), writer.go, core.go (what the parts see of the
// writer), apply.go, submit.go (addRun), define.go, dispatch.go, market.go, timers.go, own.go, halve.go,
// ahead.go. Then by subject: shards.go (what is owned), aside.go (queued runs that are not in memory),
// abroad.go (attempts on other nodes), mail.go (letters), limits.go (what holds runs back: gates.go, claim.go
// and share.go, and admission_shell.go and admission_load.go for package admission), calls.go (logical tasks:
// prepare.go, call.go, foreach.go), evaluate.go (expressions that cost more), schedule.go (what starts runs:
// due.go, declare.go, fire.go, backfill.go), recovery.go and check.go (the sweep). Package inspect reads rows
// for callers; look.go shows it the memory of the writer.
package engine
