//go:build linux

package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boot returns the time since the machine started, including sleep. Leases are measured on this clock. It
// is the same for all processes of a machine, it cannot be set, and it continues while a process or the
// machine is frozen.
func Boot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("worker: no CLOCK_BOOTTIME: " + err.Error()) // Linux has it since 2.6.39
	}
	return time.Duration(ts.Nano())
}
