//go:build linux

package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupSuffix is the end of the names of files with the cgroups of a process.
const cgroupSuffix = ".cgroup"

// reapLimit bounds Reap when its context does not.
const reapLimit = 10 * time.Second

// Orphan stands for the running processes of one attempt of an earlier worker process.
type Orphan struct {
	Key  Key // from the environment of the processes; without RunID if they have deleted it
	PIDs []int
}

// orphan is an Orphan with the place where it was found.
type orphan struct {
	Orphan
	life   string
	mark   string // SKEIN_OUTPUT=…, or "" if unknown
	cgroup string // "" if the processes were found by their mark
}

// Reap kills the attempts of earlier processes of this data folder that match accepts (nil: all of them). It
// waits until they are gone, and removes their cgroups and folders. It returns the number of killed
// processes. It spares the attempts of this process. If match refuses one attempt of an earlier process, it
// spares all attempts of that process. It returns an error if the attempts are not gone when ctx ends or 10 s
// have passed.
func (w *Worker) Reap(ctx context.Context, match func(Orphan) bool) (killed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, reapLimit)
	defer cancel()
	r := &reaper{w: w, match: match, verdicts: map[string]bool{}, killed: map[int]bool{}}
	nothing := 0 // consecutive scans that found no process to kill
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		doomed, spared, seen := r.look()
		if len(doomed) > 0 || seen.execs || anyEnding(r.killed) {
			nothing = 0
		} else if nothing++; nothing == 2 || !seen.vanished {
			return len(r.killed), r.clean(spared)
		}
		for _, o := range doomed {
			r.kill(o)
		}
		timer := time.NewTimer(pause) // a process can wait only for its own children, so the loop looks again after a pause
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			var left []int
			for _, o := range doomed {
				left = append(left, o.PIDs...)
			}
			return len(r.killed), fmt.Errorf("end attempts of earlier processes of this node: %d processes are left %v: %w", len(left), left[:min(len(left), 10)], ctx.Err())
		}
	}
}

// reaper is the state of one Reap.
type reaper struct {
	w        *Worker
	match    func(Orphan) bool
	verdicts map[string]bool // result of match for each orphan, by cgroup or mark
	killed   map[int]bool
	scan     procScan
}

// look finds all orphans, and separates them by verdict.
func (r *reaper) look() (doomed []*orphan, spared map[string]bool, seen sight) {
	spared = map[string]bool{}
	found, seen := r.find()
	for _, o := range found {
		if r.verdict(o) {
			doomed = append(doomed, o)
		} else {
			spared[o.life] = true
		}
	}
	return doomed, spared, seen
}

// verdict calls match once for each orphan. An orphan may be found in its cgroup, by its mark, or first in
// one way and later in the other.
func (r *reaper) verdict(o *orphan) bool {
	for _, name := range []string{o.cgroup, o.mark} {
		if verdict, known := r.verdicts[name]; known && name != "" {
			return verdict
		}
	}
	verdict := r.match == nil || r.match(o.Orphan)
	r.verdicts[o.cgroup], r.verdicts[o.mark] = verdict, verdict
	return verdict
}

// find searches the cgroups of earlier processes, and then the environments of all other processes.
func (r *reaper) find() (found []*orphan, seen sight) {
	inCgroup := map[int]bool{}
	for _, dir := range r.cgroupDirs() {
		for _, slot := range subfolders(dir) {
			pids := cgroupPids(slot)
			if len(pids) == 0 {
				continue
			}
			o := &orphan{life: filepath.Base(dir), cgroup: slot}
			o.PIDs = pids
			for _, pid := range pids {
				inCgroup[pid] = true
				env, _ := r.scan.environ(pid)
				if mark, key, _ := r.read(env); mark != "" && o.mark == "" {
					o.mark, o.Key = mark, key
				}
			}
			found = append(found, o)
		}
	}
	byMark := map[string]*orphan{}
	seen = r.scan.each(func(pid, _ int, env []byte) {
		mark, key, life := r.read(env)
		if mark == "" || life == r.w.life || inCgroup[pid] {
			return
		}
		o := byMark[mark]
		if o == nil {
			o = &orphan{life: life, mark: mark}
			o.Key = key
			byMark[mark] = o
			found = append(found, o)
		}
		o.PIDs = append(o.PIDs, pid)
	})
	return found, seen
}

