package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"sort"
	"sync"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Idempotency keys are mostly random, so each new key would change a page of its own in an index of keys,
// and SQLite writes pages as a whole, into the log and later into the database. So the index, run_hash, is
// small: it has hashes of keys. And a key comes into it late, together with other keys, in the order of
// the index: then many keys share a page. Until then the row of the run has the key, and so does lateKeys.
//
// If two keys have one hash, the second is in run_key, which has whole keys. Keys of earlier formats are
// there, too.
//
// Invariant: the key of a run whose number is at most meta.keyed is in run_hash or run_key. The key of a
// run with a higher number is there or in lateKeys.

const (
	// lateKeysMax is the number of keys of a generation, and lateRunsMax the number of runs after which a
	// generation ends even if it has fewer keys. They bound what a process reads when it opens the
	// database.
	lateKeysMax = 8192
	lateRunsMax = 16 << 10
	// movedKeys is the number of keys that move into the index together.
	movedKeys = 64
	// freshKeysMax bounds the keys that are known to have no run.
	freshKeysMax = 8192
)

// lateKey is a key that is not in the index, its hash, and the number of its run.
type lateKey struct {
	store.RunKey
	hash, n int64
}

// hashOf returns the hash of a key in the index: FNV-1a of the workflow and the key, shifted right by one
// bit. Databases contain it, so it must not change.
func hashOf(k *store.RunKey) int64 {
	h := uint64(14695981039346656037)
	for w, i := uint64(k.Workflow), 0; i < 8; i++ {
		h = (h ^ w&0xff) * 1099511628211
		w >>= 8
	}
	for i := range len(k.Key) {
		h = (h ^ uint64(k.Key[i])) * 1099511628211
	}
	return int64(h >> 1)
}

// lateKeys holds the keys that are not in the index. New keys come into the generation young. When it is
// full it becomes the generation old, whose keys move into the index in order, two for each new key and
// one for each new run without a key. After the last one meta.keyed rises.
//
// Only the holder of DB.mu changes lateKeys.
type lateKeys struct {
	mu   sync.Mutex             // protects runs
	runs map[store.RunKey]int64 // all late keys; a key of a deleted run goes when its transaction commits
	// fresh are keys that had no run when the holder of DB.mu looked. A key leaves fresh when a run gets
	// it.
	fresh map[store.RunKey]struct{}

	young, old []lateKey
	at         int   // the index in old of the next key that moves
	owed       int   // the number of keys that should move now
	keyed      int64 // meta.keyed
	upTo       int64 // the value of meta.keyed when all of old has moved; 0 if there is no old generation
	whole      bool  // run_key has keys
	last       int64 // the highest number that a run has had while this process wrote, and at least keyed

	// The changes of the transaction under way.
	runsMade int64     // the number of new runs
	added    int       // the number of keys at the end of young
	moved    int       // the number of keys of old, from at on
	gone     []lateKey // keys of deleted runs
	raise    bool      // meta.keyed rises to upTo

	moving []lateKey // used by keyTree.move
}

// find returns the number of the run that has a key. It is for keys that are not in the index.
func (l *lateKeys) find(k store.RunKey) (n int64, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, there = l.runs[k]
	return n, there
}

func (l *lateKeys) put(k store.RunKey, n int64) {
	l.mu.Lock()
	l.runs[k] = n
	l.mu.Unlock()
}

// drop forgets keys, unless another run has them.
func (l *lateKeys) drop(keys []lateKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range keys {
		if l.runs[keys[i].RunKey] == keys[i].n {
			delete(l.runs, keys[i].RunKey)
		}
	}
}

// absent records a key without a run.
func (l *lateKeys) absent(k store.RunKey) {
	if len(l.fresh) >= freshKeysMax {
		clear(l.fresh)
	}
	l.fresh[k] = struct{}{}
}

