package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/store"
)

// keyModel compares the keys of a database with a map.
type keyModel struct {
	*owner
	path  string
	taken map[string]bool
}

// crash continues with a copy of the files.
func (m *keyModel) crash() {
	m.t.Helper()
	m.path = copyOf(m.t, m.path)
	if err := m.d.Close(); err != nil {
		m.t.Fatal(err)
	}
	d, err := Open(m.path)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = d.Close() })
	made := m.made
	m.owner = newOwner(m.t, d)
	m.made = made
}

// free reports whether a transaction may have runs with the keys.
func (m *keyModel) free(keys []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(keys)))) == len(keys) &&
		!slices.ContainsFunc(keys, func(k string) bool { return m.taken[k] })
}

// start commits runs with keys, staged or not.
func (m *keyModel) start(keys []string, staged bool) {
	m.t.Helper()
	b := keyedBatch(m.owner, keys...)
	if staged {
		m.d.Stage(b)
		m.d.writeAhead(m.d.stages.first())
	}
	_, err := m.d.Commit(m.t.Context(), b)
	if want := m.free(keys); (err == nil) != want || err != nil && !errors.Is(err, store.ErrRefused) {
		m.t.Fatalf("a start with the keys %q: %v, want success: %v", keys, err, want)
	}
	if err != nil {
		m.d.Unstage()
		return
	}
	m.fence.Seq++
	for _, key := range keys {
		m.taken[key] = true
	}
}

// delete deletes the run of a key, as retention does.
func (m *keyModel) delete(key string, fails error) {
	m.t.Helper()
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	err := m.d.transact(func() error {
		n, err := scalar(m.d.conn, "SELECT n FROM run WHERE key = '"+key+"'")
		for _, table := range []string{"run WHERE n", "event WHERE run", "attempt WHERE run"} {
			err = errors.Join(err, sqlitex.Execute(m.d.conn, "DELETE FROM "+table+" = ?1", &sqlitex.ExecOptions{Args: []any{n}}))
		}
		for _, list := range []string{activeList, workflowList(1), userList("ada")} {
			err = errors.Join(err, m.d.enlist(list, n, false))
		}
		m.d.numbers.reset()
		return errors.Join(err, treeOf(m.d).unlist(1, key, n), m.d.writeRolls(), fails)
	})
	if !errors.Is(err, fails) || fails == nil && err != nil {
		m.t.Fatalf("key %s leaves: %v", key, err)
	}
	if fails == nil {
		delete(m.taken, key)
	}
}

func (m *keyModel) look(d *DB, keys []string) {
	m.t.Helper()
	ask := make([]store.RunKey, len(keys))
	for i, key := range keys {
		ask[i] = store.RunKey{Workflow: 1, Key: key}
	}
	rows, err := d.RunsByKeys(m.t.Context(), ask)
	if err != nil {
		m.t.Fatal(err)
	}
	found := map[string]bool{}
	for i := range rows {
		found[rows[i].Key] = true
	}
	for _, key := range keys {
		if found[key] != m.taken[key] {
			m.t.Fatalf("key %s has a run: %v, want %v", key, found[key], m.taken[key])
		}
	}
}

// TestKeysByModel: whatever happens, a key belongs to its run and to no other one.
func TestKeysByModel(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d, path := openTemp(t)
			m := &keyModel{newOwner(t, d), path, map[string]bool{}}
			r := rand.New(rand.NewPCG(seed, 1))
			some := func(most int) (keys []string) {
				for range 1 + r.IntN(most) {
					keys = append(keys, fmt.Sprint("k", r.IntN(400)))
				}
				return keys
			}
			unused := func() (keys []string) {
				for _, i := range r.Perm(400) {
					if k := fmt.Sprint("k", i); !m.taken[k] && len(keys) < 20 {
						keys = append(keys, k)
					}
				}
				return keys
			}
			for step := range 120 {
				switch op := r.IntN(100); {
				case op < 20:
					m.start(some(2), r.IntN(2) == 0)
				case op < 45:
					keys := unused()
					if r.IntN(2) == 0 {
						m.look(m.d, keys)
					}
					if len(keys) > 0 {
						m.start(keys, r.IntN(2) == 0)
					}
				case op < 55:
					m.look(m.d, some(20))
				case op < 75:
					for range 8 {
						if k := some(1)[0]; m.taken[k] {
							m.delete(k, nil)
						}
					}
				case op < 80:
					if k := some(1)[0]; m.taken[k] {
						m.delete(k, errors.New("fails"))
					}
				case op < 85:
					m.d.mu.Lock()
					fails := errors.New("fails")
					_ = m.d.transact(func() error { return errors.Join(m.d.apply(keyedBatch(m.owner, unused()...)), fails) })
					m.d.mu.Unlock()
				case op < 90:
					if keys := unused(); len(keys) > 0 { // the test stages a transaction and drops it
						m.d.Stage(keyedBatch(m.owner, keys...))
						m.d.writeAhead(m.d.stages.first())
						m.look(m.d, keys)
						m.d.Unstage()
					}
				case op < 96:
					m.d.mu.Lock()
					m.d.dropAhead()
					if m.d.keys.upTo == 0 && m.d.keys.last > 0 {
						m.d.keys.turn()
					}
					m.d.keys.owed += r.IntN(200)
					m.d.mu.Unlock()
				case op < 98:
					m.crash()
				default:
					reader, err := OpenReadOnly(copyOf(t, m.path))
					if err != nil {
						t.Fatal(err)
					}
					m.look(reader, some(20))
					_ = reader.Close()
				}
				if step%8 > 0 {
					continue
				}
				if bad, err := m.d.Check(t.Context()); err != nil || len(bad) > 0 {
					t.Fatalf("check: %q, %v", bad, err)
				}
			}
			for i := range 400 {
				m.look(m.d, []string{fmt.Sprint("k", i)})
			}
		})
	}
}
