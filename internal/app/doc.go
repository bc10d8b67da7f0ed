// Package app is the one place where everything meets: by the settings (package config) it locks the data
// folder, opens the store, starts the worker, the engine and the server, and takes them down again in order.
// Nothing else wires anything.
//
// A [Node] is one process over one data folder:
//
//	<data>/lock       held with flock for the life of the process; says its pid and address
//	<data>/skein.db   the store (SQLite)
//	<data>/logs/…     one file per attempt (package worker)
//	<data>/work/…     what attempts need while they run (package worker)
//
// The order of start-up is that of the type services: data folder → lock → listen → store → keeper →
// identity → members → executor → slots → engine → server. A constructor gets what its part needs, so there
// is no method that adds a part later. The engine is the exception that every order has: it calls the
// members, the slots and the executor, and they call it. They are made first and hold a pointer to a value
// of the type inside, which gets the engine when it is made. Before that, nothing calls it: their
// constructors do not, their goroutines begin in [Node.Run], the keeper reports nothing before
// worker.Link.Begin, and no request is answered.
//
// The address goes into the lock file once requests are answered, so a process that finds the folder locked
// finds the node too. [Node.Run] has the order of the end, with the drain in between: see work.
package app
