//go:build linux

package worker

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of all processes of attempts that have lost their parent. So
// they do not become children of init, and leave no zombies.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// bury reaps orphans that have ended. It leaves the first process of an attempt to the goroutine of the
// attempt.
func (w *Worker) bury() {
	const atOnceMax = 10_000
	w.births.Lock() // without the lock, a first process that is not in firsts yet would look like an orphan
	defer w.births.Unlock()
	for range atOnceMax {
		pid := endedChild()
		if pid <= 0 {
			return
		}
		if _, first := w.firsts.Load(pid); first {
			return // the goroutine of the attempt reaps this process; a later call reaps other orphans
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// endedChild returns a child that has ended and was not reaped, or 0.
func endedChild() int {
	// info is the siginfo_t of a SIGCHLD: three ints, padded to the alignment of a pointer, and then the pid.
	var info [16]uint64
	_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info[0])),
		unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, 0, 0)
	if errno != 0 {
		return 0
	}
	const at = (3*4 + unsafe.Sizeof(uintptr(0)) - 1) / unsafe.Sizeof(uintptr(0)) * unsafe.Sizeof(uintptr(0))
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info[0]), at)))
}
