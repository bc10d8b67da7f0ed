package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

const (
	// forgetFirst after the start, then every forgetEvery, it is looked which runs can go.
	forgetFirst = time.Minute
	forgetEvery = 10 * time.Minute
	// keyedMin is how long a run with an idempotency key is kept in any case: who repeats a
	// request within that time gets the same run.
	keyedMin = 7 * 24 * time.Hour
	// onceMin is the same for a key that a client has made by itself, as the command line does: it tries for minutes.
	onceMin = time.Hour
	// forgetRunsMin and forgetRunsMax bound a transaction; between them it is as large as can be
	// done in forgetTime. forgetRest times as long as it took nothing is deleted.
	forgetRunsMin, forgetRunsMax = 10, 500
	forgetTime                   = 20 * time.Millisecond
	forgetRest                   = 4
	// strayLooks bounds the folders of logs that one pass looks at; strayAge is how long one
	// must have been left alone whose run is not there.
	strayLooks = 2000
	strayAge   = 7 * 24 * time.Hour
	// supersededMin is how long a version of a workflow that a task makes must have had a successor before
	// it goes: whoever was about to start a run of it has done so. forgetVersions bounds a transaction.
	supersededMin  = 7 * 24 * time.Hour
	forgetVersions = 100
)

// forgetting deletes finished runs that need not be kept, and files that no run is left of. Each
// node does it for the shards that it owns, and for its own files.
type forgetting struct {
	n     *Node
	rows  store.Retention // nil: the store forgets nothing
	limit int
	rules map[dag.WorkflowID]rule
	stray map[string]string // by folder of logs or artifacts: the run looked at last
	// superseded is supersededMin, less in tests.
	superseded time.Duration
}

// rule is the retention of a version.
type rule struct {
	version int32
	workflow.Retention
	emitted bool
}

func newForgetting(n *Node) *forgetting {
	rows, _ := n.store.(store.Retention)
	return &forgetting{n: n, rows: rows, limit: forgetRunsMin, rules: map[dag.WorkflowID]rule{}, stray: map[string]string{}, superseded: supersededMin}
}

// upgrade has the store go on with what a migration has begun, until that is done.
func (f *forgetting) upgrade(ctx context.Context) {
	st, ok := f.n.store.(store.Upgrader)
	if !ok || f.n.byHand() {
		return
	}
	for ctx.Err() == nil {
		began := time.Now()
		more, err := st.Upgrade(ctx)
		if err != nil && ctx.Err() == nil {
			f.n.log.Info("a step of the database's upgrade could not be done; the next attempt is later", "code", "upgrade_step", "err", err, "in", forgetEvery)
		}
		if err != nil || !more {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Since(began)):
		}
	}
}

// run forgets until ctx ends.
func (f *forgetting) run(ctx context.Context) {
	f.upgrade(ctx)
	for next := forgetFirst; ; next = forgetEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
		f.upgrade(ctx)
		if f.n.byHand() || f.rows == nil {
			continue
		}
		if err := f.pass(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrFenced) {
			f.n.log.Warn("finished runs could not be deleted; the next attempt is later", "err", err, "in", forgetEvery)
		}
	}
}

// pass goes through all workflows whose shards are owned here, and then through files.
func (f *forgetting) pass(ctx context.Context) error {
	now, err := f.n.store.Clock(ctx)
	if err != nil {
		return err
	}
	for after := ""; ; {
		page, err := f.n.store.Workflows(ctx, store.WorkflowQuery{After: after, Limit: 100})
		if err != nil {
			return err
		}
		for i := range page {
			w := &page[i]
			after = w.Namespace + "/" + w.Name
			if !f.n.engine.Owns(w.Shard) {
				delete(f.rules, w.ID)
				continue
			}
			if err := f.workflow(ctx, w, now); err != nil && !errors.Is(err, store.ErrFenced) {
				return fmt.Errorf("workflow %s: %w", after, err)
			}
		}
		if len(page) < 100 {
			break
		}
	}
	roots := []string{f.n.cfg.Data}
	if f.n.cfg.Logs != "" {
		roots = append(roots, f.n.cfg.Logs)
	}
	if f.n.cfg.Artifacts != "" {
		roots = append(roots, f.n.cfg.Artifacts)
	}
	for _, root := range roots {
		for _, kind := range []string{"logs", "artifacts"} {
			if err := f.files(ctx, filepath.Join(root, kind)); err != nil {
				return err
			}
		}
	}
	return nil
}

