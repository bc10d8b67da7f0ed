//go:build linux

package worker

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Cores returns the processor cores that this process may use, in thousandths: those of the machine, or
// fewer if a parent cgroup limits them.
func Cores() int64 {
	most := int64(runtime.NumCPU()) * 1000
	for _, dir := range aboveV1("cpu") {
		// -1 means that there is no quota.
		quota, err := strconv.ParseInt(strings.TrimSpace(readText(filepath.Join(dir, "cpu.cfs_quota_us"))), 10, 64)
		period, err2 := strconv.ParseInt(strings.TrimSpace(readText(filepath.Join(dir, "cpu.cfs_period_us"))), 10, 64)
		if err == nil && err2 == nil && quota > 0 && period > 0 {
			most = min(most, max(quota*1000/period, 1))
		}
	}
	for _, dir := range above() {
		fields := strings.Fields(readText(filepath.Join(dir, "cpu.max")))
		if len(fields) != 2 {
			continue
		}
		quota, err := strconv.ParseInt(fields[0], 10, 64) // "max" means no limit
		period, err2 := strconv.ParseInt(fields[1], 10, 64)
		if err == nil && err2 == nil && period > 0 {
			most = min(most, max(quota*1000/period, 1))
		}
	}
	return most
}

// Memory returns the memory that this process may use, in bytes: the memory of the machine, or less if a
// parent cgroup limits it.
func Memory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		panic("worker: no sysinfo: " + err.Error()) // every Linux has this call
	}
	return min(int64(info.Totalram)*int64(info.Unit), MemoryLimit())
}

// MemoryLimit returns the smallest limit on memory of the parent cgroups, in bytes. Without a limit, it is
// larger than the memory of any machine.
func MemoryLimit() int64 {
	most := int64(math.MaxInt64)
	for _, dir := range aboveV1("memory") {
		if n, err := strconv.ParseInt(strings.TrimSpace(readText(filepath.Join(dir, "memory.limit_in_bytes"))), 10, 64); err == nil {
			most = min(most, n)
		}
	}
	for _, dir := range above() {
		if n, err := strconv.ParseInt(strings.TrimSpace(readText(filepath.Join(dir, "memory.max"))), 10, 64); err == nil {
			most = min(most, n)
		}
	}
	return most
}

// above returns the visible parent cgroups of this process.
func above() (dirs []string) {
	parents, err := cgroupParents()
	own, err2 := ownCgroup()
	if err != nil || err2 != nil || len(parents) == 0 || !strings.HasSuffix(parents[0], strings.TrimSuffix(own, "/")) {
		return nil
	}
	for dir := parents[0]; isCgroup(dir); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

// aboveV1 returns the cgroups of version 1 that limit a controller for this process.
func aboveV1(controller string) (dirs []string) {
	parents, err := legacyParents(controller)
	if err != nil {
		return nil
	}
	for dir := parents[0]; exists(filepath.Join(dir, "tasks")); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// These are the cgroup controllers that limits need. The controller of processes is optional. It limits the
// number of processes of tasks in containers.
const (
	controllers = "+cpu +memory"
	counter     = " +pids"
)

// divide makes the kernel count cpu and memory in the cgroups below dir. This is impossible if dir itself
// contains processes, or if the controllers belong to cgroups of version 1.
func divide(dir string) error {
	path := filepath.Join(dir, "cgroup.subtree_control")
	if os.WriteFile(path, []byte(controllers+counter), 0) == nil {
		return nil
	}
	return os.WriteFile(path, []byte(controllers), 0)
}

// limit implements tree. The cgroup of a slot keeps its limits, so they are written only when they change.
func (t *cgroupTree) limit(cpu, memory int64) bool {
	if t.old != nil {
		return t.old.limit(cpu, memory)
	}
	if t.cpu == cpu && t.memory == memory {
		return true
	}
	const period = 100_000 // microseconds; the kernel's default
	quota, bytes := "max", "max"
	if cpu > 0 {
		quota = strconv.FormatInt(max(cpu*period/1000, 1000), 10) // the kernel refuses smaller quotas
	}
	if memory > 0 {
		bytes = strconv.FormatInt(memory, 10)
	}
	err := os.WriteFile(t.dir+"/cpu.max", []byte(quota+" "+strconv.Itoa(period)), 0)
	if err == nil {
		err = os.WriteFile(t.dir+"/memory.max", []byte(bytes), 0)
	}
	if err != nil {
		return false
	}
	// Without swap, memory.max is the only limit. A kernel without swap has no such file.
	if err := os.WriteFile(t.dir+"/memory.swap.max", []byte(swapOf(memory)), 0); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return false
	}
	t.cpu, t.memory = cpu, memory
	return true
}

// attemptPids bounds the processes and threads of an attempt that has a user of its own.
const attemptPids = 4096

// bound implements tree. The bound stays set in the cgroup of the slot.
func (t *cgroupTree) bound(pids int64) {
	if t.old != nil {
		t.old.bound(pids)
		return
	}
	if t.pids == pids {
		return
	}
	// Without the controllers, these files do not exist.
	most, group := "max", "0"
	if pids > 0 {
		most, group = strconv.FormatInt(pids, 10), "1"
	}
	_ = os.WriteFile(t.dir+"/pids.max", []byte(most), 0)
	_ = os.WriteFile(t.dir+"/memory.oom.group", []byte(group), 0)
	t.pids = pids
}

// bound bounds the processes of an attempt with a user of its own.
func (a *attempt) bound() {
	pids := int64(0)
	if a.uid != 0 {
		pids = attemptPids
	}
	a.slot.tree.bound(pids)
}

func swapOf(memory int64) string {
	if memory > 0 {
		return "0"
	}
	return "max"
}

// starved implements tree.
func (t *cgroupTree) starved() int64 {
	if t.old != nil {
		return t.old.starved()
	}
	return oomKills(t.dir + "/memory.events")
}

// oomKills returns the number of times that the kernel has ended a process of a cgroup because of memory.
func oomKills(path string) int64 {
	for line := range strings.Lines(readText(path)) {
		if text, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return n
		}
	}
	return 0
}

// cap limits the processes of the attempt to its declared resources. If the machine cannot enforce the
// limits, the resources are only booked, and skein doctor says so.
func (a *attempt) cap() {
	if a.slot.tree.limit(a.job.CPU, a.job.Memory) && a.job.Memory > 0 {
		a.kills = a.slot.tree.starved()
		a.capped = true
	}
}
