// Package feed is the protocol between a node and the process of a source of events, and an implementation of
// the process's side for programs in Go. docs/extensions.md describes it for other languages.
//
// The node writes one line to the standard input, a Start. The process writes lines to its standard output,
// each a Line. While the node takes no events, the writes of the process wait, so a process needs no queue of
// its own. The node then writes lines that say how many lines with events are stored, each a Stored. The
// process ends when its standard input ends.
package feed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Protocol is the version of the protocol.
const Protocol = 1

// Bounds of a Line.
const (
	EventsMax = 500
	BytesMax  = 1 << 20 // of the keys, values and reasons of its events together
	// LineMax bounds a line with its signs, in bytes.
	LineMax = 4 << 20
)

// Exit codes of a process. Another code is a failure like Away.
const (
	Away      = 75 // the other side cannot be reached; the last line on stderr says why
	Permanent = 78 // a person has to change something; the last line on stderr says what
)

// Start is the first line that a process gets.
type Start struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of the node
	Source   string `json:"source"`  // the name in the manifest
	// With is the input of the trigger: a JSON object.
	With json.RawMessage `json:"with"`
	// Connection is the connection that the trigger names, with the values of its secrets and its type as the
	// key type.
	Connection json.RawMessage `json:"connection,omitempty"`
	// Egress holds the rules of egress of the node, as package egress writes them.
	Egress json.RawMessage `json:"egress,omitempty"`
	// Cursor is the position after which to read. The source has given it, or it is the text of an instant to
	// which a person has moved the position. If it is nil, From says where to begin.
	Cursor json.RawMessage `json:"cursor,omitempty"`
	From   string          `json:"from"`  // now | beginning
	Since  time.Time       `json:"since"` // what now means
	// Events is the largest number of events of a Line.
	Events    int    `json:"events"`
	Namespace string `json:"namespace"`
	Workflow  string `json:"workflow"`
	Trigger   string `json:"trigger"`
}

// Line is a line of a process.
type Line struct {
	Events []Event `json:"events,omitempty"`
	// Cursor is the position after the last of Events. nil: the line has none.
	Cursor json.RawMessage `json:"cursor,omitempty"`
	// Lost is the number of events before Cursor that no longer exist. Such a line has no Events.
	Lost int64  `json:"lost,omitempty"`
	Why  string `json:"why,omitempty"` // the reason for Lost
	// Lag is the number of events that wait to be read. nil: unknown.
	Lag *int64 `json:"lag,omitempty"`
}

// Event is an event of a source.
type Event struct {
	Key string `json:"key"` // names it: a key that has fired before starts nothing
	// Time is when it happened; the zero time: now.
	Time time.Time `json:"time,omitzero"`
	// Value is trigger.event. Without a value, the event is missed, and Reason says why it cannot be used.
	Value  json.RawMessage `json:"value,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// Size returns the number of bytes that an event adds to the size of a Line.
func (e *Event) Size() int { return len(e.Key) + len(e.Value) + len(e.Reason) }

// Stored is a line that a process gets.
type Stored struct {
	Taken int64 `json:"taken"` // the number of lines with a cursor that are stored, of all that were written
}

// Feed is the process's side of the protocol.
type Feed struct {
	Start  Start
	out    *bufio.Writer
	stored chan int64 // cap 1: the newest number that Stored returns
}

// Open reads the first line. The returned context ends when the standard input ends.
func Open(ctx context.Context, in io.Reader, out io.Writer) (*Feed, context.Context, error) {
	lines := bufio.NewReaderSize(in, 64<<10)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return nil, nil, fmt.Errorf("read the first line: %w; a node starts this program", err)
	}
	f := &Feed{out: bufio.NewWriterSize(out, 64<<10), stored: make(chan int64, 1)}
	if err := json.Unmarshal(first, &f.Start); err != nil {
		return nil, nil, errors.New("the first line is no JSON object of the protocol")
	}
	if f.Start.Protocol != Protocol {
		return nil, nil, fmt.Errorf("the node speaks version %d of the protocol, and this program version %d", f.Start.Protocol, Protocol)
	}
	ctx, end := context.WithCancel(ctx)
	go func() {
		defer end()
		f.hear(lines)
	}()
	return f, ctx, nil
}

// hear reads the lines of the node until they end. A line that is longer than the buffer or is not of the
// protocol is ignored.
func (f *Feed) hear(lines *bufio.Reader) {
	for {
		raw, err := lines.ReadSlice('\n')
		var is Stored
		if err == nil && json.Unmarshal(raw, &is) == nil && is.Taken > 0 {
			select {
			case <-f.stored: // an older number
			default:
			}
			f.stored <- is.Taken
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Stored returns a channel with the number of lines with a cursor that are stored, of all that were given. A
// newer number replaces one that was not received. A source that keeps its position in the cursor need not
// receive any.
func (f *Feed) Stored() <-chan int64 { return f.stored }

// Give writes a line. It waits while the node takes nothing.
func (f *Feed) Give(l *Line) error {
	raw, err := json.Marshal(l)
	if err == nil {
		_, err = f.out.Write(append(raw, '\n'))
	}
	if err == nil {
		err = f.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("write to the node: %w", err)
	}
	return nil
}

// Error is the reason why a source ends.
type Error struct {
	Code int // the exit code
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
