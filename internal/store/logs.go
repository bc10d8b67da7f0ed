package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// LogID names the log of one attempt. It includes the token, so each attempt writes its own log.
type LogID struct {
	Run   dag.RunID
	Task  dag.TaskID
	Token dag.Token
}

// LogPart is a part of a log. Parts are packed so that consecutive ones can be joined byte by byte.
type LogPart struct {
	LogID
	Offset int64  // the offset of its first byte in the log
	Size   int32  // number of bytes before they were packed
	Data   []byte // packed
	Cut    bool   // the bytes between the log's end and Offset are lost
}

// LogSpan is the kept part of a log: from First up to End.
type LogSpan struct {
	First, End int64
	Known      bool // the attempt exists
}

// LogBlockMax bounds the size of joined parts, in bytes before packing.
const LogBlockMax = 32 << 10

// Logs is the part of a store that keeps logs. It is independent of the transactions of writers and of
// Export: people read logs to examine a run, and logs are not part of the run's state.
type Logs interface {
	// AppendLogs adds parts in their order, in one transaction, and returns the span of each part's log. A
	// part is added only if its attempt exists and the part begins at the end of its log. A part with Cut may
	// also begin after the end; then the earlier content is deleted. Other parts change nothing, and no
	// content is ever overwritten. A block that ends more than keep bytes before the end of its log is
	// deleted.
	AppendLogs(ctx context.Context, parts []LogPart, keep int64) ([]LogSpan, error)
	// LogSpan returns the kept part of a log. It returns ErrNotFound if nothing is kept.
	LogSpan(ctx context.Context, id LogID) (LogSpan, error)
	// LogBlock reads the stored part that contains the byte at an offset. If there is none, it reads the next
	// part. It returns ErrNotFound if there is neither.
	LogBlock(ctx context.Context, id LogID, at int64) (LogPart, error)
	// DeleteLogs deletes all logs of runs.
	DeleteLogs(ctx context.Context, runs []dag.RunID) error
}
