//go:build linux && (amd64 || arm64)

package fence

import (
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// openFilesMax bounds the open files of each process of a task that has a user of its own.
const openFilesMax = 1 << 16

// Bound is a limit of a process (ulimit).
type Bound struct {
	Resource uintptr
	Limit    unix.Rlimit
}

// boundsOf returns the limits of a task that has a user of its own, given the limit of open files that it
// would have otherwise. No limit is higher than that of this process. A core dump could show secrets to a
// later reader of the folder, so there is none.
func boundsOf(files unix.Rlimit) ([3]Bound, error) {
	var processes unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &processes); err != nil {
		return [3]Bound{}, err
	}
	return [3]Bound{
		{unix.RLIMIT_NOFILE, atMost(files, openFilesMax)},
		{unix.RLIMIT_NPROC, atMost(processes, processesMax())},
		{unix.RLIMIT_CORE, unix.Rlimit{}},
	}, nil
}

func atMost(limit unix.Rlimit, most uint64) unix.Rlimit {
	return unix.Rlimit{Cur: min(limit.Cur, most), Max: min(limit.Max, most)}
}

// processesMax returns half of the processes and threads that the machine can have, so that the tasks of one
// user leave the other half to the others. The kernel counts all processes of the user together.
var processesMax = sync.OnceValue(func() uint64 {
	most := uint64(math.MaxUint64)
	for _, name := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile("/proc/sys/kernel/" + name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			most = min(most, n/2)
		}
	}
	return most
})

// Bounds returns the limits of a task that has a user of its own.
func Bounds() ([3]Bound, error) {
	files, _, err := limitOfChildren()
	if err != nil {
		return [3]Bound{}, err
	}
	return boundsOf(files)
}
