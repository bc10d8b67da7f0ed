//go:build linux

package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/fence"
)

// systemRead is what every task may read, as far as its user may: programs, libraries, settings of the
// system, and what the kernel tells.
var systemRead = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/sys", "/nix/store", "/gnu/store", "/snap",
	"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", // where /etc/resolv.conf may lead
}

// systemWrite is what every task may write. /dev/pts and /dev/ptmx make terminals.
var systemWrite = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm",
}

// Fences says what this machine isolates tasks by, or returns an error if it cannot.
func Fences() (string, error) {
	if fence.ABI() == 0 {
		return "", fence.ErrNone
	}
	if fence.ABI() < 6 {
		return fmt.Sprintf("Landlock %d, without signals and abstract sockets", fence.ABI()), nil
	}
	return fmt.Sprintf("Landlock %d", fence.ABI()), nil
}

// wall is how a worker keeps its tasks apart from what is not theirs.
type wall struct {
	shut []string // the data folder, and what the worker's owner protects
	home string   // of the worker's user; "": none
}

// newWall returns nil for the level none, and on a kernel that has no Landlock.
func newWall(isolation, data string, protected []string) *wall {
	if isolation != IsolationFence || fence.ABI() == 0 {
		return nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	return &wall{shut: slices.Concat([]string{data, "/etc/skein"}, protected), home: home}
}

// private returns base with the folder for temporary files as TMPDIR, and as HOME if the task does not reach
// the home folder: many programs fail if they find settings there that they may not read.
func (w *wall) private(base []string, tmp string, job *Job) []string {
	own := make([]string, 0, len(base)+2)
	reached := w.home != "" && slices.ContainsFunc(w.folders(job), func(at string) bool { return fence.Within(w.home, at) })
	for _, kv := range base {
		if name, _, _ := strings.Cut(kv, "="); name != "TMPDIR" && (name != "HOME" || reached) {
			own = append(own, kv)
		}
	}
	if own = append(own, "TMPDIR="+tmp); !reached {
		own = append(own, "HOME="+tmp)
	}
	return own
}

// folders returns what the workflow file names: the working folder, unless that is a home folder or above
// one, and access.
func (w *wall) folders(job *Job) (paths []string) {
	if job.Dir != "" && !w.wide(job.Dir) {
		paths = append(paths, job.Dir)
	}
	if job.Access != nil {
		paths = append(append(paths, job.Access.Read...), job.Access.Write...)
	}
	return paths
}

// wide reports whether a working folder holds so much else that a task does not get it as a whole.
func (w *wall) wide(dir string) bool {
	dir = filepath.Clean(dir)
	return dir == "/" || w.home != "" && fence.Within(w.home, dir)
}

// spec returns what an attempt may reach.
func (w *wall) spec(s *slot, job *Job, cmd *command) (fence.Spec, error) {
	spec := fence.Spec{System: slices.Clone(systemRead), Devices: systemWrite, Own: []string{s.folder}, Shut: w.shut}
	for folder := range strings.SplitSeq(cmd.search, ":") {
		if filepath.IsAbs(folder) && !w.wide(folder) {
			spec.System = append(spec.System, folder)
		}
	}
	if job.Dir != "" && !w.wide(cmd.dir) {
		spec.Write = append(spec.Write, cmd.dir)
	}
	if script := job.Script; script != nil && script.File != "" {
		path := script.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(cmd.dir, path)
		}
		spec.Read = append(spec.Read, path)
	}
	if job.Access != nil {
		for _, path := range slices.Concat(job.Access.Read, job.Access.Write) {
			if at := slices.IndexFunc(w.shut, func(shut string) bool { return fence.Within(filepath.Clean(path), shut) }); at >= 0 {
				return spec, fmt.Errorf("access: %s is protected, as all of %s: no task may reach it; remove it from access", path, w.shut[at])
			}
		}
		spec.Read = append(spec.Read, job.Access.Read...)
		spec.Write = append(spec.Write, job.Access.Write...)
	}
	return spec, nil
}

