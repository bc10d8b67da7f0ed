package dag

import "fmt"

// Fire is the origin of a run that no person started. It is written once, with the run.
type Fire struct {
	Trigger  string // the name of the trigger
	Instant  Micros // the instant for which the run was started, which expressions read as trigger.time
	StartBy  Micros // time by which the run must have begun, or else it ends as skipped; 0 means no limit
	Backfill int64  // the backfill to which the run belongs; 0 if there is none
	Key      string // if an event started the run: the id of the event
	Of       RunID  // the run that this run repeats; zero if there is none
	From     string // the task at which the run begins; "" if the run begins at the start of its graph
	// FailLost says that the run fails if one of its tasks loses its handler. No task is then assigned again.
	FailLost bool
	Parent   *Parent // the call that started the run; nil if there is none
	Trace    string  // the trace context of the caller, as ParseTrace returns it; "" if there is none
	Tags     Tags    // the tags of the run
}

// Alone reports whether a run has no trigger and no relation to another run. f may be nil.
func (f *Fire) Alone() bool {
	return f == nil || f.Trigger == "" && f.Key == "" && f.Instant == 0 && f.StartBy == 0 && f.Backfill == 0 && f.Of.IsZero() &&
		f.From == "" && !f.FailLost && f.Parent == nil
}

// Parent is the call that started a run, and the ancestors of the run.
type Parent struct {
	Task TaskID
	Line []Ancestor // the ancestors, from the first one to the parent; never empty
}

// Ancestor is a run from which a run descends by calls.
type Ancestor struct {
	Run      RunID
	Workflow WorkflowID
}

// Up returns the run that made the call.
func (p *Parent) Up() Ancestor { return p.Line[len(p.Line)-1] }

// Parent returns the call that started the run. It returns nil if there is none.
func (h *Header) Parent() *Parent {
	if h.Fire == nil {
		return nil
	}
	return h.Fire.Parent
}

// Root returns the first ancestor of the run by calls, or the run itself if no call started it.
func (h *Header) Root() RunID {
	if p := h.Parent(); p != nil {
		return p.Line[0].Run
	}
	return h.ID
}

// LineMax bounds the depth of calls: the number of ancestors of a run.
const LineMax = 16

const (
	fireFailLost = 1 << iota
	fireOf
	fireFrom
	fireParent
	fireTags
	fireFlags
)

// Trace returns the trace context of the caller that started the run, or "" if the caller gave none.
func (h *Header) Trace() string {
	if h.Fire == nil || len(h.Fire.Trace) != traceBytes {
		return ""
	}
	flags := flagsOf(h.Fire.Trace)
	if flags&^traceSampled == 0 {
		return h.Fire.Trace
	}
	return withFlags(h.Fire.Trace, flags&traceSampled)
}

// Instant returns the logical instant of a run: the instant of its trigger. A run without a trigger has the
// time of its submission.
func (h *Header) Instant() Micros {
	if h.Fire != nil && h.Fire.Instant != 0 {
		return h.Fire.Instant
	}
	return h.Created
}

// Pack returns the stored form. The form of nil is nil.
func (f *Fire) Pack() []byte {
	if f == nil {
		return nil
	}
	w := packer{b: make([]byte, 0, len(f.Trigger)+len(f.Key)+32)}
	w.byte(1) // the version of this form
	var flags byte
	if f.FailLost {
		flags |= fireFailLost
	}
	if !f.Of.IsZero() {
		flags |= fireOf
	}
	if f.From != "" {
		flags |= fireFrom
	}
	if f.Parent != nil {
		flags |= fireParent
	}
	if f.Tags != "" {
		flags |= fireTags
	}
	w.byte(flags)
	if f.Tags != "" {
		w.tags(f.Tags)
	}
	w.text(f.Trigger)
	w.text(joinTrace(f.Key, f.Trace))
	w.uint(uint64(f.Instant))
	w.uint(uint64(f.StartBy))
	w.uint(uint64(f.Backfill))
	if flags&fireOf != 0 {
		w.b = append(w.b, f.Of[:]...)
	}
	if flags&fireFrom != 0 {
		w.text(f.From)
	}
	if f.Parent != nil {
		w.uint(uint64(f.Parent.Task))
		w.uint(uint64(len(f.Parent.Line)))
		for _, a := range f.Parent.Line {
			w.b = append(w.b, a.Run[:]...)
			w.uint(uint64(a.Workflow))
		}
	}
	return w.b
}

// UnpackFire reads the form that Pack writes.
func UnpackFire(b []byte) (*Fire, error) {
	if len(b) == 0 {
		return nil, nil
	}
	u := unpacker{b: b}
	form, flags := u.byte(), u.byte()
	f := &Fire{FailLost: flags&fireFailLost != 0}
	if flags&fireTags != 0 {
		f.Tags = u.tags()
	}
	f.Trigger = u.text()
	if f.Key, f.Trace = cutTrace(u.text()); f.Trace == noTrace {
		f.Trace = ""
	}
	f.Instant, f.StartBy, f.Backfill = Micros(u.uint()), Micros(u.uint()), int64(u.uint())
	if flags&fireOf != 0 {
		u.bad = u.bad || len(u.b) < len(f.Of)
		u.b = u.b[copy(f.Of[:], u.b):]
	}
	if flags&fireFrom != 0 {
		f.From = u.text()
	}
	if flags&fireParent != 0 {
		f.Parent = u.parent()
	}
	if u.bad || form != 1 || flags >= fireFlags || len(u.b) > 0 {
		return nil, fmt.Errorf("start of the run: %w", errPacked)
	}
	return f, nil
}

func (u *unpacker) parent() *Parent {
	p := &Parent{Task: TaskID(int32(u.uint()))}
	n := u.count(17)
	for range n {
		var a Ancestor
		if len(u.b) < len(a.Run) {
			u.bad = true
			break
		}
		u.b = u.b[copy(a.Run[:], u.b):]
		a.Workflow = WorkflowID(u.uint())
		p.Line = append(p.Line, a)
	}
	if n == 0 || n > LineMax {
		u.bad = true
	}
	return p
}
