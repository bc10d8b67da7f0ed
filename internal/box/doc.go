// Package box runs a program in namespaces of its own: it sees its own processes, its own /tmp and /proc, and
// only the files of its fence, of which it can change only some. Its system calls are filtered.
//
// A box has an init, which is this program under the name "box" (see Main). Start starts it as root in new
// namespaces for processes, mounts and IPC, and for the network if that is closed. The init builds the root
// of the box from mounts of the machine's folders, and starts the task in a user namespace that knows one
// user ID. It reaps processes that lost their parent. When the task ends, the init reports how, and ends.
// When the init ends for any reason, the kernel kills all processes of the box.
//
// The package is for Linux, and for root. Package fence adds Landlock, no_new_privs and the filter.
package box

// Name is the first argument of the init. A program that uses the package calls Main for this argument.
const Name = "box"
