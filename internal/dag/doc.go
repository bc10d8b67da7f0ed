// Package dag is the domain of Skein: what a run is and how it moves.
//
// A [Graph] says which task needs which. A [Run] is one execution of a graph; its whole behaviour is one
// function, [Run.Step]: state + event + now → state + effects. Step does no I/O, starts no goroutine, reads
// no clock and depends on no map order, so the code that runs in production is the code that is simulated and
// checked exhaustively. The owner of a run (package engine) feeds it events, collects the rows to write
// ([Run.Flush]) and makes them durable before it answers.
//
// Read in this order:
//
//   - graph.go: the graph, its limits and what makes one invalid.
//   - state.go: the states and the one table of legal moves.
//   - event.go: what can happen to a run, what a run asks for, the names of refusals.
//   - step.go, settle.go, intent.go: Step and the rules behind it.
//   - derive.go: the state of tasks without attempts. A task has an attempt from its first assignment on.
//     The store gives it to readers whether it has a row of its own or not. Every other state is computed
//     from the graph and the attempts, so failing a root with 99,999 dependents writes one row.
//   - rows.go, pack.go: how memory becomes rows and comes back. Memory is only a cache:
//     [Load] of the rows equals the run that wrote them.
//   - queue.go: the order in which ready tasks of many runs get slots.
//
// The rules of the failure closure: when a task finally fails, every task that needs it, directly or not, is
// upstream_failed in the same step. Marking stops at a task whose condition names failure(), always() or a
// status: that task is decided when everything that it needs is terminal. A stop starts nothing new, and ends
// when the last running attempt ends; the unsettled tasks are then stopped. These rules depend only on the
// graph and on how tasks ended, so the order of events never changes the end.
package dag
