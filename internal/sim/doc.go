// Package sim runs the real engine, the real membership and the real store contract (store/memory)
// on one thread, in virtual time, in an order that a seed decides, while a seeded part of the
// world fails: processes crash at any call of the store, freeze and thaw, the database goes away
// or loses its replies, messages are lost, doubled and late, clocks jump, attempts fail, hang,
// vanish and report twice.
//
// The same seed gives the same history. After every commit the rows that it touched are judged
// by a [witness], which knows the rules and nothing of the code, and the owner's memory is
// compared with a fresh load. A history begins with faults (safety) and ends without (liveness):
// then everything that was accepted must come to its end within a bounded virtual time.
//
// Every third world is rich: it has tasks that no worker runs, queues, locks and operators who decide.
//
// Read sched.go (threads and time), life.go (a process), work.go (attempts, messages), world.go
// (a history), witness.go and naive.go (the rules), client.go; rich.go and rich_judge.go (the rich worlds); explore.go is the exhaustive check.
//
// Replay a seed with a readable trace:
//
//	go test ./internal/sim -run TestSeed -seed 42 -v
package sim
