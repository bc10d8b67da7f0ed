package sqlite

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// numbersMax bounds the numbers remembered: about 8 MiB.
const numbersMax = 100_000

// numbers remembers the numbers of runs lately written, so that their next rows need no
// look-up. A number never changes; what a rollback takes back is forgotten.
type numbers struct {
	recent, older map[dag.RunID]int64
	last          dag.RunID // a run's rows come together
	lastN         int64
}

func (m *numbers) put(id dag.RunID, n int64) {
	if m.recent == nil || len(m.recent) >= numbersMax/2 {
		m.older, m.recent = m.recent, make(map[dag.RunID]int64, 1024)
	}
	m.recent[id] = n
	m.last, m.lastN = id, n
}

// drop forgets a run that has gone.
func (m *numbers) drop(id dag.RunID) {
	delete(m.recent, id)
	delete(m.older, id)
	if m.last == id {
		m.lastN = 0
	}
}

func (m *numbers) reset() { *m = numbers{} }

// number finds a run's number inside the transaction.
func (d *DB) number(id dag.RunID) (int64, error) {
	m := &d.numbers
	if m.lastN != 0 && m.last == id {
		return m.lastN, nil
	}
	for _, known := range []map[dag.RunID]int64{m.recent, m.older} {
		if n, ok := known[id]; ok {
			m.last, m.lastN = id, n
			return n, nil
		}
	}
	s := d.stmts.runNumber.row().blob(id[:])
	found, err := s.Step()
	if err != nil {
		return 0, translate(s.name, err)
	}
	n := s.ColumnInt64(0)
	if err := s.Reset(); err != nil {
		return 0, translate(s.name, err)
	}
	if !found {
		return 0, fmt.Errorf("run %s does not exist: %w", id, store.ErrFenced)
	}
	d.numbers.put(id, n)
	return n, nil
}
