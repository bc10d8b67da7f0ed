// Package engine owns shards: it takes events in, steps runs, and makes the decisions durable before it
// answers.
//
// A [writer] is one goroutine. It drains its inbox, applies every item to runs in memory (dag.Run.Step, which
// is pure), fills free slots with the best ready tasks, and writes everything as ONE transaction. Only when
// that transaction has certainly committed does it answer, dispatch and publish. When idle, a batch is one
// item and a hop is one commit; under load, a batch is thousands of items.
//
// Memory is only a cache. If it is not certain that a transaction committed, the writer drops its memory,
// takes its shards again, loads their rows, and asks their seq whether the transaction happened. If it did
// not, the writer applies the kept items again (see own.go). Reports are idempotent by token and submissions
// by id, so an item that had already been applied is recognised. If the store refuses a batch for its
// content, or a batch meets a bug, it is halved until the guilty item is alone (see halve.go).
//
// The work of an executor follows from rows alone: if the rows give an attempt to this process, and it
// neither runs nor has a report waiting, it is dispatched again under its token. A slot is booked by the
// attempt's name (see home), so a repeated message counts once. Attempts without a free slot here go to
// workers elsewhere (see Market).
//
// Reading order: engine.go (the interface for callers), inbox.go, writer.go, apply.go, define.go,
// dispatch.go, market.go, timers.go, own.go, halve.go; then read.go, explain.go and verify.go, which only
// read rows.
package engine
