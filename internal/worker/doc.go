// Package worker runs attempts: it turns a Job into a real process tree, keeps its log, enforces its
// timeout, ends the whole tree whatever it does, reads its outputs and reports one Result.
//
// # Shape
//
// A Worker has a fixed number of slots. A slot owns everything that is worth reusing between attempts:
// a folder, a control group and an eventfd. Start books a slot and gives it one goroutine; that goroutine
// does everything for the attempt, in order: prepare, fork, poll, end the tree, take the outputs, clean,
// give the slot back, report. The poll waits on three descriptors (the exit, the log pipe, the wake-up
// that Stop writes to), its time limit is the next deadline. So an attempt needs no lock and no second
// goroutine, and the order of things that happen at the same instant is decided in one place.
//
// The goroutine is locked to its thread from the fork to the end. PR_SET_PDEATHSIG, which kills the direct
// child when the node dies, fires when the forking *thread* ends (golang/go#27505); the thread that forked
// is the thread that waits, so it outlives the child. Processes further down do not get that signal; Reap
// ends them when the node is back.
//
// # Containment
//
// A tree is what an attempt started, daemons included (setsid, double fork). With cgroup v2 (the node's
// own cgroup if it may be divided, otherwise an own mount of the hierarchy, no controllers needed) each
// slot has a cgroup, children are born in it, and cgroup.kill ends it at once. Without, a tree is a process
// group plus every process whose environment holds the attempt's SKEIN_OUTPUT, searched until none is left;
// a process that leaves the group and wipes its environment escapes. Containment tells which one is in use.
// A cgroup is used by one attempt after another until it has been killed; then it is replaced, because
// current kernels kill what is born into such a one (see cgroups.bumps).
//
// After every end, also success, nothing of the tree survives, and only then is the attempt reported.
//
// # Files
//
//	<data>/logs/<namespace>/<workflow>/<run>/<task>.<attempt>.log   raw bytes; no file = nothing written
//	<data>/work/<life>/<slot>/<run>.<task>.<attempt>.out            $SKEIN_OUTPUT, not created beforehand
//	<data>/work/<life>/<slot>/<run>.<task>.<attempt>.code.py        inline code
//	<data>/work/<life>/<slot>/dir/                                  the fresh working directory
//	<data>/work/<life>.cgroup                                       where that life's control groups are
//
// A life is one Worker from New to Close. The path of SKEIN_OUTPUT names data folder, life and attempt, so
// it is also the mark by which Reap knows the processes of earlier lives.
//
// The package is Linux only (5.4 or later; 5.7 for cgroups). What is behind Start, Stop and Report is held by
// a keeper, a process of its own (keeper.go), to which a Link is the way.
package worker
