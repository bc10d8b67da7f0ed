package transfer

import (
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// marks holds the marks of the tally while workflows get other shards. A mark is the position up to which the
// ends of runs are counted. The mark of a shard applies to each of its workflows without an own mark
// (store.TallyMark). The workflows of one shard may go to several shards, so each of them gets its own mark.
// A new shard gets its mark when its owner counts.
type marks struct {
	shard map[dag.WorkflowID]int64 // shards in the source of the workflows without an own mark
	of    map[int64][]store.Value  // marks of shards in the source
}

func newMarks() marks {
	return marks{shard: map[dag.WorkflowID]int64{}, of: map[int64][]store.Value{}}
}

// mark copies the mark of a workflow, and stores the mark of a shard.
func (m *mover) mark(values []store.Value) error {
	w := dag.WorkflowID(values[m.workflow].Int)
	if w == 0 {
		m.marks.of[values[m.shard].Int] = slices.Clone(values)
		return nil
	}
	delete(m.marks.shard, w)
	m.rehome(values)
	return m.write(values)
}

// keepMarks writes the marks of the workflows at the end of the table.
func (m *mover) keepMarks() error {
	if m.table == nil || m.table.Name != "tally_mark" || len(m.marks.of) == 0 {
		return nil
	}
	for _, w := range slices.Sorted(maps.Keys(m.marks.shard)) {
		is, counted := m.marks.of[m.marks.shard[w]]
		if !counted {
			continue
		}
		values := slices.Clone(is)
		values[m.workflow].Int, values[m.table.Index("rev")].Int = int64(w), 0
		m.rehome(values)
		if err := m.write(values); err != nil {
			return err
		}
	}
	m.marks = newMarks()
	return nil
}
