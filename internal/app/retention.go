package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

const (
	// forgetFirst is the time from the start of the node to the first pass of retention. forgetEvery is the
	// time between two passes.
	forgetFirst = time.Minute
	forgetEvery = 10 * time.Minute
	// forgetIdle bounds the time between two looks at a workflow. If a pass deletes nothing of it, the next
	// look comes later.
	forgetIdle = 6 * time.Hour
	// onceMin is the time for which a run is kept whose key a client has made by itself, as the command line
	// does. The client tries again for minutes.
	onceMin = time.Hour
	// forgetRunsMin and forgetRunsMax bound the runs of a transaction. Between them the number adapts so that
	// a transaction takes about forgetTime. Then deletion rests for forgetRest times the duration of the
	// transaction.
	forgetRunsMin, forgetRunsMax = 10, 500
	forgetTime                   = 20 * time.Millisecond
	forgetRest                   = 4
	// upgradeRest is the least pause between two steps of an upgrade.
	upgradeRest = 100 * time.Millisecond
	// strayLooks bounds the folders of logs that one pass looks at. strayAge is the least age of a folder
	// without a run that is deleted.
	strayLooks = 2000
	strayAge   = 7 * 24 * time.Hour
	// supersededMin is the least time for which a version of a workflow that a task makes must have had a
	// successor before it is deleted. Every start of a run of the version has completed by then.
	// forgetVersions bounds a transaction.
	supersededMin  = 7 * 24 * time.Hour
	forgetVersions = 100
)

// forgetting deletes old rows of the shards that this node owns, and the files of runs that are gone.
type forgetting struct {
	n     *Node
	rows  store.Retention // nil: the store forgets nothing
	limit int
	rules map[dag.WorkflowID]rule
	turns map[dag.WorkflowID]turn
	owner func() dag.HandlerID
	owns  func(dag.ShardID) bool
	gone  func(runs int)
	stray map[string]string // by folder of logs or artifacts: the run looked at last
	// passes counts the passes through all workflows.
	passes int64
	// superseded is supersededMin, less in tests.
	superseded time.Duration
}

// rule is the retention of a version.
type rule struct {
	version int32
	workflow.Retention
	emitted bool
}

// turn says when a workflow is cleaned up again.
type turn struct {
	next  dag.Micros
	wait  time.Duration
	past  dag.Micros    // when its ledger, backfills and versions are cleaned up again
	fires store.FireKey // where the next pass continues in the ledger; zero: at its beginning
	pass  int64         // the last pass that saw the workflow
}

func newForgetting(n *Node) *forgetting {
	rows, _ := n.store.(store.Retention)
	return &forgetting{n: n, rows: rows, limit: forgetRunsMin, rules: map[dag.WorkflowID]rule{}, turns: map[dag.WorkflowID]turn{},
		stray: map[string]string{}, superseded: supersededMin,
		owner: func() dag.HandlerID { return n.engine.Handler().ID }, owns: n.engine.Owns,
		gone: func(runs int) { n.engine.Stats().Expired.Add(int64(runs)) }}
}

// upgrade lets the store complete what a migration has begun. It rests between two steps for as long as a
// step took, at least upgradeRest: another node may be at work.
func (f *forgetting) upgrade(ctx context.Context) {
	st, ok := f.n.store.(store.Upgrader)
	if !ok || f.n.byHand() {
		return
	}
	for ctx.Err() == nil {
		began := time.Now()
		more, err := st.Upgrade(ctx)
		if err != nil && ctx.Err() == nil {
			f.n.log.Info("a step of the database's upgrade failed; it is tried again later", "code", "upgrade_step", "err", err, "in", forgetEvery)
		}
		if err != nil || !more {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(upgradeRest, time.Since(began))):
		}
	}
}

// upgrades lets the store upgrade itself until ctx ends. A step can take long and must not hold up retention,
// and the last steps become possible when the last older node has left.
func (f *forgetting) upgrades(ctx context.Context) {
	for ctx.Err() == nil {
		f.upgrade(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(forgetEvery):
		}
	}
}

// run deletes old rows and files until ctx ends.
func (f *forgetting) run(ctx context.Context) {
	var upgrading sync.WaitGroup
	defer upgrading.Wait()
	upgrading.Go(func() { f.upgrades(ctx) })
	for next := forgetFirst; ; next = forgetEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case <-f.n.rekept:
			clear(f.turns) // other bounds hold for each workflow now
		}
		if f.n.byHand() || f.rows == nil {
			continue
		}
		err := f.pass(ctx)
		if err == nil {
			f.n.upkeep.passed.Store(time.Now().UnixMicro())
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrFenced) {
			f.n.log.Warn("retention failed in part; the next pass tries again", "code", "retention_failed", "err", err, "in", forgetEvery)
		}
	}
}

