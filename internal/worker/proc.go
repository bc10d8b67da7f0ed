package worker

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// environMax bounds what is read of one process's environment, in bytes. The kernel's own bound for
// arguments and environment is a quarter of the stack limit, 2 MiB by default.
const environMax = 4 << 20

// pids are the processes of this pid namespace, without this one.
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

// procScan reads environments, reusing one buffer. A scan looks at every process, so it goes without os.File.
type procScan struct{ buf []byte }

// environ is the environment block of pid as the kernel shows it: entries, each ended by a NUL. Empty
// for zombies, kernel threads and processes of other users. Valid until the next call.
func (s *procScan) environ(pid int) []byte {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
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
		if n <= 0 { // the end; or an error, because the process just ended
			break
		}
		read += n
	}
	return s.buf[:read]
}

// has tells whether the environment of pid has exactly this entry.
func (s *procScan) has(pid int, entry string) bool {
	found := false
	block := s.environ(pid)
	if !bytes.Contains(block, []byte(entry)) { // nearly always
		return false
	}
	eachEntry(block, func(e []byte) bool {
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

// zombie tells whether pid has ended and waits to be reaped by its parent (or is gone).
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	// "pid (comm) state …": comm may contain anything, also parentheses.
	_, after, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	return ok && (strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X"))
}
