//go:build linux

package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"skein.dev/skein/internal/artifact"
)

// keepers holds the artifact keepers of a Worker by their folders. There is more than one if the folder has
// changed.
type keepers map[string]*artifact.Keeper

// keeperOf returns the artifact keeper of a folder. "" is the data folder.
func (w *Worker) keeperOf(folder string) *artifact.Keeper {
	if folder == "" {
		folder = w.data
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keepers[folder]
	if k == nil {
		k = &artifact.Keeper{Store: artifact.Folder{Path: folder}, Limits: artifact.LimitsDefault}
		if w.cfg.Store != nil {
			k.Store = w.cfg.Store(folder)
		}
		w.keepers[folder] = k
	}
	return k
}

// systemFolders are folders whose files a task cannot keep as artifacts. /dev is not listed, because the only
// regular files below it belong to users, such as those in /dev/shm.
var systemFolders = []string{"/boot", "/etc", "/proc", "/run/credentials", "/sys"}

// dataNames lists the names of Skein's files in its data folder.
var dataNames = []string{"access", "artifacts", "incoming", "lock", "logs", "outgoing", "secrets", "skein.db", "skein.db-shm", "skein.db-wal", uidsName, "work"}

// openDir opens the working folder of an attempt with artifacts before the attempt starts. Artifacts are read
// from that open folder, even if the attempt replaces it. The worker that reads the files may have more
// permissions than the task. So if the task chooses the folder, openDir excludes system files and Skein's own
// files.
func (a *attempt) openDir() error {
	if len(a.job.Artifacts) == 0 {
		return nil
	}
	root, err := os.OpenRoot(a.cmd.dir)
	if err != nil {
		if why := badDir(a.cmd.dir); why != nil {
			return why
		}
		return fmt.Errorf("artifacts: the working directory cannot be read: %w", err)
	}
	a.leaves = &artifact.WorkDir{Root: root}
	if a.leaves.Path, err = artifact.PathOf(root); err != nil {
		return fmt.Errorf("artifacts: the working directory cannot be found: %w", err)
	}
	if a.uid != 0 {
		a.leaves.Owner = &a.uid
	}
	if a.job.Dir != "" {
		data, err := filepath.EvalSymlinks(a.w.data)
		if err != nil {
			return fmt.Errorf("artifacts: find the data folder: %w", err)
		}
		a.leaves.Shut = slices.Clone(systemFolders)
		for _, name := range dataNames {
			a.leaves.Shut = append(a.leaves.Shut, filepath.Join(data, name))
		}
	}
	return nil
}

// keep stores the artifacts. It returns false if the attempt must fail or stop. The time for storing counts
// against the timeout, and a stop of the attempt ends the storing.
func (a *attempt) keep() bool {
	if len(a.job.Artifacts) == 0 {
		return true
	}
	late := func() bool {
		return a.job.Timeout > 0 && !a.job.WarnOnTimeout && time.Since(a.began) >= a.job.Timeout
	}
	size, err := a.w.keeperOf(a.job.ArtifactsIn).Keep(artifactsOf(&a.job.Key), *a.leaves, a.job.Artifacts, func() bool { return a.want.Load() != 0 || late() })
	switch {
	case err == nil:
		a.result.ArtifactBytes = size
		return true
	case a.want.Load() != 0:
		a.settleStop("while its artifacts were stored")
	case late():
		a.timedOut, a.result.TimedOut = true, true
		a.settle(Failed, CauseTimeout, fmt.Sprintf("ran longer than its timeout of %v, while its artifacts were stored", a.job.Timeout))
	default:
		a.settle(Failed, CauseArtifacts, err.Error())
	}
	return false
}

// closeLog closes the log. If output is missing, it writes a line into the node's own log.
func (a *attempt) closeLog() {
	r, note := &a.result, a.log.close()
	r.LogBytes, r.LogLost = a.log.size, a.log.lost
	if note == "" {
		return
	}
	if r.Message != "" {
		note = r.Message + "; " + note
	}
	r.Message = note
	if a.log.err != nil {
		a.w.cfg.Log.Warn("the log of an attempt is incomplete", a.attrs("code", "log_incomplete", "lost", a.log.lost, "err", a.log.err)...)
	}
}
