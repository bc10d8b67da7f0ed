package segments

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
)

const (
	// leftMax is the age of a file's last change up to which a new process checks whether the end of the file
	// has a segment.
	leftMax = 48 * time.Hour
	// leftPause is the pause before a failed check is repeated.
	leftPause = time.Minute
)

// left writes the segments that an earlier process of this node has not written, because it was killed, or
// because the store did not answer until its end. The files are still on this machine, and no other process
// checks them.
type left struct {
	s     *Store
	pause time.Duration
}

// run checks the files of all runs once. It repeats a failed check after all others.
func (l *left) run(ctx context.Context) {
	runs, _ := filepath.Glob(filepath.Join(l.s.files.Path, "logs", "*", "*", "*")) // the only possible error is a wrong pattern
	since := time.Now().Add(-leftMax)
	for len(runs) > 0 && ctx.Err() == nil {
		at := runs[0]
		if runs = runs[1:]; l.look(ctx, at, since) == nil {
			continue
		}
		runs = append(runs, at)
		select { // the function seal reports in the log that the store does not answer
		case <-ctx.Done():
		case <-time.After(l.pause):
		}
	}
}

// look writes the ends of the logs of one run. A run with old logs costs no request.
func (l *left) look(ctx context.Context, at string, since time.Time) error {
	found := logsIn(at, since)
	if len(found) == 0 {
		return nil
	}
	ends := map[string]int64{}
	err := blob.Walk(ctx, l.s.blobs, runFolder(found[0].ref.Namespace, found[0].ref.Workflow, found[0].ref.Run.String()), func(page []blob.Info) error {
		for i := range page {
			if at, ok := offsetOf(page[i].Key); ok {
				log := page[i].Key[:strings.LastIndexByte(page[i].Key, '/')+1]
				ends[log] = max(ends[log], at+page[i].Size)
			}
		}
		return nil
	})
	for _, t := range found {
		if err != nil {
			break
		}
		if prefix, wrong := folder(&t.ref); wrong == nil && ends[prefix] < t.end {
			t.sealed = ends[prefix]
			err = l.s.write(ctx, t)
		}
	}
	return err
}

// logsIn returns the logs of a run that changed after an instant.
func logsIn(folder string, since time.Time) (all []*tail) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil // the log is being deleted
	}
	workflow := filepath.Dir(folder)
	of := logs.Ref{Namespace: filepath.Base(filepath.Dir(workflow)), Workflow: filepath.Base(workflow)}
	if of.Run, err = dag.ParseRunID(filepath.Base(folder)); err != nil {
		return nil
	}
	for _, f := range files {
		stem, is := strings.CutSuffix(f.Name(), ".log")
		dot := strings.LastIndexByte(stem, '.')
		info, err := f.Info()
		if !is || dot < 0 || err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.ModTime().Before(since) {
			continue
		}
		token, err := strconv.ParseInt(stem[dot+1:], 10, 32)
		if err != nil {
			continue
		}
		ref := of
		ref.Name, ref.Token = stem[:dot], dag.Token(token)
		all = append(all, &tail{ref: ref, here: true, end: info.Size()})
	}
	return all
}
