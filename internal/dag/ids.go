package dag

import (
	"encoding/hex"
	"errors"
	"time"
)

// RunID names a run: a UUIDv7, so ids sort by the time they were made.
type RunID [16]byte

// IsZero reports whether id is the zero value, which names no run.
func (id RunID) IsZero() bool { return id == RunID{} }

// String is the canonical text form: 8-4-4-4-12 lower-case hex digits.
func (id RunID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return string(b[:])
}

var errRunID = errors.New("a run id looks like 0190a0b0-1234-7abc-8def-0123456789ab")

// ParseRunID reads the canonical text form.
func ParseRunID(s string) (RunID, error) {
	var id RunID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, errRunID
	}
	compact := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(compact)); err != nil {
		return RunID{}, errRunID
	}
	return id, nil
}

type (
	// WorkflowID is the row of a workflow.
	WorkflowID int64
	// ShardID is the unit of ownership: one owner writes it at a time.
	ShardID int32
	// HandlerID is the row of a handler: one life of a process or of its worker.
	HandlerID int64
	// TaskID is a task's position in its run's graph, from 0.
	TaskID int32
	// Token is the number of an attempt, from 1, per task, never reset. It fences:
	// only the holder of the newest token can settle the task.
	Token int32
	// Micros is an instant: microseconds since 1970 UTC on the store's clock. 0 is none.
	Micros int64
)

// LeaderTask is the task of Leader work (splitting a run). It is no node of the graph.
const LeaderTask TaskID = -1

// Micro converts an instant. The zero time is 0.
func Micro(t time.Time) Micros {
	if t.IsZero() {
		return 0
	}
	return Micros(t.UnixMicro())
}

// Time converts back. 0 is the zero time.
func (m Micros) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(m)).UTC()
}

// Now is the pair of clocks that a step sees.
type Now struct {
	// Wall is the store's clock: for instants that are stored and shown.
	Wall Micros
	// Mono is the time elapsed in this ownership: for durations, so that no jump of the
	// wall clock shortens a retry or holds it for an hour.
	Mono time.Duration
}