// fencesMax is how many fences a slot keeps. To make one takes up to half as long as to start a process.
const fencesMax = 4

// fences are those of the latest attempts of a slot, the latest first.
type fences []keptFence

type keptFence struct {
	key string
	*fence.Fence
}

// of returns a fence for what an attempt may reach. What all attempts of the slot may reach is no part of the
// key.
func (fs *fences) of(spec *fence.Spec) (*fence.Fence, error) {
	key := strings.Join(slices.Concat(spec.System[len(systemRead):], []string{""}, spec.Read, []string{""}, spec.Write), "\x00")
	if i := slices.IndexFunc(*fs, func(f keptFence) bool { return f.key == key }); i >= 0 {
		kept := (*fs)[i]
		*fs = slices.Delete(*fs, i, i+1)
		if kept.Fresh() {
			*fs = slices.Insert(*fs, 0, kept)
			return kept.Fence, nil
		}
		kept.Close()
	}
	made, err := fence.New(*spec)
	if err != nil {
		return nil, &fence.EnterError{Err: err}
	}
	if len(*fs) == fencesMax {
		(*fs)[fencesMax-1].Close()
		*fs = (*fs)[:fencesMax-1]
	}
	*fs = slices.Insert(*fs, 0, keptFence{key, made})
	return made, nil
}

func (fs *fences) close() {
	for _, f := range *fs {
		f.Close()
	}
	*fs = nil
}

// denied matches what programs write when a file is refused, with the path before or after it.
var denied = regexp.MustCompile(`(/[^\s:'"` + "`" + `‘’]+)['"’` + "`" + `]?: Permission denied|Permission denied: ['"](/[^'"]+)['"]|open (/[^\s:]+): permission denied`)

// deniedMax is how much of the end of a log is searched for refused files, in bytes.
const deniedMax = 8 << 10

// refused names a file that the fence refused, by what the task has written last, with the line that allows
// it. It returns "" if nothing of the kind is found.
func (a *attempt) refused() string {
	if a.spec == nil || a.log.size == 0 {
		return ""
	}
	for _, found := range denied.FindAllStringSubmatch(tailOf(a.log.path, deniedMax), -1) {
		path := filepath.Clean(found[1] + found[2] + found[3])
		switch {
		case slices.ContainsFunc(a.spec.Shut, func(shut string) bool { return fence.Within(path, shut) }):
			return fmt.Sprintf("; %s is protected: no task may reach it", path)
		case !exists(path) && exists(filepath.Dir(path)) && unix.Access(filepath.Dir(path), unix.W_OK) == nil:
			return a.unmade(path)
		case !exists(path) || a.reaches(path, a.spec.Own) || a.reaches(path, a.spec.Devices) || a.reaches(path, a.spec.Write):
			continue // the rights of the file refused it
		case a.reaches(path, a.spec.System) || a.reaches(path, a.spec.Read):
			if unix.Access(path, unix.W_OK) == nil {
				return fmt.Sprintf("; isolation does not let the task change %s: add access: {write: [%s]} to it", path, path)
			}
		default:
			return fmt.Sprintf("; isolation keeps %s from the task: add access: {read: [%s]} to it, or write", path, path)
		}
	}
	return ""
}

// unmade says why a file could not be made.
func (a *attempt) unmade(path string) string {
	folder := filepath.Dir(path)
	if at := slices.IndexFunc(a.spec.Shut, func(shut string) bool { return fence.Within(shut, folder) && exists(shut) }); at >= 0 {
		return fmt.Sprintf("; isolation does not let the task make files in %s, because %s is in it: use a folder of its own", folder, a.spec.Shut[at])
	}
	return fmt.Sprintf("; isolation does not let the task make %s: add access: {write: [%s]} to it", path, folder)
}

func (a *attempt) reaches(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return fence.Within(path, filepath.Clean(folder)) })
}

// tailOf reads the end of a file; "" if it cannot be read.
func tailOf(path string, most int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	text := make([]byte, min(info.Size(), most))
	n, _ := file.ReadAt(text, info.Size()-int64(len(text)))
	return string(text[:n])
}
