package packed

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// An assignment is durable before the worker learns of it, and an end before the caller learns of it. If an
// attempt had its own row, it would be written twice, in addition to the history of its run, which is written
// anyway. So the SQL engines pack the assignments and the plain ends of a transaction into the row of that
// history. Any other attempt gets its row with the first change after its assignment, which is mostly its
// end.

// plainHand reports whether an attempt has only been assigned.
func plainHand(a *dag.AttemptRow) bool {
	return a.State == dag.AttemptAssigned && !a.Exited && a.Started == 0 && a.Finished == 0 && bare(a)
}

// plainEnd reports whether an attempt has succeeded and has nothing else to record.
func plainEnd(a *dag.AttemptRow) bool {
	return a.State == dag.AttemptSucceeded && a.ExitCode == 0 && bare(a)
}

// Plain reports whether an attempt needs no row of its own. An engine may pack it into the history of its
// run.
func Plain(a *dag.AttemptRow) bool { return plainHand(a) || plainEnd(a) }

func bare(a *dag.AttemptRow) bool {
	return a.Cause == "" && a.Message == "" && a.Signal == "" && a.Outputs == nil && a.RetryAt == 0 && a.RetryWait == 0
}

// The first byte of a section of packed attempts. A section of ends comes before one of assignments, and
// continues with its length in bytes. Before both can come EventRow.Weight of the transaction.
const (
	handForm   = 1
	endForm    = 2
	weightForm = 3
)

// Weight returns the sum of EventRow.Weight in packed attempts.
func Weight(all ...[]byte) (n int64) {
	for _, b := range all {
		of, _ := weightIn(b)
		n += of
	}
	return n
}

// weightIn splits packed attempts into the weight and the rest. If the weight is damaged, it returns all of
// b: UnpackHands refuses it.
func weightIn(b []byte) (int64, []byte) {
	if len(b) == 0 || b[0] != weightForm {
		return 0, b
	}
	of, n := binary.Uvarint(b[1:])
	if n <= 0 || of > 1<<62 {
		return 0, b
	}
	return int64(of), b[1+n:]
}

// handFields is the number of fields of a packed assignment: task, token, generation, handler and instant.
// Each field is stored as its difference to the same field of the previous assignment.
const handFields = 5

func handOf(a *dag.AttemptRow) [handFields]int64 {
	return [...]int64{int64(a.Task), int64(a.Token), int64(a.Generation), int64(a.Handler), int64(a.Assigned)}
}

// runHands holds the packed attempts of one run in a transaction.
type runHands struct {
	run               dag.RunID
	whole             []byte // the packed form, until it is written into a row
	weight            int64
	hands, ends       []byte
	lastHand, lastEnd [handFields]int64
}

func (p *runHands) hand(a *dag.AttemptRow) {
	if p.hands == nil {
		p.hands = append(make([]byte, 0, 32), handForm)
	}
	p.hands = packHand(p.hands, handOf(a), &p.lastHand)
}

// end appends the assignment of an attempt, its start and its duration. The lowest bit of the duration
// says whether the process exited.
func (p *runHands) end(a *dag.AttemptRow, w *AttemptWrite) {
	if p.ends == nil {
		p.ends = make([]byte, 0, 32)
	}
	is := [...]int64{int64(a.Task), int64(a.Token), int64(w.Generation), int64(a.Handler), int64(w.Assigned)}
	p.ends = packHand(p.ends, is, &p.lastEnd)
	p.ends = binary.AppendVarint(p.ends, int64(a.Started-w.Assigned))
	ran := int64(a.Finished-a.Started) << 1
	if a.Exited {
		ran |= 1
	}
	p.ends = binary.AppendVarint(p.ends, ran)
}

// bytes returns the packed form, or nil if there is nothing to pack.
func (p *runHands) bytes() []byte {
	if p.weight != 0 {
		of := *p
		of.weight = 0
		return append(binary.AppendUvarint([]byte{weightForm}, uint64(p.weight)), of.bytes()...)
	}
	if p.ends == nil {
		return p.hands
	}
	b := append(make([]byte, 0, 1+binary.MaxVarintLen32+len(p.ends)+len(p.hands)), endForm)
	b = append(binary.AppendUvarint(b, uint64(len(p.ends))), p.ends...)
	return append(b, p.hands...)
}

// packHand appends an assignment to the packed assignments of its run. The parameter last is the previous
// assignment, and becomes this one.
func packHand(b []byte, is [handFields]int64, last *[handFields]int64) []byte {
	for i, v := range is {
		b = binary.AppendVarint(b, v-last[i])
	}
	*last = is
	return b
}

var errHands = errors.New("packed attempts cannot be unpacked")