// load reads the keys that are not in the index.
func (l *lateKeys) load(conn *sqlite.Conn) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs, l.fresh = map[store.RunKey]int64{}, map[store.RunKey]struct{}{}
	l.young, l.old, l.at, l.owed, l.upTo = nil, nil, 0, movedKeys, 0 // owed begins with movedKeys, so that a process that ends soon moves keys, too
	l.runsMade, l.added, l.moved, l.gone, l.raise = 0, 0, 0, nil, false
	if l.keyed, err = scalar(conn, "SELECT keyed FROM meta"); err != nil {
		return err
	}
	if l.last, err = scalar(conn, "SELECT coalesce(max(n), 0) FROM run"); err != nil {
		return err
	}
	l.last = max(l.last, l.keyed) // a number up to keyed is never given again
	whole, err := scalar(conn, "SELECT EXISTS (SELECT 1 FROM run_key)")
	if err != nil {
		return err
	}
	l.whole = whole != 0
	return sqlitex.Execute(conn, `SELECT workflow, key, n FROM run r WHERE n > ?1 AND key IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM run_hash h WHERE h.hash = hash_of(r.workflow, r.key) AND h.run = r.n)
		AND NOT EXISTS (SELECT 1 FROM run_key k WHERE k.workflow = r.workflow AND k.key = r.key AND k.run = r.n) ORDER BY n`,
		&sqlitex.ExecOptions{Args: []any{l.keyed}, ResultFunc: func(s *sqlite.Stmt) error {
			k := store.RunKey{Workflow: dag.WorkflowID(s.ColumnInt64(0)), Key: s.ColumnText(1)}
			l.runs[k] = s.ColumnInt64(2)
			l.young = append(l.young, lateKey{k, hashOf(&k), s.ColumnInt64(2)})
			return nil
		}})
}

// hashing adds the function hash_of(workflow, key) to a connection.
func hashing(conn *sqlite.Conn) error {
	return conn.CreateFunction("hash_of", &sqlite.FunctionImpl{NArgs: 2, Deterministic: true, AllowIndirect: true,
		Scalar: func(_ sqlite.Context, args []sqlite.Value) (sqlite.Value, error) {
			k := store.RunKey{Workflow: dag.WorkflowID(args[0].Int64()), Key: args[1].Text()}
			return sqlite.IntegerValue(hashOf(&k)), nil
		}})
}

// undo drops the changes of a transaction that was not committed.
func (l *lateKeys) undo() {
	l.drop(l.young[len(l.young)-l.added:])
	l.young = l.young[:len(l.young)-l.added]
	l.last -= l.runsMade
	l.runsMade, l.added, l.moved, l.gone, l.raise = 0, 0, 0, l.gone[:0], false
}

// kept takes over the changes of a transaction that was committed.
func (l *lateKeys) kept() {
	if l.moved > 0 {
		l.drop(l.old[l.at : l.at+l.moved])
		l.at += l.moved
		l.owed = max(l.owed-l.moved, 0)
	}
	if len(l.gone) > 0 {
		l.drop(l.gone)
	}
	if l.raise {
		l.keyed, l.upTo, l.old, l.at, l.owed = l.upTo, 0, l.old[:0], 0, 0
	}
	if l.upTo > 0 {
		l.owed += l.added + int(l.runsMade)
	} else if len(l.young) >= lateKeysMax || l.last-l.keyed >= lateRunsMax {
		l.turn()
	}
	l.runsMade, l.added, l.moved, l.gone, l.raise = 0, 0, 0, l.gone[:0], false
}

// turn makes the young generation old.
func (l *lateKeys) turn() {
	l.old, l.young, l.upTo = l.young, l.old[:0], l.last
	sort.Slice(l.old, func(i, j int) bool { return l.old[i].hash < l.old[j].hash })
}

// nextNumber returns the number of a new run.
func (l *lateKeys) nextNumber() int64 {
	l.runsMade++
	l.last++
	return l.last
}

// key records the idempotency key of a new run, if it has one. A key belongs to one run of a workflow.
func (d *DB) key(w dag.WorkflowID, key string, n int64) error {
	if key == "" {
		return nil
	}
	k := store.RunKey{Workflow: w, Key: key}
	hash := hashOf(&k)
	if _, fresh := d.keys.fresh[k]; fresh {
		delete(d.keys.fresh, k)
	} else if _, taken := d.keys.find(k); taken {
		return takenKey(&k)
	} else if listed, err := treeOf(d).listed(&k, hash); err != nil {
		return err
	} else if listed { // perhaps another key with this hash
		if taken, err := treeOf(d).found(d.stmts.keyTaken.row().int(int64(w)).text(key).int(hash)); err != nil || taken {
			return cmp.Or(err, takenKey(&k))
		}
	}
	d.keys.put(k, n)
	d.keys.young = append(d.keys.young, lateKey{k, hash, n})
	d.keys.added++
	return nil
}

