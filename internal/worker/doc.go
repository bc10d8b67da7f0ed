// Package worker runs attempts. It turns a Job into a process tree, keeps the log of the tree, enforces the
// timeout, ends the whole tree, reads the outputs, and reports one Result.
//
// # Shape
//
// A Worker has a fixed number of slots. A slot owns what attempts can share one after another: a folder, a
// cgroup and an eventfd. Start books a slot and starts one goroutine for the attempt. That goroutine does
// everything in order: it prepares the attempt, forks, polls, ends the tree, takes the outputs, cleans the
// slot, frees it, and reports. The poll waits for three descriptors: the end of the process, the pipe of the
// log, and the eventfd, with which Stop wakes the goroutine. The time limit of the poll is the next deadline.
// So an attempt needs no lock and no second goroutine. If several events happen at the same instant, one
// function decides their order (attempt.watch).
//
// The goroutine is locked to its thread from the fork to the end of the attempt. The reason is
// PR_SET_PDEATHSIG, which kills the first process of the attempt when the worker's process ends. The kernel
// sends it when the *thread* that forked ends (golang/go#27505). The locked thread forks and then waits for
// the process, so it does not end too early. The descendants of the first process do not get that signal.
// Reap ends them when the worker is back.
//
// # Containment
//
// A tree consists of all processes that an attempt has started, including daemons (setsid, double fork).
//
// With cgroup version 2, each slot has a cgroup. It is below the cgroup of this process if that one may be
// divided, and otherwise in a mount of the hierarchy that Skein makes. No controller is needed. The first
// process starts in the cgroup of its slot, and cgroup.kill ends the tree at once. One attempt after another
// uses the cgroup, until it has been killed. Then a new cgroup replaces it, because current kernels kill
// processes that start in a cgroup that was killed (see cgroups.bumps).
//
// Without cgroups, a tree is a process group and all processes whose environment contains the attempt's
// SKEIN_OUTPUT. The worker searches for such processes until it finds none. A process that leaves the group
// and clears its environment escapes. Containment returns which of the two kinds is in use.
//
// After each end, even a successful one, no process of the tree survives. Only then is the attempt reported.
//
// # Files
//
//	<data>/logs/<namespace>/<workflow>/<run>/<task>.<attempt>.log   raw bytes; missing if there was no output
//	<data>/work/<life>/<slot>/<run>.<task>.<attempt>.out            $SKEIN_OUTPUT; the task creates the file
//	<data>/work/<life>/<slot>/<run>.<task>.<attempt>.code.py        inline code
//	<data>/work/<life>/<slot>/dir/                                  the fresh working directory
//	<data>/work/<life>.cgroup                                       the path of the cgroups of that life
//
// A life is the time of one Worker, from New to Close. The path of SKEIN_OUTPUT contains the data folder, the
// life and the attempt. So it is also the mark by which Reap recognises the processes of earlier lives.
//
// The package works on Linux only (5.4 or later; 5.7 for cgroups). In a running system, a separate process
// has the Worker: the keeper (keeper.go). Other processes use it through a Link.
package worker
