//go:build linux && (amd64 || arm64)

package fence

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process must enter the fence by itself, after the fork. If a thread of this program entered the fence to
// start the process, that thread would be behind the same fence. Processes behind one fence may read each
// other's memory, and all threads of a program share their memory.
//
// Package syscall runs no code of its callers between fork and exec. So this file has a fork of its own. It
// takes the steps of syscall.StartProcess in the same order, and enters the fence before the exec. Record 104
// has its cost.
//
// Until its exec, the child runs in the memory of this process, on the stack of the thread that waits for it.
// It may not allocate memory, grow the stack or write a pointer. So a birth holds everything that the child
// needs, and the child calls only the kernel.

// supported says whether processes can be started behind a fence on this architecture.
const supported = true

// undoing are the capabilities by which a process of root gets around a fence, a bit for each. With
// CAP_PERFMON or CAP_SYS_ADMIN, Linux 6.15 and later lets a process read the environment of any other one,
// without asking Landlock. The other capabilities reach the memory of the kernel, or devices.
const undoing = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_PERFMON | 1<<unix.CAP_BPF | 1<<unix.CAP_CHECKPOINT_RESTORE |
	1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_BOOT | 1<<unix.CAP_SYSLOG | 1<<unix.CAP_MAC_ADMIN |
	1<<unix.CAP_MAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_MKNOD

// The runtime offers these functions to packages that fork by themselves. Its own comments describe them.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// vfork makes a system call that returns twice on the same stack: first in the child, and in this process
// after the exec or the end of the child.
func vfork(trap, a1, a2, a3 uintptr) (pid, errno uintptr)

// cloneArgs is struct clone_args of the kernel.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// birth is all that a child needs between fork and exec, and its answer.
type birth struct {
	path, dir *byte // dir is nil if the child stays in the folder of this process
	argv, env **byte
	files     [Given + 1]uintptr // notOpen if the child does not get the descriptor
	ruleset   uintptr
	parent    uintptr // the process id of this process
	cred      *syscall.Credential
	groups    *uint32
	death     uintptr // Pdeathsig
	setsid    bool
	inCgroup  bool
	bounds    [3]Bound
	bounded   uintptr // the number of bounds that the child sets
	clone     cloneArgs
	pidfd     int32

	header unix.CapUserHeader
	caps   [2]unix.CapUserData

	// errno is the error that prevented the exec. entering says that it came while the child entered the fence.
	errno    syscall.Errno
	entering bool
}

// StartProcess starts a program behind the fence, as syscall.StartProcess does without one. attr.Files has
// three files, or four: see Files. Of attr.Sys, it uses Setsid, Pdeathsig, Credential, UseCgroupFD and PidFD.
// The program and its children can never gain a right that the fence does not give, nor privileges by a
// program with a set-user-ID bit. They do not have the capabilities by which root gets around a fence. An
// error is an *EnterError, or the error of the kernel.
func (f *Fence) StartProcess(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	b, err := f.birth(path, argv, attr)
	if err != nil {
		return 0, err
	}
	forks.begin()
	pid, errno := b.fork()
	afterFork()
	forks.end()
	runtime.KeepAlive(b)
	if errno != 0 {
		return 0, syscall.Errno(errno)
	}
	if b.errno == 0 {
		if attr.Sys != nil && attr.Sys.PidFD != nil {
			*attr.Sys.PidFD = int(b.pidfd)
		}
		return int(pid), nil
	}
	for {
		if _, wait := syscall.Wait4(int(pid), nil, 0, nil); wait != syscall.EINTR {
			break
		}
	}
	if b.pidfd >= 0 {
		_ = unix.Close(int(b.pidfd))
	}
	if b.entering {
		return 0, &EnterError{b.errno}
	}
	return 0, b.errno
}

