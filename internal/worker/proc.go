//go:build linux

package worker

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// environMax bounds how many bytes of a process's environment are read. The kernel limits arguments and
// environment together to a quarter of the stack limit, which is 2 MiB by default.
const environMax = 4 << 20

// pids returns the processes of this pid namespace except this one.
func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	self := os.Getpid()
	found := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != self {
			found = append(found, pid)
		}
	}
	return found
}

// procScan reads environments with system calls, into one buffer. A scan reads every process, and an os.File
// for each would be slow.
type procScan struct{ buf []byte }

// sight says how far a scan that found no process can be trusted.
type sight struct {
	// execs says that a process was in the middle of an exec, during which it has no environment.
	execs bool
	// vanished says that a process ended between the listing and the read. It may have forked before that.
	vanished bool
}

// emptyLooks is how often an environment must read as empty before it counts as empty.
const emptyLooks = 2

// each calls visit for every process with its group and environment. Kernel threads have no group.
func (s *procScan) each(visit func(pid, group int, env []byte)) (seen sight) {
	for _, pid := range pids() {
		group, err := unix.Getpgid(pid)
		if err != nil {
			seen.vanished = true
			continue
		}
		if group == 0 {
			continue
		}
		env, readable := s.environ(pid)
		for look := 0; readable && len(env) == 0 && look < emptyLooks; look++ {
			if midExec(pid) {
				seen.execs = true
				break
			}
			env, readable = s.environ(pid) // files of /proc that were opened before an exec read as empty after it
		}
		visit(pid, group, env)
	}
	return seen
}

// environ returns the environment block of a process as the kernel shows it: entries, each ended by a NUL.
// It is empty for zombies and during exec, and not readable for processes of other users. It is valid until
// the next call.
func (s *procScan) environ(pid int) (env []byte, readable bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	if s.buf == nil {
		s.buf = make([]byte, 32<<10)
	}
	read := 0
	for read < environMax {
		if read == len(s.buf) {
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
		n, err := unix.Read(fd, s.buf[read:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 { // the end of the file, or an error because the process has just ended
			break
		}
		read += n
	}
	return s.buf[:read], true
}

// has reports whether the environment of pid has exactly this entry.
func (s *procScan) has(pid int, entry string) bool {
	env, _ := s.environ(pid)
	return hasEntry(env, entry)
}

func hasEntry(env []byte, entry string) bool {
	if !bytes.Contains(env, []byte(entry)) { // nearly always true
		return false
	}
	found := false
	eachEntry(env, func(e []byte) bool {
		found = string(e) == entry
		return !found
	})
	return found
}

// eachEntry calls visit for each entry of an environment block until it returns false.
func eachEntry(block []byte, visit func([]byte) bool) {
	for len(block) > 0 {
		entry, rest, _ := bytes.Cut(block, []byte{0})
		if !visit(entry) {
			return
		}
		block = rest
	}
}

// zombie reports whether pid has ended and waits to be reaped, or is gone.
func zombie(pid int) bool {
	fields := stat(pid)
	return len(fields) == 0 || fields[0] == "Z" || fields[0] == "X"
}

// midExec reports whether pid has memory, but no environment yet because it is in an exec. Its environment
// then reads as empty, like one that is really empty.
func midExec(pid int) bool {
	const envEnd = 51 - 3 // index in proc_pid_stat(5), counted from the state
	fields := stat(pid)
	return len(fields) > envEnd && fields[vsize] != "0" && fields[envEnd] == "0"
}

// ending reports whether pid has released its memory and is not a zombie yet. Such a process no longer runs
// code of its program, but its files and sockets may still be open. A kernel thread has no memory either; its
// process group is 0.
func ending(pid int) bool {
	if group, err := unix.Getpgid(pid); err != nil || group == 0 {
		return false
	}
	fields := stat(pid)
	return len(fields) > vsize && fields[vsize] == "0" && fields[0] != "Z" && fields[0] != "X"
}

// anyEnding reports whether one of the processes is ending.
func anyEnding(pids map[int]bool) bool {
	for pid := range pids {
		if ending(pid) {
			return true
		}
	}
	return false
}

// vsize is the index of a process's memory size in proc_pid_stat(5), counted from the state.
const vsize = 23 - 3

// stat returns the fields of /proc/pid/stat from the state on, or none if the process is gone.
func stat(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	// The form is "pid (comm) state …", and comm may contain any character, even parentheses.
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}
