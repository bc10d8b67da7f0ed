package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/worker"
)

const (
	// logsKept is the time for which this worker keeps a log after its last line. A worker does not know
	// which runs still exist. The cluster keeps the end of their logs as long as the runs.
	logsKept = 7 * 24 * time.Hour
	// Old logs are searched at tidyFirst after the start, and then every tidyEvery.
	tidyFirst = time.Minute
	tidyEvery = 6 * time.Hour
)

// tidies deletes old logs until ctx ends.
func (r *Worker) tidies(ctx context.Context) {
	for next := tidyFirst; ; next = tidyEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
		if n, err := r.tidy(ctx, time.Now().Add(-logsKept)); err != nil && ctx.Err() == nil {
			r.log.Warn("old logs could not be deleted; the worker tries again later", "code", "old_logs_left", "err", err, "in", tidyEvery)
		} else if n > 0 {
			r.log.Info("old logs were deleted", "code", "old_logs_deleted", "logs", n, "kept", logsKept)
		}
	}
}

// tidy deletes logs whose attempt this worker no longer has and whose last line is older than an instant. It
// also deletes folders that have been empty since then. It returns the number of deleted logs.
func (r *Worker) tidy(ctx context.Context, before time.Time) (gone int, err error) {
	root, live := filepath.Join(r.cfg.Data, "logs"), r.logsInUse()
	var folders []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // no attempt has printed anything
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case live[path] || path == root:
			return nil
		}
		if info, err := d.Info(); err != nil || !info.ModTime().Before(before) {
			return nil // the log was just written or removed
		}
		if d.IsDir() {
			folders = append(folders, path)
			return nil
		}
		gone++
		return os.Remove(path)
	})
	for i := len(folders) - 1; i >= 0 && err == nil; i-- { // the innermost first
		_ = os.Remove(folders[i]) // fails if the folder is not empty
	}
	if err != nil {
		return gone, fmt.Errorf("delete old logs: %w", err)
	}
	return gone, nil
}

// logsInUse returns the log files that attempts of this worker may still write to, and those that are not
// completely sent to the cluster.
func (r *Worker) logsInUse() map[string]bool {
	all := r.s.All()
	r.mu.Lock()
	defer r.mu.Unlock()
	live := make(map[string]bool, len(all))
	for _, a := range all {
		if a.Of != nil {
			live[worker.LogPath(r.cfg.Data, a.Of.key)] = true
		}
	}
	for _, a := range r.unsent {
		live[worker.LogPath(r.cfg.Data, a.key)] = true
	}
	return live
}
