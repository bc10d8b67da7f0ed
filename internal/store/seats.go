package store

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"skein.dev/skein/internal/dag"
)

// Seat is the position of a run in a line. A line is ordered by level and then by Asked, or by Asked alone.
type Seat struct {
	Run   dag.RunID
	Line  string
	Level dag.Priority
	Asked dag.Micros
	Ages  bool // the line ages: its waiting runs rise one level with each ageing time
	Flat  bool // the line ignores levels
}

// SeatQuery selects the seats whose positions are to be computed.
type SeatQuery struct {
	Seats []Seat
	// Most is the approximate bound of the runs that are counted in each line. If there are many lines, fewer
	// are counted.
	Most        int
	Now, Ageing dag.Micros // Ageing is used for lines that age; if it is 0, no line ages
}

// Place says at which position of its line a seat is.
type Place struct {
	Number int  // the position in the line, from 1; 0 if there are more than Of runs before the seat
	Of     int  // the number of counted runs in the line
	More   bool // whether the line has more than Of runs
}

// Span is the part of a line from one seat up to, but without, another seat.
type Span struct {
	Line     string
	From, To Seat
	Most     int // the number at which counting its runs may stop

	turn int // the index of the first seat of the line that comes after the span
}

// seatSpanMin is the smallest bound for counting the runs of a span.
const seatSpanMin = 100

// CountSeats computes positions from the counts of spans. Spans do not overlap, so a run between two seats is
// counted once. inOrder is the engine's order of two runs that asked at the same instant. If it is nil, such
// runs are ordered by id.
func CountSeats(q *SeatQuery, inOrder func(a, b *Seat) int, count func([]Span) ([]int, error)) ([]Place, error) {
	if len(q.Seats) == 0 {
		return nil, nil
	}
	if inOrder == nil {
		inOrder = func(a, b *Seat) int { return bytes.Compare(a.Run[:], b.Run[:]) }
	}
	ordered := func(a, b *Seat) int { return cmp.Or(cmp.Compare(a.Asked, b.Asked), inOrder(a, b)) }
	at := make([]int, len(q.Seats))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(i, j int) int {
		a, b := &q.Seats[i], &q.Seats[j]
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(q.level(a), q.level(b)), ordered(a, b))
	})
	var spans []Span
	var lines [][]int
	for first := 0; first < len(at); {
		n := 1
		for first+n < len(at) && q.Seats[at[first+n]].Line == q.Seats[at[first]].Line {
			n++
		}
		lines = append(lines, at[first:first+n])
		spans = append(spans, q.spansOf(at[first:first+n], ordered)...)
		first += n
	}
	for i := range spans {
		spans[i].Most = max(q.Most/len(lines), seatSpanMin)
	}
	counts, err := count(spans)
	if err != nil {
		return nil, err
	}
	return placesOf(len(at), lines, spans, counts), nil
}

// level returns the present level of a seat, including ageing.
func (q *SeatQuery) level(s *Seat) dag.Priority {
	if s.Flat {
		return 0
	}
	if !s.Ages || q.Ageing <= 0 {
		return s.Level
	}
	return dag.Priority(max(int64(s.Level)-int64(max(0, q.Now-s.Asked)/q.Ageing), 0))
}

// begin returns a seat before all runs of a level that asked at an instant or later.
func begin(line string, level dag.Priority, asked dag.Micros) Seat {
	return Seat{Line: line, Level: level, Asked: asked}
}

// spansOf divides a line at its seats into spans. If the line ages, or ignores levels, each level is divided
// separately, because the oldest runs of each level come before a seat.
func (q *SeatQuery) spansOf(seats []int, ordered func(a, b *Seat) int) (spans []Span) {
	line := q.Seats[seats[0]].Line
	part := func(first, last Seat, cut func(*Seat) Seat) {
		for turn, i := range seats {
			to := cut(&q.Seats[i])
			spans = append(spans, Span{Line: line, From: first, To: to, turn: turn})
			first = to
		}
		spans = append(spans, Span{Line: line, From: first, To: last, turn: len(seats)})
	}
	flat := q.Seats[seats[0]].Flat
	if !flat && (!q.Seats[seats[0]].Ages || q.Ageing <= 0) {
		part(begin(line, 0, math.MinInt64), begin(line, dag.Levels, math.MinInt64), func(s *Seat) Seat { return *s })
		return spans
	}
	for l := range dag.Priority(dag.Levels) {
		end := begin(line, l+1, math.MinInt64)
		part(begin(line, l, math.MinInt64), end, func(s *Seat) Seat {
			is, cut := q.level(s), *s
			if cut.Level = l; flat {
				return cut
			}
			if l < is {
				return end
			}
			// Runs of a worse level that have reached this level by ageing also come before the seat. They
			// asked earlier: by one ageing time for each level.
			if l > is {
				if aged := begin(line, l, q.Now-dag.Micros(l-is)*q.Ageing+1); ordered(&aged, &cut) < 0 {
					cut = aged
				}
			}
			if is > 0 { // the level is better than that of the seat because of ageing
				if better := begin(line, l, q.Now-dag.Micros(l-is+1)*q.Ageing+1); ordered(&better, &cut) > 0 {
					cut = better
				}
			}
			return cut
		})
	}
	return spans
}

// placesOf adds up the counts of each line.
func placesOf(n int, lines [][]int, spans []Span, counts []int) []Place {
	places := make([]Place, n)
	for k, i := 0, 0; k < len(lines); k++ {
		seats := lines[k]
		sums, bad := make([]int, len(seats)+1), make([]bool, len(seats)+1)
		for line := spans[i].Line; i < len(spans) && spans[i].Line == line; i++ {
			sums[spans[i].turn] += counts[i]
			bad[spans[i].turn] = bad[spans[i].turn] || counts[i] >= spans[i].Most
		}
		sum, more := 0, false
		for turn, of := range seats {
			if sum, more = sum+sums[turn], more || bad[turn]; !more {
				places[of].Number = sum + 1
			}
		}
		sum, more = sum+sums[len(seats)], more || bad[len(seats)]
		for _, of := range seats {
			places[of].Of, places[of].More = max(sum, places[of].Number), more
		}
	}
	return places
}
