//go:build linux

package worker

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// containment is how trees are held together: cgroups or, without them, process groups.
type containment interface {
	// describe is one sentence for skein doctor.
	describe() string
	// tree gives a new, empty tree; name is unique in the life of the worker.
	tree(name string) (tree, error)
	// location is what Reap of a later life needs to find the trees of this one, "" = nothing.
	location() string
	// close gives back what is left when all trees are closed.
	close()
}

// tree is every process that an attempt started. It is used by one attempt after another, by the
// goroutine of the attempt only.
type tree interface {
	// prepare makes the child of this fork the first process of the tree.
	prepare(attr *syscall.SysProcAttr)
	// enter is called before the fork, by its thread, and back after it.
	enter() (back func() error, err error)
	// born tells the first process and the entry of its environment that marks the attempt.
	born(pid int, mark string)
	// signal sends sig to every process of the tree.
	signal(sig unix.Signal)
	// kill sends SIGKILL to every process of the tree and does not wait.
	kill()
	// end kills what is left and waits until nothing runs any more, at most limit. The first process has
	// ended but is not reaped, so its pid, which is also its group's, cannot belong to anybody else.
	end(limit time.Duration) bool
	// limit holds what is born from now on to so much cpu and memory, 0 = any; false: that cannot be
	// done here.
	limit(cpu, memory int64) bool
	// starved is how often the kernel has ended a process of the tree because it used too much memory.
	starved() int64
	// spent tells that no further process must be born in this tree: the slot needs a new one.
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

func (g *processGroups) tree(string) (tree, error) { return &groupTree{}, nil }
func (g *processGroups) location() string          { return "" }
func (g *processGroups) close()                    {}

// groupTree is the process group of the first process, and all other processes with the attempt's mark.
type groupTree struct {
	pid  int
	mark string
	scan procScan
}

// prepare relies on Setsid, which every attempt has: it makes the child the leader of a new group.
func (t *groupTree) prepare(*syscall.SysProcAttr) {}

func (t *groupTree) enter() (func() error, error) { return stay, nil }

// stay is for threads that are where they were.
func stay() error { return nil }

func (t *groupTree) limit(cpu, memory int64) bool { return cpu == 0 && memory == 0 }
func (t *groupTree) starved() int64               { return 0 }

func (t *groupTree) born(pid int, mark string) { t.pid, t.mark = pid, mark }

func (t *groupTree) signal(sig unix.Signal) {
	_ = unix.Kill(-t.pid, sig) // ESRCH: no process is left
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
	nothing := 0 // scans in a row that found nothing
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		_ = unix.Kill(-t.pid, unix.SIGKILL)
		left, seen := t.members()
		if len(left) == 0 && !seen.execs {
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
		// Nothing tells when processes that are not our children have gone: ask again.
		time.Sleep(pause)
	}
}

// members are the living processes of the tree except the first one.
func (t *groupTree) members() (found []int, seen sight) {
	seen = t.scan.each(func(pid, group int, env []byte) {
		if pid != t.pid && (hasEntry(env, t.mark) || group == t.pid && !zombie(pid)) {
			found = append(found, pid)
		}
	})
	return found, seen
}

func (t *groupTree) signalMarked(pid int, sig unix.Signal) {
	signalIf(pid, sig, func() bool { return t.scan.has(pid, t.mark) })
}

func (t *groupTree) spent() bool { return false }
func (t *groupTree) close()      {}

// signalIf signals pid if still says, after the pid is pinned, that it is the process that was meant.
func signalIf(pid int, sig unix.Signal, still func() bool) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false // gone
	}
	defer unix.Close(fd)
	return still() && unix.PidfdSendSignal(fd, sig, nil, 0) == nil
}

// exists tells whether something is at path, links not followed.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
