//go:build linux

package worker

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// containment keeps track of process trees: with cgroups or, if there are none, with process groups.
type containment interface {
	// describe returns one sentence for skein doctor.
	describe() string
	// tree returns a new, empty tree. name is unique in the life of the worker.
	tree(name string) (tree, error)
	// location returns a text from which Reap in a later process finds the trees of this process. It returns
	// "" if Reap needs no such text.
	location() string
	// close removes the remaining files after all trees are closed.
	close()
}

// tree contains the processes that an attempt has started. Attempts use it one after another. Only the
// goroutine of the attempt uses it.
type tree interface {
	// prepare makes the child of this fork the first process of the tree.
	prepare(attr *syscall.SysProcAttr)
	// enter is called by the forking thread before the fork. After the fork, the thread calls the returned
	// function.
	enter() (back func() error, err error)
	// born is called with the first process of the tree, and with the entry of the environment that marks the
	// attempt.
	born(pid int, mark string)
	// signal sends sig to every process of the tree.
	signal(sig unix.Signal)
	// kill sends SIGKILL to every process of the tree and does not wait.
	kill()
	// end kills the remaining processes, and waits for at most limit until none runs. The first process has
	// ended but is not reaped yet. So its pid, which is also the id of its group, cannot belong to another
	// process.
	end(limit time.Duration) bool
	// limit sets the cpu and memory of all processes that start later. 0 means no limit. It returns false if
	// this machine cannot limit them.
	limit(cpu, memory int64) bool
	// bound sets the largest number of processes, and makes the kernel kill the whole tree if it exceeds its
	// memory limit; 0 removes both. If the machine supports only one of them, bound sets that one.
	bound(pids int64)
	// starved returns the number of times that the kernel has ended a process of the tree because of its
	// memory.
	starved() int64
	// spent reports that no further process may start in this tree, so that the slot needs a new tree.
	spent() bool
	close()
}

// detect chooses the strongest containment that works here.
func detect(dataDir, life string, groupsOnly bool) containment {
	if groupsOnly {
		return &processGroups{why: "cgroups are switched off"}
	}
	c, err := openCgroups(dataDir, life)
	if err != nil {
		return &processGroups{why: err.Error()}
	}
	return c
}

// processGroups is the containment of last resort.
type processGroups struct{ why string }

func (g *processGroups) describe() string {
	return fmt.Sprintf("process groups (%s); a daemon that also wipes its environment is not found", g.why)
}

func (g *processGroups) tree(string) (tree, error) { return &groupTree{signalled: map[int]bool{}}, nil }
func (g *processGroups) location() string          { return "" }
func (g *processGroups) close()                    {}

// groupTree consists of the process group of the first process, and of all other processes with the
// attempt's mark.
type groupTree struct {
	pid  int
	mark string
	scan procScan
	// signalled holds the processes outside of the group that got a signal. A process that is ending no
	// longer shows the mark in its environment, but its files are still open.
	signalled map[int]bool
}

// prepare does nothing: every attempt has Setsid, which makes the child the leader of a new group.
func (t *groupTree) prepare(*syscall.SysProcAttr) {}

func (t *groupTree) enter() (func() error, error) { return stay, nil }

// stay does nothing, because the thread did not move.
func stay() error { return nil }

func (t *groupTree) limit(cpu, memory int64) bool { return cpu == 0 && memory == 0 }
func (t *groupTree) bound(int64)                  {}
func (t *groupTree) starved() int64               { return 0 }

func (t *groupTree) born(pid int, mark string) {
	t.pid, t.mark, t.signalled = pid, mark, map[int]bool{}
}

func (t *groupTree) signal(sig unix.Signal) {
	_ = unix.Kill(-t.pid, sig) // ESRCH means that no process is left
	members, _ := t.members()
	for _, pid := range members {
		if group, err := unix.Getpgid(pid); err == nil && group != t.pid {
			t.signalMarked(pid, sig)
		}
	}
}

func (t *groupTree) kill() { t.signal(unix.SIGKILL) }

func (t *groupTree) end(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	nothing := 0 // consecutive scans that found nothing
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		_ = unix.Kill(-t.pid, unix.SIGKILL)
		left, seen := t.members()
		if len(left) == 0 && !seen.execs && !anyEnding(t.signalled) {
			if nothing++; nothing == 2 || !seen.vanished {
				return true
			}
			continue
		}
		nothing = 0
		for _, pid := range left {
			t.signalMarked(pid, unix.SIGKILL)
		}
		if time.Now().After(deadline) {
			return false
		}
		// A process that is not a child of this process gives no notice of its end, so the loop checks again.
		time.Sleep(pause)
	}
}

// members returns the living processes of the tree except the first one.
func (t *groupTree) members() (found []int, seen sight) {
	seen = t.scan.each(func(pid, group int, env []byte) {
		if pid != t.pid && (hasEntry(env, t.mark) || group == t.pid && !zombie(pid)) {
			found = append(found, pid)
		}
	})
	return found, seen
}

func (t *groupTree) signalMarked(pid int, sig unix.Signal) {
	if signalIf(pid, sig, func() bool { return t.scan.has(pid, t.mark) }) {
		t.signalled[pid] = true
	}
}

func (t *groupTree) spent() bool { return false }
func (t *groupTree) close()      {}

// signalIf signals a process. It first pins the pid, and then calls the function still, which checks that the
// pid belongs to the intended process.
func signalIf(pid int, sig unix.Signal, still func() bool) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false // the process has ended
	}
	defer unix.Close(fd)
	return still() && unix.PidfdSendSignal(fd, sig, nil, 0) == nil
}

// exists reports whether path exists. It does not follow links.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
