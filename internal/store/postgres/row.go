package postgres

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// row reads the columns of a row in order. Its bytes belong to the connection, so values that are kept must
// be copied.
type row struct {
	values [][]byte
	result *pgconn.ResultReader
	col    int
	bad    error
	same   []string // the last text of each column; nil if texts are not kept
}

func (r *row) next() []byte {
	r.col++
	return r.values[r.col-1]
}

// int reads any integer. NULL is 0.
func (r *row) int() int64 {
	switch b := r.next(); len(b) {
	case 0:
		return 0
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	case 8:
		return int64(binary.BigEndian.Uint64(b))
	default:
		r.fail("an integer of %d bytes", len(b))
		return 0
	}
}

func (r *row) bool() bool {
	b := r.next()
	return len(b) == 1 && b[0] == 1
}

func (r *row) micros() dag.Micros { return dag.Micros(r.int()) }

// text reads a text. Rows of one answer share texts that are equal.
func (r *row) text() string {
	b := r.next()
	if r.same == nil {
		return string(b)
	}
	last := &r.same[r.col-1]
	if *last != string(b) {
		*last = string(b)
	}
	return *last
}

// blob reads bytes. NULL is nil.
func (r *row) blob() []byte {
	b := r.next()
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// blobs reads an array of bytes, none of which is NULL. It returns nil for a NULL array. The bytes belong to
// the connection.
func (r *row) blobs() (all [][]byte) {
	b := r.next()
	if b == nil {
		return nil
	}
	const header = 20 // dimensions, NULL flag, type of the elements, their number, first index
	if len(b) < header || binary.BigEndian.Uint32(b) != 1 || binary.BigEndian.Uint32(b[4:]) != 0 {
		r.fail("not a list of bytes")
		return nil
	}
	n := int(binary.BigEndian.Uint32(b[12:]))
	all = make([][]byte, 0, min(n, len(b)/4))
	for b = b[header:]; len(b) >= 4; {
		size := int(binary.BigEndian.Uint32(b))
		if size > len(b)-4 {
			break
		}
		all, b = append(all, b[4:4+size:4+size]), b[4+size:]
	}
	if len(all) != n || len(b) > 0 {
		r.fail("a list with the length %d has %d values", n, len(all))
	}
	return all
}

func (r *row) id() dag.RunID {
	var id dag.RunID
	if b := r.next(); copy(id[:], b) != len(id) || len(b) != len(id) {
		r.fail("a run id has %d bytes, and not %d", len(b), len(id))
	}
	return id
}

func (r *row) fail(format string, args ...any) {
	r.bad = fmt.Errorf("column %s: %s", r.result.FieldDescriptions()[r.col-1].Name, fmt.Sprintf(format, args...))
}

// word reads a text of a closed set, such as a state.
func word[T any](r *row, parse func(string) (T, bool)) T {
	text := r.text()
	v, ok := parse(text)
	if !ok {
		r.fail("unknown value %q", text)
	}
	return v
}

// damaged records a fault of a row as an error.
func (r *row) damaged(format string, args ...any) error {
	if r.bad == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", fmt.Sprintf(format, args...), store.ErrCorrupt, r.bad)
}

func scanRun(c *row, r *dag.RunRow) error {
	r.ID, r.Shard, r.Workflow, r.Version = c.id(), dag.ShardID(c.int()), dag.WorkflowID(c.int()), int32(c.int())
	r.Priority, r.Origin, r.User = word(c, dag.ParsePriority), dag.Origin(c.text()), c.text()
	r.Key, r.KeyHash, r.Params = c.text(), c.blob(), c.blob()
	var err error
	if r.Fire, err = dag.UnpackFire(c.next()); err != nil {
		c.fail("%v", err)
	}
	r.Created = c.micros()
	r.State, r.Intent, r.Generation = word(c, dag.ParseRunState), word(c, dag.ParseIntent), int32(c.int())
	r.Cause, r.Message = dag.Cause(c.text()), c.text()
	r.Graph, r.Base, r.Final = c.blob(), c.blob(), c.blob()
	r.SplitAt, r.StartedAt, r.FinishedAt = c.micros(), c.micros(), c.micros()
	r.Leader, r.LeaderAt = dag.HandlerID(c.int()), c.micros()
	claims := c.next()
	r.Kept, _ = dag.UnpackKept(claims)
	if r.Claim, r.Shares, err = dag.UnpackClaims(claims); err != nil {
		c.fail("%v", err)
	}
	return c.damaged("run %s", r.ID)
}

func scanAttempt(c *row, a *dag.AttemptRow) error {
	a.Run, a.Task, a.Token, a.Generation = c.id(), dag.TaskID(c.int()), dag.Token(c.int()), int32(c.int())
	a.Handler, a.Assigned = dag.HandlerID(c.int()), c.micros()
	a.State, a.Cause, a.Message = word(c, dag.ParseAttemptState), dag.Cause(c.text()), c.text()
	a.Exited = c.values[c.col] != nil
	a.ExitCode, a.Signal, a.Outputs = int32(c.int()), c.text(), c.blob()
	a.Started, a.Finished, a.RetryAt = c.micros(), c.micros(), c.micros()
	a.RetryWait = time.Duration(c.int()) * time.Microsecond
	return c.damaged("attempt %s/%d/%d", a.Run, a.Task, a.Token)
}

func scanEvent(c *row, e *dag.EventRow) error {
	e.Run, e.Seq, e.At, e.Records = c.id(), c.int(), c.micros(), c.blob()
	return c.damaged("event of run %s", e.Run)
}

func scanHandler(c *row, h *store.Handler) error {
	h.ID, h.UUID, h.Node, h.Started = dag.HandlerID(c.int()), c.text(), c.text(), c.micros()
	return c.damaged("handler %d", h.ID)
}

func scanWorkflow(c *row, w *store.Workflow) error {
	w.ID, w.Shard, w.Namespace, w.Name, w.State = dag.WorkflowID(c.int()), dag.ShardID(c.int()), c.text(), c.text(), c.text()
	w.Version, w.Latest, w.MaxRuns, w.Revision = int32(c.int()), int32(c.int()), int32(c.int()), c.int()
	w.Created, w.Modified, w.Tags = c.micros(), c.micros(), dag.Tags(c.text())
	return c.damaged("workflow %d", w.ID)
}

func scanVersionHead(c *row, v *store.Version) error {
	v.Workflow, v.Version, v.Digest = dag.WorkflowID(c.int()), int32(c.int()), c.blob()
	v.User, v.Created = c.text(), c.micros()
	return c.damaged("version %d of workflow %d", v.Version, v.Workflow)
}

func scanVersion(c *row, v *store.Version) error {
	if err := scanVersionHead(c, v); err != nil {
		return err
	}
	v.Source, v.Def, v.Graph = c.blob(), c.blob(), c.blob()
	return c.damaged("version %d of workflow %d", v.Version, v.Workflow)
}

func scanFile(c *row, f *store.File) error {
	f.Name, f.Mode, f.Data = c.text(), uint32(c.int()), c.blob()
	return c.damaged("file %s", f.Name)
}

func scanFileHead(c *row, f *store.File) error {
	f.Name, f.Mode, f.Size = c.text(), uint32(c.int()), c.int()
	return c.damaged("file %s", f.Name)
}

func scanRequest(c *row, r *store.Request) error {
	r.Scope, r.Key, r.Hash, r.Answer, r.Created = c.text(), c.text(), c.blob(), c.blob(), c.micros()
	return c.damaged("request %s", r.Key)
}

func scanMessage(c *row, m *store.Message) error {
	m.ID, m.From, m.To, m.Payload, m.Created = c.int(), dag.ShardID(c.int()), dag.ShardID(c.int()), c.blob(), c.micros()
	return c.damaged("message %d", m.ID)
}
