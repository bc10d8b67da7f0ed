// Package threads says how the kernel treats the threads of this process.
package threads

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Go's runtime has a thread, the monitor, that looks after the others: which of them is inside the kernel and keeps its
// place from those that could work. As long as there is something to look at, it sleeps for 20 µs between two looks, which with
// the 50 µs that Linux may add is 14,000 looks a second. A process that does a thousand small things a second, each of
// which waits for the disk or for another process, spends a sixth to a fourth of its time on them (record 048). The kernel's
// part of the sleep can be made longer from outside: looks become at most a thousand.

// calmSlack is how much later than asked the monitor may wake up. A thread inside the kernel keeps its place that long.
const calmSlack = time.Millisecond

// born is the timer slack that this process had at its beginning, in ns: package variables are set on its first thread.
var born = slackOf()

// calm is set when threads may have another slack than that: those that the monitor starts take it on.
var calm atomic.Bool

func slackOf() int {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0
	}
	return ns
}

// Calm has the monitor look less often. It is called once, at the beginning of a program that serves; timers of this process may
// then be late by a millisecond. Without the right to do so (CAP_SYS_NICE) everything stays as it is, and the error says so.
func Calm() error {
	monitor, err := second()
	if err != nil {
		return fmt.Errorf("find the monitor thread: %w", err)
	}
	calm.Store(true)
	path := "/proc/" + strconv.Itoa(monitor) + "/timerslack_ns"
	if err := os.WriteFile(path, strconv.AppendInt(nil, calmSlack.Nanoseconds(), 10), 0); err != nil {
		return fmt.Errorf("calm the monitor thread: %w", err)
	}
	return nil
}

// second is the thread that was made after the first one: the runtime makes the monitor before it makes any other.
func second() (int, error) {
	dir, err := os.Open("/proc/self/task") // lists them in the order in which they were made
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(2)
	if err != nil {
		return 0, err
	}
	if len(names) < 2 {
		return 0, fmt.Errorf("there is no second one")
	}
	return strconv.Atoi(names[1])
}

// Unchanged gives the calling thread, which is about to fork, the slack that this process was born with: the child takes it on.
// The caller is locked to its thread.
func Unchanged() {
	if calm.Load() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(born), 0, 0, 0)
	}
}
