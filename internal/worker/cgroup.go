//go:build linux

package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/mounts"
)

// cgroupMount is the mount point of the cgroup hierarchy if no existing mount may be divided. The mount
// stays, and all instances of Skein share it. Every mount of cgroup2 shows the same hierarchy.
const cgroupMount = "/run/skein/cgroup"

// cgroups holds each tree in a cgroup <parent>/skein/<data folder>/<life>/<tree>. No controller is needed.
type cgroups struct {
	life string // the folder of this process
	how  string
	// bumps is the number of times that this process's own cgroup was killed before this process entered it.
	// New cgroups must get the same number.
	//
	// Kernels from 6.14 (seen on 6.18) count the kills of a cgroup. To find forks during which a kill came,
	// they compare two counts: that of the parent's cgroup at the beginning of the fork, and that of the
	// child's cgroup at its end. With CLONE_INTO_CGROUP these are two different cgroups. If their counts
	// differ, the child dies at once. For the same reason a tree cannot be used again after a kill.
	bumps int
	// unlimited says why cpu and memory of the trees cannot be limited. It is nil if they can.
	unlimited error
	// old holds the trees if the controllers belong to version 1, and is nil otherwise.
	old *legacy
}

// openCgroups finds a cgroup2 folder in which this process may create cgroups and start processes.
func openCgroups(dataDir, life string) (*cgroups, error) {
	sub := filepath.Join("skein", dataID(dataDir), life)
	parents, err := cgroupParents()
	if err != nil {
		return nil, err
	}
	var reasons []error
	for _, parent := range parents {
		c := &cgroups{life: filepath.Join(parent, sub), how: "in " + parent}
		if err := c.probe(); err == nil {
			c.divide(parent, dataDir, life)
			return c, nil
		} else {
			reasons = append(reasons, err)
		}
	}
	if os.Geteuid() != 0 {
		if len(reasons) == 0 {
			return nil, errors.New("no cgroup2 hierarchy is mounted, and only root may mount one")
		}
		return nil, fmt.Errorf("no right to divide a cgroup: %w", errors.Join(reasons[:1]...))
	}
	if err := mountCgroups(); err != nil {
		return nil, errors.Join(append(reasons, err)...)
	}
	c := &cgroups{life: filepath.Join(cgroupMount, sub), how: "own mount " + cgroupMount}
	if err := c.probe(); err != nil {
		return nil, err
	}
	c.divide(cgroupMount, dataDir, life)
	return c, nil
}

// dataID returns a name for a data folder as part of a path.
func dataID(dataDir string) string {
	sum := sha256.Sum256([]byte(dataDir))
	return hex.EncodeToString(sum[:8])
}

func mountCgroups() error {
	if err := os.MkdirAll(cgroupMount, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", cgroupMount, err)
	}
	if err := unix.Mount("cgroup2", cgroupMount, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount cgroup2 on %s: %w", cgroupMount, err)
	}
	return nil
}

// cgroupParents returns the folders to try, best first. The first is this process's own cgroup. If a service
// manager stops that cgroup, it also stops the tasks. For root, the top of each mount follows.
func cgroupParents() ([]string, error) {
	own, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	all, err := mounts.All()
	if err != nil {
		return nil, fmt.Errorf("find cgroup2 mounts: %w", err)
	}
	var inside, tops []string
	for _, m := range all {
		if m.Kind != "cgroup2" {
			continue
		}
		if at, shown := m.At(own); shown {
			inside = append(inside, at)
		}
		if os.Geteuid() == 0 {
			tops = append(tops, m.Point)
		}
	}
	return append(inside, tops...), nil
}

// ownCgroup returns the path of this process in the hierarchy of version 2.
func ownCgroup() (string, error) {
	at, err := mounts.Group("")
	switch {
	case errors.Is(err, mounts.ErrNoGroup):
		return "", errors.New("this kernel has no cgroup2")
	case err != nil:
		return "", fmt.Errorf("find the node's cgroup: %w", err)
	}
	return at, nil
}

// probe creates the folder of this process, and finds out how an attempt can be started in it.
func (c *cgroups) probe() error {
	const bumpsMax = 8
	for ; c.bumps < bumpsMax; c.bumps++ {
		switch err := c.probeBirth(); {
		case errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			c.close()
			return err
		}
	}
	c.close()
	return fmt.Errorf("start a process in %s: the kernel kills it at once", c.life)
}

// probeBirth forks into a new cgroup, with no program to execute. If the error is ENOENT, it comes from the
// exec: the fork was allowed and the child lived. If there is no error, the child was killed before the exec.
func (c *cgroups) probeBirth() error {
	t, err := c.tree("probe")
	if err != nil {
		return err
	}
	defer t.close()
	attr := &syscall.SysProcAttr{}
	t.prepare(attr)
	nothing := filepath.Join(c.life, "nothing")
	pid, _, err := syscall.StartProcess(nothing, []string{nothing}, &syscall.ProcAttr{Sys: attr})
	if err != nil {
		return fmt.Errorf("start a process in %s: %w", c.life, err)
	}
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	return nil
}

// divide makes the kernel count cpu and memory of the trees of this process, if that is possible. It tries
// version 2 and then version 1.
func (c *cgroups) divide(parent, dataDir, life string) {
	if c.unlimited = c.divideDown(parent); c.unlimited == nil {
		return
	}
	old, err := openLegacy(dataDir, life)
	if err != nil {
		c.unlimited = fmt.Errorf("%w; %w", c.unlimited, err)
		return
	}
	c.old, c.unlimited = old, nil
}

