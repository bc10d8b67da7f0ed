package sqlite

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// lineList is the list of the runs that wait in a line.
const lineList = "line"

// lineRowMax bounds the runs in one row of a line. The bound is low because the rest of a row is written
// again when a run leaves it.
const lineRowMax = 500

// stander is a run in a line, given by its claim and its number.
type stander struct {
	line  string
	level dag.Priority
	asked dag.Micros
	kept  bool
	run   int64
	id    dag.RunID // the id of a run that leaves
}

// standing returns the position in a line of a run with a claim and a number.
func standing(c *dag.Claim, n int64) stander {
	return stander{c.Line(), c.Level, c.Asked, c.Kept, n, dag.RunID{}}
}

// besides compares two runs. Runs that can share a row compare as equal.
func (s *stander) besides(o *stander) int {
	return cmp.Or(cmp.Compare(s.line, o.line), cmp.Compare(s.level, o.level), cmp.Compare(s.asked, o.asked), cmp.Compare(s.keeps(), o.keeps()))
}

func (s *stander) keeps() int64 {
	if s.kept {
		return 1
	}
	return 0
}

// lineMoves holds the runs that join or leave lines in the present transaction. Most runs join at the end of
// a line and leave at its head. So many moves in one line change only a few rows.
type lineMoves struct {
	come, leave []stander
	packed      []byte
	left        []bool
}

func (m *lineMoves) reset() {
	clear(m.come) // releases the names
	clear(m.leave)
	m.come, m.leave = m.come[:0], m.leave[:0]
}

// line records that a run joins the line that its claim names, or leaves its line. moveLines writes the
// moves.
func (d *DB) line(id dag.RunID, was, is *dag.Claim, n int64) error {
	in, now := was.InLine(), is.InLine()
	if in && now && was.Line() == is.Line() && was.Level == is.Level && was.Asked == is.Asked && was.Kept == is.Kept {
		return nil
	}
	if in {
		s := standing(was, n)
		s.id = id
		d.moves.leave = append(d.moves.leave, s)
	}
	if now {
		d.moves.come = append(d.moves.come, standing(is, n))
	}
	if was.Aside() == is.Aside() {
		return nil
	}
	return d.enlist(lineList, n, is.Aside())
}

// claims packs a claim. The result is valid until the next call.
func (d *DB) claims(r *dag.RunRow) (packed []byte) {
	packed, d.packed = dag.PackClaimsIn(d.packed, r.Claim, r.Shares)
	return dag.PackKept(r.Kept, packed)
}

// moveLines writes first the runs that leave lines, then the runs that join.
func (d *DB) moveLines() error {
	defer d.moves.reset()
	if err := eachRow(d.moves.leave, d.leaveLine); err != nil {
		return err
	}
	return eachRow(d.moves.come, d.comeToLine)
}

// comeToLine writes a row of runs that join a line.
func (d *DB) comeToLine(come []stander) error {
	numbers := func(yield func(int64) bool) {
		for i := range come {
			if !yield(come[i].run) {
				return
			}
		}
	}
	s := &come[0]
	return d.stmts.comeToLine.row().text(s.line).int(int64(s.level)).int(int64(s.asked)).int(s.run).int(s.keeps()).
		int(int64(len(come))).blob(d.moves.pack(numbers)).one(d.conn)
}

// eachRow calls the function see for the runs that one row can contain, in the order of their numbers.
func eachRow(all []stander, see func([]stander) error) error {
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(a.besides(b), cmp.Compare(a.run, b.run)) < 0
	})
	for len(all) > 0 {
		n := 1
		for n < min(len(all), lineRowMax) && all[n].besides(&all[0]) == 0 {
			n++
		}
		if err := see(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// lineRow is a row of a line, with the rising numbers of its runs.
type lineRow struct {
	first int64 // the first number in the row
	runs  []int64
}

// leaveLine removes runs from the rows of their lines. If a run is in no row, the row is damaged, and
// leaveLine refuses the transaction.
func (d *DB) leaveLine(leave []stander) error {
	s := &leave[0]
	var rows []lineRow
	err := d.stmts.lineUpTo.row().text(s.line).int(int64(s.level)).int(int64(s.asked)).int(s.keeps()).int(leave[len(leave)-1].run).
		each(func(r row) error {
			first := r.int()
			if runs, err := packed.UnpackLine(first, r.text()); err == nil { // the runs of a damaged row are reported below as missing
				rows = append(rows, lineRow{first, runs})
			}
			return nil
		})
	left := slices.Grow(d.moves.left[:0], len(leave))[:len(leave)]
	d.moves.left = left
	clear(left)
	for i := 0; i < len(rows) && err == nil; i++ {
		row := &rows[i]
		stood := len(row.runs)
		row.runs = slices.DeleteFunc(row.runs, func(n int64) bool {
			at, found := slices.BinarySearchFunc(leave, n, func(s stander, n int64) int { return cmp.Compare(s.run, n) })
			if found {
				left[at] = true
			}
			return found
		})
		if len(row.runs) < stood {
			err = d.rewriteLine(s, row)
		}
	}
	if at := slices.Index(left, false); err == nil && at >= 0 {
		err = &store.RunError{Run: leave[at].id, Err: fmt.Errorf("the run is not in the line %s: %w", s.line, store.ErrRefused)}
	}
	return err
}

// rewriteLine writes the runs that remain in a row.
func (d *DB) rewriteLine(s *stander, r *lineRow) error {
	if len(r.runs) == 0 {
		return d.stmts.dropLine.row().text(s.line).int(int64(s.level)).int(int64(s.asked)).int(r.first).one(d.conn)
	}
	return d.stmts.thinLine.row().text(s.line).int(int64(s.level)).int(int64(s.asked)).int(r.first).
		int(r.runs[0]).int(int64(len(r.runs))).blob(d.moves.pack(slices.Values(r.runs))).one(d.conn)
}

// pack packs rising numbers of runs. The result is valid until the next call.
func (m *lineMoves) pack(runs iter.Seq[int64]) []byte {
	m.packed = packed.AppendLine(m.packed[:0], runs)
	return m.packed
}
