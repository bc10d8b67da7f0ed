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

// The monitor is a thread of Go's runtime. It looks for threads that are inside the kernel, and gives their
// processors to other threads. While there is work, it sleeps for 20 µs between two looks. With the 50 µs
// that Linux may add, these are 14,000 looks a second. A process with a thousand small operations a second,
// each of which waits for the disk or for another process, spends a sixth to a fourth of its time on them
// (record 027). The part of the sleep that the kernel adds can be raised from outside, which leaves at most a
// thousand looks.

// calmSlack is the delay that the kernel may add to a sleep of the monitor. A thread inside the kernel keeps
// its processor for that long.
const calmSlack = time.Millisecond

// born is the timer slack of this process at its start, in ns. Package variables are set on the first thread.
var born = slackOf()

// calm is true once threads may have another slack than born: a thread inherits that of the monitor.
var calm atomic.Bool

func slackOf() int {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0
	}
	return ns
}

// Calm makes the monitor look less often. Call it once, at the start of a server or worker. Timers of this
// process may then be late by a millisecond. Without the right to do so (CAP_SYS_NICE), nothing changes, and
// Calm returns an error.
func Calm() error {
	monitor, err := second()
	if err != nil {
		return fmt.Errorf("find the monitor thread: %w", err)
	}
	calm.Store(true)
	path := "/proc/" + strconv.Itoa(monitor) + "/timerslack_ns"
	if err := os.WriteFile(path, strconv.AppendInt(nil, calmSlack.Nanoseconds(), 10), 0); err != nil {
		return fmt.Errorf("raise the timer slack of the monitor thread: %w", err)
	}
	return nil
}

// second returns the second thread of the process. It is the monitor, because the runtime makes it before all
// others.
func second() (int, error) {
	dir, err := os.Open("/proc/self/task") // /proc lists the threads in the order in which they were made
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(2)
	if err != nil {
		return 0, err
	}
	if len(names) < 2 {
		return 0, fmt.Errorf("there is no second thread")
	}
	return strconv.Atoi(names[1])
}

// Unchanged gives the slack born to the calling thread, which is about to fork, so that its child inherits
// it. The caller is locked to its thread.
func Unchanged() {
	if calm.Load() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(born), 0, 0, 0)
	}
}
