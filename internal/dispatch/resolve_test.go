package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// away is a store that does not answer its first calls, as while its database starts again.
type away struct {
	store.Store
	def   []byte
	only  string // the read that fails; "" means all of them
	fails atomic.Int64
}

func (s *away) gone(read string) error {
	if (s.only == "" || s.only == read) && s.fails.Add(-1) >= 0 {
		return fmt.Errorf("unexpected EOF: %w", store.ErrUnavailable)
	}
	return nil
}

func (s *away) Run(context.Context, dag.RunID) (dag.RunRow, error) {
	return dag.RunRow{Header: dag.Header{Workflow: 1, Version: 1}}, s.gone("run")
}

func (s *away) Version(context.Context, dag.WorkflowID, int32) (store.Version, error) {
	return store.Version{Def: s.def}, s.gone("version")
}

func (s *away) Files(context.Context, store.FileQuery) ([]store.File, error) {
	return nil, s.gone("files")
}

// TestOutageFailsNoAttempt: if an attempt is assigned while the store does not answer, its task does not
// fail. Its inputs are read when the store is back, even if another attempt of the run was refused before.
func TestOutageFailsNoAttempt(t *testing.T) {
	faults := func(file string) (*workflow.Workflow, *dag.Graph) {
		ws, errs := workflow.Parse([]byte(file), workflow.Options{})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		g, err := ws[0].Graph(0)
		if err != nil {
			t.Fatal(err)
		}
		return ws[0], g
	}
	w, g := faults("name: w\ntasks:\n  a: {run: \"true\"}\n")
	def, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	a := engine.Assignment{Run: dag.RunID{1}, Workflow: 1, Version: 1, Name: "a", Token: 1, Graph: g}
	for _, only := range []string{"", "run", "version", "files"} {
		for n := range int64(4) { // the number of calls that fail
			st := &away{def: def, only: only}
			st.fails.Store(n)
			r := NewResolver(Config{Store: st})
			if n > 0 {
				if _, err := r.job(t.Context(), &a); !errors.Is(err, store.ErrUnavailable) {
					t.Fatalf("%q, %d: without the store it is resolved: %v", only, n, err)
				}
			}
			waited := int64(0)
			err := r.surely(t.Context(), &a, func() error {
				job, err := r.job(t.Context(), &a)
				if err == nil && job.Files == nil {
					t.Errorf("%q, %d: the job has no files", only, n)
				}
				return err
			}, func(time.Duration) bool { waited++; return true })
			if err != nil || waited != max(n-1, 0) {
				t.Errorf("%q, %d: %v after %d pauses", only, n, err, waited)
			}
		}
	}
	st := &away{def: def}
	st.fails.Store(100)
	r := NewResolver(Config{Store: st})
	err = r.surely(t.Context(), &a, func() error { _, err := r.job(t.Context(), &a); return err }, func(time.Duration) bool { return false })
	if !errors.Is(err, errUnwanted) {
		t.Errorf("not wanted any more: %v", err)
	}
}