// UnpackHands calls the function see for each attempt in b: those that a transaction has assigned, in their
// state at that time, and those that plainly ended in it. An attempt is valid until see returns.
func UnpackHands(run dag.RunID, b []byte, see func(*dag.AttemptRow)) error {
	_, b = weightIn(b)
	if len(b) > 0 && b[0] == endForm {
		size, n := binary.Uvarint(b[1:])
		if n <= 0 || size > uint64(len(b)-1-n) {
			return fmt.Errorf("run %s: %w: %w", run, store.ErrCorrupt, errHands)
		}
		ends := b[1+n:][:size]
		if b = b[1+n:][size:]; !unpackSection(run, ends, true, see) {
			return fmt.Errorf("run %s: %w: %w", run, store.ErrCorrupt, errHands)
		}
	}
	if len(b) > 0 && (b[0] != handForm || !unpackSection(run, b[1:], false, see)) {
		return fmt.Errorf("run %s: %w: %w", run, store.ErrCorrupt, errHands)
	}
	return nil
}

// unpackSection reads the section b. It reports whether b is valid.
func unpackSection(run dag.RunID, b []byte, ends bool, see func(*dag.AttemptRow)) bool {
	a := dag.AttemptRow{Run: run}
	var v [handFields + 2]int64 // an end also has the start and the duration
	fields := handFields
	if ends {
		fields = len(v)
	}
	for at := 0; at < len(b); {
		v[handFields], v[handFields+1] = 0, 0 // these two fields are stored as values, not as differences
		for i := range v[:fields] {
			if at < len(b) && b[at] < 0x80 { // most differences have one byte
				v[i] += int64(b[at]>>1) ^ -int64(b[at]&1)
				at++
				continue
			}
			d, n := binary.Varint(b[at:])
			if n <= 0 {
				return false
			}
			v[i] += d
			at += n
		}
		if v[0] != int64(int32(v[0])) || v[1] != int64(int32(v[1])) || v[2] != int64(int32(v[2])) {
			return false
		}
		a.Task, a.Token, a.Generation = dag.TaskID(v[0]), dag.Token(v[1]), int32(v[2])
		a.Handler, a.Assigned = dag.HandlerID(v[3]), dag.Micros(v[4])
		if ends {
			a.State, a.Started = dag.AttemptSucceeded, a.Assigned+dag.Micros(v[5])
			a.Exited, a.Finished = v[6]&1 != 0, a.Started+dag.Micros(v[6]>>1)
		} else {
			a.State = dag.AttemptAssigned
		}
		see(&a)
	}
	return true
}

// WithHands adds the attempts without a row to the rows of a run's attempts, which are in order of task
// and token.
func WithHands(rows []dag.AttemptRow, run dag.RunID, packed [][]byte) ([]dag.AttemptRow, error) {
	return withHands(rows, run, packed, func(dag.TaskID) bool { return true })
}

// WithHandsOf does the same as WithHands, for the attempts of one task.
func WithHandsOf(rows []dag.AttemptRow, run dag.RunID, task dag.TaskID, packed [][]byte) ([]dag.AttemptRow, error) {
	var of [][]byte
	for _, b := range packed {
		if MayHave(b, task) {
			of = append(of, b)
		}
	}
	return withHands(rows, run, of, func(t dag.TaskID) bool { return t == task })
}

// HasEnd reports whether packed attempts contain the end of an attempt. It returns false for bytes that it
// cannot read: UnpackHands returns their fault.
func HasEnd(b []byte, task dag.TaskID, token dag.Token) (has bool) {
	err := UnpackHands(dag.RunID{}, b, func(a *dag.AttemptRow) {
		has = has || a.Task == task && a.Token == token && a.State.Ended()
	})
	return has && err == nil
}

// MayHave reports whether packed attempts may contain an attempt of a task. It decodes only the tasks,
// because a run of 100,000 tasks has a million other values. It returns true for bytes that it cannot read:
// UnpackHands returns their fault.
func MayHave(b []byte, task dag.TaskID) bool {
	_, b = weightIn(b)
	if len(b) > 0 && b[0] == endForm {
		size, n := binary.Uvarint(b[1:])
		if n <= 0 || size > uint64(len(b)-1-n) {
			return true
		}
		ends := b[1+n:][:size]
		if b = b[1+n:][size:]; sectionMayHave(ends, handFields+2, task) {
			return true
		}
	}
	return len(b) > 0 && (b[0] != handForm || sectionMayHave(b[1:], handFields, task))
}

// sectionMayHave does the same as MayHave, for one section. fields is the number of fields of each attempt.
func sectionMayHave(b []byte, fields int, task dag.TaskID) bool {
	for at, is := 0, int64(0); at < len(b); {
		if b[at] < 0x80 { // a difference of one byte, as most are
			is += int64(b[at]>>1) ^ -int64(b[at]&1)
			at++
		} else {
			d, n := binary.Varint(b[at:])
			if n <= 0 {
				return true
			}
			is += d
			at += n
		}
		if is == int64(task) {
			return true
		}
		if at = fieldsAfter(b, at, fields-1); at < 0 {
			return true
		}
	}
	return false
}

