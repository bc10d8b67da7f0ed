// Package fence keeps the processes that a thread starts away from files that are not theirs. It uses
// Landlock, which needs no privilege: a thread gives up rights, and what it starts can never have them again.
//
// A [Spec] lists what may be read and what may be changed. Everything else is refused with EACCES. Processes
// behind one fence also cannot read the memory or the environment of processes outside of it, and, from
// version 6 of the kernel's interface on, cannot signal them or reach their abstract sockets. They keep their
// user, the network, and sockets that have a path.
//
// The package is for Linux. See https://docs.kernel.org/userspace-api/landlock.html.
package fence
