//go:build linux

package box

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/fence"
)

// site is the folder on which the root of the box is built. It exists on each machine.
const site = "/proc"

// bind is a file or folder of the machine that is in the box.
type bind struct {
	path  string // without links
	from  int    // descriptor of the file or folder; -1 if there is none
	write bool
	mask  bool // an empty folder hides a protected one
	tree  int  // descriptor of its mount
}

// ownPaths are the folders that each box has for itself.
var ownPaths = []string{"/proc", "/dev/pts", "/dev/ptmx", "/dev/shm", "/tmp", "/var/tmp"}

// furnish builds the root of the box and enters it. Other tasks of the user may change their folders
// meanwhile, and replace folders by links. So the init, which is root, opens each path with the rights of the
// user, and follows no link in the folders that it mounts.
func (s *Spec) furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach the mounts of the machine: %w", err)
	}
	binds, links, err := s.binds()
	if err != nil {
		return err
	}
	tmp := bind{path: "/tmp", write: true, from: -1}
	if tmp.from, err = unix.Open(s.Tmp, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open %s: %w", s.Tmp, err)
	}
	binds = append([]bind{tmp}, binds...)
	for i := range binds { // the mounts are taken before the root of the box hides the machine's folders
		if err := binds[i].take(); err != nil {
			return err
		}
	}
	if err := unix.Mount("skein", site, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("make the root of the box: %w", err)
	}
	root, err := os.OpenRoot(site)
	if err != nil {
		return err
	}
	linkAll(root, links) // before the mounts, so that no link is made in a folder of the machine
	for i := range binds {
		if err := binds[i].put(root, binds[:i]); err != nil {
			return err
		}
	}
	if err := errors.Join(special(), root.Close()); err != nil {
		return err
	}
	return s.enter()
}

// binds returns the mounts of the box, parents first, and the links to them.
func (s *Spec) binds() (binds []bind, links map[string]string, err error) {
	links = map[string]string{}
	add := func(paths []string, write bool) {
		for _, path := range paths {
			fd, real, err := open(path)
			if err != nil {
				continue // the path does not exist, or the user may not reach it
			}
			i := slices.IndexFunc(binds, func(b bind) bool { return b.path == real })
			own := slices.Contains(ownPaths, real) || fence.Within(real, "/proc")
			if path = filepath.Clean(path); path != real && real != "/" {
				links[path] = real
			}
			if own || real == "/" || i >= 0 {
				_ = unix.Close(fd)
				if i >= 0 {
					binds[i].write = binds[i].write || write
				}
				continue
			}
			binds = append(binds, bind{path: real, from: fd, write: write, tree: -1})
		}
	}
	if err := asUser(s.UID, s.GID, func() {
		add(s.Fence.System, false)
		add(s.Fence.Read, false)
		add(s.Fence.Devices, true)
		add(s.Fence.Write, true)
	}); err != nil {
		return nil, nil, err
	}
	// The user needs no right for the folders above the paths of Given. No task can replace these folders, or put
	// links there.
	add(s.Fence.Given, false)
	add(s.Fence.Own, true)
	for _, path := range s.Fence.Shut {
		real, err := filepath.EvalSymlinks(path)
		if info, err2 := os.Stat(real); err != nil || err2 != nil || !info.IsDir() {
			continue // a single file is protected by the fence only
		}
		if slices.ContainsFunc(binds, func(b bind) bool { return !b.mask && b.path != real && fence.Within(real, b.path) }) {
			binds = append(binds, bind{path: real, from: -1, mask: true})
		}
	}
	sort.SliceStable(binds, func(i, j int) bool { return len(binds[i].path) < len(binds[j].path) })
	all := slices.Clone(binds)
	return slices.DeleteFunc(all, func(b bind) bool { // a folder above has the same rights
		above := slices.IndexFunc(binds, func(up bind) bool { return up.path != b.path && fence.Within(b.path, up.path) })
		spare := !b.mask && above >= 0 && !b.write && !binds[above].write && !binds[above].mask && !slices.ContainsFunc(binds, func(m bind) bool {
			return m.mask && fence.Within(b.path, m.path)
		})
		if spare {
			_ = unix.Close(b.from)
		}
		return spare
	}), links, nil
}

