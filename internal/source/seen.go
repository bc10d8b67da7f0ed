package source

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"

	"skein.dev/skein/internal/workflow"
)

// mark is a short hash that identifies an event. If seenMax events are known, a new event has the mark of a
// known one with a probability of 10^-11.
type mark [6]byte

// seenMax bounds the number of events that a cursor lists one by one, so that the cursor is not too large.
const seenMax = 1800

// seen contains the events that a source has passed on and that the other system still has. If there are more
// than seenMax, the events with the smallest positions are removed. All events up to the largest removed
// position count as passed on.
type seen struct {
	marks map[mark]workflow.Position
	floor *floor // the largest removed position; nil if no event was removed
}

// floor is the largest removed position.
type floor struct {
	At workflow.Position `json:"at"`
	// Part is true if only a part of the events at this position were removed, because there are more than
	// seenMax. The source passes them on again, and their keys show that they have already fired.
	Part bool `json:"part,omitempty"`
}

// memory is the cursor of a source that lists its events one by one.
type memory struct {
	// Of identifies the read data. If an edit changes it, the source begins without a cursor.
	Of    string `json:"of"`
	Seen  string `json:"seen,omitempty"` // marks, in base64
	Floor *floor `json:"floor,omitempty"`
}

// errMemory means that the source did not write a cursor.
var errMemory = errors.New("the stored cursor was not written by this source; move it with: skein schedule seek WORKFLOW/TRIGGER --to now")

// readMemory reads a cursor. known is false if the cursor belongs to other data that were read before.
func readMemory(cursor []byte, of string) (m memory, s seen, known bool, err error) {
	s.marks = map[mark]workflow.Position{}
	if len(cursor) == 0 {
		return memory{Of: of}, s, false, nil
	}
	d := json.NewDecoder(bytes.NewReader(cursor))
	if err := d.Decode(&m); err != nil || m.Of == "" {
		return m, s, false, errMemory
	}
	if m.Of != of {
		return memory{Of: of}, s, false, nil
	}
	raw, err := base64.RawStdEncoding.DecodeString(m.Seen)
	if err != nil || len(raw)%len(mark{}) != 0 {
		return m, s, false, errMemory
	}
	for part := range slices.Chunk(raw, len(mark{})) {
		s.marks[mark(part)] = workflow.Position{}
	}
	s.floor = m.Floor
	return m, s, true, nil
}

// pack returns the cursor.
func (m memory) pack(s *seen) ([]byte, error) {
	all := make([]mark, 0, len(s.marks))
	for k := range s.marks {
		all = append(all, k)
	}
	sort.Slice(all, func(i, j int) bool { return bytes.Compare(all[i][:], all[j][:]) < 0 })
	raw := make([]byte, 0, len(all)*len(mark{}))
	for i := range all {
		raw = append(raw, all[i][:]...)
	}
	m.Seen, m.Floor = base64.RawStdEncoding.EncodeToString(raw), s.floor
	return json.Marshal(m)
}

// below reports whether an event counts as passed on because of its position.
func (s *seen) below(at workflow.Position) bool {
	if s.floor == nil {
		return false
	}
	c := at.Compare(s.floor.At)
	return c < 0 || c == 0 && !s.floor.Part
}

// spare lowers the floor to the position of an event that has not been passed on. Removed events that are not
// below the new floor are found again, and their keys show that they have already fired.
func (s *seen) spare(at workflow.Position) {
	if s.below(at) {
		s.floor = &floor{at, true}
	}
}

// shrink removes the events with the smallest positions, until at most seenMax are left.
func (s *seen) shrink() {
	if len(s.marks) <= seenMax {
		return
	}
	type one struct {
		k  mark
		at workflow.Position
	}
	all := make([]one, 0, len(s.marks))
	for k, at := range s.marks {
		all = append(all, one{k, at})
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(a.at.Compare(b.at), bytes.Compare(a.k[:], b.k[:])) < 0
	})
	n := len(all) - seenMax
	is := floor{At: all[n-1].at}
	if is.Part = all[len(all)-1].at == is.At; !is.Part {
		for all[n].at == is.At {
			n++
		}
	}
	for i := range all[:n] {
		delete(s.marks, all[i].k)
	}
	if s.floor == nil || is.At.Compare(s.floor.At) > 0 {
		s.floor = &is
	}
}

// sumOf hashes the parts that identify an event.
func sumOf(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// keyOf returns the key of an event in the ledger.
func keyOf(kind string, sum [sha256.Size]byte) string {
	return kind + "/" + hex.EncodeToString(sum[:16])
}
