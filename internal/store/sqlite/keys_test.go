package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"skein.dev/skein/internal/store"
)

// TestNewKeysNeedNoReader: while all readers are in use, newKeys still finds that keys are new. A key that
// has a run needs a reader.
func TestNewKeysNeedNoReader(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "skein.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o := newOwner(t, d)
	b := o.batch(0, 1, nil)
	b.RunInserts[0].Key = "there"
	if _, err := d.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	there := store.RunKey{Workflow: b.RunInserts[0].Workflow, Key: "there"}
	fresh := []store.RunKey{{Workflow: there.Workflow, Key: "new"}, {Workflow: there.Workflow + 1, Key: "there"}}
	if rows, err := d.RunsByKeys(t.Context(), append(fresh, there)); err != nil || len(rows) != 1 || rows[0].ID != b.RunInserts[0].ID {
		t.Errorf("the key of a run: %v, %v", rows, err)
	}
	for range readersMax {
		conn, err := d.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer d.pool.Put(conn)
	}
	for n := range fresh {
		if rows, err := d.RunsByKeys(t.Context(), fresh[:n+1]); err != nil || len(rows) != 0 {
			t.Errorf("%d new keys: %v, %v", n+1, rows, err)
		}
	}
	short, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if _, err := d.RunsByKeys(short, []store.RunKey{there}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the key of a run without a reader: %v", err)
	}
}