// open returns a descriptor of a path, and the path without links. Both are of the same file, even if a task
// replaces the path at this moment.
func open(path string) (fd int, real string, err error) {
	if !filepath.IsAbs(path) {
		return -1, "", fs.ErrInvalid
	}
	if fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return -1, "", err
	}
	real, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err == nil && !filepath.IsAbs(real) {
		err = fs.ErrInvalid
	}
	if err != nil {
		return -1, "", errors.Join(err, unix.Close(fd))
	}
	return fd, real, nil
}

// asUser calls the function do with the rights of a user to files. The caller has locked its thread.
func asUser(uid, gid uint32, do func()) (err error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := errors.Join(unix.Setgroups(nil), unix.Capget(&head, &caps[0])); err != nil {
		return fmt.Errorf("open the files of the box as its user: %w", err)
	}
	less := caps
	less[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	err = errors.Join(unix.Setfsgid(int(gid)), unix.Setfsuid(int(uid)), unix.Capset(&head, &less[0]))
	if now, _ := unix.SetfsuidRetUid(-1); err == nil && now != int(uid) { // the kernel reports no failure
		err = unix.EPERM
	}
	if err == nil {
		do()
	}
	// The kernel forgets the signal of the parent's death. A keeper that dies before the signal is set again does
	// not read the answer of the init, which ends then.
	err = errors.Join(err, unix.Setfsuid(os.Geteuid()), unix.Setfsgid(os.Getegid()), unix.Capset(&head, &caps[0]),
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
	if err != nil {
		return fmt.Errorf("open the files of the box as its user: %w", err)
	}
	return nil
}

// take makes a mount of a file or folder of the machine.
func (b *bind) take() error {
	if b.mask {
		return nil
	}
	fd, err := unix.OpenTree(b.from, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err = errors.Join(err, unix.Close(b.from)); err != nil {
		return fmt.Errorf("take %s into the box: %w", b.path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if !fence.Within(b.path, "/dev") {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if !b.write {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("restrict %s in the box: %w", b.path, errors.Join(err, unix.Close(fd)))
	}
	b.tree = fd
	return nil
}

// put moves the mount to its place in the box. before holds the mounts that were put before this one.
func (b *bind) put(root *os.Root, before []bind) (err error) {
	folder := true
	if !b.mask {
		var st unix.Stat_t
		if err := unix.Fstat(b.tree, &st); err != nil {
			return err
		}
		folder = st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	made := true // the place is in a folder that the init has made, or in /tmp, which is empty
	for _, up := range before {
		if fence.Within(b.path, up.path) {
			made = up.mask || up.path == "/tmp"
		}
	}
	if made {
		if err := spot(root, b.path[1:], folder); err != nil {
			return fmt.Errorf("put %s into the box: %w", b.path, err)
		}
	}
	to, err := place(root, b.path[1:])
	if err != nil {
		return fmt.Errorf("put %s into the box: %w", b.path, err)
	}
	defer unix.Close(to)
	if b.mask {
		if err := hide(to); err != nil {
			return fmt.Errorf("hide %s from the box: %w", b.path, err)
		}
		return nil
	}
	if err := unix.MoveMount(b.tree, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("put %s into the box: %w", b.path, err)
	}
	return unix.Close(b.tree)
}

// linkAll makes the links of the box, those above others first. A link that cannot be made leads through
// another one.
func linkAll(root *os.Root, links map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(links)) {
		if root.MkdirAll(filepath.Dir(path)[1:], 0o755) == nil || filepath.Dir(path) == "/" {
			_ = root.Symlink(links[path], path[1:])
		}
	}
}

// spot makes a folder or a file on which something is mounted, unless it exists.
func spot(root *os.Root, path string, folder bool) error {
	if folder {
		return root.MkdirAll(path, 0o755)
	}
	if _, err := root.Lstat(path); err == nil {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// place opens a mount point. It follows no link: a task could have put one there.
func place(root *os.Root, path string) (fd int, err error) {
	dir, err := root.Open(".")
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	return unix.Openat2(int(dir.Fd()), path, &how)
}

// hide mounts an empty folder on an open one.
func hide(folder int) error {
	if err := unix.Fchdir(folder); err != nil {
		return err
	}
	return errors.Join(unix.Mount("skein", ".", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k"), unix.Chdir("/"))
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
func (s *Spec) enter() error {
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
	if err := os.MkdirAll(s.Dir, 0o755); err != nil { // a folder that the fence does not give, such as a home folder, is empty
		return fmt.Errorf("make the working directory in the box: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr); err != nil {
		return fmt.Errorf("make the root of the box read-only: %w", err)
	}
	return nil
}
