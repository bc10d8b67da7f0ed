// Package logindex describes each block of a log: the number of its lines, errors and warnings, and the time
// at which it was written. So a log of 1 GiB opens at any line or instant after a read of one block, and a
// search for errors reads only the blocks with errors.
//
// The writer of a log makes the index while it writes, and appends the index to a file next to the log. A
// reader extends the index to the present end of the log. If the file is missing or damaged, the reader makes
// the index from the log. In this case the times are unknown.
//
// Each block has a record of 20 bytes with a checksum. So a damaged or incomplete file is valid up to its
// first invalid record.
package logindex

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
)

const (
	// Block is the number of bytes that a record describes.
	Block = 64 << 10
	// From is the size of a log, in bytes, from which its index is stored in a file.
	From = 1 << 20
	// RecordSize is the number of bytes of a record.
	RecordSize = 20
	// Suffix is the difference between the name of a log and the name of its index.
	Suffix = ".index"
	// version is a part of each checksum, so a reader rejects the records of another version.
	version = 1
)

// Entry describes a block. A line belongs to the block in which it begins, and a line break to the block in
// which it is.
type Entry struct {
	Breaks   uint32 // the number of line breaks
	Errors   uint16 // the number of lines that are errors
	Warnings uint16
	At       int64 // the time in µs at which the first byte was written; 0 if unknown
}

// Index describes a log up to a size. The zero value describes an empty log.
//
// Invariant: the entry of a block in done does not change any more. The other blocks, at most two, are in
// open.
type Index struct {
	done []Entry
	open []Entry
	skip int64 // the number of blocks that Take has removed before done
	size int64

	head   []byte // the beginning of the line that has no end yet
	lineAt int64  // the block in which this line begins
	inside bool   // the unfinished line exists
	judged bool   // the level of this line is counted
}

// Size returns the number of described bytes.
func (x *Index) Size() int64 { return x.size }

// Add describes the next bytes of the log. now is the time at which they were written, or 0 if unknown.
func (x *Index) Add(p []byte, now int64) {
	for len(p) > 0 {
		if x.size%Block == 0 {
			x.open = append(x.open, Entry{At: now})
		}
		n := min(len(p), Block-int(x.size%Block))
		x.part(p[:n])
		x.size += int64(n)
		x.settle()
		p = p[n:]
	}
}

// settle moves full blocks to done if the levels of all their lines are counted.
func (x *Index) settle() {
	for len(x.open) > 0 {
		first := x.skip + int64(len(x.done))
		if x.size < (first+1)*Block || x.inside && !x.judged && x.lineAt == first {
			return
		}
		x.done = append(x.done, x.open[0])
		x.open = x.open[:copy(x.open, x.open[1:])]
	}
}

// part describes bytes of one block.
func (x *Index) part(p []byte) {
	e := &x.open[len(x.open)-1]
	if x.inside {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			x.grow(p)
			return
		}
		x.grow(p[:end])
		x.judge()
		x.inside = false
		e.Breaks++
		p = p[end+1:]
	}
	if last := bytes.LastIndexByte(p, '\n'); last >= 0 {
		e.Breaks += uint32(bytes.Count(p[:last+1], newline))
		e.lines(p[:last+1])
		p = p[last+1:]
	}
	if len(p) > 0 {
		x.inside, x.judged, x.head, x.lineAt = true, false, x.head[:0], x.size/Block
		x.grow(p)
	}
}

var newline = []byte{'\n'}

// grow adds bytes to the open line.
func (x *Index) grow(p []byte) {
	if x.judged {
		return
	}
	x.head = append(x.head, p[:min(len(p), HeadMax-len(x.head))]...)
	if len(x.head) == HeadMax {
		x.judge()
	}
}

// judge counts the level of the open line.
func (x *Index) judge() {
	if !x.judged {
		x.open[x.lineAt-x.skip-int64(len(x.done))].count(LevelOf(x.head))
		x.judged = true
	}
}

func (e *Entry) count(l Level) {
	switch l {
	case Error:
		e.Errors++
	case Warning:
		e.Warnings++
	}
}

// lines counts the levels of complete lines. Lines without a level word cost nothing.
func (e *Entry) lines(p []byte) {
	begin := 0
	for i := Next(p, 0); i >= 0; {
		begin += bytes.LastIndexByte(p[begin:i], '\n') + 1
		end := i + bytes.IndexByte(p[i:], '\n')
		e.count(LevelOf(p[begin:end]))
		begin = end + 1
		i = Next(p, begin)
	}
}

// Totals are the counts of a log.
type Totals struct{ Lines, Errors, Warnings int64 }

// Totals returns the counts up to the size. They include a line without an end.
func (x *Index) Totals() (t Totals) {
	for _, list := range [...][]Entry{x.done, x.open} {
		for _, e := range list {
			t.Lines, t.Errors, t.Warnings = t.Lines+int64(e.Breaks), t.Errors+int64(e.Errors), t.Warnings+int64(e.Warnings)
		}
	}
	if x.inside {
		t.Lines++
	}
	if x.inside && !x.judged {
		var e Entry
		e.count(LevelOf(x.head))
		t.Errors, t.Warnings = t.Errors+int64(e.Errors), t.Warnings+int64(e.Warnings)
	}
	return t
}

