// Package app makes the parts of a process and connects them; no other package does. As the settings say
// (package config), it locks the data folder, opens the store, and starts the worker, the engine and the
// server. At the end it stops them in order.
//
// A [Node] is one process over one data folder:
//
//	<data>/lock       locked with flock while the process runs; contains its pid and address
//	<data>/skein.db   the store (SQLite)
//	<data>/logs/…     one file per attempt (package worker)
//	<data>/work/…     what attempts need while they run (package worker)
//
// The order of start-up is that of the type services: data folder → lock → listen → store → keeper → identity
// → members → executor → slots → engine → server. A constructor gets everything that its part needs, so no
// method adds a part later. The engine is an exception, because it calls the members, the slots and the
// executor, and these call the engine. They are made first, with a pointer to a value of the type inside.
// That value gets the engine when the engine is made. Before that, no part calls the engine: the constructors
// do not, the goroutines begin in [Node.Run], the keeper reports nothing before worker.Link.Begin, and no
// request is answered.
//
// The address is written into the lock file once requests are answered. So a process that finds the folder
// locked can also find the node. The order of the end, with the drain in it, is in the function work.
package app
