package dag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

var errPacked = errors.New("packed data is damaged")

// packStates packs the states of n tasks as sequences of equal states. One task or 100,000 succeeded tasks
// take two to four bytes.
func packStates(n int, state func(TaskID) TaskState) []byte {
	out := make([]byte, 0, 8)
	for t := 0; t < n; {
		s, from := state(TaskID(t)), t
		for t < n && state(TaskID(t)) == s {
			t++
		}
		out = append(out, byte(s))
		out = binary.AppendUvarint(out, uint64(t-from))
	}
	return out
}

// eachPacked calls f for packed states. It returns false if they are damaged.
func eachPacked(b []byte, f func(s TaskState, count int)) bool {
	for len(b) > 0 {
		count, w := binary.Uvarint(b[1:])
		if w <= 0 || count > math.MaxInt32 {
			return false
		}
		f(TaskState(b[0]), int(count))
		b = b[1+w:]
	}
	return true
}

func unpackStates(b []byte, n int, set func(TaskID, TaskState)) error {
	t := 0
	for len(b) > 0 {
		s := TaskState(b[0])
		count, w := binary.Uvarint(b[1:])
		if s >= taskStates || w <= 0 || count > uint64(n-t) {
			return fmt.Errorf("task states: %w", errPacked)
		}
		for end := t + int(count); t < end; t++ {
			set(TaskID(t), s)
		}
		b = b[1+w:]
	}
	if t != n {
		return fmt.Errorf("task states: %w", errPacked)
	}
	return nil
}

// CountStates counts the tasks of a packed list by state.
func CountStates(packed []byte) (map[TaskState]int, error) {
	counts := map[TaskState]int{}
	for len(packed) > 0 {
		s := TaskState(packed[0])
		n, w := binary.Uvarint(packed[1:])
		if s >= taskStates || w <= 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("task states: %w", errPacked)
		}
		counts[s] += int(n)
		packed = packed[1+w:]
	}
	return counts, nil
}

// TasksIn returns the tasks of a packed list that are in a state. The parameter most bounds their number. It
// stops at the first damaged byte.
func TasksIn(packed []byte, state TaskState, most int) (tasks []TaskID) {
	for t := TaskID(0); len(packed) > 0 && len(tasks) < most; {
		n, w := binary.Uvarint(packed[1:])
		if w <= 0 || n > math.MaxInt32 {
			break
		}
		if TaskState(packed[0]) == state {
			for i := range min(n, uint64(most-len(tasks))) {
				tasks = append(tasks, t+TaskID(i))
			}
		}
		t += TaskID(n)
		packed = packed[1+w:]
	}
	return tasks
}

// The first byte of a packed graph says whether the graph has logical tasks. graphPlaced is added if tasks
// have placements, graphQueued if tasks name queues, and graphCalling if instances of a foreach are calls. A
// program refuses a graph whose first byte it does not know.
const (
	graphFormat  = 1
	graphLogic   = 2
	graphPlaced  = 4
	graphQueued  = 8
	graphCalling = 16
)

// Pack writes the graph for its version's row: names, needs, policies, conditions as text.
func (g *Graph) Pack() []byte {
	w := packer{b: make([]byte, 0, 32*len(g.names))}
	placed := slices.ContainsFunc(g.policies, func(p Policy) bool { return p.Place != Anywhere })
	format := byte(graphFormat)
	if len(g.logic) > 0 {
		format = graphLogic
	}
	if placed {
		format |= graphPlaced
	}
	if g.queued {
		format |= graphQueued
	}
	if g.calling {
		format |= graphCalling
	}
	w.byte(format)
	w.bool(g.EndOnFailure)
	w.uint(uint64(g.Timeout))
	w.uint(uint64(len(g.policies)))
	for i := range g.policies {
		w.policy(&g.policies[i])
		if placed {
			w.text(string(g.policies[i].Place))
		}
		if g.queued {
			w.text(g.policies[i].Queue)
		}
	}
	w.uint(uint64(len(g.names)))
	for t, name := range g.names {
		w.text(name)
		w.uint(uint64(g.policy[t]))
		needs := g.needs.of(TaskID(t))
		w.uint(uint64(len(needs)))
		for _, n := range needs {
			w.uint(uint64(n))
		}
		source := ""
		if c := g.conds[TaskID(t)]; c != nil {
			source = c.Source()
		}
		w.text(source)
	}
	if len(g.logic) > 0 {
		w.logic(g)
	}
	return w.b
}

