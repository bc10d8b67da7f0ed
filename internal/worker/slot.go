//go:build linux

package worker

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// slot holds a folder and a cgroup, which one attempt after another uses. Making both for each attempt would
// cost more than all other work for it: mkdir and rmdir take 60 µs on ext4, and 17 µs for a cgroup. Checking
// that both are unchanged takes 5 µs, so a slot keeps them while they are unchanged.
type slot struct {
	index   int
	trees   int // number of trees dropped so far; part of the next tree's name
	folders int // number of folders dropped so far; part of the next folder's name
	// tree is nil if there is none. Invariant: when the end of an attempt is reported, its tree is empty.
	tree   tree
	folder string    // "" if there is none; otherwise the folder exists and is clean
	wake   int       // eventfd, written by Stop; -1 if there is none
	looks  looks     // state of the folders when they were last cleaned
	since  time.Time // time at which that state was read; zero if it was not yet
	still  bool      // the attempt has left the folders unchanged, see settled
	fences fences    // the fences of the last attempts
	owner  uint32    // user to whom the folder belongs; 0 is the worker's user
}

// face identifies a folder and its last change. Creating, removing or renaming an entry changes ctime, which
// only the kernel writes.
type face struct {
	dev, inode   uint64
	mode         uint32
	mtime, ctime unix.Timespec
}

func faceOf(dir string) (f face, ok bool) {
	var st unix.Stat_t
	if unix.Lstat(dir, &st) != nil {
		return face{}, false
	}
	return face{uint64(st.Dev), st.Ino, st.Mode, st.Mtim, st.Ctim}, true
}

// The longest time between two changes of a folder that can have the same ctime. There are two values: for
// file systems whose ctime has whole seconds, and for those whose ctime has parts of a second, which are
// ticks of the kernel.
const (
	clockGrain     = 2 * time.Second
	clockGrainFine = 50 * time.Millisecond
)

// grain returns the time within which two changes of the slot's folders may have the same ctime.
func (s *slot) grain() time.Duration {
	for _, f := range s.looks {
		if f.ctime.Nsec == 0 {
			return clockGrain
		}
	}
	return clockGrainFine
}

// looks is the state of the folder of a slot and of the two folders in it.
type looks [3]face

func (s *slot) look() (l looks, ok bool) {
	for i, dir := range [len(l)]string{s.folder, s.dir(), s.tmp()} {
		if l[i], ok = faceOf(dir); !ok {
			return l, false
		}
	}
	return l, true
}

// settled reports whether the attempt that got the slot at the time got has left the slot's folders
// unchanged. It compares the results of stat. It can be sure only if the folders had been clean for long
// enough before the attempt, because otherwise a change may not alter the times. Most attempts leave no
// files, and then this check takes two system calls instead of a dozen.
func (s *slot) settled(got time.Time) bool {
	if s.since.IsZero() || got.Sub(s.since) <= s.grain() {
		return false
	}
	now, ok := s.look()
	return ok && s.looks == now
}

// remember notes the state of the clean folders.
func (s *slot) remember() {
	switch now, ok := s.look(); {
	case !ok:
		s.since = time.Time{}
	case s.since.IsZero() || s.looks != now:
		s.looks, s.since = now, time.Now()
	}
}

// The folders in a slot's folder that are empty when an attempt starts: the working directory of an attempt
// that names none, and the temporary folder of an isolated attempt.
const (
	freshDir = "dir"
	tmpDir   = "tmp"
)

func (s *slot) dir() string { return s.folder + "/" + freshDir }

func (s *slot) tmp() string { return s.folder + "/" + tmpDir }

// open creates the missing parts of the slot.
func (s *slot) open(w *Worker) error {
	if s.tree == nil {
		t, err := w.contain.tree(s.name(s.trees))
		if err != nil {
			return err
		}
		s.tree = t
	}
	if s.folder == "" {
		folder := filepath.Join(w.lifeDir, s.name(s.folders))
		for _, name := range [...]string{freshDir, tmpDir} {
			if err := os.MkdirAll(folder+"/"+name, 0o700); err != nil {
				return fmt.Errorf("make the attempt's folder: %w", err)
			}
		}
		s.folder = folder
	}
	return nil
}

func (s *slot) name(dropped int) string {
	if dropped == 0 {
		return strconv.Itoa(s.index)
	}
	return strconv.Itoa(s.index) + "-" + strconv.Itoa(dropped)
}

// dropTree abandons a tree that is spent, or in which a process does not die.
func (s *slot) dropTree() {
	s.tree.close()
	s.tree = nil
	s.trees++
}

