package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// LogID names what one attempt printed. The token is part of it: a stale attempt writes to a
// log of its own.
type LogID struct {
	Run   dag.RunID
	Task  dag.TaskID
	Token dag.Token
}

// LogPart is a stretch of a log. Parts are packed so that those that follow each other can be
// joined byte by byte.
type LogPart struct {
	LogID
	Offset int64  // of its first byte in the log
	Size   int32  // bytes, before they were packed
	Data   []byte // packed
	Cut    bool   // nobody will bring what lies between the log's end and Offset
}

// LogSpan is the stretch of a log that is kept: from First up to End.
type LogSpan struct {
	First, End int64
	Known      bool // there is such an attempt
}

// LogBlockMax bounds the parts that are joined, in bytes before packing.
const LogBlockMax = 32 << 10

// Logs is the part of a store that keeps logs. It has nothing to do with the transactions of
// writers, nor with Export: logs are of use while people look into a run, and are not part of
// its state.
type Logs interface {
	// AppendLogs adds parts in their order, in one transaction. A part is added only if it
	// begins where its log ends (or after it, with Cut: then what came before goes) and its
	// attempt exists; others change nothing, and nothing is ever overwritten. What ends more
	// than keep bytes before the end of its log goes. It gives the span of each part's log.
	AppendLogs(ctx context.Context, parts []LogPart, keep int64) ([]LogSpan, error)
	// LogSpan tells what is kept of a log. ErrNotFound: nothing.
	LogSpan(ctx context.Context, id LogID) (LogSpan, error)
	// LogBlock reads the stored part that holds the byte at an offset, or else the next one;
	// ErrNotFound: there is none.
	LogBlock(ctx context.Context, id LogID, at int64) (LogPart, error)
	// DeleteLogs deletes all logs of runs.
	DeleteLogs(ctx context.Context, runs []dag.RunID) error
}
