package sqlite

import (
	"fmt"
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

// openLog opens the log, which there is since the first transaction, to sync it. What another process
// wrote, and was killed before it synced that, is to be on the disk before it is read.
func (d *DB) openLog() error {
	f, err := os.OpenFile(d.path+"-wal", os.O_RDWR, 0)
	if err == nil {
		if err = f.Sync(); err == nil {
			d.log = f
			return nil
		}
		_ = f.Close()
	}
	return fmt.Errorf("open the log of %s: %w: %w", d.path, store.ErrUnavailable, err)
}

// written is a commit that is in the log.
type written struct {
	n   uint64
	log *os.File
}

// sync brings a commit to the disk, and those before it. After a failure nobody knows what is there; since a failed sync must not be
// tried again on the same file, the connection is opened anew.
func (d *DB) sync(w written) error {
	defer d.syncs.over(w.n)
	if err := d.syncFile(w.log); err != nil {
		d.broken.Store(true)
		return fmt.Errorf("sync the log: %w: %w", store.ErrUnknown, err)
	}
	return nil
}
