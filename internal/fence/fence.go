//go:build linux

package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Spec lists the files that processes behind a fence may reach. Paths are absolute. A path that does not
// exist is left out.
type Spec struct {
	// System and Devices are like Read and Write, but Fresh does not check whether their files were replaced.
	System, Devices []string

	Read  []string // folders and files that may be read and executed
	Write []string // folders and files that may also be changed
	Own   []string // like Write, even if they are below a path of Shut
	Given []string // like Read, even if they are below a path of Shut
	// Nothing below a path of Shut can be reached. If a folder of Read or Write contains such a path, the folder
	// is replaced by its other entries at the time when the fence is made. New files of that folder are then out
	// of reach.
	Shut []string
}

// Equal reports whether both list the same paths in the same order.
func (s *Spec) Equal(o *Spec) bool {
	return slices.Equal(s.System, o.System) && slices.Equal(s.Devices, o.Devices) && slices.Equal(s.Read, o.Read) &&
		slices.Equal(s.Write, o.Write) && slices.Equal(s.Own, o.Own) && slices.Equal(s.Given, o.Given) && slices.Equal(s.Shut, o.Shut)
}

// Fence is a fence for the processes that StartProcess starts. It has no other state and may be used
// concurrently.
type Fence struct {
	ruleset int
	ruled   []rule // the rules for folders
	opened  []look // the folders that were replaced by their entries
	named   []face // the files at the paths that may be replaced
}

// rule gives rights to everything below a folder.
type rule struct {
	path   string
	rights uint64
}

// look is the state of a folder when its names were read.
type look struct {
	path  string
	ctime unix.Timespec
}

// face identifies the file at a path. It is zero if there was none.
type face struct {
	path     string
	dev, ino uint64
}

func faceOf(path string) face {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return face{path: path}
	}
	return face{path, st.Dev, st.Ino}
}

const (
	forRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	forMake = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	forDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	// forFiles are the rights that a rule for a single file may have.
	forFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// ABI returns the version of Landlock that the kernel has; 0 means that no process can be started behind a
// fence here.
var ABI = sync.OnceValue(func() int {
	if !supported {
		return 0
	}
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
})

// ErrNone is the error of New on a kernel without Landlock.
var ErrNone = errors.New("this machine has no Landlock: isolation needs Linux 5.13 or later on amd64 or arm64, with landlock among the security modules of the kernel")

// handled returns the rights that the kernel can refuse. A kernel of version 1 always refuses to move files
// between folders.
func handled() uint64 {
	rights := uint64(forRead | forMake | forDevices)
	if ABI() < 2 {
		rights &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if ABI() < 3 {
		rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	return rights
}

// New makes a fence. The error says which path cannot be allowed.
func New(s Spec) (*Fence, error) {
	if ABI() == 0 {
		return nil, ErrNone
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled()}
	size := unsafe.Offsetof(attr.Handled_access_net)
	if ABI() >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make a fence: %w", errno)
	}
	unix.CloseOnExec(int(fd))
	f := &Fence{ruleset: int(fd)}
	for _, paths := range [][]string{s.Read, s.Write, s.Own, s.Given} {
		for _, path := range paths {
			f.named = append(f.named, faceOf(path))
		}
	}
	shut := realPaths(s.Shut)
	err := f.allowAll(realPaths(s.System), forRead, shut)
	if err == nil {
		err = f.allowAll(realPaths(s.Devices), forRead|forMake, shut)
	}
	if err == nil {
		err = f.allowAll(realPaths(s.Read), forRead, shut)
	}
	if err == nil {
		err = f.allowAll(realPaths(s.Write), forRead|forMake, shut)
	}
	if err == nil {
		err = f.allowAll(realPaths(s.Own), forRead|forMake, nil)
	}
	if err == nil {
		err = f.allowAll(realPaths(s.Given), forRead, nil)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// realPaths follows links, so that a link cannot bypass Shut. The part of a path that does not exist is not
// changed, because a file of that name may be made later.
func realPaths(paths []string) []string {
	real := make([]string, len(paths))
	for i, path := range paths {
		if real[i] = filepath.Clean(path); path != "" {
			real[i] = realPath(real[i])
		}
	}
	return real
}

func realPath(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	above := filepath.Dir(path)
	if above == path || !filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(realPath(above), filepath.Base(path))
}

// Within reports whether path is the folder or is below it. Both paths are clean and absolute.
func Within(path, folder string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder) && path[len(folder)] == '/'
}

func (f *Fence) allowAll(paths []string, rights uint64, shut []string) error {
	for _, path := range paths {
		if err := f.allow(path, rights, shut); err != nil {
			return err
		}
	}
	return nil
}

// allow adds a path, or its content except for the parts that are shut.
func (f *Fence) allow(path string, rights uint64, shut []string) error {
	if slices.ContainsFunc(shut, func(s string) bool { return Within(path, s) }) {
		return nil
	}
	if !slices.ContainsFunc(shut, func(s string) bool { return Within(s, path) }) {
		return f.rule(path, rights)
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil // a task of the same user cannot read what this process cannot read
	}
	f.opened = append(f.opened, look{path, st.Ctim})
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 {
			continue // the link leads to a path that has a rule of its own, or that may not be reached
		}
		if err := f.allow(filepath.Join(path, entry.Name()), rights, shut); err != nil {
			return err
		}
	}
	return nil
}

// rule allows the given accesses to a file, or to a folder and everything below it. It follows no links: a
// task could put a link at the path after the path was compared with Shut. Each process that enters the fence
// copies all rules. To keep them few, a path below a folder with the same rights gets no rule.
func (f *Fence) rule(path string, rights uint64) error {
	if slices.ContainsFunc(f.ruled, func(r rule) bool { return r.rights&rights == rights && Within(path, r.path) }) {
		return nil
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil // the path does not exist, or this user cannot reach it
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil
	}
	folder := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !folder {
		rights &= forFiles
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights & handled(), Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(f.ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("the kernel refused the Landlock rule for %s: %w", path, errno)
	}
	if folder {
		f.ruled = append(f.ruled, rule{path, rights})
	}
	return nil
}

// Fresh reports whether a new fence of the same Spec would allow the same files. It returns false after a
// file was replaced by another one of the same name, as editors do.
func (f *Fence) Fresh() bool {
	for _, was := range f.named {
		if faceOf(was.path) != was {
			return false
		}
	}
	for _, l := range f.opened {
		var st unix.Stat_t
		if unix.Stat(l.path, &st) != nil || st.Ctim != l.ctime {
			return false
		}
	}
	return true
}

// EnterError says that a process could not enter its fence. Its program was not executed.
type EnterError struct{ Err error }

func (e *EnterError) Error() string { return "enter the fence: " + e.Err.Error() }

// Unwrap returns the kernel's error.
func (e *EnterError) Unwrap() error { return e.Err }

// Given is the descriptor of the file that a process may get in addition to the first three.
const Given = 5

// notOpen is a descriptor that a process does not get.
const notOpen = ^uintptr(0)

// Files returns the files of a process by descriptor: the first three of its argument, and the fourth one as
// descriptor Given. The fourth one may be missing.
func Files(of []uintptr) []uintptr {
	all := []uintptr{of[0], of[1], of[2], notOpen, notOpen, notOpen}
	if len(of) > 3 {
		all[Given] = of[3]
	}
	return all
}

// Close frees the fence. Processes that have entered it stay behind it.
func (f *Fence) Close() { _ = unix.Close(f.ruleset) }
