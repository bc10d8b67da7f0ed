package dag

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// RunID names a run: a UUIDv7, so ids sort by the time they were made.
type RunID [16]byte

// IsZero reports whether id is the zero value, which names no run.
func (id RunID) IsZero() bool { return id == RunID{} }

// String returns the canonical text form: 8-4-4-4-12 lower-case hex digits.
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
	// WorkflowID identifies the row of a workflow.
	WorkflowID int64
	// ShardID identifies a shard. A shard is the unit of ownership: one owner at a time writes it.
	ShardID int32
	// HandlerID identifies the row of a handler: one process of a node or worker, from its start to its end.
	HandlerID int64
	// TaskID is a task's position in its run's graph, from 0.
	TaskID int32
	// Token names an attempt of a task, and fences it: only the holder of the newest token can settle the
	// task. Its value is the era in which the attempt was assigned × TokensOfEra + the number of the
	// attempt. Invariant: no token of a task is given twice, whatever the database has lost.
	Token int64
	// Era counts the times that the database can have gone back to an earlier state: with each failover of
	// its server, and with each restore. A token contains the era of its assignment, so no token is given
	// twice.
	Era int32
	// Micros is an instant: microseconds since 1970 UTC on the store's clock. The value 0 means no instant.
	Micros int64
)

// LeaderTask is the task of Leader work (splitting a run). It is not a task of the graph.
const LeaderTask TaskID = -1

// Bounds of tokens. The greatest token fits into 31 bits, because rows and earlier versions store a token in
// 31 bits.
const (
	TokensOfEra = 1 << 20
	EraMax      = 1<<11 - 1
)

// Number returns the number of the attempt. It counts the attempts of a task from 1 and is never reset, even
// if the database has lost some attempts.
func (t Token) Number() int32 { return int32(t % TokensOfEra) }

// Era returns the era in which the attempt was assigned.
func (t Token) Era() Era { return Era(t / TokensOfEra) }

// Is reports whether a value from a person or a program names this attempt. The value may be the token or
// the number, because no two attempts of a task in the database have the same number.
func (t Token) Is(n int64) bool { return int64(t) == n || n < TokensOfEra && int64(t.Number()) == n }

// Next returns the token of the next attempt, or of the first one, for an assignment in the given era. The
// era of a token never falls: if the task already has a later era, Next keeps it.
func (t Token) Next(in Era) Token { return Token(max(in, t.Era()))*TokensOfEra + t%TokensOfEra + 1 }

// Name returns the form for people: the number of the attempt, and the era unless it is the first era.
func (t Token) Name() string {
	if t.Era() == 0 {
		return strconv.Itoa(int(t.Number()))
	}
	return fmt.Sprintf("%d of era %d", t.Number(), t.Era())
}

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
	// Wall is the clock of the store, for instants that are stored and shown.
	Wall Micros
	// Mono is the time elapsed in this ownership. It measures durations, so that no jump of the wall clock
	// shortens a retry or delays it for an hour.
	Mono time.Duration
	// Era is the era of the database. New tokens are of this era.
	Era Era
	// Floor is the latest era that began because the database had gone back. Attempts of an earlier era count
	// as lost. Invariant: Floor ≤ Era.
	Floor Era
}
