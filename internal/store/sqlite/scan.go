package sqlite

import (
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The columns of table run that queries read before they scan a row.
const (
	colNumber  = 0
	colID      = 1
	colParams  = 10
	colCreated = 11
	colState   = 15
	colFire    = 31 // followed by claim
	colHands   = 33 // followed by hands_begun
)

// row reads columns in order.
type row struct {
	s   *sqlite.Stmt
	col int
	bad error
}

func (r *row) int() int64 {
	r.col++
	return r.s.ColumnInt64(r.col - 1)
}

func (r *row) micros() dag.Micros { return dag.Micros(r.int()) }

func (r *row) text() string {
	r.col++
	return r.s.ColumnText(r.col - 1)
}

func (r *row) blob() []byte {
	r.col++
	if r.s.ColumnIsNull(r.col - 1) {
		return nil
	}
	b := make([]byte, r.s.ColumnLen(r.col-1))
	r.s.ColumnBytes(r.col-1, b)
	return b
}

func (r *row) skip() { r.col++ }

func (r *row) id() dag.RunID {
	var id dag.RunID
	r.col++
	if r.s.ColumnBytes(r.col-1, id[:]) != len(id) {
		r.bad = fmt.Errorf("a run id of %d bytes", r.s.ColumnLen(r.col-1))
	}
	return id
}

// word reads a text of a closed set, such as a state.
func word[T any](r *row, parse func(string) (T, bool)) T {
	text := r.text()
	v, ok := parse(text)
	if !ok {
		r.bad = fmt.Errorf("unknown value %q in column %s", text, r.s.ColumnName(r.col-1))
	}
	return v
}

func scanRun(s *sqlite.Stmt, r *dag.RunRow) error {
	c := row{s: s, col: colParams}
	r.Params = c.blob()
	return scanLeanRun(s, r)
}

// scanLeanRun reads a run without its parameters.
func scanLeanRun(s *sqlite.Stmt, r *dag.RunRow) error {
	c := row{s: s, col: colID}
	r.ID, r.Shard, r.Workflow, r.Version = c.id(), dag.ShardID(c.int()), dag.WorkflowID(c.int()), int32(c.int())
	r.Priority, r.Origin, r.User = word(&c, dag.ParsePriority), dag.Origin(c.text()), c.text()
	r.Key, r.KeyHash = c.text(), c.blob()
	c.col = colCreated
	r.Created = c.micros()
	c.col = colState
	r.State, r.Intent, r.Generation = word(&c, dag.ParseRunState), word(&c, dag.ParseIntent), int32(c.int())
	r.Cause, r.Message = dag.Cause(c.text()), c.text()
	r.Graph, r.Base, r.Final = c.blob(), c.blob(), c.blob()
	r.SplitAt, r.StartedAt, r.FinishedAt = c.micros(), c.micros(), c.micros()
	r.Leader, r.LeaderAt = dag.HandlerID(c.int()), c.micros()
	c.col = colFire
	if fire, err := dag.UnpackFire(c.blob()); err != nil {
		c.bad = err
	} else {
		r.Fire = fire
	}
	var err error
	claims := c.blob()
	r.Kept, _ = dag.UnpackKept(claims)
	if r.Claim, r.Shares, err = dag.UnpackClaims(claims); err != nil {
		c.bad = err
	}
	if c.bad != nil {
		return fmt.Errorf("run %s: %w: %w", r.ID, store.ErrCorrupt, c.bad)
	}
	return nil
}

// outputsKept bounds the size of outputs that a reload keeps for conditions.
const outputsKept = 64 << 10

func scanAttempt(s *sqlite.Stmt, a *dag.AttemptRow) error { return scanAttemptUpTo(s, a, textMax) }
func scanAttemptToKeep(s *sqlite.Stmt, a *dag.AttemptRow) error {
	return scanAttemptUpTo(s, a, outputsKept)
}
func scanAttemptBare(s *sqlite.Stmt, a *dag.AttemptRow) error { return scanAttemptUpTo(s, a, -1) }

func scanAttemptUpTo(s *sqlite.Stmt, a *dag.AttemptRow, outputsMax int) error {
	c := row{s: s}
	a.Run, a.Task, a.Token, a.Generation = c.id(), dag.TaskID(c.int()), dag.Token(c.int()), int32(c.int())
	a.Handler, a.Assigned = dag.HandlerID(c.int()), c.micros()
	a.State, a.Cause, a.Message = word(&c, dag.ParseAttemptState), dag.Cause(c.text()), c.text()
	a.Exited = !s.ColumnIsNull(c.col)
	a.ExitCode, a.Signal = int32(c.int()), c.text()
	if s.ColumnLen(c.col) <= outputsMax {
		a.Outputs = c.blob()
	} else {
		c.skip()
	}
	a.Started, a.Finished, a.RetryAt = c.micros(), c.micros(), c.micros()
	a.RetryWait = time.Duration(c.int()) * time.Microsecond
	if c.bad != nil {
		return fmt.Errorf("attempt %s/%d/%d: %w: %w", a.Run, a.Task, a.Token, store.ErrCorrupt, c.bad)
	}
	return nil
}

func scanEvent(s *sqlite.Stmt, e *dag.EventRow) error {
	c := row{s: s}
	e.Run, e.Seq, e.At, e.Records = c.id(), c.int(), c.micros(), c.blob()
	if c.bad != nil {
		return fmt.Errorf("event of run %s: %w: %w", e.Run, store.ErrCorrupt, c.bad)
	}
	return nil
}

func scanHandler(s *sqlite.Stmt, h *store.Handler) error {
	c := row{s: s}
	h.ID, h.UUID, h.Node, h.Started = dag.HandlerID(c.int()), c.text(), c.text(), c.micros()
	return nil
}

func scanWorkflow(s *sqlite.Stmt, w *store.Workflow) error {
	c := row{s: s}
	w.ID, w.Shard, w.Namespace, w.Name, w.State = dag.WorkflowID(c.int()), dag.ShardID(c.int()), c.text(), c.text(), c.text()
	w.Version, w.Latest, w.Revision = int32(c.int()), int32(c.int()), c.int()
	w.Created, w.Modified, w.MaxRuns = c.micros(), c.micros(), int32(c.int())
	w.Tags = dag.Tags(c.text())
	return nil
}

func scanVersionHead(s *sqlite.Stmt, v *store.Version) error {
	c := row{s: s}
	v.Workflow, v.Version, v.Digest = dag.WorkflowID(c.int()), int32(c.int()), c.blob()
	v.User, v.Created = c.text(), c.micros()
	return nil
}

func scanVersion(s *sqlite.Stmt, v *store.Version) error {
	c := row{s: s, col: 5}
	v.Source, v.Def, v.Graph = c.blob(), c.blob(), c.blob()
	return scanVersionHead(s, v)
}

func scanFile(s *sqlite.Stmt, f *store.File) error {
	c := row{s: s}
	f.Name, f.Mode, f.Data = c.text(), uint32(c.int()), c.blob()
	return nil
}

func scanFileHead(s *sqlite.Stmt, f *store.File) error {
	c := row{s: s}
	f.Name, f.Mode, f.Size = c.text(), uint32(c.int()), c.int()
	return nil
}

func scanRequest(s *sqlite.Stmt, r *store.Request) error {
	c := row{s: s}
	r.Scope, r.Key, r.Hash, r.Answer, r.Created = c.text(), c.text(), c.blob(), c.blob(), c.micros()
	return nil
}

func scanMessage(s *sqlite.Stmt, m *store.Message) error {
	c := row{s: s}
	m.ID, m.From, m.To, m.Payload, m.Created = c.int(), dag.ShardID(c.int()), dag.ShardID(c.int()), c.blob(), c.micros()
	return nil
}