// divideDown makes the kernel count cpu and memory from parent downwards.
func (c *cgroups) divideDown(parent string) error {
	if err := os.MkdirAll(c.life, 0o755); err != nil {
		return err
	}
	rel, _ := filepath.Rel(parent, c.life)
	at := parent
	if err := divide(at); err != nil {
		return err
	}
	for part := range strings.SplitSeq(rel, "/") {
		at = filepath.Join(at, part)
		if err := divide(at); err != nil {
			return err
		}
	}
	return nil
}

func (c *cgroups) describe() string {
	if c.unlimited != nil {
		return fmt.Sprintf("cgroup2 (%s); cpu and memory of tasks are counted, not enforced: %v", c.how, c.unlimited)
	}
	if c.old != nil {
		return "cgroup2 (" + c.how + "), with cpu and memory by version 1"
	}
	return "cgroup2 (" + c.how + "), with cpu and memory"
}
func (c *cgroups) location() string { return c.life }

// close removes the empty folders of this process and, if no other process uses them, the folders above.
func (c *cgroups) close() {
	if c.old != nil {
		c.old.close()
	}
	removeCgroup(c.life)
	_ = unix.Rmdir(filepath.Dir(c.life))
	_ = unix.Rmdir(filepath.Dir(filepath.Dir(c.life)))
}

// tree opens the files that every attempt needs, so that an attempt costs one read of cgroup.events.
func (c *cgroups) tree(name string) (tree, error) {
	t := &cgroupTree{dir: filepath.Join(c.life, name), fd: -1, events: -1}
	err := os.MkdirAll(t.dir, 0o755)
	for try := 0; try < 3 && errors.Is(err, fs.ErrNotExist); try++ {
		err = os.MkdirAll(t.dir, 0o755) // another process that is closing may just have removed a parent folder
	}
	if err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	if t.fd, err = unix.Open(t.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open %s: %w", t.dir, err)
	}
	if t.events, err = unix.Open(t.dir+"/cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		_ = unix.Close(t.fd)
		return nil, fmt.Errorf("open cgroup.events in %s: %w", t.dir, err)
	}
	for range c.bumps {
		killCgroup(t.dir) // the cgroup is empty
	}
	if c.old != nil {
		t.old = &legacyTree{of: c.old, name: name}
	}
	return t, nil
}

// cgroupTree is one cgroup, with the cgroups that its processes make below it.
type cgroupTree struct {
	dir    string
	fd     int // descriptor of dir
	events int // descriptor of cgroup.events
	killed bool
	// cpu and memory are the limits of the tree; 0 means none.
	cpu, memory int64
	pids        int64       // bound on the processes; 0 means none
	old         *legacyTree // limits the tree with version 1; nil if the cgroup of version 2 does that
}

func (t *cgroupTree) prepare(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD, attr.CgroupFD = true, t.fd
}

func (t *cgroupTree) enter() (func() error, error) {
	if t.old == nil {
		return stay, nil
	}
	return t.old.enter()
}

func (t *cgroupTree) born(int, string) {}

// signal repeats until it finds no new process, because a process may fork while the list is read.
func (t *cgroupTree) signal(sig unix.Signal) {
	const roundsMax = 10
	done := map[int]bool{}
	for range roundsMax {
		before := len(done)
		for _, pid := range cgroupPids(t.dir) {
			if !done[pid] {
				done[pid] = true
				_ = unix.Kill(pid, sig)
			}
		}
		if len(done) == before {
			return
		}
	}
}

func (t *cgroupTree) kill() {
	t.killed = true
	killCgroup(t.dir)
}

func (t *cgroupTree) spent() bool {
	var buf [1]byte
	_, err := unix.Pread(t.events, buf[:], 0) // a removed cgroup cannot be read
	return t.killed || err != nil
}

func (t *cgroupTree) end(limit time.Duration) bool {
	if !t.populated() {
		return true
	}
	deadline := time.Now().Add(limit)
	for {
		t.kill()
		if !t.populated() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		// cgroup.events becomes readable when the last process has ended. The interval is for kernels
		// without cgroup.kill, where the kill must be repeated.
		const repeatMillis = 20
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(t.events), Events: unix.POLLPRI}}, repeatMillis)
	}
}

// populated reports whether a process lives in the tree. If the file cannot be read, the cgroup was removed,
// which the kernel allows only for an empty one.
func (t *cgroupTree) populated() bool {
	var buf [128]byte
	n, err := unix.Pread(t.events, buf[:], 0)
	return err == nil && bytes.Contains(buf[:n], []byte("populated 1"))
}

func (t *cgroupTree) close() {
	_ = unix.Close(t.events)
	_ = unix.Close(t.fd)
	removeCgroup(t.dir)
	if t.old != nil {
		t.old.remove()
	}
}

// killCgroup kills everything in dir and below. cgroup.kill (5.14) also reaches processes that fork at that
// time.
func killCgroup(dir string) {
	if err := os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0); err == nil || errors.Is(err, fs.ErrNotExist) && !exists(dir) {
		return
	}
	for _, pid := range cgroupPids(dir) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// cgroupPids returns the processes in dir and below.
func cgroupPids(dir string) []int {
	var found []int
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // the cgroup has just been removed
		}
		text, _ := os.ReadFile(path + "/cgroup.procs")
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0 is a process of another pid namespace
				found = append(found, pid)
			}
		}
		return nil
	})
	return found
}

// removeCgroup removes dir and the cgroups below it that are empty.
func removeCgroup(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.IsDir() {
			removeCgroup(filepath.Join(dir, entry.Name()))
		}
	}
	_ = unix.Rmdir(dir)
}

// isCgroup reports whether path is in a cgroup2 hierarchy.
func isCgroup(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && int64(st.Type) == unix.CGROUP2_SUPER_MAGIC
}