// pass deletes rows of all workflows whose shards this node owns, then files. A failure of the rows does not
// keep the files.
func (f *forgetting) pass(ctx context.Context) error {
	err := f.tables(ctx)
	for _, root := range f.roots() {
		if ctx.Err() != nil {
			break
		}
		err = errors.Join(err, f.files(ctx, root))
	}
	return err
}

// roots are the folders that have a folder of each namespace.
func (f *forgetting) roots() (all []string) {
	for _, root := range []string{f.n.cfg.Data, f.n.cfg.Logs, f.n.cfg.Artifacts} {
		if root != "" {
			all = append(all, filepath.Join(root, "logs"), filepath.Join(root, "artifacts"))
		}
	}
	return all
}

// expiry says which runs of a workflow may be deleted in this pass.
func (f *forgetting) expiry(ctx context.Context, w *store.Workflow, r *rule, now dag.Micros) (x store.Expiry, err error) {
	b := &f.n.keeping().Bounds
	x = store.Expiry{Shard: w.Shard, Workflow: w.ID, Keyed: before(now, b.KeysAge), Once: before(now, onceMin)}
	if r.Age > 0 {
		x.Before = now - dag.Micros(time.Duration(r.Age).Microseconds())
	}
	if x.To, err = f.rows.FinishedBut(ctx, w.ID, int(r.Runs)); err != nil {
		return x, err
	}
	if x.To.IsZero() && int64(b.Keys) >= r.Runs { // there are no more runs than a key protects
		return x, nil
	}
	x.KeyedTo, err = f.rows.FinishedBut(ctx, w.ID, b.Keys)
	return x, err
}

// runs deletes finished runs of a workflow, a few in a transaction, and returns their number.
func (f *forgetting) runs(ctx context.Context, w *store.Workflow, r *rule, now dag.Micros) (total int, err error) {
	x, err := f.expiry(ctx, w, r, now)
	if err != nil {
		return 0, err
	}
	for {
		x.Limit = f.limit
		began := time.Now()
		did, err := f.rows.Expire(ctx, f.owner(), x)
		if err != nil {
			return total, err
		}
		took := time.Since(began)
		f.gone(len(did.Runs))
		if err := f.deleteLogs(ctx, w, did.Runs); err != nil {
			f.n.log.Warn("files of deleted runs could not be deleted; a later pass deletes them", "code", "run_files_left", "err", err)
		}
		total += len(did.Runs)
		// Later runs than To are selected by age alone, and most are younger than those before them. Old runs that
		// stay, because of their keys or a backfill, do not end the pass.
		if did.Next.IsZero() || len(did.Runs) == 0 && !did.Old && did.Next.Compare(x.To) > 0 {
			break
		}
		x.After = did.Next
		if f.limit = min(2*f.limit, forgetRunsMax); took > forgetTime {
			f.limit = max(x.Limit/2, forgetRunsMin)
		}
		select {
		case <-ctx.Done():
			return total, ctx.Err()
		case <-time.After(forgetRest * took):
		}
	}
	if total > 0 {
		f.n.log.Info("finished runs deleted", "code", "runs_deleted", "workflow", w.Namespace+"/"+w.Name, "runs", total, "age", time.Duration(r.Age), "keep", r.Runs)
	}
	return total, nil
}

// rule returns the retention of a workflow: that of its present version, completed by the settings of the
// node.
func (f *forgetting) rule(ctx context.Context, w *store.Workflow) (rule, error) {
	r, known := f.rules[w.ID]
	if !known || r.version != w.Version {
		v, err := f.n.store.Version(ctx, w.ID, w.Version)
		if errors.Is(err, store.ErrNotFound) && w.State == store.WorkflowDeleted {
			return rule{Retention: workflow.Retention{Age: workflow.Duration(f.n.keeping().RetentionAge), Runs: int64(f.n.keeping().RetentionRuns)}}, nil
		}
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
		r.Age = workflow.Duration(f.n.keeping().RetentionAge)
	}
	if r.Runs == 0 {
		r.Runs = int64(f.n.keeping().RetentionRuns)
	}
	return r, nil
}

// deleteLogs deletes the log files and artifacts of deleted runs on this node and in the shared folders.
// The part in the database was deleted with the runs.
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

// files deletes folders of logs or artifacts whose run is gone: another node has deleted the run, or this
// one died before it deleted the files. A pass looks at strayLooks of them, and the next pass continues
// there.
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
				return fmt.Errorf("delete the files of a run that is gone: %w", err)
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}