// dropFolder abandons a folder that cannot be cleaned.
func (s *slot) dropFolder() {
	s.folder, s.since, s.still, s.owner = "", time.Time{}, false, 0
	s.fences.close()
	s.folders++
}

// clean empties the folder. It is called when no process of the tree runs any more.
func (s *slot) clean() error {
	if s.still {
		s.still = false
		return nil
	}
	if names, ok := peek(s.folder); !ok || len(names) != 2 || !fresh(names[0]) || !fresh(names[1]) {
		if err := s.sweep(ok); err != nil {
			return err
		}
	}
	for _, dir := range [...]string{s.dir(), s.tmp()} {
		if names, ok := peek(dir); ok && len(names) == 0 {
			continue
		}
		if err := removeAll(dir); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	s.remember()
	return nil
}

// own gives the folder and its files to the user of an attempt and its group, before the attempt starts. uid
// 0 is the worker's user. Links are not followed.
func (s *slot) own(uid, gid uint32) error {
	if uid == 0 && s.owner == 0 {
		return nil
	}
	s.owner = uid
	to := uid
	if uid == 0 {
		to = uint32(os.Geteuid())
		gid = to
	}
	return filepath.WalkDir(s.folder, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err != nil || st.Uid == to && st.Gid == gid {
			return err
		}
		return unix.Lchown(path, int(to), int(gid))
	})
}

// sweep removes all entries of the folder except the fresh directory. If another folder is in its place,
// sweep removes that folder as a whole.
func (s *slot) sweep(ours bool) error {
	if !ours {
		if err := removeAll(s.folder); err != nil {
			return err
		}
		return os.MkdirAll(s.folder, 0o700)
	}
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if fresh(entry.Name()) && entry.IsDir() {
			continue
		}
		if err := removeAll(filepath.Join(s.folder, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func fresh(name string) bool { return name == freshDir || name == tmpDir }

// peek returns the first names in dir. ok is false if dir is not a folder as this program creates it.
func peek(dir string) (names []string, ok bool) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode != unix.S_IFDIR|0o700 {
		return nil, false
	}
	// An empty folder still lists "." and "..", which may come in a separate batch.
	var buf [2048]byte
	for len(names) == 0 {
		n, err := unix.ReadDirent(fd, buf[:])
		if err != nil {
			return nil, false
		}
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	return names, true
}

// removeAll is like os.RemoveAll, but also removes folders without write permission, such as those of module
// caches. It never follows links.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && err == nil {
			_ = os.Chmod(p, 0o700) // WalkDir calls this before it reads the folder
		}
		return nil
	})
	return os.RemoveAll(path)
}

// unpack writes a version's files below dir.
func unpack(dir string, source FileSource) error {
	files, err := source()
	if err != nil {
		return fmt.Errorf("get the workflow's files: %w", err)
	}
	if len(files) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range files {
		if !filepath.IsLocal(file.Name) {
			return fmt.Errorf("file name %q leads outside", file.Name)
		}
		if parent := filepath.Dir(file.Name); parent != "." {
			if err := root.MkdirAll(parent, 0o700); err != nil {
				return err
			}
		}
		mode := fs.FileMode(0o600)
		if file.Mode&0o111 != 0 {
			mode = 0o700
		}
		if err := writeNew(root, file.Name, mode, file.Content); err != nil {
			return err
		}
	}
	return nil
}

// writeNew writes a file that may be executed soon. No fork may happen while the file is open for writing.
// Otherwise the child would keep the file open until its exec, and executing the file would fail with ETXTBSY
// (golang/go#22315).
func writeNew(root *os.Root, name string, mode fs.FileMode, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// arm makes the eventfd with which Stop wakes the attempt, before any other goroutine can see the attempt.
func (s *slot) arm() error {
	if s.wake >= 0 {
		return nil
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	s.wake = fd
	return nil
}

// awaken ends the poll of the slot's attempt. If that attempt has ended meanwhile, the next attempt wakes up
// without a reason, which does no harm.
func (s *slot) awaken() {
	one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // any number except 0, in any byte order
	_, _ = unix.Write(s.wake, one[:])
}

// slumber consumes the wake-ups so far.
func (s *slot) slumber() {
	var sum [8]byte
	_, _ = unix.Read(s.wake, sum[:])
}

// close releases the resources of an idle slot, except its folder.
func (s *slot) close() {
	if s.tree != nil {
		s.tree.close()
	}
	s.fences.close()
	_ = unix.Close(s.wake)
}
