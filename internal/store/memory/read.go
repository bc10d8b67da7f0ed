package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func pageSize(limit int) int {
	if limit <= 0 {
		return pageMax
	}
	return limit
}

func page[T any](rows []T, limit int, clone func(T) T) []T {
	return cloneAll(rows[:min(len(rows), pageSize(limit))], clone)
}

// Load reads runs as their owner needs them, in the order of their ids.
func (s *Store) Load(ctx context.Context, q store.LoadQuery) ([]store.RunRecord, error) {
	var found []store.RunRecord
	err := s.read(ctx, Load, func() error {
		for _, id := range s.selectLocked(q) {
			r := s.runs[id]
			if r == nil {
				continue
			}
			rec := r.record()
			for i := range rec.Attempts {
				if a := &rec.Attempts[i]; len(a.Outputs) > keptMax {
					a.Outputs = nil
				}
			}
			found = append(found, rec)
		}
		return nil
	})
	return found, err
}

func (s *Store) selectLocked(q store.LoadQuery) ids {
	if q.IDs != nil {
		var named ids
		for _, id := range q.IDs {
			named.add(id)
		}
		return named
	}
	if !hasShard(s, q.Shard) {
		return nil
	}
	active := s.active[q.Shard]
	from, found := active.find(q.After)
	if found {
		from++
	}
	if !q.Moving {
		return active[from:min(len(active), from+pageSize(q.Limit))]
	}
	var moving ids
	for _, id := range active[from:] {
		if !s.runs[id].row.Claim.Aside() && len(moving) < pageSize(q.Limit) {
			moving = append(moving, id)
		}
	}
	return moving
}

func (r *run) record() store.RunRecord {
	rec := store.RunRecord{Run: cloneRun(r.row), Attempts: cloneAll(r.attempts, cloneAttempt)}
	for i := range r.events {
		rec.Run.Weight += r.events[i].Weight
	}
	return rec
}

// Run reads one run.
func (s *Store) Run(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	var row dag.RunRow
	err := s.read(ctx, Read, func() error {
		r := s.runs[id]
		if r == nil {
			return fmt.Errorf("run %s: %w", id, store.ErrNotFound)
		}
		row = cloneRun(r.row)
		return nil
	})
	return row, err
}

// RunsByKeys finds runs by their idempotency keys.
func (s *Store) RunsByKeys(ctx context.Context, keys []store.RunKey) ([]dag.RunRow, error) {
	var rows []dag.RunRow
	err := s.read(ctx, Read, func() error {
		for _, k := range keys {
			if id, found := s.byKey[runKey{k.Workflow, k.Key}]; found {
				rows = append(rows, cloneRun(s.runs[id].row))
			}
		}
		return nil
	})
	return rows, err
}

// Attempts selects attempts of one run.
func (s *Store) Attempts(ctx context.Context, q store.AttemptQuery) ([]dag.AttemptRow, error) {
	var found []dag.AttemptRow
	err := s.read(ctx, Read, func() error {
		r := s.runs[q.Run]
		if r == nil {
			return nil
		}
		for _, a := range r.attempts {
			if q.One && a.Task != q.Task {
				continue
			}
			if !q.Outputs {
				a.Outputs = nil
			}
			found = append(found, cloneAttempt(a))
		}
		return nil
	})
	return found, err
}

// Events reads a run's history in order, after a seq.
func (s *Store) Events(ctx context.Context, run dag.RunID, after int64, limit int) ([]dag.EventRow, error) {
	var found []dag.EventRow
	err := s.read(ctx, Read, func() error {
		r := s.runs[run]
		if r == nil {
			return nil
		}
		from, _ := slices.BinarySearchFunc(r.events, after, func(e dag.EventRow, seq int64) int {
			if e.Seq <= seq {
				return -1
			}
			return 1
		})
		found = page(r.events[from:], limit, cloneEvent)
		return nil
	})
	return found, err
}

// Workflow finds a workflow by its name, unless the workflow is deleted.
func (s *Store) Workflow(ctx context.Context, namespace, name string) (store.Workflow, error) {
	var w store.Workflow
	err := s.read(ctx, Read, func() error {
		id, found := s.names[workflowName{namespace, name}]
		if !found {
			return fmt.Errorf("workflow %s/%s: %w", namespace, name, store.ErrNotFound)
		}
		w = s.workflows[id]
		return nil
	})
	return w, err
}

