// Package feed defines the protocol between a node and the process of a source of events. It implements the
// side of the process for Go programs. docs/extensions.md describes the protocol for other languages.
//
// The node writes one line to the standard input of the process: a Start. The process writes lines to its
// standard output, each a Line. The node writes further lines, each a Stored, which say how many lines with
// events are stored. If the node does not read, the writes of the process block, so the process needs no
// queue of its own. The process ends when its standard input ends.
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

// Bounds on a Line.
const (
	EventsMax = 500
	BytesMax  = 1 << 20 // bytes of the keys, values and reasons of all events of a line together
	// LineMax bounds the bytes of a whole line, including the JSON syntax.
	LineMax = 4 << 20
)

// Exit codes of a process. Any other code means the same as Away.
const (
	Away      = 75 // the broker cannot be reached; the last line on stderr says why
	Permanent = 78 // a person has to change something; the last line on stderr says what
)

// Start is the first line that the node writes.
type Start struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // version of the node
	Source   string `json:"source"`  // name of the source in the manifest
	// With is the input of the trigger, a JSON object.
	With json.RawMessage `json:"with"`
	// Connection holds the connection that the trigger names. It includes the values of the secrets, and the
	// connection's type under the key type.
	Connection json.RawMessage `json:"connection,omitempty"`
	// Egress holds the node's egress rules in the form of egress.Rules.
	Egress json.RawMessage `json:"egress,omitempty"`
	// Cursor is the position after which to read. It is a Cursor of an earlier Line, or the text of an
	// instant to which a person has moved the position. If it is nil, From says where to begin.
	Cursor json.RawMessage `json:"cursor,omitempty"`
	From   string          `json:"from"`  // "now" or "beginning"
	Since  time.Time       `json:"since"` // the instant that "now" stands for
	// Events bounds the events of a Line.
	Events    int    `json:"events"`
	Namespace string `json:"namespace"`
	Workflow  string `json:"workflow"`
	Trigger   string `json:"trigger"`
}

// Line is a line that the process writes.
type Line struct {
	Events []Event `json:"events,omitempty"`
	// Cursor is the position after the last of Events, or nil if the line has no position.
	Cursor json.RawMessage `json:"cursor,omitempty"`
	// Lost is the number of events before Cursor that no longer exist. Such a line has no Events.
	Lost int64  `json:"lost,omitempty"`
	Why  string `json:"why,omitempty"` // the reason for Lost
	// Lag is the number of events that are not read yet, or nil if that is unknown.
	Lag *int64 `json:"lag,omitempty"`
}

// Event is an event of a source.
type Event struct {
	Key string `json:"key"` // identifies the event; an event with a key that has already fired starts nothing
	// Time is when the event happened. The zero time stands for now.
	Time time.Time `json:"time,omitzero"`
	// Value becomes trigger.event. If it is missing, the event is recorded as missed, and Reason says why it
	// is unusable.
	Value  json.RawMessage `json:"value,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// Size returns the number of bytes that an event adds to the size of a Line.
func (e *Event) Size() int { return len(e.Key) + len(e.Value) + len(e.Reason) }

// Stored is a line that the node writes after Start.
type Stored struct {
	Taken int64 `json:"taken"` // number of stored lines among all lines with a cursor
}

// Feed is the process's end of the protocol.
type Feed struct {
	Start  Start
	out    *bufio.Writer
	stored chan int64 // capacity 1; holds the newest number for Stored
}

// Open reads the Start line. The returned context ends when the standard input ends.
func Open(ctx context.Context, in io.Reader, out io.Writer) (*Feed, context.Context, error) {
	lines := bufio.NewReaderSize(in, 64<<10)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return nil, nil, fmt.Errorf("read the first line: %w; a node starts this program", err)
	}
	f := &Feed{out: bufio.NewWriterSize(out, 64<<10), stored: make(chan int64, 1)}
	if err := json.Unmarshal(first, &f.Start); err != nil {
		return nil, nil, errors.New("the first line is not a JSON object of the protocol")
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

// hear reads the node's lines until the input ends. It ignores lines that are longer than the buffer or not
// part of the protocol.
func (f *Feed) hear(lines *bufio.Reader) {
	for {
		raw, err := lines.ReadSlice('\n')
		var is Stored
		if err == nil && json.Unmarshal(raw, &is) == nil && is.Taken > 0 {
			select {
			case <-f.stored: // discard an older number
			default:
			}
			f.stored <- is.Taken
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Stored returns a channel that receives the number of stored lines among all lines with a cursor. A newer
// number replaces one that was not received. A source that keeps its position in the cursor need not receive
// from the channel.
func (f *Feed) Stored() <-chan int64 { return f.stored }

// Give writes a line. It blocks while the node does not read.
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

// Error says why a source ends.
type Error struct {
	Code int // the exit code
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
