package dag

import (
	"encoding/binary"
	"fmt"
)

// RecordKind says what a record of a run's history is about.
type RecordKind uint8

// The kinds. Their numbers are stored, so new ones are only appended.
const (
	RecSubmitted RecordKind = iota + 1
	RecSplit
	RecAssigned
	RecStarted
	RecEnded
	RecLost
	RecTimeout
	RecIntent
	RecState
	RecRejected
	RecRecovered
	RecWaiting
	RecAdmitted
	RecMarked   // an operator decided about a task; the row of the decision is an attempt
	RecTaskStop // an operator asked the holder of a task to end it
	RecDeferred // a logical task has begun: its attempt is deferred
	RecRepaired // recovery repaired the run
	RecHandle   // an attempt named its work outside of the process by the handle Text
	RecReleased // the work of a handle was ended
	RecOrphan   // the run no longer waits for the release of a handle: Text, Reason
	recordKinds
)

var recordNames = [recordKinds]string{"", "submitted", "split", "assigned", "started", "ended", "lost",
	"timeout", "intent", "state", "rejected", "recovered", "waiting", "admitted", "marked", "task stop", "deferred",
	"repaired", "handle", "released", "orphan"}

func (k RecordKind) String() string { return recordNames[k] }

// Record is one entry of a run's history, which is also its audit.
type Record struct {
	Kind     RecordKind
	Task     TaskID // LeaderTask means the run itself
	Token    Token
	Handler  HandlerID
	State    TaskState // RecEnded: the state of the task after the end
	Exited   bool
	ExitCode int32
	Count    int32  // RecSplit, RecRecovered: the number of tasks
	Actor    string // the person or service that asked
	Text     string // a cause, an origin, an intent, a state or a fault, depending on Kind
	Reason   string
}

// Which optional fields follow in a packed record.
const (
	hasToken = 1 << iota
	hasHandler
	hasExit
	hasCount
	hasActor
	hasText
	hasReason
	hasState
)

// PackRecords packs the records of one transaction, about 5 to 10 bytes each.
func PackRecords(recs []Record) []byte {
	b := make([]byte, 0, 10*len(recs)+8)
	for i := range recs {
		b = appendRecord(b, &recs[i])
	}
	return b
}

func appendRecord(b []byte, r *Record) []byte {
	w := packer{b: append(b, byte(r.Kind), r.fields())}
	w.uint(uint64(r.Task + 1))
	if r.Token != 0 {
		w.uint(uint64(r.Token))
	}
	if r.Handler != 0 {
		w.uint(uint64(r.Handler))
	}
	if r.Exited {
		w.b = binary.AppendVarint(w.b, int64(r.ExitCode))
	}
	if r.Count != 0 {
		w.uint(uint64(r.Count))
	}
	for _, text := range [...]string{r.Actor, r.Text, r.Reason} {
		if text != "" {
			w.text(text)
		}
	}
	if r.State != 0 {
		w.byte(byte(r.State))
	}
	return w.b
}

// fields returns a bit for each optional field that the packed record contains.
func (r *Record) fields() byte {
	var has byte
	for bit, set := range [...]bool{r.Token != 0, r.Handler != 0, r.Exited, r.Count != 0,
		r.Actor != "", r.Text != "", r.Reason != "", r.State != 0} {
		if set {
			has |= 1 << bit
		}
	}
	return has
}

// UnpackRecords reads the form that PackRecords writes.
func UnpackRecords(b []byte) ([]Record, error) {
	u := unpacker{b: b}
	var recs []Record
	for len(u.b) > 0 && !u.bad {
		r := Record{Kind: RecordKind(u.byte())}
		has := u.byte()
		r.Task = TaskID(int32(u.uint())) - 1
		if has&hasToken != 0 {
			r.Token = Token(u.uint())
		}
		if has&hasHandler != 0 {
			r.Handler = HandlerID(u.uint())
		}
		if r.Exited = has&hasExit != 0; r.Exited {
			v, n := binary.Varint(u.b)
			if n <= 0 {
				return nil, fmt.Errorf("events: %w", errPacked)
			}
			r.ExitCode, u.b = int32(v), u.b[n:]
		}
		if has&hasCount != 0 {
			r.Count = int32(u.uint())
		}
		if has&hasActor != 0 {
			r.Actor = u.text()
		}
		if has&hasText != 0 {
			r.Text = u.text()
		}
		if has&hasReason != 0 {
			r.Reason = u.text()
		}
		if has&hasState != 0 {
			r.State = TaskState(u.byte())
		}
		if r.Kind == 0 || r.Kind >= recordKinds || r.State >= taskStates {
			u.bad = true
		}
		recs = append(recs, r)
	}
	if u.bad {
		return nil, fmt.Errorf("events: %w", errPacked)
	}
	return recs, nil
}
