package container

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/mounts"
)

// limitProcesses limits the number of processes of this attempt, if the kernel can count them. With control
// groups of version 2, it sets the limit on the attempt's own group. With version 1, it makes a group and
// returns its file cgroup.procs, into which the first process of the container must write its number. undo
// removes the limit.
func limitProcesses(most int) (enter string, undo func()) {
	nothing := func() {}
	all, err := mounts.All()
	if err != nil {
		return "", nothing
	}
	if group, err := mounts.Group("pids"); err == nil {
		return limitProcessesV1(shownAt(all, group, func(m mounts.Mount) bool { return m.Kind == "cgroup" && m.Has("pids") }), most)
	}
	group, err := mounts.Group("")
	if err != nil {
		return "", nothing
	}
	dir := shownAt(all, group, func(m mounts.Mount) bool { return m.Kind == "cgroup2" })
	at := filepath.Join(dir, "pids.max")
	if dir == "" || os.WriteFile(at, []byte(strconv.Itoa(most)), 0) != nil {
		return "", nothing
	}
	return "", func() { _ = os.WriteFile(at, []byte("max"), 0) }
}

// groupName is the prefix of the names of control groups that limit the processes of containers.
const groupName = "skein-container-"

func limitProcessesV1(dir string, most int) (enter string, undo func()) {
	if !exists(filepath.Join(dir, "cgroup.procs")) {
		return "", func() {}
	}
	if entries, err := os.ReadDir(dir); err == nil { // remove the empty groups of attempts that were killed
		for _, entry := range entries {
			text, ours := strings.CutPrefix(entry.Name(), groupName)
			if pid, err := strconv.Atoi(text); ours && err == nil && unix.Kill(pid, 0) == unix.ESRCH {
				_ = unix.Rmdir(filepath.Join(dir, entry.Name()))
			}
		}
	}
	at := filepath.Join(dir, groupName+strconv.Itoa(os.Getpid()))
	undo = func() { _ = unix.Rmdir(at) }
	if os.MkdirAll(at, 0o755) != nil || os.WriteFile(filepath.Join(at, "pids.max"), []byte(strconv.Itoa(most)), 0) != nil {
		undo()
		return "", func() {}
	}
	return filepath.Join(at, "cgroup.procs"), undo
}

// shownAt returns the folder at which the first mount that fits shows a control group. It returns "" if there
// is none.
func shownAt(all []mounts.Mount, group string, fit func(mounts.Mount) bool) string {
	for _, m := range all {
		if at, shown := m.At(group); shown && fit(m) {
			return at
		}
	}
	return ""
}
