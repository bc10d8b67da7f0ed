package store

import (
	"bytes"
	"cmp"
	"slices"

	"skein.dev/skein/internal/dag"
)

// Seat is a run that stands in a line. Its order there is by level, then by Asked.
type Seat struct {
	Run   dag.RunID
	Line  string
	Level dag.Priority
	Asked dag.Micros
}

// Place is where a seat is in its line.
type Place struct {
	Number int  // from 1; 0: more than Of are before it
	Of     int  // how many are in the line
	More   bool // there are more than Of
}

// Span is the part of a line from one seat, or its beginning, up to and without another, or its end.
type Span struct {
	Line     string
	From, To *Seat
	Most     int // how far it is counted
}

// seatSpanMin is how far at least each part of a line is counted.
const seatSpanMin = 100

// CountSeats makes places of the counts of spans, which follow each other: whoever stands between two seats is
// looked at once. inOrder is the engine's order of two runs that asked at the same instant; nil: by id.
func CountSeats(seats []Seat, most int, inOrder func(a, b *Seat) int, count func([]Span) ([]int, error)) ([]Place, error) {
	if len(seats) == 0 {
		return nil, nil
	}
	if inOrder == nil {
		inOrder = func(a, b *Seat) int { return bytes.Compare(a.Run[:], b.Run[:]) }
	}
	at := make([]int, len(seats))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(i, j int) int {
		a, b := &seats[i], &seats[j]
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Asked, b.Asked), inOrder(a, b))
	})
	var spans []Span
	lines := 0
	for k, i := range at {
		s := &seats[i]
		if k == 0 || seats[at[k-1]].Line != s.Line {
			lines++
			spans = append(spans, Span{Line: s.Line, To: s})
		}
		if k+1 < len(at) && seats[at[k+1]].Line == s.Line {
			spans = append(spans, Span{Line: s.Line, From: s, To: &seats[at[k+1]]})
		} else {
			spans = append(spans, Span{Line: s.Line, From: s})
		}
	}
	most = max(most/lines, seatSpanMin)
	for i := range spans {
		spans[i].Most = most
	}
	counts, err := count(spans)
	if err != nil {
		return nil, err
	}
	return placesOf(seats, at, spans, counts), nil
}

// placesOf adds up the counts of each line.
func placesOf(seats []Seat, at []int, spans []Span, counts []int) []Place {
	places := make([]Place, len(seats))
	k, first, sum, more := 0, 0, 0, false
	for i := range spans {
		s := &spans[i]
		if s.From == nil {
			first, sum, more = k, 0, false
		}
		sum += counts[i]
		more = more || counts[i] >= s.Most
		if s.To != nil {
			if !more {
				places[at[k]].Number = sum + 1
			}
			k++
			continue
		}
		for _, j := range at[first:k] {
			places[j].Of, places[j].More = max(sum, places[j].Number), more
		}
	}
	return places
}