// read returns the mark, the key and the life from the environment of a process of this data folder. It
// returns "" for all others.
func (r *reaper) read(env []byte) (mark string, key Key, life string) {
	prefix := outputVar + "=" + filepath.Join(r.w.data, "work") + "/"
	if !bytes.Contains(env, []byte(prefix)) {
		return "", Key{}, ""
	}
	eachEntry(env, func(entry []byte) bool {
		name, value, _ := strings.Cut(string(entry), "=")
		switch name {
		case outputVar:
			if rest, ok := strings.CutPrefix(string(entry), prefix); ok {
				mark = string(entry)
				life, _, _ = strings.Cut(rest, "/")
			}
		case "SKEIN_NAMESPACE":
			key.Namespace = value
		case "SKEIN_WORKFLOW":
			key.Workflow = value
		case "SKEIN_RUN_ID":
			key.RunID = value
		case "SKEIN_TASK":
			key.Task = value
		case "SKEIN_TOKEN":
			key.Attempt, _ = strconv.Atoi(value)
		case "SKEIN_IDEMPOTENCY_KEY":
			key.IdempotencyKey = value
		case "TRACEPARENT":
			key.Traceparent = value
		}
		return true
	})
	return mark, key, life
}

// cgroupDirs returns the cgroup folders of earlier processes: the siblings of this process's folder, and
// those that earlier keepers have recorded, because a restarted node may be in another cgroup or in none.
func (r *reaper) cgroupDirs() []string {
	var dirs []string
	if at := r.w.contain.location(); at != "" {
		dirs = subfolders(filepath.Dir(at))
	}
	for _, life := range r.lives() {
		text, err := os.ReadFile(filepath.Join(r.w.data, "work", life+cgroupSuffix))
		dir := string(text)
		// The file may be damaged, and the processes of the cgroup that it names will be killed. So only a
		// path is used that this program could have written.
		if err != nil || filepath.Base(dir) != life || filepath.Base(filepath.Dir(dir)) != dataID(r.w.data) || !isCgroup(dir) {
			continue
		}
		dirs = append(dirs, filepath.Clean(dir))
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	return slices.DeleteFunc(dirs, func(dir string) bool { return filepath.Base(dir) == r.w.life })
}

// lives returns the earlier processes that have files in the work folder.
func (r *reaper) lives() []string {
	entries, err := os.ReadDir(filepath.Join(r.w.data, "work"))
	if err != nil {
		return nil
	}
	var lives []string
	for _, entry := range entries { // ReadDir returns them sorted by name
		life := strings.TrimSuffix(entry.Name(), cgroupSuffix)
		if strings.HasPrefix(life, keeperFiles) {
			continue
		}
		if life != r.w.life && !slices.Contains(lives, life) {
			lives = append(lives, life)
		}
	}
	return lives
}

func (r *reaper) kill(o *orphan) {
	for _, pid := range o.PIDs {
		if o.cgroup != "" {
			r.killed[pid] = true
			continue
		}
		still := func() bool { return r.scan.has(pid, o.mark) }
		if signalIf(pid, unix.SIGKILL, still) {
			r.killed[pid] = true
		}
	}
	if o.cgroup != "" {
		killCgroup(o.cgroup)
	}
}

// clean removes the files and cgroups of earlier processes, except for the spared ones.
func (r *reaper) clean(spared map[string]bool) error {
	for _, dir := range r.cgroupDirs() {
		if !spared[filepath.Base(dir)] {
			removeCgroup(dir)
			_ = unix.Rmdir(filepath.Dir(dir)) // this fails if another process uses the folder
		}
	}
	var errs []error
	for _, life := range r.lives() {
		if spared[life] {
			continue
		}
		dir := filepath.Join(r.w.data, "work", life)
		errs = append(errs, removeAll(dir), removeAll(dir+cgroupSuffix))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the folders of earlier processes of this node: %w", err)
	}
	return nil
}

// subfolders returns the paths of the folders in dir. It returns none if dir does not exist.
func subfolders(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	return found
}