// UnpackGraph reads the form that Pack writes. It checks everything that NewGraph checks. So a damaged row
// gives an error, and never a graph in which a run would hang.
func UnpackGraph(b []byte, compile Compiler) (*Graph, error) {
	u := unpacker{b: b}
	format := u.byte()
	placed, queued, calling := format&graphPlaced != 0, format&graphQueued != 0, format&graphCalling != 0
	if format &^= graphPlaced | graphQueued | graphCalling; format != graphFormat && format != graphLogic {
		return nil, fmt.Errorf("graph: %w", errPacked)
	}
	spec := GraphSpec{EndOnFailure: u.bool(), Timeout: time.Duration(u.uint())}
	policies := make([]Policy, u.count(10))
	for i := range policies {
		policies[i] = u.policy()
		if placed {
			policies[i].Place = Place(u.text())
		}
		if queued {
			policies[i].Queue = u.text()
		}
	}
	names := make([]string, u.count(4))
	spec.Tasks = make([]TaskSpec, len(names))
	spec.TasksMax = len(names)
	needs := make([][]uint64, len(names))
	for t := range names {
		names[t] = u.text()
		spec.Tasks[t].Name = names[t]
		if p := u.uint(); p < uint64(len(policies)) {
			spec.Tasks[t].Policy = policies[p]
		} else {
			u.bad = true
		}
		needs[t] = make([]uint64, u.count(1))
		for i := range needs[t] {
			needs[t][i] = u.uint()
		}
		if source := u.text(); source != "" && !u.bad {
			c, err := compile(source)
			if err != nil {
				return nil, fmt.Errorf("condition of task %s: %w", names[t], err)
			}
			spec.Tasks[t].If = c
		}
	}
	if format == graphLogic {
		if err := u.logic(spec.Tasks, calling, compile); err != nil {
			return nil, err
		}
	}
	if u.bad || len(u.b) > 0 {
		return nil, fmt.Errorf("graph: %w", errPacked)
	}
	for t := range needs {
		spec.Tasks[t].Needs = make([]string, len(needs[t]))
		for i, n := range needs[t] {
			if n >= uint64(len(names)) {
				return nil, fmt.Errorf("graph: %w", errPacked)
			}
			spec.Tasks[t].Needs[i] = names[n]
		}
	}
	return NewGraph(spec)
}

type packer struct{ b []byte }

func (w *packer) byte(v byte)   { w.b = append(w.b, v) }
func (w *packer) uint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *packer) text(s string) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *packer) bool(v bool) {
	if v {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

func (w *packer) policy(p *Policy) {
	w.uint(uint64(p.Retry.Max))
	w.uint(uint64(p.Retry.Delay))
	w.uint(math.Float64bits(p.Retry.Backoff))
	w.uint(uint64(p.Retry.MaxDelay))
	w.uint(math.Float64bits(p.Retry.Jitter))
	w.uint(uint64(len(p.Retry.OnExit)))
	for _, c := range p.Retry.OnExit {
		w.uint(uint64(uint32(c)))
	}
	w.uint(uint64(p.Timeout))
	w.uint(uint64(p.KillGrace))
	w.byte(p.flags())
	w.byte(byte(p.Priority))
	if p.StartDeadline > 0 {
		w.uint(uint64(p.StartDeadline))
	}
	if p.ReleaseTimeout > 0 {
		w.uint(uint64(p.ReleaseTimeout))
	}
}

// unpacker reads within bounds. After a fault, bad is set and all further reads return zero.
type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) byte() byte {
	if len(u.b) == 0 {
		u.bad = true
		return 0
	}
	v := u.b[0]
	u.b = u.b[1:]
	return v
}

func (u *unpacker) bool() bool { return u.byte() == 1 }

func (u *unpacker) uint() uint64 {
	v, w := binary.Uvarint(u.b)
	if w <= 0 {
		u.bad = true
		u.b = nil
		return 0
	}
	u.b = u.b[w:]
	return v
}

// count reads a number of items of at least size bytes each. It fails if the remaining bytes cannot hold this
// number of items.
func (u *unpacker) count(size int) int {
	n := u.uint()
	if n > uint64(len(u.b)/size) {
		u.bad = true
		u.b = nil
		return 0
	}
	return int(n)
}

func (u *unpacker) text() string {
	n := u.count(1)
	s := string(u.b[:n])
	u.b = u.b[n:]
	return s
}

func (u *unpacker) policy() Policy {
	var p Policy
	p.Retry.Max = int32(u.uint())
	p.Retry.Delay = time.Duration(u.uint())
	p.Retry.Backoff = math.Float64frombits(u.uint())
	p.Retry.MaxDelay = time.Duration(u.uint())
	p.Retry.Jitter = math.Float64frombits(u.uint())
	for range u.count(1) {
		p.Retry.OnExit = append(p.Retry.OnExit, int32(uint32(u.uint())))
	}
	p.Timeout = time.Duration(u.uint())
	p.KillGrace = time.Duration(u.uint())
	flags := u.byte()
	if p.Priority = Priority(u.byte()); p.Priority >= Levels {
		p.Priority, u.bad = Medium, true
	}
	u.bad = u.bad || !p.setFlags(flags)
	if flags&policyDeadline != 0 {
		p.StartDeadline = time.Duration(u.uint())
	}
	if flags&policyReleaseTimeout != 0 {
		p.ReleaseTimeout = time.Duration(u.uint())
	}
	return p
}
