// Package engine owns shards: it takes events in, steps runs, and makes what they decide
// durable before anybody hears of it.
//
// A [writer] is one goroutine. It drains its inbox, applies every item to runs in memory
// (dag.Run.Step, which is pure), fills free slots with the best ready tasks, and writes
// everything as ONE transaction. Only when that has surely committed does it answer,
// dispatch and publish. Idle, a batch is one item and a hop is one commit; loaded, a
// batch is thousands.
//
// Memory is only a cache. Whenever a transaction did not surely commit, the writer forgets
// what it believes, takes its shards again, loads their rows, and asks their seq whether
// the transaction happened; if not, it applies the kept items once more (see own.go).
// Reports are idempotent by token and submissions by id, so an item that had happened is
// recognised all the same. A batch that the store refuses for its content, or that meets a
// bug, is halved until the guilty item is alone (see halve.go).
//
// What an executor is asked to do follows from rows alone: an attempt that its rows give to
// this process, that does not run and of which no report waits, is handed out again under
// its token. A slot is booked by the attempt's name (see home), so that nothing said twice
// counts twice. What this process has no slot for goes to workers elsewhere (see Market).
//
// Reading order: engine.go (what others call), inbox.go, writer.go, apply.go, define.go,
// dispatch.go, market.go, timers.go, own.go, halve.go; then read.go, explain.go and verify.go, which
// only look at rows.
package engine
