package tally

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The results that are counted. Their order is stored. A lost attempt counts as failed.
const (
	Succeeded = iota
	Failed
	Stopped
	Skipped
	outcomes
)

// Cell holds the counts of one row of the tally.
type Cell struct {
	Ends [outcomes]int64
	// Took has the durations from start to end, by result. Skipped runs have no duration, and neither have
	// runs that ended before their start.
	Took [Skipped]Hist
	Wait Hist       // the waits: of runs from their creation to their first start, of attempts from assignment to start
	Last dag.Micros // the newest end
}

// N returns the number of ends.
func (c *Cell) N() (n int64) {
	for _, of := range c.Ends {
		n += of
	}
	return n
}

// All returns the durations of all results.
func (c *Cell) All() *Hist {
	h := &Hist{}
	for i := range c.Took {
		h.Merge(&c.Took[i])
	}
	return h
}

// Merge adds another cell.
func (c *Cell) Merge(other *Cell) {
	for i, n := range other.Ends {
		c.Ends[i] += n
	}
	for i := range c.Took {
		c.Took[i].Merge(&other.Took[i])
	}
	c.Wait.Merge(&other.Wait)
	c.Last = max(c.Last, other.Last)
}

// cellVersion is the first byte of a packed cell.
const cellVersion = 1

// Pack returns the bytes of a cell: version, counts, last end, histograms, checksum.
func (c *Cell) Pack() []byte {
	b := make([]byte, 0, 64)
	b = append(b, cellVersion)
	for _, n := range c.Ends {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(max(c.Last, 0)))
	for i := range c.Took {
		b = c.Took[i].pack(b)
	}
	b = c.Wait.pack(b)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// Unpack reads a row. It returns an ErrCorrupt if the row is damaged.
func Unpack(r *store.TallyRow) (c Cell, err error) {
	damaged := func(what string) error {
		return fmt.Errorf("tally of workflow %d, span %d, at %d, task %q: %s: %w", r.Workflow, r.Span, r.At, r.Task, what, store.ErrCorrupt)
	}
	n := len(r.Data) - 4
	if n < 1 || crc32.ChecksumIEEE(r.Data[:n]) != binary.LittleEndian.Uint32(r.Data[n:]) {
		return c, damaged("the checksum differs")
	}
	if r.Data[0] != cellVersion {
		return c, damaged(fmt.Sprintf("version %d is unknown", r.Data[0]))
	}
	u := unpacker{b: r.Data[1:n]}
	for i := range c.Ends {
		c.Ends[i] = int64(u.uint())
	}
	c.Last = dag.Micros(u.uint())
	for i := range c.Took {
		c.Took[i].unpack(&u)
	}
	c.Wait.unpack(&u)
	if u.bad || len(u.b) > 0 || c.N() != r.N {
		return c, damaged("its numbers contradict each other")
	}
	return c, nil
}
