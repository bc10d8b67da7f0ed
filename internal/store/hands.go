package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
)

// A hand-over is durable before anybody hears of it. As a row of its own it would be written twice, at the
// hand-over and at the end; so the SQL engines pack what a transaction hands over of a run into the row of
// its history, and an attempt gets its row with the first change after that, mostly its end.

// plainHand reports whether an attempt is nothing but handed over.
func plainHand(a *dag.AttemptRow) bool {
	return a.State == dag.AttemptAssigned && a.Cause == "" && a.Message == "" && !a.Exited && a.Signal == "" && a.Outputs == nil &&
		a.Started == 0 && a.Finished == 0 && a.RetryAt == 0 && a.RetryWait == 0
}

// handForm is the first byte of packed hand-overs.
const handForm = 1

// handFields are task, token, generation, handler and the instant, each as its difference to that of the one before.
const handFields = 5

func handOf(a *dag.AttemptRow) [handFields]int64 {
	return [...]int64{int64(a.Task), int64(a.Token), int64(a.Generation), int64(a.Handler), int64(a.Assigned)}
}

// packHand appends a hand-over to those of its run, of which last is the latest.
func packHand(b []byte, a, last *dag.AttemptRow) []byte {
	if b == nil {
		b = append(make([]byte, 0, 32), handForm)
	}
	was := [handFields]int64{}
	if last != nil {
		was = handOf(last)
	}
	for i, v := range handOf(a) {
		b = binary.AppendVarint(b, v-was[i])
	}
	return b
}

var errHands = errors.New("hand-overs that do not unpack")

// UnpackHands shows the hand-overs in b, as the attempts were then. What it shows is valid until see returns.
func UnpackHands(run dag.RunID, b []byte, see func(*dag.AttemptRow)) error {
	if len(b) == 0 {
		return nil
	}
	if b[0] != handForm {
		return fmt.Errorf("run %s: %w: %w", run, ErrCorrupt, errHands)
	}
	var v [handFields]int64
	a := dag.AttemptRow{Run: run}
	for b = b[1:]; len(b) > 0; {
		for i := range v {
			d, n := binary.Varint(b)
			if n <= 0 {
				return fmt.Errorf("run %s: %w: %w", run, ErrCorrupt, errHands)
			}
			v[i] += d
			b = b[n:]
		}
		if v[0] != int64(int32(v[0])) || v[1] != int64(int32(v[1])) || v[2] != int64(int32(v[2])) {
			return fmt.Errorf("run %s: %w: %w", run, ErrCorrupt, errHands)
		}
		a.Task, a.Token, a.Generation = dag.TaskID(v[0]), dag.Token(v[1]), int32(v[2])
		a.Handler, a.Assigned = dag.HandlerID(v[3]), dag.Micros(v[4])
		see(&a)
	}
	return nil
}

// ByTask orders attempts by task, then token.
func ByTask(a, b dag.AttemptRow) int {
	return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Token, b.Token))
}

// WithHands adds to the rows of a run's attempts, which are in order of task and token, those that
// were handed over and have no row yet.
func WithHands(rows []dag.AttemptRow, run dag.RunID, packed [][]byte) ([]dag.AttemptRow, error) {
	var more []dag.AttemptRow
	for _, b := range packed {
		err := UnpackHands(run, b, func(a *dag.AttemptRow) {
			if _, has := slices.BinarySearchFunc(rows, *a, ByTask); !has {
				more = append(more, *a)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if len(more) == 0 {
		return rows, nil
	}
	rows = append(rows, more...)
	slices.SortFunc(rows, ByTask)
	for i := range rows[1:] {
		if a := &rows[i]; ByTask(*a, rows[i+1]) == 0 {
			return nil, fmt.Errorf("attempt %s/%d/%d was handed over twice: %w", run, a.Task, a.Token, ErrCorrupt)
		}
	}
	return rows, nil
}

// StandingHands adds to a page of Standings what was handed over and has no row: first See, then Has, then End.
type StandingHands struct {
	page []Standing
	open map[standingHand]Live
}

type standingHand struct {
	at    int // in the page
	task  dag.TaskID
	token dag.Token
}

// NewStandingHands is for one page.
func NewStandingHands(page []Standing) *StandingHands {
	return &StandingHands{page, map[standingHand]Live{}}
}

// See takes in packed hand-overs of the page's run at a place.
func (h *StandingHands) See(at int, packed []byte) {
	r := &h.page[at]
	err := UnpackHands(r.Run, packed, func(a *dag.AttemptRow) {
		h.open[standingHand{at, a.Task, a.Token}] = Live{Task: a.Task, Token: a.Token, Handler: a.Handler, State: a.State, Assigned: a.Assigned}
	})
	if r.Bad == nil {
		r.Bad = err
	}
}

// Has takes in that an attempt has a row.
func (h *StandingHands) Has(at int, task dag.TaskID, token dag.Token) {
	delete(h.open, standingHand{at, task, token})
}

// End adds what is left.
func (h *StandingHands) End() {
	for k, a := range h.open {
		h.page[k.at].See(&a, 0, 0, 0)
	}
	for i := range h.page {
		slices.SortFunc(h.page[i].Live, func(a, b Live) int {
			return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Token, b.Token))
		})
	}
}
