package sqlite

import (
	"encoding/binary"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// numbersMax bounds the remembered numbers: 6 MiB, of which only used parts are touched.
const numbersMax = 1 << 18

// numbers remembers the numbers of runs that were written recently, so that writing their next rows needs no
// look-up. The number of a run never changes. Numbers from a transaction that was rolled back are dropped.
//
// The position of a run is determined by the end of its id, which is random. The run stays there until
// another run takes the position. A transaction looks up thousands of numbers, and a map takes three times as
// long.
type numbers struct{ known []knownRun }

type knownRun struct {
	id dag.RunID
	n  int64 // 0 if the position is free
}

func (m *numbers) place(id dag.RunID) *knownRun {
	if m.known == nil {
		m.known = make([]knownRun, numbersMax)
	}
	return &m.known[binary.BigEndian.Uint32(id[len(id)-4:])%numbersMax]
}

func (m *numbers) put(id dag.RunID, n int64) { *m.place(id) = knownRun{id, n} }

// drop forgets a deleted run.
func (m *numbers) drop(id dag.RunID) {
	if p := m.place(id); p.id == id {
		*p = knownRun{}
	}
}

func (m *numbers) reset() { m.known = nil }

// number finds a run's number inside the transaction.
func (d *DB) number(id dag.RunID) (int64, error) {
	if p := d.numbers.place(id); p.n != 0 && p.id == id {
		return p.n, nil
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
