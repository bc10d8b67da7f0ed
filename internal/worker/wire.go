package worker

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// greeting is the first line that both sides of a connection send. A side that reads another line stops
// reading, because it would not understand the rest. Every incompatible change raises the number.
const greeting = "skein keeper 4\n"

// errVersion says that the other side uses another version of the protocol.
var errVersion = errors.New("the keeper has another version of the protocol")

// Limits on the bytes of one message. The largest messages of a worker contain the files of a workflow
// version. The largest message of a keeper is the welcome, which contains all ends that were not
// acknowledged.
const (
	orderMax = 64 << 20
	newsMax  = journalMax
)

// wireBatch bounds the size of the jobs in one message, in bytes. A single job may be larger.
const wireBatch = 1 << 20

// ID identifies an attempt in a data folder.
type ID struct {
	Run, Task string
	Attempt   int
}

// ID returns the part of a Key that identifies an attempt.
func (k Key) ID() ID { return ID{k.RunID, k.Task, k.Attempt} }

// order is a message of a worker to its keeper. A zero field orders nothing.
type order struct {
	Hello   *hello
	Renew   time.Duration // the lease lasts at least until this instant of the boot clock
	Ping    int64         // the keeper answers with the same number
	Tag     *string
	Jobs    []parcel
	Stops   []halt
	Taken   []ID // acknowledged ends, which the keeper can forget
	Kill    bool // kill everything, because the worker closes
	End     bool // end the keeper, because no work is left
	Release bool // kill and forget all attempts, because the worker does not want them
	// Base replaces Base of the hello for attempts that start later. A keeper whose welcome has no Rebases
	// ignores it.
	Base []string
}

// hello holds the worker's settings for attempts. It comes with the open lock file of the worker's folder,
// see proof.go.
type hello struct {
	Slots  int
	LogMax int64
	Base   []string // the part of the worker's environment that tasks get
	// Isolation and Protected are the fields of Config. A keeper whose welcome has no Isolates ignores them.
	Isolation string
	Protected []string
	// UIDs and ClosedBoxes are the fields of Config. A keeper whose welcome has no Levels ignores them.
	UIDs        UIDRange
	ClosedBoxes bool
	// Levels are those of Config. A keeper whose welcome has no Chooses ignores them.
	Levels []string
	// Users are those of Config. A keeper whose welcome has no Users ignores them, and Job.User.
	Users []string
	// Auto is Config.IsolationAuto. A keeper whose welcome has no Chooses ignores it.
	Auto bool
}

// parcel is a job in a message.
type parcel struct {
	Job   Job // the field Files of the parcel has the files of the job
	Fresh bool
	Files []File
}

func (p *parcel) size() int {
	n := 1<<10 + len(p.Job.Given)<<9 + p.Job.Size()
	for i := range p.Files {
		n += len(p.Files[i].Content)
	}
	return n
}

type halt struct {
	Key  Key
	Mode Mode
}

// news is a message of a keeper to its worker.
type news struct {
	Welcome *welcome
	Pong    int64
	Started []Held
	Results []Result
	Lines   []line
}

// welcome is the answer to hello.
type welcome struct {
	Tag         string
	Containment string
	Left        time.Duration // remaining time of the lease; negative if it has ended
	Running     []Held
	Ended       []Result // ends that were not acknowledged yet
	Rebases     bool     // the keeper accepts order.Base
	Isolates    bool     // the keeper accepts hello.Isolation
	Levels      []string // isolation levels that the keeper knows; nil means those of an earlier version
	Chooses     bool     // the keeper accepts hello.Levels, and runs each job at its level
	Unwalled    string   // why the keeper cannot give the level of the hello; "" if it can
	Users       bool     // the keeper accepts hello.Users and Job.User
	Masks       bool     // the keeper masks Job.Secrets
	Kinds       bool     // the keeper starts the processes of Job.Kind
	Handles     bool     // the keeper reads the handles of attempts
}

// Held is an attempt that a keeper runs.
type Held struct {
	Key         Key
	Started     time.Time // zero if unknown yet
	Handle      string    // "" if there is none yet
	Adopts      bool      // Adopts of the job, if there is a handle
	CPU, Memory int64     // the limits of the job
}

// line is a line for the log of the worker.
type line struct {
	Level int
	Text  string
	Attrs []string // name, value, name, value, …
}

// stream is one side of a connection. One goroutine reads and one writes.
type stream struct {
	conn *net.UnixConn
	wire *wire
	enc  *gob.Encoder
	dec  *gob.Decoder
	in   limited
	out  *bufio.Writer
}

// newStream makes one side of a connection. The parameter most bounds the messages that it accepts, in bytes.
func newStream(conn *net.UnixConn, most int) *stream {
	w := &wire{UnixConn: conn}
	s := &stream{conn: conn, wire: w, in: limited{r: bufio.NewReaderSize(w, 64<<10), most: most}, out: bufio.NewWriterSize(w, 64<<10)}
	s.enc, s.dec = gob.NewEncoder(s.out), gob.NewDecoder(&s.in)
	return s
}

// greet exchanges the versions, until a deadline.
func (s *stream) greet(deadline time.Time) error {
	if err := s.conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := io.WriteString(s.conn, greeting); err != nil {
		return err
	}
	text := make([]byte, len(greeting))
	for i := range text {
		b, err := s.in.r.ReadByte()
		if err != nil {
			return err
		}
		if text[i] = b; b == '\n' {
			text = text[:i+1]
			break
		}
	}
	if string(text) != greeting {
		return fmt.Errorf("%w: %.40q instead of %q", errVersion, text, greeting)
	}
	return s.conn.SetDeadline(time.Time{})
}

func (s *stream) write(message any) error {
	if err := s.enc.Encode(message); err != nil {
		return err
	}
	return s.out.Flush()
}

func (s *stream) read(into any) error {
	s.in.left = s.in.most
	return s.dec.Decode(into)
}

// limited bounds the size of a message of the other side to most bytes.
type limited struct {
	r          *bufio.Reader
	most, left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("a message is larger than %d bytes", l.most)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// ReadByte implements io.ByteReader, so that gob does not read beyond a message.
func (l *limited) ReadByte() (byte, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("a message is larger than %d bytes", l.most)
	}
	l.left--
	return l.r.ReadByte()
}
