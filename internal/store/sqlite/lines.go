package sqlite

import (
	"cmp"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// lineList is the list of the runs that stand aside in some line.
const lineList = "line"

// lineRow is a row of a line, as a claim and the number of its run say it.
type lineRow struct {
	line  string
	level dag.Priority
	asked dag.Micros
	run   int64
	kept  bool
}

// lineMoves are the runs that come to lines, and leave them, in the transaction being made. Most come to
// the ends of lines and leave at their heads, so many of a line cost few statements.
type lineMoves struct{ come, leave []lineRow }

func (m *lineMoves) reset() {
	clear(m.come) // the names
	clear(m.leave)
	m.come, m.leave = m.come[:0], m.leave[:0]
}

// How many rows make up one statement.
const (
	lineLeaveMin = 4
	lineComeRows = 8 // as putManyInLine has
	lineComeSpan = 4 // runs whose numbers follow each other
)

// line puts a run into the line that its claim names, or takes it out of the one it was in: see moveLines.
func (d *DB) line(was, is *dag.Claim, n int64) error {
	in, now := was.InLine(), is.InLine()
	if in && now && was.Line() == is.Line() && was.Level == is.Level && was.Asked == is.Asked && was.Kept == is.Kept {
		return nil
	}
	if in {
		d.moves.leave = append(d.moves.leave, lineRow{line: was.Line(), level: was.Level, asked: was.Asked, run: n})
	}
	if now {
		d.moves.come = append(d.moves.come, lineRow{line: is.Line(), level: is.Level, asked: is.Asked, run: n, kept: is.Kept})
	}
	if was.Aside() == is.Aside() {
		return nil
	}
	return d.enlist(lineList, n, is.Aside())
}

// claims packs what a run claims; it is good until the next one is packed.
func (d *DB) claims(r *dag.RunRow) (packed []byte) {
	packed, d.packed = dag.PackClaimsIn(d.packed, r.Claim, r.Shares)
	return packed
}

// moveLines writes who leaves lines, then who comes.
func (d *DB) moveLines() error {
	leave, come := d.moves.leave, d.moves.come
	slices.SortFunc(leave, compareLineRows)
	for len(leave) > 0 {
		n := 1
		for n < len(leave) && leave[n].line == leave[0].line && leave[n].level == leave[0].level {
			n++
		}
		if err := d.leaveLine(leave[:n]); err != nil {
			return err
		}
		leave = leave[n:]
	}
	slices.SortFunc(come, compareLineRows)
	for len(come) > 0 {
		n, err := d.comeToLine(come)
		if err != nil {
			return err
		}
		come = come[n:]
	}
	d.moves.reset()
	return nil
}

// comeToLine writes the first of those that come, and reports how many that were.
func (d *DB) comeToLine(come []lineRow) (int, error) {
	first := &come[0]
	n := 1
	for n < len(come) && come[n] == (lineRow{first.line, first.level, first.asked, first.run + int64(n), first.kept}) {
		n++
	}
	if n >= lineComeSpan {
		rows, err := d.stmts.putSpanInLine.row().text(first.line).int(int64(first.level)).int(int64(first.asked)).int(first.keeps()).
			int(first.run).int(first.run + int64(n) - 1).exec(d.conn)
		if err == nil && rows != n {
			err = fmt.Errorf("%d of %d runs came to line %s: %w", rows, n, first.line, store.ErrFenced)
		}
		return n, err
	}
	s := d.stmts.putInLine
	if n = 1; len(come) >= lineComeRows {
		s, n = d.stmts.putManyInLine, lineComeRows
	}
	s.row()
	for i := range come[:n] {
		r := &come[i]
		s.text(r.line).int(int64(r.level)).int(int64(r.asked)).int(r.run).int(r.keeps())
	}
	_, err := s.exec(d.conn)
	return n, err
}

func (r *lineRow) keeps() int64 {
	if r.kept {
		return 1
	}
	return 0
}

func compareLineRows(a, b lineRow) int {
	return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.level, b.level), cmp.Compare(a.asked, b.asked), cmp.Compare(a.run, b.run))
}

// leaveLine takes runs of one level out of one line: those that stand there without anybody in between by one
// statement, after a look whether they do.
func (d *DB) leaveLine(rows []lineRow) error {
	first, last := &rows[0], &rows[len(rows)-1]
	if len(rows) >= lineLeaveMin {
		together, err := d.together(rows)
		if err != nil {
			return err
		}
		if together {
			_, err := d.stmts.leaveSpan.row().text(first.line).int(int64(first.level)).int(int64(first.asked)).int(first.run).
				int(int64(last.asked)).int(last.run).exec(d.conn)
			return err
		}
		if n := len(rows) / 2; n >= lineLeaveMin { // most leave at the head, and one from the middle is no reason to take all one by one
			if err := d.leaveLine(rows[:n]); err != nil {
				return err
			}
			return d.leaveLine(rows[n:])
		}
	}
	for i := range rows {
		r := &rows[i]
		if err := d.stmts.leaveLine.row().text(r.line).int(int64(r.level)).int(int64(r.asked)).int(r.run).one(d.conn); err != nil {
			return err
		}
	}
	return nil
}

// together reports whether rows of one line and level are all there, and nobody is in between. It compares how many
// there are and the sum of their numbers: to read each would cost half of what it saves to take them out together.
func (d *DB) together(rows []lineRow) (same bool, err error) {
	first, last := &rows[0], &rows[len(rows)-1]
	sum := int64(0)
	for i := range rows {
		sum += rows[i].run
	}
	err = d.stmts.lineSpan.row().text(first.line).int(int64(first.level)).int(int64(first.asked)).int(first.run).
		int(int64(last.asked)).int(last.run).int(int64(len(rows)) + 1).each(func(r row) error {
		same = r.int() == int64(len(rows)) && r.int() == sum
		return nil
	})
	return same, err
}
