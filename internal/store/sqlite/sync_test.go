package sqlite

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var errDisk = errors.New("the disk fails")

// TestWhatADiskLostIsWrittenAgain: a kernel that could not write a page takes it for written from then on, so the log is written once more
// before it counts as synced; until that works nothing is committed.
func TestWhatADiskLostIsWrittenAgain(t *testing.T) {
	d, _ := openTemp(t)
	o := newOwner(t, d)
	o.commit(o.batch(0, 2, nil))
	fails, lost := 3, time.Time{}
	d.syncFile = func(f *os.File) error {
		time.Sleep(20 * time.Millisecond) // a file's time goes by the kernel's ticks
		is, err := f.Stat()
		if err != nil {
			t.Error(err)
		}
		if !lost.IsZero() && is.ModTime().Equal(lost) {
			t.Error("what is synced was not written again")
		}
		if lost = is.ModTime(); fails > 0 {
			fails--
			return errDisk
		}
		return syncData(f)
	}
	if _, err := d.Commit(t.Context(), o.batch(0, 1, nil)); !errors.Is(err, store.ErrUnknown) {
		t.Error(err)
	}
	for range 2 {
		if _, err := d.Acquire(t.Context(), o.id, []dag.ShardID{theShard}); !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
	}
	o.take()
	d.syncFile = syncData
	o.are(3, 0)
	o.commit(o.batch(0, 1, nil))
	o.are(4, 0)
}

// TestASyncThatFailsIsForAll: whoever is in the log by then has not been written, whatever the next sync says.
func TestASyncThatFailsIsForAll(t *testing.T) {
	d, _ := openTemp(t)
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
	close(fail)
	for range 2 {
		if err := <-ended; !errors.Is(err, store.ErrUnknown) {
			t.Errorf("a commit says %v", err)
		}
	}
	o.take()
	o.are(1, 0)
}