func (f *Fence) birth(path string, argv []string, attr *syscall.ProcAttr) (b *birth, err error) {
	sys := attr.Sys
	if sys == nil {
		sys = &syscall.SysProcAttr{}
	}
	b = &birth{files: [Given + 1]uintptr(Files(attr.Files)), ruleset: uintptr(f.ruleset), parent: uintptr(unix.Getpid()), pidfd: -1,
		cred: sys.Credential, death: uintptr(sys.Pdeathsig), setsid: sys.Setsid, inCgroup: sys.UseCgroupFD}
	if b.cred != nil && len(b.cred.Groups) > 0 {
		b.groups = &b.cred.Groups[0]
	}
	b.header.Version = unix.LINUX_CAPABILITY_VERSION_3
	files, changed, err := limitOfChildren()
	if err != nil {
		return nil, err
	}
	if b.cred != nil {
		b.bounded = uintptr(len(b.bounds))
		if b.bounds, err = boundsOf(files); err != nil {
			return nil, err
		}
	} else if changed {
		b.bounds[0], b.bounded = Bound{unix.RLIMIT_NOFILE, files}, 1
	}
	b.clone = cloneArgs{flags: unix.CLONE_VFORK | unix.CLONE_VM, exitSignal: uint64(unix.SIGCHLD)}
	if sys.PidFD != nil {
		b.clone.flags |= unix.CLONE_PIDFD
		b.clone.pidfd = uint64(uintptr(unsafe.Pointer(&b.pidfd)))
	}
	if b.inCgroup {
		b.clone.flags |= unix.CLONE_INTO_CGROUP
		b.clone.cgroup = uint64(sys.CgroupFD)
	}
	args, err := syscall.SlicePtrFromStrings(argv)
	if err != nil {
		return nil, err
	}
	env, err := syscall.SlicePtrFromStrings(attr.Env)
	if err != nil {
		return nil, err
	}
	b.argv, b.env = &args[0], &env[0]
	if attr.Dir != "" {
		if b.dir, err = syscall.BytePtrFromString(attr.Dir); err != nil {
			return nil, err
		}
	}
	b.path, err = syscall.BytePtrFromString(path)
	return b, err
}

// fork returns in this process only, after the exec or the end of the child. The caller then calls afterFork,
// outside of this stack frame, which the child has used.
//
//go:noinline
//go:norace
//go:nocheckptr
func (b *birth) fork() (pid, errno uintptr) {
	beforeFork()
	if b.inCgroup {
		pid, errno = vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&b.clone)), unsafe.Sizeof(b.clone), 0)
	} else { // some filters of system calls in containers forbid clone3
		pid, errno = vfork(unix.SYS_CLONE, uintptr(b.clone.flags|b.clone.exitSignal), 0, uintptr(unsafe.Pointer(&b.pidfd)))
	}
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	if b.setsid {
		_, _, b.errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
	afterForkInChild() // as late as this, so that the child gets no signal to the group that it leaves
	if b.errno == 0 && b.become() && b.enter() && b.open() {
		_, _, b.errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(b.path)), uintptr(unsafe.Pointer(b.argv)), uintptr(unsafe.Pointer(b.env)))
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// become gives the child its user, its working folder and the signal at the death of the thread that forked.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func (b *birth) become() bool {
	var pid uintptr
	if b.cred != nil {
		// Another user gets a session keyring of its own, while the quota of keys is still that of this user. If
		// there is none, because a filter of system calls refuses it or the quota is used up, the old one stays.
		syscall.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
		if !b.cred.NoSetGroups {
			if _, _, b.errno = syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(b.cred.Groups)), uintptr(unsafe.Pointer(b.groups)), 0); b.errno != 0 {
				return false
			}
		}
		if _, _, b.errno = syscall.RawSyscall(unix.SYS_SETGID, uintptr(b.cred.Gid), 0, 0); b.errno != 0 {
			return false
		}
		if _, _, b.errno = syscall.RawSyscall(unix.SYS_SETUID, uintptr(b.cred.Uid), 0, 0); b.errno != 0 {
			return false
		}
	}
	if b.dir != nil {
		if _, _, b.errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(b.dir)), 0, 0); b.errno != 0 {
			return false
		}
	}
	if b.death != 0 {
		if _, _, b.errno = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, b.death, 0); b.errno != 0 {
			return false
		}
		if pid, _, _ = syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); pid != b.parent { // this process ended before the signal was set
			pid, _, _ = syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
			syscall.RawSyscall(unix.SYS_KILL, pid, b.death, 0)
		}
	}
	return true
}

