package worker

import (
	"fmt"
	"time"

	"skein.dev/skein/internal/artifact"
)

// keepers are those of a Worker by their folders: a node has one, and had perhaps another one before.
type keepers map[string]*artifact.Keeper

// keeperOf takes artifacts into a folder, "" being the data folder.
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

// keep keeps the artifacts. It is false if that ended the attempt otherwise than well: the time
// that it takes counts against the timeout, and a stop ends it.
func (a *attempt) keep() bool {
	if len(a.job.Artifacts) == 0 {
		return true
	}
	late := func() bool {
		return a.job.Timeout > 0 && !a.job.WarnOnTimeout && time.Since(a.began) >= a.job.Timeout
	}
	err := a.w.keeperOf(a.job.ArtifactsIn).Keep(artifactsOf(&a.job.Key), a.cmd.dir, a.job.Artifacts, func() bool { return a.want.Load() != 0 || late() })
	switch {
	case err == nil:
		return true
	case a.want.Load() != 0:
		a.settleStop("while its artifacts were kept")
	case late():
		a.timedOut, a.result.TimedOut = true, true
		a.settle(Failed, CauseTimeout, fmt.Sprintf("ran longer than its timeout of %v, while its artifacts were kept", a.job.Timeout))
	default:
		a.settle(Failed, CauseArtifacts, err.Error())
	}
	return false
}
