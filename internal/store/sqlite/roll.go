package sqlite

import (
	"fmt"
	"math/bits"
	"strconv"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store/packed"
)

// rollPagesMax bounds the pages that the writer keeps: 1 MiB.
const rollPagesMax = 4096

// Names of the lists of runs. A run is on activeList while it is unfinished, on the list of its state if
// it is unsuccessful, and on lineList (lines.go) while it waits in a line.
const activeList = "active"

func stateList(s string) string { return "s/" + s }

func workflowList(w dag.WorkflowID) string { return "w/" + strconv.FormatInt(int64(w), 10) }
func userList(user string) string          { return "u/" + user }

// tagList returns the list of the runs that have a tag, KEY=VALUE.
func tagList(tag string) string { return "t/" + tag }

// tagsIn returns the tags in the packed origin of a run. It returns none for a damaged origin, and skein
// verify reports the damage.
func tagsIn(fire []byte) dag.Tags {
	f, err := dag.UnpackFire(fire)
	if err != nil || f == nil {
		return ""
	}
	return f.Tags
}

// lastLists holds the names of the lists of the last inserted run, because most runs of a transaction have
// the same workflow and user.
type lastLists struct {
	workflow, user string
	w              dag.WorkflowID
	u              string
}

// of returns the lists of the workflow and of the user of a run.
func (m *lastLists) of(r *dag.RunRow) (workflow, user string) {
	if m.workflow == "" || m.w != r.Workflow || m.u != r.User {
		*m = lastLists{workflowList(r.Workflow), userList(r.User), r.Workflow, r.User}
	}
	return m.workflow, m.user
}

// rollKey names a page of a list.
type rollKey struct {
	list string
	page int64
}

// rollPage is a page as it will be when the transaction commits.
type rollPage struct {
	bits  packed.Page
	dirty bool
}

// rolls is the writer's cache of pages. It is dropped after a failed transaction.
type rolls struct {
	pages map[rollKey]*rollPage
	dirty []rollKey
}

func (m *rolls) reset() { m.pages, m.dirty = nil, m.dirty[:0] }

// enlist puts a run on a list or removes it, inside of the transaction.
func (d *DB) enlist(list string, n int64, on bool) error {
	key := rollKey{list, n / packed.PageRuns}
	p := d.rolls.pages[key]
	if p == nil {
		var err error
		if p, err = d.loadRoll(key); err != nil {
			return err
		}
	}
	if word, bit := n%packed.PageRuns/64, uint64(1)<<(n%64); on {
		p.bits[word] |= bit
	} else {
		p.bits[word] &^= bit
	}
	if !p.dirty {
		p.dirty = true
		d.rolls.dirty = append(d.rolls.dirty, key)
	}
	return nil
}

