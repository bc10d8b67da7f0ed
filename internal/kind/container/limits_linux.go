package container

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limitProcesses limits the number of processes of this attempt, if the kernel counts them for it. With
// version 2, the control group of the attempt has the limit. With version 1, it returns the file into which
// the first process of the container writes itself. undo removes the limit.
func limitProcesses(most int) (enter string, undo func()) {
	nothing := func() {}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", nothing
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", nothing
	}
	for line := range strings.Lines(string(text)) { // 8:pids:/path, 0::/path
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			at := filepath.Join(mounted(string(mounts), "cgroup2", "", parts[2]), "pids.max")
			if os.WriteFile(at, []byte(strconv.Itoa(most)), 0) == nil {
				return "", func() { _ = os.WriteFile(at, []byte("max"), 0) }
			}
		case slices.Contains(strings.Split(parts[1], ","), "pids"):
			return limitProcessesV1(mounted(string(mounts), "cgroup", "pids", parts[2]), most)
		}
	}
	return "", nothing
}

// groupName is the beginning of the names of control groups that limit the processes of containers.
const groupName = "skein-container-"

func limitProcessesV1(dir string, most int) (enter string, undo func()) {
	if !exists(filepath.Join(dir, "cgroup.procs")) {
		return "", func() {}
	}
	if entries, err := os.ReadDir(dir); err == nil { // an attempt that was killed left its group, which is empty
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

// mounted returns the folder at which a control group is mounted; "": nowhere.
func mounted(mounts, kind, controller, group string) string {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(rest) < 3 || rest[0] != kind || controller != "" && !slices.Contains(strings.Split(rest[2], ","), controller) {
			continue
		}
		if rel, err := filepath.Rel(fields[3], group); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(fields[4], rel)
		}
	}
	return ""
}