// workflow forgets what need not be kept of a workflow, a few runs at a time.
func (f *forgetting) workflow(ctx context.Context, w *store.Workflow, now dag.Micros) error {
	r, err := f.rule(ctx, w)
	if err != nil {
		return err
	}
	x := store.Expiry{Shard: w.Shard, Workflow: w.ID, Keep: int(r.Runs), Keyed: now - dag.Micros(keyedMin.Microseconds()), Once: now - dag.Micros(onceMin.Microseconds())}
	if r.Age > 0 {
		x.Before = now - dag.Micros(time.Duration(r.Age).Microseconds())
	}
	total := 0
	for {
		x.Limit = f.limit
		began := time.Now()
		gone, err := f.rows.Expire(ctx, f.n.engine.Handler().ID, x)
		if err != nil {
			return err
		}
		took := time.Since(began)
		f.n.engine.Stats().Expired.Add(int64(len(gone)))
		if err := f.deleteLogs(ctx, w, gone); err != nil {
			f.n.log.Warn("files of deleted runs are left; they are looked for later", "err", err)
		}
		total += len(gone)
		if len(gone) < x.Limit {
			break
		}
		if f.limit = min(2*f.limit, forgetRunsMax); took > forgetTime {
			f.limit = max(x.Limit/2, forgetRunsMin)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(forgetRest * took):
		}
	}
	if total > 0 {
		f.n.log.Info("finished runs were deleted", "workflow", w.Namespace+"/"+w.Name, "runs", total, "age", time.Duration(r.Age), "keep", r.Runs)
	}
	if r.emitted {
		return f.versions(ctx, w, now)
	}
	return nil
}

// versions forgets versions of a workflow that a task makes: each list of tasks that is another is one.
func (f *forgetting) versions(ctx context.Context, w *store.Workflow, now dag.Micros) error {
	x := store.VersionExpiry{Shard: w.Shard, Workflow: w.ID, Superseded: now - dag.Micros(f.superseded.Microseconds()), Limit: forgetVersions}
	for {
		began := time.Now()
		gone, err := f.rows.ExpireVersions(ctx, f.n.engine.Handler().ID, x)
		if err != nil || gone < x.Limit {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(forgetRest * time.Since(began)):
		}
	}
}

// rule is what holds for a workflow: its present version's, or else the node's.
func (f *forgetting) rule(ctx context.Context, w *store.Workflow) (rule, error) {
	r, known := f.rules[w.ID]
	if !known || r.version != w.Version {
		v, err := f.n.store.Version(ctx, w.ID, w.Version)
		if err != nil {
			return r, err
		}
		var def struct {
			Retention workflow.Retention `json:"retention"`
			Emitted   bool               `json:"emitted"`
		}
		if err := json.Unmarshal(v.Def, &def); err != nil {
			return r, fmt.Errorf("version %d: %w", w.Version, err)
		}
		r = rule{w.Version, def.Retention, def.Emitted}
		f.rules[w.ID] = r
	}
	if r.Age == 0 {
		r.Age = workflow.Duration(f.n.cfg.RetentionAge)
	}
	if r.Runs == 0 {
		r.Runs = int64(f.n.cfg.RetentionRuns)
	}
	return r, nil
}

// deleteLogs deletes what this node and the shared folders have of runs that are gone. The
// database's part went with them.
func (f *forgetting) deleteLogs(ctx context.Context, w *store.Workflow, gone []dag.RunID) error {
	if len(gone) == 0 {
		return nil
	}
	runs := make([]logs.Run, len(gone))
	for i, id := range gone {
		runs[i] = logs.Run{Namespace: w.Namespace, Workflow: w.Name, ID: id}
	}
	err := logs.Folder{Path: f.n.cfg.Data}.Delete(ctx, runs)
	if f.n.cfg.Logs != "" {
		err = errors.Join(err, f.n.logs.Delete(ctx, runs))
	}
	return errors.Join(err, f.deleteArtifacts(ctx, runs))
}

// files deletes folders of logs or artifacts whose run is gone: another node has deleted it, or this one died
// in between. A pass looks at some of them and the next one goes on there.
func (f *forgetting) files(ctx context.Context, root string) error {
	all, err := filepath.Glob(filepath.Join(root, "*", "*", "*"))
	if err != nil {
		return err
	}
	last := f.stray[root]
	f.stray[root] = ""
	looked := 0
	for _, path := range all { // in the order of their names
		id, err := dag.ParseRunID(filepath.Base(path))
		if path <= last || err != nil {
			continue
		}
		if looked++; looked > strayLooks {
			f.stray[root] = last
			break
		}
		last = path
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < strayAge {
			continue
		}
		if _, err := f.n.engine.RunRow(ctx, id); errors.Is(err, engine.ErrNotFound) {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("delete what a run has left: %w", err)
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}
