//go:build linux

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/mounts"
)

// This file is for machines on which the controllers of cpu and memory belong to hierarchies of version 1.
// There, cgroup2 still tracks the trees, because that needs no controller. A folder in each hierarchy of
// version 1 limits a tree. A fork cannot place a child in such a folder directly. But a single thread can be
// moved there, and a child starts in the cgroups of the thread that forks. So the thread moves there for the
// fork, and back.

// legacy holds the folders for the limits of the trees of this process.
type legacy struct {
	at   map[string]string // controller → parent of the trees' folders
	home map[string]string // controller → folder of this process
}

// controllersV1 lists the controllers that limits need, in the order in which a thread enters them. The
// controller of processes is optional.
var controllersV1 = []string{"cpu", "memory", pidsV1}

const pidsV1 = "pids"

// openLegacy finds folders of version 1 in which this process may set limits. It removes the folders of
// earlier processes of the data folder.
func openLegacy(dataDir, life string) (*legacy, error) {
	l := &legacy{at: map[string]string{}, home: map[string]string{}}
	for _, c := range controllersV1 {
		dirs, err := legacyParents(c)
		if err != nil && c == pidsV1 {
			continue
		}
		if err != nil {
			return nil, err
		}
		l.home[c] = dirs[0]
		for _, dir := range dirs {
			of := filepath.Join(dir, "skein", dataID(dataDir))
			probe := filepath.Join(of, life)
			if err = os.MkdirAll(probe, 0o755); err == nil {
				if err = unix.Access(filepath.Join(probe, "tasks"), unix.W_OK); err == nil {
					l.at[c] = probe
					for _, old := range subfolders(of) {
						if old != probe {
							removeCgroup(old)
						}
					}
					break
				}
			}
		}
		if err != nil && c != pidsV1 {
			l.close()
			return nil, fmt.Errorf("no right to divide the controller %s: %w", c, err)
		}
	}
	return l, nil
}

// legacyParents returns the folder of this process in the hierarchy of a controller and, for root, its top.
func legacyParents(controller string) ([]string, error) {
	own, err := mounts.Group(controller)
	if err != nil && !errors.Is(err, mounts.ErrNoGroup) {
		return nil, fmt.Errorf("find the node's cgroups: %w", err)
	}
	all, err2 := mounts.All()
	if err2 != nil {
		return nil, fmt.Errorf("find cgroup mounts: %w", err2)
	}
	for _, m := range all {
		if err != nil || m.Kind != "cgroup" || !m.Has(controller) {
			continue
		}
		at, shown := m.At(own)
		if !shown {
			continue
		}
		dirs := []string{at}
		if os.Geteuid() == 0 && at != m.Point {
			dirs = append(dirs, m.Point)
		}
		return dirs, nil
	}
	return nil, fmt.Errorf("the controller %s is mounted neither as version 2 nor as version 1", controller)
}

// close removes the empty cgroups of this process. It also removes their parents, unless another process
// still uses them.
func (l *legacy) close() {
	for _, at := range l.at {
		removeCgroup(at)
		_ = unix.Rmdir(filepath.Dir(at))
		_ = unix.Rmdir(filepath.Dir(filepath.Dir(at)))
	}
}

// legacyTree holds the limits of one tree.
type legacyTree struct {
	of   *legacy
	name string
	// cpu and memory are the limits in the folders of the tree; 0 means no limit.
	cpu, memory int64
	pids        int64 // bound on the processes; 0 means none
}

func (t *legacyTree) dir(controller string) string {
	return filepath.Join(t.of.at[controller], t.name)
}

// limit makes new folders when a limit changes. At that time no process is in the folders. The new folders
// are needed because memory that is still charged to an earlier attempt could prevent a lower limit.
func (t *legacyTree) limit(cpu, memory int64) bool {
	if t.cpu == cpu && t.memory == memory {
		return true
	}
	t.remove()
	write := t.write
	var err error
	if cpu > 0 {
		const period = 100_000 // microseconds; the kernel's default
		err = errors.Join(os.MkdirAll(t.dir("cpu"), 0o755), write("cpu", "cpu.cfs_period_us", strconv.Itoa(period)),
			write("cpu", "cpu.cfs_quota_us", strconv.FormatInt(max(cpu*period/1000, 1000), 10))) // the kernel refuses smaller values
	}
	if memory > 0 {
		bytes := strconv.FormatInt(memory, 10)
		err = errors.Join(err, os.MkdirAll(t.dir("memory"), 0o755), write("memory", "memory.limit_in_bytes", bytes))
		// The limit of memory with swap has the same value. A kernel that does not count swap has no such file.
		if exists(filepath.Join(t.dir("memory"), "memory.memsw.limit_in_bytes")) {
			err = errors.Join(err, write("memory", "memory.memsw.limit_in_bytes", bytes))
		}
	}
	if err != nil {
		t.remove()
		return false
	}
	t.cpu, t.memory = cpu, memory
	return true
}

func (t *legacyTree) write(controller, file, text string) error {
	return os.WriteFile(filepath.Join(t.dir(controller), file), []byte(text), 0)
}

// bound bounds the processes of the tree, if the machine can.
func (t *legacyTree) bound(pids int64) {
	if t.pids == pids || t.of.at[pidsV1] == "" {
		return
	}
	if t.pids = 0; pids > 0 && os.MkdirAll(t.dir(pidsV1), 0o755) == nil && t.write(pidsV1, "pids.max", strconv.FormatInt(pids, 10)) == nil {
		t.pids = pids
	}
}

// remove removes the folders. If a process in a folder does not end, a later process of the worker removes
// the folder.
func (t *legacyTree) remove() {
	t.cpu, t.memory, t.pids = 0, 0, 0
	for _, c := range controllersV1 {
		if t.of.at[c] != "" {
			removeCgroup(t.dir(c))
		}
	}
}

// enter moves this thread, which must be locked, into the folders that limit its children. back moves it
// back. After an error of back, the thread must not be used for anything else.
func (t *legacyTree) enter() (back func() error, err error) {
	var entered []string
	back = func() (err error) {
		for _, c := range entered {
			err = errors.Join(err, moveThread(t.of.home[c]))
		}
		return err
	}
	for _, c := range controllersV1 {
		if c == "cpu" && t.cpu == 0 || c == "memory" && t.memory == 0 || c == pidsV1 && t.pids == 0 {
			continue
		}
		if err := moveThread(t.dir(c)); err != nil {
			return func() error { return nil }, errors.Join(err, back())
		}
		entered = append(entered, c)
	}
	return back, nil
}

// moveThread moves this thread into a cgroup of version 1.
func moveThread(dir string) error {
	return os.WriteFile(filepath.Join(dir, "tasks"), []byte(strconv.Itoa(unix.Gettid())), 0)
}

// starved returns the number of times that the kernel has ended a process because of memory.
func (t *legacyTree) starved() int64 {
	return oomKills(filepath.Join(t.dir("memory"), "memory.oom_control"))
}
