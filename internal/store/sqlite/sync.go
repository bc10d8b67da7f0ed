package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/store"
)

// The writer's connection does not sync the log at a COMMIT (synchronous NORMAL). This file syncs it, so that
// the next transaction can run meanwhile. A commit returns when its sync is done. A reader returns when
// everything that it may have read is synced.
//
// After a failed sync it is unknown which part of the log is on the disk, and the content of the log may
// still change: the kernel treats pages that it could not write as written, and may later read them in their
// earlier state. So this DB ends (store.ErrLost), and copies nothing more from its log into the database. The
// next process that opens the database first writes the log again. Only then does SQLite determine, by
// checksums, which part of the log is intact.

// syncs counts the commits, and the commits that are on the disk.
type syncs struct {
	written atomic.Uint64 // the number of commits, including one that is being written into the log
	mu      sync.Mutex    // protects following fields
	done    uint64
	lost    error         // set once a sync has failed
	gone    chan struct{} // closed when a sync has failed; nil until it is needed
	more    chan struct{} // closed when one of the fields above changes; nil if no call waits for a change
}

// write gives a commit its number. It must be called before another connection can read the commit.
func (s *syncs) write() uint64 { return s.written.Add(1) }

// over records that a commit, and all commits before it, are on the disk.
func (s *syncs) over(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = max(s.done, n)
	s.tell()
}

// lose records that a sync has failed, and wakes all calls that wait for a sync.
func (s *syncs) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil && s.gone != nil {
		close(s.gone)
	}
	s.lost = err
	s.tell()
}

// end returns a channel that is closed once a sync has failed.
func (s *syncs) end() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		if s.gone = make(chan struct{}); s.lost != nil {
			close(s.gone)
		}
	}
	return s.gone
}

func (s *syncs) tell() {
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
}

// state reports whether a commit is on the disk, or returns the reason why it may never be. If neither is
// known yet, it returns a channel that is closed at the next change.
func (s *syncs) state(n uint64) (done bool, lost error, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done < n && s.lost == nil && s.more == nil {
		s.more = make(chan struct{})
	}
	return s.done >= n, s.lost, s.more
}

// wait returns when every commit that can be read now is on the disk.
func (s *syncs) wait(ctx context.Context) error {
	n := s.written.Load()
	if n == 0 {
		return nil
	}
	for {
		done, lost, more := s.state(n)
		switch {
		case done:
			return nil
		case lost != nil:
			return unsynced(lost)
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("wait for the disk: %w: %w", store.ErrUnavailable, ctx.Err())
		}
	}
}

// unsynced returns the error of every call after a failed sync.
func unsynced(lost error) error {
	return fmt.Errorf("the log could not be synced: %w: %w: %w", store.ErrUnavailable, store.ErrLost, lost)
}

// walFile is the log, opened to sync it.
type walFile struct {
	f *os.File
	// mu is held during a sync, because the kernel reports a lost write only once, to one of several
	// concurrent syncs.
	mu sync.Mutex
}

// restoreLog writes the log of an earlier process again and syncs it, before the log is read. That process
// may have been killed before it synced the log, or may have ended because a sync failed.
func (d *DB) restoreLog() error {
	f, err := os.OpenFile(d.path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		if err = rewrite(f); err == nil {
			err = d.syncFile(f)
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("restore the log of %s: %w: %w", d.path, store.ErrUnavailable, err)
	}
	return nil
}

// rewrite writes the content of a file again.
func rewrite(f *os.File) error {
	page := make([]byte, 1<<20)
	for at := int64(0); ; {
		n, err := f.ReadAt(page, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, failed := f.WriteAt(page[:n], at); failed != nil {
			return failed
		}
		if at += int64(n); err != nil {
			return nil
		}
	}
}

// openLog opens the log, which exists since the first transaction.
func (d *DB) openLog() error {
	f, err := os.OpenFile(d.path+"-wal", os.O_RDWR, 0)
	if err == nil {
		if err = d.syncFile(f); err == nil {
			d.log = &walFile{f: f}
			return nil
		}
		d.lose(err)
		_ = f.Close()
	}
	return fmt.Errorf("open the log of %s: %w: %w", d.path, store.ErrUnavailable, err)
}

// written is a commit that is in the log.
type written struct {
	n   uint64
	log *walFile
}

// sync syncs a commit and those before it.
func (d *DB) sync(w written) error {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	done, lost, _ := d.syncs.state(w.n)
	if done {
		return nil
	}
	if lost == nil {
		if lost = d.syncFile(w.log.f); lost == nil {
			d.syncs.over(w.n)
			return nil
		}
		d.lose(lost)
	}
	return fmt.Errorf("sync the log: %w: %w: %w", store.ErrUnknown, store.ErrLost, lost)
}

// Lost implements store.Mortal.
func (d *DB) Lost() <-chan struct{} { return d.syncs.end() }

// lose ends a DB whose log could not be synced.
func (d *DB) lose(err error) {
	d.checkpoints.off.Store(true)
	d.syncs.lose(err)
}

// alive returns an error once the log could not be synced.
func (d *DB) alive() error {
	if _, lost, _ := d.syncs.state(0); lost != nil {
		return unsynced(lost)
	}
	return nil
}

// close closes the file when no sync is under way.
func (w *walFile) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.f.Close()
}
