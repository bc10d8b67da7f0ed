package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/store"
)

// The writer's connection does not sync the log at a COMMIT (synchronous NORMAL); it is synced here, so that the next
// transaction may be carried out meanwhile. A commit returns when that is done, and so does everybody who may have read what it wrote.

// syncs counts commits, and those of them that are on the disk.
type syncs struct {
	written atomic.Uint64 // or about to be
	mu      sync.Mutex    // protects following fields
	more    sync.Cond
	done    uint64
}

// write gives a commit its number, before anybody can see it.
func (s *syncs) write() uint64 { return s.written.Add(1) }

// over takes in that nobody need wait for a commit any more, nor for those before it.
func (s *syncs) over(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done < n {
		s.done = n
		s.more.Broadcast()
	}
}

// wait returns when all that can be seen now is on the disk.
func (s *syncs) wait() {
	n := s.written.Load()
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.done < n {
		s.more.Wait()
	}
}

// walFile is the log, opened to sync it.
type walFile struct {
	f      *os.File
	mu     sync.Mutex // one sync at a time: the kernel tells one of them that it has lost something, and only once
	failed error      // what it holds may never come to the disk, whatever a later sync says
}

// openLog opens the log, which there is since the first transaction. What another process wrote, and was killed before it synced that, is
// to be on the disk before it is read. After a sync that failed the kernel takes pages that it has lost for written: so all of the
// log is written again, as it is. Nobody else writes to it meanwhile.
func (d *DB) openLog() error {
	f, err := os.OpenFile(d.path+"-wal", os.O_RDWR, 0)
	if err == nil {
		if d.log != nil { // something has failed
			err = rewrite(f)
		}
		if err == nil {
			err = d.syncFile(f)
		}
		if err == nil {
			d.log = &walFile{f: f}
			return nil
		}
		_ = f.Close()
	}
	return fmt.Errorf("open the log of %s: %w: %w", d.path, store.ErrUnavailable, err)
}

// rewrite writes what a file holds once more.
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

// written is a commit that is in the log.
type written struct {
	n   uint64
	log *walFile
}

// sync brings a commit to the disk, and those before it. After a failure nobody knows what is there, nor of those that were written to
// the log before the connection is opened anew.
func (d *DB) sync(w written) error {
	defer d.syncs.over(w.n)
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if w.log.failed == nil {
		w.log.failed = d.syncFile(w.log.f)
	}
	if err := w.log.failed; err != nil {
		d.broken.Store(true)
		return fmt.Errorf("sync the log: %w: %w", store.ErrUnknown, err)
	}
	return nil
}

// close closes the file when nobody syncs it.
func (w *walFile) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = os.ErrClosed
	}
	return w.f.Close()
}
