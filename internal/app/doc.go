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
// Start-up: data folder → lock → listen → store → worker → engine → server. The address goes into the
// lock file once requests are answered, so a process that finds the folder locked finds the node too.
// Shutdown is the reverse, with the drain in between: see [Node.Run].
package app
