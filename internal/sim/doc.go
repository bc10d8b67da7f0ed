// Package sim runs the real engine, the real membership and the real store contract (store/memory) on one
// thread and in virtual time. A seed decides the order of events and the faults of the world. Processes crash
// at any call of the store, freeze and thaw. The database goes away or loses its answers. Messages are lost,
// doubled and late. Clocks jump. Attempts fail, hang, vanish and report twice.
//
// The same seed gives the same history. After every commit a [witness] judges the changed rows. The witness
// knows the rules, and nothing of the code. The simulator also compares the owner's memory with a fresh load.
// A history begins with faults, which tests safety. It ends without faults, which tests liveness: everything
// that was accepted must then end within a bounded virtual time.
//
// Every third world is rich: it has tasks that no worker runs, queues, locks, and operators who decide.
//
// Read sched.go (threads and time), life.go (a process), work.go (attempts, messages), world.go (a history),
// witness.go and naive.go (the rules), and client.go. The files rich.go and rich_judge.go have the rich
// worlds. The files events.go, cursors.go, events_judge.go and cursors_judge.go have the worlds with events,
// and explore.go has the exhaustive check.
//
// This command replays a seed with a readable trace:
//
//	go test ./internal/sim -run TestSeed -seed 42 -v
package sim