// Entries returns a copy of the entries of all blocks. The open line has its present level.
func (x *Index) Entries() []Entry {
	all := append(slices.Clone(x.done), x.open...)
	if x.inside && !x.judged {
		all[x.lineAt].count(LevelOf(x.head))
	}
	return all
}

// Blocks returns a copy of the entries in done.
func (x *Index) Blocks() []Entry { return slices.Clone(x.done) }

// Take removes and returns the records of the blocks in done, and the number of the first such block.
func (x *Index) Take() (first int64, records []byte) {
	first = x.skip
	for i := range x.done {
		records = x.done[i].record(records, first+int64(i))
	}
	x.skip, x.done = x.skip+int64(len(x.done)), x.done[:0]
	return first, records
}

// Done returns the number of blocks in done.
func (x *Index) Done() int { return len(x.done) }

// Records returns the records of the blocks in done.
func (x *Index) Records() (records []byte) {
	for i := range x.done {
		records = x.done[i].record(records, int64(i))
	}
	return records
}

// record appends the record of a block.
func (e *Entry) record(b []byte, block int64) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint32(b, e.Breaks)
	b = binary.LittleEndian.AppendUint16(b, e.Errors)
	b = binary.LittleEndian.AppendUint16(b, e.Warnings)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.At))
	return binary.LittleEndian.AppendUint32(b, sum(b[from:], block))
}

// sum returns the checksum of a record.
func sum(b []byte, block int64) uint32 {
	var of [9]byte
	of[0] = version
	binary.LittleEndian.PutUint64(of[1:], uint64(block))
	return crc32.Update(crc32.ChecksumIEEE(of[:]), crc32.IEEETable, b[:RecordSize-4])
}

// Valid reports whether the first record is valid.
func Valid(records []byte) bool {
	return len(records) >= RecordSize && sum(records, 0) == binary.LittleEndian.Uint32(records[RecordSize-4:])
}

// Read reads the records of a log of the given size. It stops at the first invalid record. It reads one byte
// of the log, because a line may cross the end of the last block.
func Read(records []byte, size int64, log io.ReaderAt) (*Index, error) {
	x := &Index{}
	for len(records) >= RecordSize && x.size+Block <= size {
		r := records[:RecordSize]
		e := Entry{binary.LittleEndian.Uint32(r), binary.LittleEndian.Uint16(r[4:]), binary.LittleEndian.Uint16(r[6:]), int64(binary.LittleEndian.Uint64(r[8:]))}
		if sum(r, x.size/Block) != binary.LittleEndian.Uint32(r[RecordSize-4:]) || e.Breaks > Block {
			break
		}
		x.done, x.size = append(x.done, e), x.size+Block
		records = records[RecordSize:]
	}
	if x.size == 0 {
		return x, nil
	}
	var last [1]byte
	if _, err := log.ReadAt(last[:], x.size-1); err != nil {
		return &Index{}, fmt.Errorf("read the log: %w", err)
	}
	x.inside, x.judged, x.lineAt = last[0] != '\n', true, x.size/Block-1
	return x, nil
}

// Extend extends the index up to a size. If ctx ends earlier, it returns the error of ctx. The index then
// describes a part of the log, and the next call continues.
func (x *Index) Extend(ctx context.Context, log io.ReaderAt, size int64) error {
	var buf []byte
	for x.size < size {
		if err := ctx.Err(); err != nil {
			return err
		}
		if buf == nil {
			buf = make([]byte, min(size-x.size, From))
		}
		n, err := log.ReadAt(buf[:min(size-x.size, int64(len(buf)))], x.size)
		x.Add(buf[:n], 0)
		if n == 0 && err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
	}
	return nil
}

// LineAt returns the place from which the beginning of a line can be found: an offset, and the number of line
// breaks between the offset and the line. Lines are counted from 1. ok is false if the log has fewer lines.
func (x *Index) LineAt(line int64) (offset, breaks int64, ok bool) {
	left := line - 1
	if left <= 0 {
		return 0, 0, left == 0 && x.size > 0
	}
	for i, e := range x.Entries() {
		if int64(e.Breaks) >= left {
			return int64(i) * Block, left, line <= x.Totals().Lines
		}
		left -= int64(e.Breaks)
	}
	return 0, 0, false
}

// Before returns the number of line breaks before the block of an offset.
func (x *Index) Before(offset int64) (breaks int64) {
	all := x.Entries()
	for _, e := range all[:min(int64(len(all)), offset/Block)] {
		breaks += int64(e.Breaks)
	}
	return breaks
}

// Since returns the offset of the last block that had begun at a time in µs. ok is false if no time is known.
func (x *Index) Since(at int64) (offset int64, ok bool) {
	all := x.Entries()
	known := make([]int, 0, len(all))
	for i := range all {
		if all[i].At > 0 {
			known = append(known, i)
		}
	}
	if len(known) == 0 {
		return 0, false
	}
	i := sort.Search(len(known), func(i int) bool { return all[known[i]].At > at })
	if i == 0 {
		return 0, true
	}
	return int64(known[i-1]) * Block, true
}

// Has reports whether a line of a level, or of a more severe one, begins in the block.
func (e *Entry) Has(l Level) bool {
	return l == Plain || e.Errors > 0 || l == Warning && e.Warnings > 0
}
