package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/store"
)

// keyedBatch returns the next transaction of an owner, with a run for each key.
func keyedBatch(o *owner, keys ...string) *store.Batch {
	b := o.batch(0, len(keys), nil)
	for i := range keys {
		b.RunInserts[i].Key, b.RunInserts[i].KeyHash = keys[i], []byte{1}
	}
	return b
}

func commitKeys(o *owner, keys ...string) {
	o.t.Helper()
	if _, err := o.d.Commit(o.t.Context(), keyedBatch(o, keys...)); err != nil {
		o.t.Fatal(err)
	}
	o.fence.Seq++
}

// holdsKeys checks that each key belongs to its run, that no other run can get the key, and that the lists
// are right.
func holdsKeys(o *owner, keys ...string) {
	o.t.Helper()
	for _, key := range keys {
		row, err := store.RunByKey(o.t.Context(), o.d, 1, key)
		if err != nil || row.Key != key {
			o.t.Errorf("the run of key %s: %q, %v", key, row.Key, err)
		}
		if _, err := o.d.Commit(o.t.Context(), keyedBatch(o, key)); !errors.Is(err, store.ErrRefused) {
			o.t.Errorf("a second run with key %s: %v", key, err)
		}
	}
	if bad, err := o.d.Check(o.t.Context()); err != nil || len(bad) > 0 {
		o.t.Errorf("check: %q, %v", bad, err)
	}
}

