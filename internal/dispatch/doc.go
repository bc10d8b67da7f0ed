// Package dispatch connects the engine with the worker of a node.
//
// The engine decides which attempts run, and passes an Assignment to its Executor. A Resolver makes a job
// from the assignment: it reads the definition of the task, evaluates the expressions, reads the outputs and
// secrets that they use, and finds the files. The Executor passes the job to the worker, and reports the
// result to the engine. Workers in other processes get the same jobs through Jobs.
//
// The Resolver is also the Preparer of the engine. It evaluates the tasks that run no process: waits,
// approvals, calls, and tasks that are made from data.
package dispatch
