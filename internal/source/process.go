package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/internal/program"
	"skein.dev/skein/internal/workflow"
	"skein.dev/skein/sdk/shared/mask"
)

// leaveMax is the time in which a process must end after the end of its input. It is shorter than
// Config.Leave.
const leaveMax = 3 * time.Second

// answersMax bounds the time for writing the last number.
const answersMax = 500 * time.Millisecond

// saidMax bounds the bytes that are kept of a process's messages.
const saidMax = 4 << 10

// permanentWait is the pause after the end of a process that requires an action of a person.
const permanentWait = time.Minute

// Begun describes how the process of a source is started.
type Begun struct {
	Argv  []string
	Dir   string
	Start feed.Start
	// Hidden are values of secrets. Messages do not show them.
	Hidden []string
	// Memory is the number of bytes that the process may take. 0 means any number.
	Memory int64
}

// Process is a source that runs as a process. Package feed has the protocol.
type Process struct {
	pulse
	Intake *workflow.Intake
	Start  Start
	// Begin returns how the process is started.
	Begin func(ctx context.Context) (*Begun, error)
}

var _ Source = (*Process)(nil)

// collects implements collector.
func (p *Process) collects() {}

// Run implements Source.
func (p *Process) Run(ctx context.Context, from []byte, give func(context.Context, Batch) error) error {
	begun, err := p.Begin(ctx)
	if err != nil {
		return err
	}
	start := &begun.Start
	start.Protocol, start.Cursor, start.From, start.Since, start.Events = feed.Protocol, from, workflow.FromNow, p.Start.Since, feed.EventsMax
	if p.Start.Beginning {
		start.From = workflow.FromBeginning
	}
	if most := int(p.Intake.BatchMax); most > 0 {
		start.Events = most
	}
	if len(from) > 0 && !json.Valid(from) {
		return errCursor
	}
	first, err := json.Marshal(start)
	if err != nil {
		return fmt.Errorf("encode the first line: %w", err)
	}
	said := &tail{Tail: program.Tail{Max: saidMax}}
	s, err := program.Open(&program.Call{Argv: begun.Argv, Stderr: said, Env: goLimit(begun.Memory)}, program.StreamOptions{Dir: begun.Dir, LineMax: feed.LineMax})
	if err != nil {
		return fmt.Errorf("the program of source %s cannot be started: %w", start.Source, err)
	}
	watch := newGuard(begun.Memory, s)
	lines, done := make(chan []byte), make(chan struct{})
	var tooLong error
	go func() {
		defer close(lines)
		for s.Lines.Scan() {
			select {
			case lines <- bytes.Clone(s.Lines.Bytes()):
			case <-done:
				return
			}
		}
		tooLong = s.Lines.Err()
	}()
	answers := newAnswers(s.In)
	answers.write(append(first, '\n'))
	i := intaking{p: p, give: give, cursor: from, answers: answers}
	err = i.run(ctx, lines)
	close(done)
	answers.end()
	much := watch.end(start.Source)
	ended := s.End(leaveMax)
	for range lines { // the goroutine ends before tooLong is read
	}
	switch {
	case err != nil:
		return err
	case much != nil:
		return much
	}
	if tooLong != nil {
		return fmt.Errorf("source %s wrote a line that cannot be read: %w; the limit is %d bytes", start.Source, tooLong, feed.LineMax)
	}
	return endOf(start.Source, ended, mask.NewSet(begun.Hidden).String(said.shown()))
}

// errCursor means that the stored cursor was not written by a process.
var errCursor = errors.New("the stored cursor is not JSON; move it with: skein schedule seek WORKFLOW/TRIGGER --to now")

// endOf returns the error for the end of a process. said is the end of its output to stderr.
func endOf(name string, ended error, said string) error {
	if i := strings.LastIndexByte(said, '\n'); i >= 0 {
		said = said[i+1:]
	}
	var exit *exec.ExitError
	switch {
	case ended == nil && said == "":
		return fmt.Errorf("source %s ended by itself", name)
	case ended == nil:
		return fmt.Errorf("source %s ended by itself: %s", name, said)
	case !errors.As(ended, &exit):
		return fmt.Errorf("source %s: %w", name, ended)
	case exit.ExitCode() == feed.Permanent && said != "":
		return &LaterError{permanentWait, fmt.Errorf("source %s: %s", name, said)}
	case exit.ExitCode() == feed.Away && said != "":
		return fmt.Errorf("source %s: %s", name, said)
	case said != "":
		return fmt.Errorf("source %s ended with %s: %s", name, exit, said)
	}
	return fmt.Errorf("source %s ended with %s, and said nothing", name, exit)
}

// tail is a program.Tail for two goroutines.
type tail struct {
	program.Tail
	mu sync.Mutex // protects Tail
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Tail.Write(p)
}

func (t *tail) shown() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Shown()
}

// answers writes numbers to a process without blocking. If several numbers wait, only the last one is
// written.
type answers struct {
	first chan []byte   // cap 1
	taken chan int64    // cap 1
	ended chan struct{} // closed by end
	done  chan struct{} // closed when the last number is written
}

func newAnswers(in io.Writer) *answers {
	a := &answers{first: make(chan []byte, 1), taken: make(chan int64, 1), ended: make(chan struct{}), done: make(chan struct{})}
	go a.run(in)
	return a
}

