//go:build linux

package box

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/fence"
)

// site is where the root of the box is built. The folder exists on each machine.
const site = "/proc"

// bind is a file or folder of the machine that is in the box.
type bind struct {
	path  string // without links
	write bool
	mask  bool // an empty folder hides a protected one
	tree  int  // descriptor of its mount
}

// ownPaths are folders of which each box has its own.
var ownPaths = []string{"/proc", "/dev/pts", "/dev/ptmx", "/dev/shm", "/tmp", "/var/tmp"}

// furnish builds the root of the box and enters it.
func (s *Spec) furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach the mounts of the machine: %w", err)
	}
	binds, links := s.binds()
	for i := range binds { // the mounts are taken before the root of the box hides the machine's folders
		if binds[i].mask {
			continue
		}
		if err := binds[i].take(binds[i].path); err != nil {
			return err
		}
	}
	tmp := bind{path: "/tmp", write: true}
	if err := tmp.take(s.Tmp); err != nil {
		return err
	}
	if err := unix.Mount("skein", site, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("make the root of the box: %w", err)
	}
	for _, b := range append([]bind{tmp}, binds...) {
		if err := b.put(); err != nil {
			return err
		}
	}
	for path, to := range links {
		if at := site + path; os.MkdirAll(filepath.Dir(at), 0o755) == nil {
			_ = os.Symlink(to, at) // it may exist in a mounted folder
		}
	}
	if err := special(); err != nil {
		return err
	}
	if err := os.MkdirAll(site+s.Dir, 0o755); err != nil {
		return fmt.Errorf("make the working directory in the box: %w", err)
	}
	return enter()
}

// binds returns the mounts of the box, parents first, and the links to them.
func (s *Spec) binds() (binds []bind, links map[string]string) {
	links = map[string]string{}
	add := func(paths []string, write bool) {
		for _, path := range paths {
			real, err := filepath.EvalSymlinks(path)
			if err != nil || !filepath.IsAbs(real) || real == "/" {
				continue // the path does not exist
			}
			if path = filepath.Clean(path); path != real {
				links[path] = real
			}
			if slices.Contains(ownPaths, real) || fence.Within(real, "/proc") {
				continue
			}
			if i := slices.IndexFunc(binds, func(b bind) bool { return b.path == real }); i >= 0 {
				binds[i].write = binds[i].write || write
				continue
			}
			binds = append(binds, bind{path: real, write: write, tree: -1})
		}
	}
	add(s.Fence.System, false)
	add(s.Fence.Read, false)
	add(s.Fence.Given, false)
	add(s.Fence.Devices, true)
	add(s.Fence.Write, true)
	add(s.Fence.Own, true)
	for _, path := range s.Fence.Shut {
		real, err := filepath.EvalSymlinks(path)
		if info, err2 := os.Stat(real); err != nil || err2 != nil || !info.IsDir() {
			continue // a single file is protected by the fence only
		}
		if slices.ContainsFunc(binds, func(b bind) bool { return !b.mask && b.path != real && fence.Within(real, b.path) }) {
			binds = append(binds, bind{path: real, mask: true})
		}
	}
	slices.SortStableFunc(binds, func(a, b bind) int { return len(a.path) - len(b.path) })
	all := slices.Clone(binds)
	return slices.DeleteFunc(all, func(b bind) bool { // a folder above has the same rights
		above := slices.IndexFunc(binds, func(up bind) bool { return up.path != b.path && fence.Within(b.path, up.path) })
		return !b.mask && above >= 0 && !b.write && !binds[above].write && !binds[above].mask && !slices.ContainsFunc(binds, func(m bind) bool {
			return m.mask && fence.Within(b.path, m.path)
		})
	}), links
}

// take makes a mount of a file or folder of the machine.
func (b *bind) take(from string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("take %s into the box: %w", from, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if !fence.Within(from, "/dev") {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if !b.write {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("restrict %s in the box: %w", from, errors.Join(err, unix.Close(fd)))
	}
	b.tree = fd
	return nil
}

// put moves the mount to its place in the box.
func (b *bind) put() error {
	to := site + b.path
	if b.mask {
		if err := unix.Mount("skein", to, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k"); err != nil {
			return fmt.Errorf("hide %s from the box: %w", b.path, err)
		}
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(b.tree, &st); err != nil {
		return err
	}
	if err := spot(to, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return fmt.Errorf("put %s into the box: %w", b.path, err)
	}
	if err := unix.MoveMount(b.tree, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("put %s into the box: %w", b.path, err)
	}
	return unix.Close(b.tree)
}

// spot makes a folder or a file on which something is mounted, unless it exists.
func spot(path string, folder bool) error {
	if folder {
		return os.MkdirAll(path, 0o755)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// special makes /dev and the mount point of /proc, and /var/tmp.
func special() error {
	for _, path := range []string{"/dev/pts", "/dev/shm", "/proc", "/run", "/var"} {
		if err := os.MkdirAll(site+path, 0o755); err != nil {
			return err
		}
	}
	for path, to := range map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1",
		"/dev/stderr": "/proc/self/fd/2", "/dev/ptmx": "pts/ptmx", "/var/tmp": "/tmp"} {
		if err := os.Symlink(to, site+path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := unix.Mount("devpts", site+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return fmt.Errorf("make the terminals of the box: %w", err)
	}
	if err := unix.Mount("skein", site+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("make the shared memory of the box: %w", err)
	}
	return nil
}

// enter makes the built root the root of this process, and mounts /proc with the processes of the box.
func enter() error {
	if err := unix.Chdir(site); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("enter the root of the box (a machine whose root is an initramfs cannot): %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the root of the machine: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc in the box: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr); err != nil {
		return fmt.Errorf("make the root of the box read-only: %w", err)
	}
	return nil
}
