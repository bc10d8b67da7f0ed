package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var errDisk = errors.New("the disk fails")

// TestWhatADiskLostIsWrittenAgain: after a failed sync, a DB is unusable for writers and readers, and copies
// nothing more from the log into the database. A kernel that could not write a page treats it as written
// afterwards. So each process that opens the database writes the log again before the log counts as synced.
func TestWhatADiskLostIsWrittenAgain(t *testing.T) {
	d, path := openTemp(t)
	o := newOwner(t, d)
	o.commit(o.batch(0, 2, nil))
	var lost time.Time
	d.syncFile = func(f *os.File) error {
		lost = modified(t, f)
		return errDisk
	}
	database := size(t, path)
	if _, err := d.Commit(t.Context(), o.batch(0, 1, nil)); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, store.ErrLost) {
		t.Error(err)
	}
	d.syncFile = syncData
	if _, err := d.Acquire(t.Context(), o.id, []dag.ShardID{theShard}); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, store.ErrLost) {
		t.Errorf("taking the shard says %v", err)
	}
	if _, err := d.Workflows(t.Context(), store.WorkflowQuery{}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a reader is told %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if size(t, path) != database || size(t, path+"-wal") == 0 {
		t.Error("the log has been copied into the database")
	}
	time.Sleep(20 * time.Millisecond) // the time of a file has the resolution of the kernel's ticks
	d = closedDB(path)
	d.syncFile = func(f *os.File) error {
		if modified(t, f).Equal(lost) {
			t.Error("what is synced was not written again")
		}
		return syncData(f)
	}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o.d = d
	o.take()
	o.are(3, 0)
	o.commit(o.batch(0, 1, nil))
	o.are(4, 0)
}

func modified(t *testing.T, f *os.File) time.Time {
	is, err := f.Stat()
	if err != nil {
		t.Error(err)
		return time.Time{}
	}
	return is.ModTime()
}

// TestPagesThatComeBack: a file system resets pages that it could not write to their content on the disk. The
// database stays intact. The log had been started over, so the disk has parts of an older log.
func TestPagesThatComeBack(t *testing.T) {
	d, path := openTemp(t)
	o := newOwner(t, d)
	for range 5 {
		o.commit(o.batch(0, 300, nil))
	}
	d.checkpoints.long.Store(true)
	o.commit(o.batch(0, 1, nil)) // the log starts over
	before, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	d.syncFile = func(f *os.File) error {
		if _, err := f.WriteAt(before, 0); err != nil {
			t.Error(err)
		}
		return errDisk
	}
	if _, err := d.Commit(t.Context(), o.batch(0, 300, nil)); !errors.Is(err, store.ErrUnknown) {
		t.Fatal(err)
	}
	d.syncFile = syncData
	d.checkpoints.wake <- struct{}{}
	o.until("the checkpointer has heard it", func() bool { return len(d.checkpoints.wake) == 0 })
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	next := filepath.Join(t.TempDir(), "skein.db") // the next process uses another file, because this one still has a connection
	copyFile(t, path, next)
	copyFile(t, path+"-wal", next+"-wal")
	if d, err = Open(next); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o.d = d
	o.are(1501, 0)
	if faults, err := scalar(d.conn, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); err != nil || faults != 0 {
		t.Errorf("%d faults, %v", faults, err)
	}
}

// TestASyncThatFailsIsForAll: after a failed sync, all transactions in the log are treated as not written,
// whatever the next sync returns.
func TestASyncThatFailsIsForAll(t *testing.T) {
	d, path := openTemp(t)
	o := newOwner(t, d)
	within, fail := make(chan bool), make(chan bool)
	d.syncFile = func(f *os.File) error {
		select {
		case within <- true:
			<-fail
			return errDisk
		case <-fail:
			return syncData(f)
		}
	}
	n, ended := d.syncs.written.Load(), make(chan error, 2)
	go func() {
		_, err := d.Commit(t.Context(), o.batch(0, 1, nil))
		ended <- err
	}()
	<-within
	go func() {
		_, err := d.Register(t.Context(), uuid.NewString(), "other")
		ended <- err
	}()
	o.until("both are in the log", func() bool { return d.syncs.written.Load() == n+2 })
	lost := d.Lost()
	select {
	case <-lost:
		t.Fatal("it is over before the sync has failed")
	default:
	}
	close(fail)
	<-lost
	for range 2 {
		if err := <-ended; !errors.Is(err, store.ErrUnknown) {
			t.Errorf("a commit says %v", err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o.d = d
	o.are(1, 0)
}

// TestAFailedCommitLetsNobodyGo: a reader of rows that are not on the disk yet waits for the disk, even if a
// later COMMIT fails meanwhile, but not beyond its deadline.
func TestAFailedCommitLetsNobodyGo(t *testing.T) {
	d, path := openTemp(t)
	o := newOwner(t, d)
	reached, let := slow(t, d, path, filepath.Join(t.TempDir(), "skein.db"))
	first := o.batch(0, 1, nil)
	ended := make(chan error, 2)
	go func() {
		_, err := d.Commit(t.Context(), first)
		ended <- err
	}()
	<-reached
	d.mu.Lock()
	commit := d.stmts.commit
	var err error
	if d.stmts.commit, err = prepare(d.conn, "fails", map[string]string{"fails": "SELECT json('no')"}); err != nil {
		t.Fatal(err)
	}
	d.mu.Unlock()
	n := d.syncs.written.Load()
	go func() {
		_, err := d.Register(t.Context(), uuid.NewString(), "other")
		ended <- err
	}()
	o.until("the other has failed", func() bool { return d.syncs.written.Load() == n+1 })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // enough time for SQLite, so the caller waits for the disk
	defer cancel()
	if _, err := d.Run(ctx, first.RunInserts[0].ID); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reader has returned what is not on the disk: %v", err)
	}
	let()
	for range 2 {
		if err := <-ended; err != nil && !errors.Is(err, store.ErrUnknown) {
			t.Error(err)
		}
	}
	d.stmts.commit = commit
	if _, err := d.Run(t.Context(), first.RunInserts[0].ID); err != nil {
		t.Error(err)
	}
}