// copyOf copies the files of a running process, as a crash leaves them.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy.db")
	for _, end := range []string{"", "-wal"} {
		all, err := os.ReadFile(path + end)
		if err == nil {
			err = os.WriteFile(copied+end, all, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

// TestLateKeys: keys come into the index in generations. A copy of the files of a running process, as
// after a crash, has all keys.
func TestLateKeys(t *testing.T) {
	d, path := openTemp(t)
	o := newOwner(t, d)
	var some []string
	for range 13 {
		keys := make([]string, 2000)
		for i := range keys {
			keys[i] = uuid.NewString()
		}
		some = append(some, keys[0], keys[1999])
		commitKeys(o, keys...)
	}
	if k := &d.keys; k.keyed < lateKeysMax || k.keyed == k.last || len(k.runs) == 0 || len(k.runs) > 3*lateKeysMax {
		t.Errorf("the index has the keys up to run %d of %d, and %d keys are not in it", k.keyed, k.last, len(k.runs))
	}
	copied := copyOf(t, path)
	holdsKeys(o, some...)

	reader, err := OpenReadOnly(copied)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range some {
		if row, err := store.RunByKey(t.Context(), reader, 1, key); err != nil || row.Key != key {
			t.Errorf("a process that only reads: the run of key %s: %q, %v", key, row.Key, err)
		}
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	holdsKeys(newOwner(t, again), some...)
}

// moveAll brings all keys into the index.
func moveAll(o *owner) {
	o.t.Helper()
	for range 2 { // an old generation may not have moved yet
		o.d.mu.Lock()
		if o.d.keys.upTo == 0 {
			o.d.keys.turn()
		}
		o.d.keys.owed = len(o.d.keys.old)
		o.d.mu.Unlock()
		commitKeys(o, uuid.NewString())
	}
}

// TestKeysWithOneHash: the second of two keys with one hash is in the index of whole keys, and can leave
// it.
func TestKeysWithOneHash(t *testing.T) {
	if is := hashOf(&store.RunKey{Workflow: 1, Key: "order 17"}); is != 9165405423257824700 {
		t.Errorf("the hash is %d: databases contain another", is)
	}
	d, _ := openTemp(t)
	o := newOwner(t, d)
	all := make([]string, 0, 30)
	for n := range cap(all) {
		all = append(all, fmt.Sprint("key ", n))
	}
	commitKeys(o, all[:15]...)
	moveAll(o)
	first, err := store.RunByKey(t.Context(), d, 1, all[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range all[15:] { // gives the first run keys with the hash of these keys
		k := store.RunKey{Workflow: 1, Key: key}
		if err := sqlitex.Execute(d.conn, "INSERT INTO run_hash SELECT ?1, n FROM run WHERE id = ?2",
			&sqlitex.ExecOptions{Args: []any{hashOf(&k), first.ID[:]}}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.RunByKey(t.Context(), d, 1, key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the run of key %s: %v", key, err)
		}
	}
	commitKeys(o, all[15:]...)
	moveAll(o)
	if n, err := scalar(d.conn, "SELECT count(*) FROM run_key"); err != nil || n != 15 || !d.keys.whole {
		t.Errorf("%d whole keys, %v, %v", n, d.keys.whole, err)
	}
	if err := sqlitex.Execute(d.conn, "DELETE FROM run_hash AS h WHERE hash <> (SELECT hash_of(workflow, key) FROM run WHERE n = h.run)", nil); err != nil {
		t.Fatal(err)
	}
	holdsKeys(o, all...)
	for _, key := range all[10:20] {
		err := d.transact(func() error {
			n, err := scalar(d.conn, "SELECT n FROM run WHERE key = '"+key+"'")
			if err == nil {
				err = sqlitex.Execute(d.conn, "UPDATE run SET key = NULL WHERE n = ?1", &sqlitex.ExecOptions{Args: []any{n}})
			}
			if err == nil {
				err = treeOf(d).unlist(1, key, n)
			}
			return err
		})
		if err != nil {
			t.Fatalf("key %s leaves: %v", key, err)
		}
		commitKeys(o, key)
	}
	holdsKeys(o, all...)
}

// TestLateKeyLeaves: the key of a deleted run is free at once, and does not come into the index later.
// Another run never gets the number of a deleted one whose key could be in the index.
func TestLateKeyLeaves(t *testing.T) {
	d, path := openTemp(t)
	o := newOwner(t, d)
	commitKeys(o, "a", "b", "c")
	gone := func(key string) {
		t.Helper()
		err := d.transact(func() error {
			n, err := scalar(d.conn, "SELECT n FROM run WHERE key = '"+key+"'")
			if err == nil {
				err = treeOf(d).unlist(1, key, n)
			}
			if err == nil {
				err = sqlitex.Execute(d.conn, "UPDATE run SET key = NULL WHERE n = ?1", &sqlitex.ExecOptions{Args: []any{n}})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	gone("b")
	gone("c")
	commitKeys(o, "c")
	moveAll(o)
	holdsKeys(o, "a", "c")
	commitKeys(o, "b")
	holdsKeys(o, "a", "b", "c")

	keyed := d.keys.keyed
	script(t, path, "DELETE FROM run; DELETE FROM roll; DELETE FROM run_hash; DELETE FROM attempt; DELETE FROM event")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o = newOwner(t, d)
	commitKeys(o, "d")
	if n, err := scalar(d.conn, "SELECT n FROM run"); err != nil || n <= keyed || keyed == 0 {
		t.Errorf("the first run after all were deleted has the number %d, although keys up to %d are in the index, %v", n, keyed, err)
	}
}

// TestKeysStop: if no more runs have keys, the last keys come into the index all the same.
func TestKeysStop(t *testing.T) {
	d, _ := openTemp(t)
	o := newOwner(t, d)
	commitKeys(o, "a", "b", "c")
	for range lateRunsMax/2000 + 3 {
		if _, err := d.Commit(t.Context(), o.batch(0, 2000, nil)); err != nil {
			t.Fatal(err)
		}
		o.fence.Seq++
	}
	if k := &d.keys; k.keyed < lateRunsMax || len(k.runs) > 0 {
		t.Errorf("the index has the keys up to run %d, and %d keys are not in it", k.keyed, len(k.runs))
	}
	holdsKeys(o, "a", "b", "c")
}

// TestKeysOfShortProcesses: keys come into the index also if each process ends after a few starts.
func TestKeysOfShortProcesses(t *testing.T) {
	d, path := openTemp(t)
	o := newOwner(t, d)
	n := 0
	keys := func(most int) (all []string) {
		for range most {
			n++
			all = append(all, fmt.Sprint("key ", n))
		}
		return all
	}
	for range lateKeysMax/2000 + 1 {
		commitKeys(o, keys(2000)...)
	}
	commitKeys(o, keys(1)...)
	before := len(d.keys.runs)
	for range 3 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if d, err = Open(path); err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		made := o.made
		o = newOwner(t, d)
		o.made = made
		commitKeys(o, keys(2)...)
	}
	if late := len(d.keys.runs); late >= before {
		t.Errorf("%d keys are not in the index, after %d when the first of three short processes began", late, before)
	}
	holdsKeys(o, "key 1", fmt.Sprint("key ", n))
}
