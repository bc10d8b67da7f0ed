// Package segments stores complete logs in objects of package blob, in addition to the store with the live
// ends of logs.
//
//	logs/<namespace>/<workflow>/<run>/<task>.<attempt>/<offset of the first byte, 20 digits>
//
// A segment is written when 4 MiB have come, or 30 s after its first byte, or at the end of the attempt. An
// existing segment is never overwritten. So if a machine is lost, its output is complete except for the last
// 30 s. The live end has the last part of these.
//
// The bytes come from the log's file if it is on this machine. The bytes of a worker come through its home
// node, which holds them in memory, within limits, until their segment is written.
//
// Reading order: segments.go, seal.go, left.go, reader.go, sweep.go.
package segments

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/logindex"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/store"
)

const (
	root = "logs/"
	// sizeMax bounds the bytes of a segment. ageMax bounds the time for which a byte waits for its segment.
	sizeMax = 4 << 20
	ageMax  = 30 * time.Second
	// every is the interval between two searches for due logs.
	every = time.Second
	// restMax is the time for which a log without new bytes is remembered.
	restMax = time.Minute
	// heldMax is the number of bytes of workers' logs in memory at which segments of the largest logs become
	// due. At twice heldMax, the bytes of one log are dropped, and only the live end of this log has them.
	heldMax = 32 << 20
	// tailsMax bounds the number of logs that wait.
	tailsMax = 20_000
	// atOnce bounds the number of segments that are written at the same time.
	atOnce = 4
	// digits is the length of an offset in a key.
	digits = 20
)

// Store is a logs.Store.
type Store struct {
	blobs blob.Store
	live  logs.Store  // the live ends
	files logs.Folder // the log files of this node
	log   *slog.Logger
	wake  chan struct{} // cap 1: there is a new log, or a log is due

	round sync.Mutex // held while segments are written; protects failing
	// failing reports whether the last round failed.
	failing bool

	mu    sync.Mutex // protects following fields
	tails map[store.LogID]*tail
	held  int64 // bytes of all tails
}

var _ logs.Store = (*Store)(nil)

// tail is the end of a log without a segment.
type tail struct {
	ref    logs.Ref
	here   bool  // the log's file is on this machine
	end    int64 // the last known end of the log
	sealed int64 // the end of the log's segments; -1 if unknown
	since  time.Time
	over   bool   // the attempt has ended
	listed bool   // the index is stored, or this node will not store one
	data   []byte // bytes of a log without a file here
	at     int64  // offset of data
}

// New returns a Store that writes segments to blobs, in addition to live. data is the data folder of this
// node.
func New(blobs blob.Store, live logs.Store, data string, log *slog.Logger) *Store {
	return &Store{blobs: blobs, live: live, files: logs.Folder{Path: data}, log: log, wake: make(chan struct{}, 1), tails: map[store.LogID]*tail{}}
}

// Keep implements logs.Store. It returns the limit of the live ends.
func (s *Store) Keep() int64 { return s.live.Keep() }

// folder returns the prefix of the segments of a log.
func folder(r *logs.Ref) (string, error) {
	key := runFolder(r.Namespace, r.Workflow, r.Run.String()) + r.Name + "." + strconv.FormatInt(int64(r.Token), 10)
	if !fs.ValidPath(key) || strings.Count(key, "/") != 4 || strings.Contains(key, `\`) {
		return "", fmt.Errorf("log of %q: %w", r.Name, fs.ErrNotExist)
	}
	return key + "/", nil
}

func runFolder(namespace, workflow, run string) string {
	return root + namespace + "/" + workflow + "/" + run + "/"
}

// Append implements logs.Store. It returns the result of the live ends, so an outage of the store of objects
// delays no log.
func (s *Store) Append(ctx context.Context, chunks []logs.Chunk) ([]int64, error) {
	ends, err := s.live.Append(ctx, chunks)
	if err != nil {
		return ends, err
	}
	for i, end := range ends {
		if end >= 0 {
			s.note(&chunks[i], end)
		}
	}
	return ends, nil
}

// note records the end of a log, and stores the bytes of a chunk if no file on this machine has them.
func (s *Store) note(c *logs.Chunk, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tails[c.ID()]
	if t == nil {
		if end == 0 || len(s.tails) >= tailsMax {
			return
		}
		t = &tail{ref: c.Ref, sealed: -1, since: time.Now(), here: s.isHere(&c.Ref)}
		s.tails[c.ID()] = t
		s.rouse()
	}
	if !t.here && len(c.Data) > 0 && c.Offset < end {
		s.keep(t, c.Offset, c.Data[:min(int64(len(c.Data)), end-c.Offset)])
	}
	if end > t.end {
		if t.end == t.sealed {
			t.since = time.Now()
		}
		t.end = end
	}
	if t.due(time.Now()) || s.held > heldMax {
		s.rouse()
	}
}

// isHere reports whether the file of a log is on this machine.
func (s *Store) isHere(r *logs.Ref) bool {
	f, err := s.files.Open(context.Background(), *r)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// keep adds bytes to a tail. If bytes before them are missing in the tail, it keeps only the new bytes. The
// caller holds the lock.
func (s *Store) keep(t *tail, at int64, data []byte) {
	have := t.at + int64(len(t.data))
	switch {
	case len(t.data) > 0 && at+int64(len(data)) <= have:
		return
	case len(t.data) > 0 && at <= have && at >= t.at:
		data = data[have-at:]
	default:
		s.drop(t)
		t.at = at
	}
	t.data = append(t.data, data...)
	if s.held += int64(len(data)); s.held > 2*heldMax {
		s.drop(t)
	}
}

// drop removes the bytes of a tail. The caller holds the lock.
func (s *Store) drop(t *tail) {
	s.held -= int64(len(t.data))
	t.data, t.at = nil, 0
}

// due reports whether a segment of the log must be written now.
func (t *tail) due(now time.Time) bool {
	return t.end > t.sealed && (t.over || t.end-max(t.sealed, 0) >= sizeMax || now.Sub(t.since) >= ageMax)
}

// unlisted reports whether the index of an ended log still has to be stored.
func (t *tail) unlisted() bool { return t.over && t.here && !t.listed && t.end >= logindex.From }

// Waiting returns the number of logs with bytes that are in no segment.
func (s *Store) Waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tails {
		if t.end > t.sealed {
			n++
		}
	}
	return n
}

// Ended records that a log does not grow any more.
func (s *Store) Ended(ref logs.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tails[ref.ID()]; t != nil {
		t.over = true
		s.rouse()
	}
}

func (s *Store) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Delete implements logs.Store. It deletes only segments. The live ends are deleted with their runs, or by
// their own store.
func (s *Store) Delete(ctx context.Context, runs []logs.Run) error {
	var errs []error
	for i := range runs {
		errs = append(errs, s.deleteBelow(ctx, runFolder(runs[i].Namespace, runs[i].Workflow, runs[i].ID.String())))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (s *Store) deleteBelow(ctx context.Context, prefix string) error {
	return blob.Walk(ctx, s.blobs, prefix, func(page []blob.Info) error {
		keys := make([]string, len(page))
		for i := range page {
			keys[i] = page[i].Key
		}
		return s.blobs.Delete(ctx, keys...)
	})
}
