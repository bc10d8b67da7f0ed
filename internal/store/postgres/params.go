package postgres

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Parameters are sent to the database in its binary form. This file encodes them. Encoding a value takes a
// few appends, and encoding a row allocates nothing.

// valueMax bounds one text or blob, in bytes.
const valueMax = 64 << 20

// The object ids of the types that parameters have.
const (
	oidBytea = 17
	oidInt8  = 20
	oidInt4  = 23
	oidText  = 25
	oidUUID  = 2950
)

// args are parameters that are plain values, in the order of their numbers.
type args [][]byte

func (a args) int8(v int64) args { return append(a, binary.BigEndian.AppendUint64(nil, uint64(v))) }
func (a args) int4(v int32) args { return append(a, binary.BigEndian.AppendUint32(nil, uint32(v))) }
func (a args) flag(v bool) args {
	if v {
		return append(a, []byte{1})
	}
	return append(a, []byte{0})
}
func (a args) text(v string) args {
	return append(a, append([]byte{}, v...)) // an empty text, which is not NULL
}
func (a args) blob(v []byte) args    { return append(a, v) } // nil is NULL
func (a args) id(v dag.RunID) args   { return append(a, v[:]) }
func (a args) array(v *column) args  { return append(a, v.array()) }
func (a args) shards(v []int32) args { return a.array(int4s(v)) }

func int4s(v []int32) *column {
	c := newColumn(oidInt4)
	for _, n := range v {
		c.add(binary.BigEndian.AppendUint32(nil, uint32(n)))
	}
	return c
}

func int8s[T ~int64](v []T) *column {
	c := newColumn(oidInt8)
	for _, n := range v {
		c.add(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	return c
}

func ids(v []dag.RunID) *column {
	c := newColumn(oidUUID)
	for i := range v {
		c.add(v[i][:])
	}
	return c
}

func texts(v []string) *column {
	c := newColumn(oidText)
	for i := range v {
		c.add([]byte(v[i]))
	}
	return c
}

// arrayHead is the length of a binary array before its elements.
const arrayHead = 20

// column is an array that is being built. While all of its values are equal, it contains only the first.
type column struct {
	buf   []byte // space for the head, then the elements, each after its length
	first int    // end of the first element
	n     int
	same  bool
	null  bool // a value is NULL
	oid   uint32
}

func newColumn(oid uint32) *column {
	return &column{oid: oid, buf: make([]byte, arrayHead, 256)}
}

func (c *column) reset() { c.buf, c.n, c.null = c.buf[:arrayHead], 0, false }

// add adds a value, as addText and addNull do.
func (c *column) add(v []byte) {
	if !c.again(len(v), false) || string(c.buf[arrayHead+4:c.first]) != string(v) {
		c.spread()
		c.buf = append(binary.BigEndian.AppendUint32(c.buf, uint32(len(v))), v...)
	}
	c.added()
}

func (c *column) addText(v string) {
	if !c.again(len(v), false) || string(c.buf[arrayHead+4:c.first]) != v {
		c.spread()
		c.buf = append(binary.BigEndian.AppendUint32(c.buf, uint32(len(v))), v...)
	}
	c.added()
}

func (c *column) addNull() {
	if !c.again(0, true) {
		c.spread()
		c.buf = binary.BigEndian.AppendUint32(c.buf, 0xffffffff)
		c.null = true
	}
	c.added()
}

func (c *column) int8(v int64) {
	if !c.again(8, false) || binary.BigEndian.Uint64(c.buf[arrayHead+4:]) != uint64(v) {
		c.spread()
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, 0, 0, 0, 8), uint64(v))
	}
	c.added()
}

func (c *column) int4(v int32) {
	if !c.again(4, false) || binary.BigEndian.Uint32(c.buf[arrayHead+4:]) != uint32(v) {
		c.spread()
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, 0, 0, 0, 4), uint32(v))
	}
	c.added()
}

// again reports whether a value can be equal to all values before it, judged by its length.
func (c *column) again(size int, null bool) bool {
	return c.n > 0 && c.same && c.null == null && c.first == arrayHead+4+size
}

// spread writes out the equal values, because a different value follows.
func (c *column) spread() {
	if c.n == 0 || !c.same {
		return
	}
	c.same = false
	for range c.n - 1 {
		c.buf = append(c.buf, c.buf[arrayHead:c.first]...)
	}
}

func (c *column) added() {
	if c.n++; c.n == 1 {
		c.first, c.same = len(c.buf), true
	}
}