func (a *answers) run(in io.Writer) {
	defer close(a.done)
	number := func(n int64) []byte {
		line, _ := json.Marshal(feed.Stored{Taken: n}) // a number cannot fail
		return append(line, '\n')
	}
	for {
		var line []byte
		select {
		case <-a.ended:
			select {
			case n := <-a.taken:
				_, _ = in.Write(number(n))
			default:
			}
			return
		case line = <-a.first:
		case n := <-a.taken:
			line = number(n)
		}
		if _, err := in.Write(line); err != nil {
			return // the process has ended, or takes no answers
		}
	}
}

func (a *answers) write(line []byte) { a.first <- line }

func (a *answers) tell(n int64) {
	for {
		select {
		case a.taken <- n:
			return
		default:
		}
		select {
		case <-a.taken: // an older number
		default:
		}
	}
}

// end writes the last number, so that a process can acknowledge what is stored before it ends. It does not
// wait long for a process that takes no answers.
func (a *answers) end() {
	close(a.ended)
	select {
	case <-a.done:
	case <-time.After(answersMax):
	}
}

// intaking processes the lines of a process.
type intaking struct {
	p       *Process
	give    func(context.Context, Batch) error
	answers *answers
	cursor  []byte // the last cursor that was passed on
	lag     int64

	// held has events that are not passed on yet, because further events may join them in one run.
	held   Batch
	size   int
	first  time.Time // the arrival of the first event in held
	lines  int64     // the number of lines in held
	stored int64     // the number of lines whose cursor is stored
}

// run processes lines until they end, ctx ends, or a batch is refused. It returns nil if the lines have
// ended.
func (i *intaking) run(ctx context.Context, lines <-chan []byte) error {
	i.lag = -1
	for {
		var late <-chan time.Time
		if len(i.held.Events) > 0 {
			late = time.After(time.Until(i.first.Add(time.Duration(i.p.Intake.BatchWait))))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			if err := i.store(ctx); err != nil {
				return err
			}
		case raw, ok := <-lines:
			if !ok {
				return i.store(ctx) // the process has ended by itself
			}
			if err := i.line(ctx, raw); err != nil {
				return err
			}
		}
	}
}

// line processes one line.
func (i *intaking) line(ctx context.Context, raw []byte) error {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil
	}
	var l feed.Line
	if err := json.Unmarshal(raw, &l); err != nil {
		return &LaterError{permanentWait, fmt.Errorf("the source wrote a line that is not of the protocol: %s", inLine(err.Error(), 200))}
	}
	if l.Lag != nil {
		i.lag = *l.Lag
	}
	i.p.answered(i.lag)
	if l.Cursor == nil || string(l.Cursor) == "null" {
		if len(l.Events) > 0 || l.Lost != 0 {
			return &LaterError{permanentWait, errors.New("the source wrote events without a cursor")}
		}
		return nil
	}
	b, size, err := batchOf(&l)
	if err != nil {
		return &LaterError{permanentWait, err}
	}
	most := int(i.p.Intake.BatchMax)
	if n := len(i.held.Events); n > 0 && (b.Lost > 0 || n+len(b.Events) > most || i.size+size > engine.BatchBytesMax) {
		if err := i.store(ctx); err != nil {
			return err
		}
	}
	if i.lines++; len(i.held.Events) == 0 {
		i.first = time.Now()
	}
	i.held.Events, i.held.Cursor, i.held.Lost, i.held.Why = append(i.held.Events, b.Events...), b.Cursor, b.Lost, b.Why
	if i.size += size; len(i.held.Events) > 0 && len(i.held.Events) < most {
		return nil // more events may come for this run
	}
	return i.store(ctx)
}

// store passes on the held events.
func (i *intaking) store(ctx context.Context) error {
	if i.held.Cursor == nil {
		return nil
	}
	i.held.After = i.cursor
	if !bytes.Equal(i.held.Cursor, i.cursor) || len(i.held.Events) > 0 || i.held.Lost > 0 {
		if err := i.give(ctx, i.held); err != nil {
			return err
		}
	}
	i.stored += i.lines
	i.cursor, i.held, i.size, i.lines = i.held.Cursor, Batch{}, 0, 0
	i.answers.tell(i.stored)
	return nil
}

// batchOf reads the events of a line, within their bounds.
func batchOf(l *feed.Line) (b Batch, size int, err error) {
	var cursor bytes.Buffer
	if err := json.Compact(&cursor, l.Cursor); err != nil { // the cursor was already decoded, so it is valid
		return b, 0, err
	}
	b = Batch{Cursor: cursor.Bytes(), Lost: l.Lost, Why: inLine(l.Why, whyMax)}
	if len(l.Events) > engine.BatchEventsMax {
		return b, 0, fmt.Errorf("the source wrote a line with %d events, the limit is %d", len(l.Events), engine.BatchEventsMax)
	}
	for i := range l.Events {
		e := &l.Events[i]
		is := Event{Key: e.Key, At: e.Time, Value: e.Value, Reason: inLine(e.Reason, whyMax)}
		if is.Size() > valueMax {
			is.Value, is.Reason = nil, "the event "+inLine(e.Key, 200)+" cannot be used: "+errTooLarge.Error()
		}
		size += is.Size()
		b.Events = append(b.Events, is)
	}
	if size > engine.BatchBytesMax {
		return b, size, fmt.Errorf("the source wrote a line with events of %d bytes, the limit is %d", size, engine.BatchBytesMax)
	}
	return b, size, nil
}