// enter takes from the child all rights that the fence does not give. It leaves the bounding set of
// capabilities as it is, because a change would take 16 µs. With no_new_privs, an exec gives no capability
// that the process does not have, not even to root.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func (b *birth) enter() bool {
	var c uintptr
	b.entering = true
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if _, _, b.errno = syscall.RawSyscall(unix.SYS_CAPGET, uintptr(unsafe.Pointer(&b.header)), uintptr(unsafe.Pointer(&b.caps)), 0); b.errno != 0 {
		return false
	}
	for c = 0; c < 2; c++ {
		b.caps[c].Effective &^= uint32(uint64(undoing) >> (32 * c))
		b.caps[c].Permitted &^= uint32(uint64(undoing) >> (32 * c))
		b.caps[c].Inheritable &^= uint32(uint64(undoing) >> (32 * c))
	}
	if _, _, b.errno = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&b.header)), uintptr(unsafe.Pointer(&b.caps)), 0); b.errno != 0 {
		return false
	}
	if _, _, b.errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); b.errno != 0 {
		return false
	}
	if _, _, b.errno = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, b.ruleset, 0, 0); b.errno != 0 {
		return false
	}
	b.entering = false
	return true
}

// open gives the child its files and its limits.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func (b *birth) open() bool {
	var i uintptr
	for i = 0; i <= Given; i++ { // the second loop must not overwrite a file that it still has to copy
		if b.files[i] < i {
			if b.files[i], _, b.errno = syscall.RawSyscall(unix.SYS_FCNTL, b.files[i], unix.F_DUPFD_CLOEXEC, Given+1); b.errno != 0 {
				return false
			}
		}
	}
	for i = 0; i <= Given; i++ {
		if b.files[i] == notOpen {
			continue
		}
		if b.files[i] == i {
			_, _, b.errno = syscall.RawSyscall(unix.SYS_FCNTL, i, unix.F_SETFD, 0)
		} else {
			_, _, b.errno = syscall.RawSyscall(unix.SYS_DUP3, b.files[i], i, 0)
		}
		if b.errno != 0 {
			return false
		}
	}
	for i = 0; i < b.bounded; i++ { // after the change of the user, so that no other task of the user prevents the exec
		syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, b.bounds[i].Resource, uintptr(unsafe.Pointer(&b.bounds[i].Limit)), 0, 0, 0)
	}
	return true
}

// limitOfChildren returns the limit of open files that children get. Go raises the soft limit of this process
// at its start, and gives the original limit to the children of package syscall.
func limitOfChildren() (limit unix.Rlimit, set bool, err error) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil || own.Cur != own.Max-1 {
		return own, false, nil // Go has not raised the limit, or an administrator has changed it since
	}
	limit, err = originalLimit()
	return limit, err == nil && limit != own, err
}

// originalLimit asks a child of package syscall for its limit. The child is the program of stub.go, which
// ends at once, because it gets no fence. The limits of a process can be read until its parent has waited.
var originalLimit = onceMade(func() (limit unix.Rlimit, err error) {
	program, err := stub()
	if err != nil {
		return limit, &EnterError{err}
	}
	pid, _, err := syscall.StartProcess(fmt.Sprintf("/proc/self/fd/%d", program), []string{"limit"}, &syscall.ProcAttr{Files: []uintptr{}})
	if err != nil {
		return limit, &EnterError{err}
	}
	err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit)
	for {
		if _, wait := syscall.Wait4(pid, nil, 0, nil); wait != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return limit, &EnterError{errors.Join(errors.New("read the limit of open files of a child"), err)}
	}
	return limit, nil
})

// onceMade returns a function that returns the first result of make without an error. It keeps no error,
// because the cause can pass: for example, the process may have too many open files or children now.
func onceMade[T any](make func() (T, error)) func() (T, error) {
	var mu sync.Mutex
	var made bool
	var is T
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if made {
			return is, nil
		}
		one, err := make()
		if err == nil {
			is, made = one, true
		}
		return one, err
	}
}

// forksMax bounds the forks that begin while others are under way, until all have ended.
const forksMax = 64

// forking lets forks of this package happen concurrently, while no other goroutine holds syscall.ForkLock: a
// goroutine holds that lock while it writes a file that is executed later. Package syscall does the same for
// its own forks.
type forking struct {
	mu         sync.Mutex
	ended      sync.Cond
	now, begun int // the forks under way, and those that began since there was none
}

var forks = func() *forking {
	f := &forking{}
	f.ended.L = &f.mu
	return f
}()

func (f *forking) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.now > 0 && f.begun >= forksMax {
		f.ended.Wait()
	}
	if f.now == 0 {
		syscall.ForkLock.Lock()
		f.begun = 0
	}
	f.now++
	f.begun++
}

func (f *forking) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now--; f.now == 0 {
		syscall.ForkLock.Unlock()
		f.ended.Broadcast()
	}
}