// array returns the whole column. The result is valid until the column changes.
func (c *column) array() []byte {
	c.spread()
	head := c.buf[:0]
	dims, nulls := uint32(1), uint32(0)
	if c.n == 0 {
		dims = 0
	}
	if c.null {
		nulls = 1
	}
	for _, v := range []uint32{dims, nulls, c.oid, uint32(c.n), 1} {
		head = binary.BigEndian.AppendUint32(head, v)
	}
	if c.n == 0 {
		return c.buf[:12]
	}
	return c.buf
}

// one returns the value that all rows have. nil stands for NULL.
func (c *column) one() []byte {
	if c.null {
		return nil
	}
	return c.buf[arrayHead+4 : c.first : c.first]
}

// rows holds the parameters of a statement for many rows, by columns. If all values of a column are equal,
// they are sent as one value, with a NULL in place of the array. Most columns of most batches are like this,
// and unpacking arrays is the database's largest cost for a row.
type rows struct {
	name   string
	single string // the form of the statement for one row; "" if there is no such form
	cols   []column
	params [][]byte
	pos, n int
	bytes  int
	fail   error
}

func (r *rows) reset() {
	for i := range r.cols {
		r.cols[i].reset()
	}
	r.n, r.bytes, r.fail = 0, 0, nil
}

// row begins a row.
func (r *rows) row() *rows {
	r.n++
	r.pos = 0
	return r
}

func (r *rows) next(oid uint32) *column {
	if r.pos == len(r.cols) {
		r.cols = append(r.cols, *newColumn(oid))
	}
	r.pos++
	return &r.cols[r.pos-1]
}

func (r *rows) int8(v int64) *rows {
	r.next(oidInt8).int8(v)
	return r
}

func (r *rows) int4(v int32) *rows {
	r.next(oidInt4).int4(v)
	return r
}

func (r *rows) id(v *dag.RunID) *rows {
	r.next(oidUUID).add(v[:])
	return r
}

// idOrNull appends a run's id, or NULL for nil.
func (r *rows) idOrNull(v *dag.RunID) *rows {
	if v.IsZero() {
		r.next(oidUUID).addNull()
		return r
	}
	return r.id(v)
}

func (r *rows) text(v string) *rows {
	c := r.next(oidText)
	if r.fits(len(v)) {
		c.addText(v)
	}
	return r
}

// textOrNull appends a text, or NULL for "".
func (r *rows) textOrNull(v string) *rows {
	if v == "" {
		r.next(oidText).addNull()
		return r
	}
	return r.text(v)
}

// blob appends bytes, or NULL for nil.
func (r *rows) blob(v []byte) *rows {
	c := r.next(oidBytea)
	switch {
	case v == nil:
		c.addNull()
	case r.fits(len(v)):
		c.add(v)
	}
	return r
}

// some appends bytes, and an empty blob for nil. It is for columns that do not allow NULL.
func (r *rows) some(v []byte) *rows {
	if v == nil {
		v = []byte{}
	}
	return r.blob(v)
}

func (r *rows) int4OrNull(v int32, some bool) *rows {
	if !some {
		r.next(oidInt4).addNull()
		return r
	}
	return r.int4(v)
}

func (r *rows) int8OrNull(v int64, some bool) *rows {
	if !some {
		r.next(oidInt8).addNull()
		return r
	}
	return r.int8(v)
}

// checkText returns an error for a text that some engine cannot hold: a text with a NUL or with invalid
// UTF-8. The database also refuses such a text, but only if it gets it as a text.
func checkText(s string) error {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return fmt.Errorf("a text contains a NUL character or is not UTF-8: %w", store.ErrRefused)
	}
	return nil
}

func (r *rows) fits(size int) bool {
	r.bytes += size
	if size > valueMax {
		r.fail = fmt.Errorf("%s: a value of %d bytes, at most %d: %w", r.name, size, valueMax, store.ErrRefused)
		return false
	}
	return true
}

// call returns the statement and its parameters.
func (r *rows) call() (statement string, params [][]byte) {
	if r.n == 1 && r.single != "" {
		return r.single, r.values()
	}
	return r.name, r.columns()
}

// columns returns the parameters in the form that write.sql expects. The first column is an array. Every
// other column is either an array followed by NULL, or NULL followed by its single value.
func (r *rows) columns() [][]byte {
	r.params = append(r.params[:0], r.cols[0].array())
	for i := 1; i < len(r.cols); i++ {
		c := &r.cols[i]
		if c.same {
			r.params = append(r.params, nil, c.one())
		} else {
			r.params = append(r.params, c.array(), nil)
		}
	}
	return r.params
}

// values returns the parameters of the form of a statement for one row.
func (r *rows) values() [][]byte {
	r.params = r.params[:0]
	for i := range r.cols {
		r.params = append(r.params, r.cols[i].one())
	}
	return r.params
}