// WorkflowByID finds a workflow, deleted or not.
func (s *Store) WorkflowByID(ctx context.Context, id dag.WorkflowID) (store.Workflow, error) {
	var w store.Workflow
	err := s.read(ctx, Read, func() error {
		found := false
		if w, found = s.workflows[id]; !found {
			return fmt.Errorf("workflow %d: %w", id, store.ErrNotFound)
		}
		return nil
	})
	return w, err
}

// Workflows lists the workflows that are not deleted, ordered by namespace, then name.
func (s *Store) Workflows(ctx context.Context, q store.WorkflowQuery) ([]store.Workflow, error) {
	var found []store.Workflow
	namespace, name, _ := strings.Cut(q.After, "/")
	after := workflowName{namespace, name}
	err := s.read(ctx, Read, func() error {
		for _, key := range slices.SortedFunc(maps.Keys(s.names), byName) {
			if byName(key, after) <= 0 && q.After != "" || q.Namespace != "" && key.namespace != q.Namespace || q.Not != "" && key.namespace == q.Not {
				continue
			}
			wf := s.workflows[s.names[key]]
			if !q.Fits(&wf) {
				continue
			}
			if len(found) == pageSize(q.Limit) {
				break
			}
			found = append(found, wf)
		}
		return nil
	})
	return found, err
}

func byName(a, b workflowName) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

func (s *Store) versionLocked(w dag.WorkflowID, version int32) (store.Version, bool) {
	i, found := slices.BinarySearchFunc(s.versions[w], version, byVersion)
	if !found {
		return store.Version{}, false
	}
	return s.versions[w][i], true
}

// Version reads one version, without its files.
func (s *Store) Version(ctx context.Context, w dag.WorkflowID, version int32) (store.Version, error) {
	var v store.Version
	err := s.read(ctx, Read, func() error {
		row, found := s.versionLocked(w, version)
		if !found {
			return fmt.Errorf("version %d of workflow %d: %w", version, w, store.ErrNotFound)
		}
		row.Files = nil
		v = cloneVersion(row)
		return nil
	})
	return v, err
}

// Versions lists versions below a number, the newest first. 0 means all versions.
func (s *Store) Versions(ctx context.Context, w dag.WorkflowID, before int32, limit int) ([]store.Version, error) {
	var found []store.Version
	err := s.read(ctx, Read, func() error {
		for _, v := range slices.Backward(s.versions[w]) {
			if before != 0 && v.Version >= before {
				continue
			}
			if len(found) == pageSize(limit) {
				break
			}
			v.Source, v.Def, v.Graph, v.Files = nil, nil, nil, nil
			found = append(found, cloneVersion(v))
		}
		return nil
	})
	return found, err
}

// Files reads a version's files, ordered by name.
func (s *Store) Files(ctx context.Context, q store.FileQuery) ([]store.File, error) {
	var files []store.File
	err := s.read(ctx, Read, func() error {
		v, _ := s.versionLocked(q.Workflow, q.Version)
		clone := cloneFile
		if q.Heads {
			clone = headOf
		}
		files = cloneAll(v.Files, clone)
		return nil
	})
	return files, err
}

// Request reads the answer kept under a key.
func (s *Store) Request(ctx context.Context, scope, key string) (store.Request, error) {
	var r store.Request
	err := s.read(ctx, Read, func() error {
		row, found := s.requests[requestKey{scope, key}]
		if !found {
			return fmt.Errorf("request %s in %s: %w", key, scope, store.ErrNotFound)
		}
		r = cloneRequest(row)
		return nil
	})
	return r, err
}

// Messages reads the messages for a shard, oldest first.
func (s *Store) Messages(ctx context.Context, to dag.ShardID, limit int) ([]store.Message, error) {
	var found []store.Message
	err := s.read(ctx, Read, func() error {
		for _, m := range s.messages {
			if m.To == to && len(found) < pageSize(limit) {
				found = append(found, cloneMessage(m))
			}
		}
		return nil
	})
	return found, err
}

// Scan passes every run with its rows and events to a function, ordered by id. The snapshot is taken at the
// start, so the function may use the store.
func (s *Store) Scan(ctx context.Context, see func(store.RunRecord, []dag.EventRow) error) error {
	var snapshot []run
	err := s.read(ctx, Scan, func() error {
		for _, id := range s.all {
			r := s.runs[id]
			snapshot = append(snapshot, run{r.row, slices.Clone(r.attempts), slices.Clone(r.events)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range snapshot {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("scan: %w: %w", store.ErrUnavailable, err)
		}
		if err := see(snapshot[i].record(), cloneAll(snapshot[i].events, cloneEvent)); err != nil {
			return err
		}
	}
	return nil
}