func takenKey(k *store.RunKey) error {
	return fmt.Errorf("another run of workflow %d has the key %s: %w", k.Workflow, k.Key, store.ErrRefused)
}

// keyTree is the index of keys in the database.
type keyTree struct{ *DB }

func treeOf(d *DB) keyTree { return keyTree{d} }

// listed reports whether the index has a key, or has another key with its hash.
func (d keyTree) listed(k *store.RunKey, hash int64) (bool, error) {
	listed, err := d.found(d.stmts.hashThere.row().int(hash))
	if err == nil && !listed && d.keys.whole {
		listed, err = d.found(d.stmts.keyThere.row().int(int64(k.Workflow)).text(k.Key))
	}
	return listed, err
}

// found reports whether a statement finds a row.
func (d keyTree) found(s *stmt) (bool, error) {
	if s.fail != nil {
		return false, s.fail
	}
	found, err := s.Step()
	return found, translate(s.name, errors.Join(err, s.Reset()))
}

// hashesEach is the number of hashes for which one statement looks, or which it inserts. A statement costs
// more than its work for one hash.
const hashesEach = 8

// anyListed reports whether the index has one of the keys, or another key with the hash of one.
func (d keyTree) anyListed(keys []store.RunKey) (bool, error) {
	for len(keys) >= hashesEach && !d.keys.whole {
		s := d.stmts.hashesThere.row()
		for i := range hashesEach {
			s.int(hashOf(&keys[i]))
		}
		if listed, err := d.found(s); listed || err != nil {
			return listed, err
		}
		keys = keys[hashesEach:]
	}
	for i := range keys {
		if listed, err := d.listed(&keys[i], hashOf(&keys[i])); listed || err != nil {
			return listed, err
		}
	}
	return false, nil
}

// listAll puts keys into the index.
func (d keyTree) listAll(keys []lateKey) error {
	for len(keys) >= hashesEach {
		s := d.stmts.insertHashes.row()
		for i := range hashesEach {
			s.int(keys[i].hash).int(keys[i].n)
		}
		n, err := s.exec(d.conn)
		for i := 0; i < hashesEach && n < hashesEach && err == nil; i++ { // fewer rows were inserted, because another key has the hash of one of the keys
			var listed bool
			if listed, err = d.found(d.stmts.hashOfRun.row().int(keys[i].hash).int(keys[i].n)); err == nil && !listed {
				err = d.list(&keys[i])
			}
		}
		if err != nil {
			return err
		}
		keys = keys[hashesEach:]
	}
	for i := range keys {
		if err := d.list(&keys[i]); err != nil {
			return err
		}
	}
	return nil
}

// list puts a key into the index.
func (d keyTree) list(k *lateKey) error {
	n, err := d.stmts.insertHash.row().int(k.hash).int(k.n).exec(d.conn)
	if err != nil || n == 1 {
		return err
	}
	d.keys.whole = true // this is right even if the transaction fails
	return d.stmts.insertKey.row().int(int64(k.Workflow)).text(k.Key).int(k.n).one(d.conn)
}

// move moves keys into the index.
func (d keyTree) move() error {
	l := &d.keys
	if l.upTo == 0 {
		return nil
	}
	left := l.old[l.at:]
	if n := min(l.owed, len(left)); n >= movedKeys || n == len(left) {
		l.moving = l.moving[:0]
		for i := range left[:n] {
			if m, there := l.find(left[i].RunKey); there && m == left[i].n { // otherwise the run of the key was deleted
				l.moving = append(l.moving, left[i])
			}
		}
		if err := d.listAll(l.moving); err != nil {
			return err
		}
		l.moved = n
	}
	if l.moved < len(left) {
		return nil
	}
	l.raise = true
	return d.stmts.keyed.row().int(l.upTo).one(d.conn)
}

// unlist frees the key of a deleted run.
func (d keyTree) unlist(w dag.WorkflowID, key string, run int64) error {
	k := lateKey{RunKey: store.RunKey{Workflow: w, Key: key}, n: run}
	if n, late := d.keys.find(k.RunKey); late && n == run {
		d.keys.gone = append(d.keys.gone, k)
		return nil
	}
	n, err := d.stmts.expireHash.row().int(hashOf(&k.RunKey)).int(run).exec(d.conn)
	if err != nil || n == 1 {
		return err
	}
	return d.stmts.expireKey.row().int(int64(w)).text(key).int(run).one(d.conn)
}
