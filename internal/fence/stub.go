//go:build linux && (amd64 || arm64)

package fence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The task of a box does not enter its fence as in fork.go. Its child first executes a program of 400 bytes.
// That program enters the fence, and then executes the task's program. The way of fork.go is not possible: a
// child in a new user namespace has memory of its own, so its answer would not reach this process.
//
// The code of the program is in stub_*.s. Its file is in memory only. The program gets:
//
//	argv[0]        the path of the task's program; argv[1] and on are that program's argv
//	descriptor 3   the fence
//	descriptor 4   a pipe, which is closed when the task's program begins; an error comes as 4 bytes

// enterFailed marks an error that came before the task's program was executed.
const enterFailed = 0x10000

// codeStart and codeEnd return the addresses of the code.
func codeStart() unsafe.Pointer
func codeEnd() unsafe.Pointer

// The parts of the file: both headers, the sock_fprog of the filter of system calls, the code, the filter.
const (
	base       = 0x400000 // the address at which the program is loaded
	headerSize = 64
	entrySize  = 56
	filterAt   = base + headerSize + entrySize
	fprogSize  = 16
)

// stub returns a descriptor of the program.
var stub = onceMade(func() (int, error) { return newStub(filter()) })

// newStub makes the program as an ELF file in memory.
func newStub(with []unix.SockFilter) (int, error) {
	start := codeStart()
	code := unsafe.Slice((*byte)(start), uintptr(codeEnd())-uintptr(start))
	code = append(slices.Clip(code), make([]byte, -len(code)&7)...)
	size := uint64(headerSize + entrySize + fprogSize + len(code) + 8*len(with))
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01")
	b.Write(make([]byte, 9))
	write := func(fields ...any) {
		for _, f := range fields {
			_ = binary.Write(&b, binary.LittleEndian, f)
		}
	}
	machine := uint16(62) // EM_X86_64
	if runtime.GOARCH == "arm64" {
		machine = 183 // EM_AARCH64
	}
	// The header: an executable (2) whose code begins behind both headers and the sock_fprog.
	write(uint16(2), machine, uint32(1), uint64(filterAt+fprogSize), uint64(headerSize), uint64(0), uint32(0),
		uint16(headerSize), uint16(entrySize), uint16(1), uint16(0), uint16(0), uint16(0))
	// Its one segment is the whole file (PT_LOAD), readable and executable.
	write(uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x10000))
	write(uint64(len(with)), uint64(filterAt+fprogSize+len(code)))
	b.Write(code)
	write(with)
	fd, err := unix.MemfdCreate("skein-fence", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("make the program that enters a fence: %w", err)
	}
	if n, err := unix.Write(fd, b.Bytes()); err != nil || n != b.Len() {
		return -1, fmt.Errorf("write the program that enters a fence: %w", errors.Join(err, unix.Close(fd)))
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return -1, fmt.Errorf("seal the program that enters a fence: %w", errors.Join(err, unix.Close(fd)))
	}
	return fd, nil
}

// StartFiltered is like StartProcess, with a filter of system calls: see filter. It uses all of attr.Sys.
func (f *Fence) StartFiltered(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	program, err := stub()
	if err != nil {
		return 0, &EnterError{err}
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	with := *attr
	with.Files = Files(attr.Files)
	with.Files[3], with.Files[4] = uintptr(f.ruleset), uintptr(ends[1])
	pid, _, err := syscall.StartProcess(fmt.Sprintf("/proc/self/fd/%d", program), append([]string{path}, argv...), &with)
	_ = unix.Close(ends[1])
	defer unix.Close(ends[0])
	if err != nil {
		return 0, &EnterError{err}
	}
	if err := started(ends[0]); err != nil {
		for {
			if _, wait := syscall.Wait4(pid, nil, 0, nil); wait != syscall.EINTR {
				break
			}
		}
		return 0, err
	}
	return pid, nil
}

// started waits until the task's program begins. If it does not begin, started returns the error.
func started(pipe int) error {
	var text [4]byte
	for {
		switch n, err := unix.Read(pipe, text[:]); {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return nil
		default:
			code := binary.NativeEndian.Uint32(text[:])
			if code&enterFailed != 0 {
				return &EnterError{syscall.Errno(code &^ enterFailed)}
			}
			return syscall.Errno(code)
		}
	}
}