// enlistTags puts a run on the lists of its tags or removes it from them.
func enlistTags(d *DB, tags dag.Tags, n int64, on bool) error {
	if tags == "" {
		return nil // the loop would allocate its iterator for each run
	}
	for tag := range tags.Lines() {
		if err := d.enlist(tagList(tag), n, on); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) loadRoll(key rollKey) (*rollPage, error) {
	if len(d.rolls.pages) >= rollPagesMax && len(d.rolls.dirty) == 0 {
		d.rolls.pages = nil
	}
	if d.rolls.pages == nil {
		d.rolls.pages = map[rollKey]*rollPage{}
	}
	s := d.stmts.readRoll.row().text(key.list).int(key.page)
	found, err := s.Step()
	if err != nil {
		return nil, translate(s.name, err)
	}
	p := &rollPage{}
	if found {
		if p.bits, err = readBits(s.Stmt, 0); err != nil {
			return nil, fmt.Errorf("list %s: %w", key.list, err)
		}
	}
	if err := s.Reset(); err != nil {
		return nil, translate(s.name, err)
	}
	d.rolls.pages[key] = p
	return p, nil
}

// writeRolls writes the pages that the transaction has changed. It deletes empty pages, so that the work of a
// reader of the unfinished runs does not grow with the history.
func (d *DB) writeRolls() error {
	for _, key := range d.rolls.dirty {
		p := d.rolls.pages[key]
		p.dirty = false
		s := d.stmts.dropRoll
		if p.bits != (packed.Page{}) {
			s = d.stmts.writeRoll
		}
		s.row().text(key.list).int(key.page)
		if s == d.stmts.writeRoll {
			s.blob(packed.PackPage(&p.bits))
		}
		if _, err := s.exec(d.conn); err != nil {
			return err
		}
	}
	d.rolls.dirty = d.rolls.dirty[:0]
	return nil
}

func readBits(s *sqlite.Stmt, col int) (words packed.Page, err error) {
	var raw [packed.PageRuns / 8]byte
	if s.ColumnLen(col) != len(raw) {
		return words, fmt.Errorf("a page of %d bytes", s.ColumnLen(col))
	}
	s.ColumnBytes(col, raw[:])
	return packed.UnpackPage(&raw), nil
}

// walkUp calls the function see for the runs of a list in rising order, from a number on, until see returns
// false.
func (d *DB) walkUp(conn *sqlite.Conn, list string, from int64, see func(n int64) (bool, error)) error {
	return d.walk(conn, "rollUp", list, from, func(page int64, words *packed.Page) (bool, error) {
		return upwards(page, words, from, see)
	})
}

func (d *DB) walkActive(conn *sqlite.Conn, from int64, see func(n int64) (bool, error)) error {
	return d.walkUp(conn, activeList, from, see)
}

// walkMoving does the same as walkActive, without the runs that wait in a line. Leaving them out costs
// reading a second bitmap.
func (d *DB) walkMoving(conn *sqlite.Conn, from int64, see func(n int64) (bool, error)) error {
	return d.walk(conn, "rollUp", activeList, from, func(page int64, words *packed.Page) (bool, error) {
		err := d.on(conn, "rollPage", []any{lineList, page}, func(s *sqlite.Stmt) error {
			waits, err := readBits(s, 0)
			for w := range words {
				words[w] &^= waits[w]
			}
			return err
		})
		if err != nil {
			return false, err
		}
		return upwards(page, words, from, see)
	})
}

// upwards calls the function see for the runs of a page in rising order, from a number on. more is false if
// see has returned false.
func upwards(page int64, words *packed.Page, from int64, see func(n int64) (bool, error)) (more bool, err error) {
	for w := range words {
		for left := words[w]; left != 0; left &= left - 1 {
			n := page*packed.PageRuns + int64(w*64+bits.TrailingZeros64(left))
			if n < from {
				continue
			}
			if more, err := see(n); !more || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// downwards calls the function see for the runs of a page in falling order, below a number. more is false if
// see has returned false.
func downwards(page int64, words *packed.Page, below int64, see func(n int64) (bool, error)) (more bool, err error) {
	for w := len(words) - 1; w >= 0; w-- {
		for left := words[w]; left != 0; {
			top := 63 - bits.LeadingZeros64(left)
			left &^= 1 << top
			n := page*packed.PageRuns + int64(w*64+top)
			if n >= below {
				continue
			}
			if more, err := see(n); !more || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

func (d *DB) walk(conn *sqlite.Conn, name, list string, from int64, see func(int64, *packed.Page) (bool, error)) error {
	more := true
	err := d.on(conn, name, []any{list, from / packed.PageRuns}, func(s *sqlite.Stmt) error {
		words, err := readBits(s, 1)
		if err != nil {
			return err
		}
		if more, err = see(s.ColumnInt64(0), &words); err == nil && !more {
			err = errEnough
		}
		return err
	})
	if !more {
		return nil
	}
	return err
}

// errEnough ends a walk or a statement early.
var errEnough = fmt.Errorf("enough")
