// Package fence restricts the files that a process and its children may reach. It uses Landlock, which needs
// no privilege: a thread gives up rights, and the processes that it starts can never get them back.
//
// A [Spec] lists the files that may be read and the files that may be changed. Every other access fails with
// EACCES. Processes behind a fence also cannot read the memory or the environment of processes outside of it.
// From version 6 of the kernel's interface on, they cannot signal those processes or reach their abstract
// sockets either. They keep their user, the network, and sockets that have a path.
//
// The package is for Linux. See https://docs.kernel.org/userspace-api/landlock.html.
package fence
