//go:build linux && (amd64 || arm64)

package fence

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// forbidden are the system calls that fail with EPERM: calls that reach other processes, keys, mounts,
// namespaces, modules and the clock, and calls with a history of faults in the kernel.
var forbidden = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_VHANGUP,
}

// absent are the system calls that fail with ENOSYS, so that programs use older ones. The flags of clone3 are
// in memory, which a filter cannot read.
var absent = []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// newNamespaces are the flags of clone that make namespaces. CLONE_NEWTIME is not among them, because clone
// reads its bit as part of a signal.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// filter returns the filter of system calls, as a program of classic BPF.
func filter() (f []unix.SockFilter) {
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jumpIs  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		jumpHas = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		jumpMin = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		answer  = unix.BPF_RET | unix.BPF_K
		// The offsets of struct seccomp_data, and of the low half of the first argument.
		atNumber, atArch, atFlags = 0, 4, 16
		x32                       = 0x40000000 // the numbers of another interface of amd64 begin here
		seccompErrno              = 0x00050000
		seccompAllow              = 0x7fff0000
		seccompKill               = 0x80000000
	)
	// unless appends a jump. If the condition of the jump holds, the filter answers with an error.
	unless := func(jump uint16, value, errno uint32) {
		f = append(f, unix.SockFilter{Code: jump, Jf: 1, K: value}, unix.SockFilter{Code: answer, K: seccompErrno | errno})
	}
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	f = append(f, unix.SockFilter{Code: load, K: atArch}, unix.SockFilter{Code: jumpIs, Jt: 1, K: arch}, unix.SockFilter{Code: answer, K: seccompKill},
		unix.SockFilter{Code: load, K: atNumber})
	unless(jumpMin, x32, uint32(unix.ENOSYS))
	for _, call := range absent {
		unless(jumpIs, call, uint32(unix.ENOSYS))
	}
	for _, call := range forbidden {
		unless(jumpIs, call, uint32(unix.EPERM))
	}
	f = append(f, unix.SockFilter{Code: jumpIs, Jt: 1, K: unix.SYS_CLONE}, unix.SockFilter{Code: answer, K: seccompAllow},
		unix.SockFilter{Code: load, K: atFlags})
	unless(jumpHas, newNamespaces, uint32(unix.EPERM))
	return append(f, unix.SockFilter{Code: answer, K: seccompAllow})
}
