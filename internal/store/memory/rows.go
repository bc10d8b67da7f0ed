package memory

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// ids is a sorted set of runs. New runs mostly come at its end.
type ids []dag.RunID

func (s ids) find(id dag.RunID) (int, bool) {
	if n := len(s); n == 0 || bytes.Compare(s[n-1][:], id[:]) < 0 {
		return n, false
	}
	return slices.BinarySearchFunc(s, id, func(a, b dag.RunID) int { return bytes.Compare(a[:], b[:]) })
}

func (s *ids) add(id dag.RunID) {
	if i, found := s.find(id); !found {
		*s = slices.Insert(*s, i, id)
	}
}

func (s *ids) remove(id dag.RunID) {
	if i, found := s.find(id); found {
		*s = slices.Delete(*s, i, i+1)
	}
}

// blob copies bytes that enter or leave the store. Bytes of length 0 are nil.
func blob(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

func cloneRun(r dag.RunRow) dag.RunRow {
	r.KeyHash, r.Params = blob(r.KeyHash), blob(r.Params)
	r.Graph, r.Base, r.Final = blob(r.Graph), blob(r.Base), blob(r.Final)
	if r.Fire != nil {
		fire := *r.Fire
		r.Fire = &fire
	}
	r.Claim, r.Shares = cloneClaim(r.Claim), slices.Clone(r.Shares)
	return r
}

func cloneAttempt(a dag.AttemptRow) dag.AttemptRow {
	a.Outputs = blob(a.Outputs)
	a.RetryWait = a.RetryWait.Truncate(time.Microsecond)
	if !a.Exited {
		a.ExitCode = 0
	}
	return a
}

func cloneEvent(e dag.EventRow) dag.EventRow {
	e.Records = blob(e.Records)
	return e
}

func cloneVersion(v store.Version) store.Version {
	v.Source, v.Def, v.Graph, v.Digest = blob(v.Source), blob(v.Def), blob(v.Graph), blob(v.Digest)
	v.Files = cloneAll(v.Files, cloneFile)
	return v
}

func cloneFile(f store.File) store.File {
	f.Data = blob(f.Data)
	return f
}

func headOf(f store.File) store.File {
	f.Data, f.Size = nil, int64(len(f.Data))
	return f
}

func cloneRequest(r store.Request) store.Request {
	r.Hash, r.Answer = blob(r.Hash), blob(r.Answer)
	return r
}

func cloneMessage(m store.Message) store.Message {
	m.Payload = blob(m.Payload)
	return m
}

func cloneAll[T any](rows []T, clone func(T) T) []T {
	if len(rows) == 0 {
		return nil
	}
	out := make([]T, len(rows))
	for i := range rows {
		out[i] = clone(rows[i])
	}
	return out
}

func (r *run) bytes() int64 {
	n := rowBytes(r.row)
	for i := range r.attempts {
		n += len(r.attempts[i].Outputs) + len(r.attempts[i].Message)
	}
	for i := range r.events {
		n += len(r.events[i].Records)
	}
	return int64(n)
}

func rowBytes(r dag.RunRow) int {
	return len(r.User) + len(r.Key) + len(r.KeyHash) + len(r.Params) + len(r.Cause) + len(r.Message) +
		len(r.Graph) + len(r.Base) + len(r.Final)
}

// The allowed content of a row. Texts are UTF-8 without NUL, because one engine cannot store NUL and another
// would read back less. States are known ones. A row has at most rowMax bytes.

func checkTexts(what string, texts ...string) error {
	for _, t := range texts {
		if !utf8.ValidString(t) || strings.IndexByte(t, 0) >= 0 {
			return fmt.Errorf("%s: the text %.40q is not UTF-8 without NUL: %w", what, t, store.ErrRefused)
		}
	}
	return nil
}

func checkSize(what string, bytes int) error {
	if bytes > rowMax {
		return fmt.Errorf("%s: %d bytes, at most %d: %w", what, bytes, rowMax, store.ErrRefused)
	}
	return nil
}

func checkRun(r *dag.RunRow) error {
	what := "run " + r.ID.String()
	if r.State > dag.RunSkipped || r.Intent > dag.IntentKill || r.Priority >= dag.Levels {
		return fmt.Errorf("%s: unknown state, intent or priority: %w", what, store.ErrRefused)
	}
	if err := checkTexts(what, r.User, r.Key, string(r.Origin), string(r.Cause), r.Message); err != nil {
		return err
	}
	return checkSize(what, rowBytes(*r))
}

func checkAttempt(a *dag.AttemptRow) error {
	what := fmt.Sprintf("attempt %d of task %d of run %s", a.Token, a.Task, a.Run)
	if !a.State.Known() {
		return fmt.Errorf("%s: unknown state: %w", what, store.ErrRefused)
	}
	if err := checkTexts(what, string(a.Cause), a.Message, a.Signal); err != nil {
		return err
	}
	return checkSize(what, len(a.Cause)+len(a.Message)+len(a.Signal)+len(a.Outputs))
}

func checkWorkflow(w *store.Workflow) error {
	switch w.State {
	case store.WorkflowActive, store.WorkflowPaused, store.WorkflowDeleted:
	default:
		return fmt.Errorf("workflow %s: unknown state %.40q: %w", w.Name, w.State, store.ErrRefused)
	}
	return checkTexts("workflow", w.Namespace, w.Name)
}

func checkVersion(v *store.Version) error {
	what := fmt.Sprintf("version %d of workflow %d", v.Version, v.Workflow)
	if err := checkTexts(what, v.User); err != nil {
		return err
	}
	if err := checkSize(what, len(v.Source)+len(v.Def)+len(v.Graph)+len(v.Digest)); err != nil {
		return err
	}
	names := map[string]bool{}
	for i := range v.Files {
		f := &v.Files[i]
		if err := checkTexts(what, f.Name); err != nil {
			return err
		}
		if names[f.Name] {
			return fmt.Errorf("%s: file %s twice: %w", what, f.Name, store.ErrRefused)
		}
		names[f.Name] = true
		if err := checkSize(what, len(f.Data)); err != nil {
			return err
		}
	}
	return nil
}