// fieldsAfter skips a number of fields that begin at an index, and returns the index after them. It returns
// -1 if there are fewer fields. The last byte of a field is below 0x80, so eight bytes are examined together.
func fieldsAfter(b []byte, at, fields int) int {
	for fields > 0 && at+8 <= len(b) {
		last := ^binary.LittleEndian.Uint64(b[at:]) & 0x8080808080808080
		if n := bits.OnesCount64(last); n < fields {
			fields -= n
			at += 8
			continue
		}
		for ; fields > 1; fields-- {
			last &= last - 1
		}
		return at + bits.TrailingZeros64(last)/8 + 1
	}
	for ; fields > 0; at++ {
		if at >= len(b) {
			return -1
		}
		if b[at] < 0x80 {
			fields--
		}
	}
	return at
}

func withHands(rows []dag.AttemptRow, run dag.RunID, packed [][]byte, wanted func(dag.TaskID) bool) ([]dag.AttemptRow, error) {
	all, twice := rows, error(nil)
	for _, b := range packed {
		err := UnpackHands(run, b, func(a *dag.AttemptRow) {
			if !wanted(a.Task) {
				return
			}
			switch _, has := slices.BinarySearchFunc(rows, *a, store.ByTask); {
			case !has:
				all = append(all, *a)
			case a.State.Ended():
				twice = isTwice(a)
			}
		})
		if err = cmp.Or(err, twice); err != nil {
			return nil, err
		}
	}
	if len(all) == len(rows) {
		return rows, nil
	}
	// sort.Slice, because slices.SortFunc adds 22 KB of code for rows of this size.
	sort.Slice(all, func(i, j int) bool { // the end of an attempt comes after its assignment
		a, b := &all[i], &all[j]
		return cmp.Or(store.ByTask(*a, *b), cmp.Compare(a.State, b.State)) < 0
	})
	return oneEach(all)
}

// oneEach drops the assignments of attempts whose ends are present, too.
func oneEach(rows []dag.AttemptRow) ([]dag.AttemptRow, error) {
	to := 0
	for i := range rows {
		a := &rows[i]
		if to == 0 || store.ByTask(rows[to-1], *a) != 0 {
			to++
		} else if rows[to-1].State != dag.AttemptAssigned || !a.State.Ended() {
			return nil, isTwice(a)
		}
		rows[to-1] = *a
	}
	return rows[:to], nil
}

func isTwice(a *dag.AttemptRow) error {
	return fmt.Errorf("attempt %s/%d/%d was assigned, or ended, twice: %w", a.Run, a.Task, a.Token, store.ErrCorrupt)
}

// StandingHands adds the attempts without a row to a page of Standings. The caller calls See, then Has,
// then End.
type StandingHands struct {
	page []store.Standing
	open map[standingHand]store.Live
	over []standingHand
}

type standingHand struct {
	at    int // the position in the page
	task  dag.TaskID
	token dag.Token
}

// NewStandingHands returns an empty StandingHands for one page.
func NewStandingHands(page []store.Standing) *StandingHands {
	return &StandingHands{page: page, open: map[standingHand]store.Live{}}
}

// See adds the packed attempts of the run at an index of the page.
func (h *StandingHands) See(at int, packed []byte) {
	r := &h.page[at]
	err := UnpackHands(r.Run, packed, func(a *dag.AttemptRow) {
		k, is := standingHand{at, a.Task, a.Token}, store.Live{Task: a.Task, Token: a.Token, Handler: a.Handler, State: a.State, Assigned: a.Assigned}
		if a.State.Ended() {
			r.See(&is, a.Started, a.Finished, 0)
			h.over = append(h.over, k)
			return
		}
		h.open[k] = is
	})
	if r.Bad == nil {
		r.Bad = err
	}
}

// Has records that an attempt has a row.
func (h *StandingHands) Has(at int, task dag.TaskID, token dag.Token) {
	delete(h.open, standingHand{at, task, token})
}

// End adds the attempts without a row to the page.
func (h *StandingHands) End() {
	for _, k := range h.over {
		delete(h.open, k)
	}
	for k, a := range h.open {
		h.page[k.at].See(&a, 0, 0, 0)
	}
	for i := range h.page {
		live := h.page[i].Live
		sort.Slice(live, func(i, j int) bool {
			return cmp.Or(cmp.Compare(live[i].Task, live[j].Task), cmp.Compare(live[i].Token, live[j].Token)) < 0
		})
	}
}
