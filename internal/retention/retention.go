// Package retention deletes what is older than its limits: finished runs, lines of the ledger, backfills,
// versions, records that belong to no workflow, and the files of deleted runs.
//
// A Cleaner works concurrently with the writer, in small transactions with pauses between them. It deletes
// only rows of shards that its node owns, which the store checks in the transaction. It may stop after any
// transaction, and the next pass continues.
package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

const (
	// forgetFirst is the time from the start of the node to the first pass of retention. forgetEvery is the
	// time between two passes.
	forgetFirst = time.Minute
	forgetEvery = 10 * time.Minute
	// forgetIdle bounds the time between two checks of a workflow. If a pass deletes no rows of a workflow,
	// the next check comes later.
	forgetIdle = 6 * time.Hour
	// onceMin is the time for which a run with a client-made key is kept. A client, such as the command line,
	// makes such a key for one request, which it repeats for minutes.
	onceMin = time.Hour
	// forgetRunsMin and forgetRunsMax bound the number of runs that one transaction deletes. Within these
	// bounds the number adapts, so that a transaction takes about forgetTime.
	forgetRunsMin, forgetRunsMax = 10, 500
	forgetTime                   = 20 * time.Millisecond
	// RestUsual is the default of Config.Rest.
	RestUsual = 4
	// upgradeRest is the least pause between two steps of an upgrade.
	upgradeRest = 100 * time.Millisecond
	// strayLooks bounds the folders of logs that one pass checks. StrayAge is the least age of a folder without a
	// run that is deleted.
	strayLooks = 2000
	StrayAge   = 7 * 24 * time.Hour
	// SupersededMin is the least age of the successor of a version before the version is deleted, for workflows
	// that tasks make. Every start of a run of the version has completed by then. forgetVersions bounds a
	// transaction.
	SupersededMin  = 7 * 24 * time.Hour
	forgetVersions = 100
)

// Rules are the retention of runs whose workflow has none.
type Rules struct {
	Age  time.Duration // the age up to which finished runs are kept; 0 means for ever
	Runs int           // finished runs of a workflow
	Bounds
}

// Bounds limit all records other than runs, by age (0 means for ever) and number.
type Bounds struct {
	KeysAge       time.Duration // idempotency keys: of runs, and answers to requests
	Keys          int           // the number of finished runs of a workflow that keys protect, and of all stored answers
	CallsAge      time.Duration // signed calls of webhooks
	Calls         int           // number of all kept calls
	EventsAge     time.Duration // events of the log
	Events        int           // number of all kept events
	FiresAge      time.Duration // lines of the ledger for runs that started in time
	ExceptionsAge time.Duration // all other lines
	Fires         int           // lines of a workflow
	DaysAge       time.Duration // the counts by day of deleted lines
	TallyAge      time.Duration // the age of counts by day; counts by hour are kept for at most tallyHours
	BackfillsAge  time.Duration // ended backfills
	Backfills     int           // number of kept backfills of a workflow
	Versions      int           // the number of versions of a workflow that are kept in addition to those of runs
	RecordsAge    time.Duration // ended tokens, former processes, orders to nodes
	Records       int           // former processes
}

// Config holds the dependencies of a Cleaner.
type Config struct {
	Store store.Store
	// Rules returns the present rules. Changed signals that the rules have changed. Changed is nil if they
	// never change.
	Rules   func() Rules
	Changed <-chan struct{}
	ByHand  func() bool            // reports whether nothing is deleted, because this process is no server
	Owner   func() dag.HandlerID   // returns the owner of this node's shards
	Owns    func(dag.ShardID) bool // reports whether this node owns a shard
	// Exists returns an error of the kind errkind.ErrNotFound if a run does not exist any more.
	Exists func(context.Context, dag.RunID) error
	// DeleteFiles deletes the logs and artifacts of runs on this node and in the shared folders.
	DeleteFiles func(context.Context, []logs.Run) error
	Roots       []string // folders that have a folder of each namespace
	// Sweep deletes files of deleted runs from a store that is no folder. It is nil if there is no such
	// store.
	Sweep func(context.Context) error
	// Superseded is the least age of the successor of a version before the version is deleted, for workflows that
	// tasks make.
	Superseded time.Duration
	// Rest is the pause after a transaction, in multiples of the time that the transaction took.
	Rest int
	// Count counts the ended runs before a pass, because only counted runs are deleted. It is nil if this
	// process counts no runs.
	Count  func(context.Context) error
	Gone   func(runs int) // receives the number of deleted runs
	Passed func()         // called after each pass without an error
	Log    *slog.Logger
}

// rest returns the pause after a transaction.
func (c *Config) rest(took time.Duration) time.Duration { return time.Duration(c.Rest) * took }

// Cleaner deletes old rows of the shards that this node owns, and files of deleted runs.
type Cleaner struct {
	cfg   Config
	rows  store.Retention // nil if the store deletes nothing
	rules map[dag.WorkflowID]rule
	turns map[dag.WorkflowID]turn
	stray map[string]string // folder of logs or artifacts → the last run that was checked
	// passes counts the passes through all workflows.
	passes int64
}

// rule is the retention of a version.
type rule struct {
	version int32
	workflow.Retention
	emitted bool
}

// turn is the state of the cleaning of one workflow.
type turn struct {
	next dag.Micros
	wait time.Duration
	past dag.Micros // the time of the next cleaning of the workflow's ledger, backfills and versions
	// The line of the ledger after which the next pass continues; zero means at the beginning.
	fires store.FireKey
	pass  int64 // the last pass in which the workflow existed in a shard of this node
	runs  int   // the bound of the next transaction that deletes runs
}

// New returns a Cleaner that has deleted nothing yet.
func New(cfg Config) *Cleaner {
	return &Cleaner{cfg: cfg, rows: store.Can(cfg.Store).Retention, rules: map[dag.WorkflowID]rule{}, turns: map[dag.WorkflowID]turn{}, stray: map[string]string{}}
}

// upgrade lets the store complete the work that a migration has begun. It pauses between two steps for as
// long as a step took, and for at least upgradeRest, because another node may do the same work.
func (c *Cleaner) upgrade(ctx context.Context) {
	st := store.Can(c.cfg.Store).Upgrader
	if st == nil || c.cfg.ByHand() {
		return
	}
	for ctx.Err() == nil {
		began := time.Now()
		more, err := st.Upgrade(ctx)
		if err != nil && ctx.Err() == nil {
			c.cfg.Log.Info("a step of the database's upgrade failed; it is tried again later", "code", "upgrade_step", "err", err, "in", forgetEvery)
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

// upgrades lets the store upgrade itself until ctx ends. It runs apart from retention because a step can
// take long. The last steps become possible only when the last older node has left.
func (c *Cleaner) upgrades(ctx context.Context) {
	for ctx.Err() == nil {
		c.upgrade(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(forgetEvery):
		}
	}
}

// Run deletes old rows and files until ctx ends.
func (c *Cleaner) Run(ctx context.Context) {
	var upgrading sync.WaitGroup
	defer upgrading.Wait()
	upgrading.Go(func() { c.upgrades(ctx) })
	for next := forgetFirst; ; next = forgetEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case <-c.cfg.Changed:
			clear(c.turns) // the bounds of each workflow have changed
		}
		if c.cfg.ByHand() || c.rows == nil {
			continue
		}
		err := c.Pass(ctx)
		if err == nil {
			c.cfg.Passed()
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrFenced) {
			c.cfg.Log.Warn("retention failed in part; the next pass tries again", "code", "retention_failed", "err", err, "in", forgetEvery)
		}
	}
}

// Pass deletes rows of all workflows whose shards this node owns, and then files. If the deletion of rows
// fails, it still deletes the files.
func (c *Cleaner) Pass(ctx context.Context) error {
	var err error
	if c.cfg.Count != nil {
		err = c.cfg.Count(ctx)
	}
	err = errors.Join(err, c.tables(ctx))
	for _, root := range c.cfg.Roots {
		if ctx.Err() != nil {
			break
		}
		err = errors.Join(err, c.files(ctx, root))
	}
	if c.cfg.Sweep != nil && ctx.Err() == nil {
		err = errors.Join(err, c.cfg.Sweep(ctx))
	}
	return err
}

// expiry selects the runs of a workflow that may be deleted in this pass.
func (c *Cleaner) expiry(ctx context.Context, w *store.Workflow, r *rule, now dag.Micros) (x store.Expiry, err error) {
	b := c.cfg.Rules().Bounds
	x = store.Expiry{Shard: w.Shard, Workflow: w.ID, Keyed: before(now, b.KeysAge), Once: before(now, onceMin)}
	if r.Age > 0 {
		x.Before = now - dag.Micros(time.Duration(r.Age).Microseconds())
	}
	if x.To, err = c.rows.FinishedBut(ctx, w.ID, int(r.Runs)); err != nil {
		return x, err
	}
	if x.To.IsZero() && int64(b.Keys) >= r.Runs { // the workflow has at most as many runs as Keys protects
		return x, nil
	}
	x.KeyedTo, err = c.rows.FinishedBut(ctx, w.ID, b.Keys)
	return x, err
}

// tallied returns the position up to which the ends of a workflow's runs are counted. Runs with later ends
// are not deleted.
func (c *Cleaner) tallied(ctx context.Context, w *store.Workflow, x *store.Expiry) error {
	marks, err := c.cfg.Store.TallyMarks(ctx, w.Shard)
	if err != nil {
		return err
	}
	mark, ok := store.Counted(marks, w.ID)
	x.Tallied, x.Counted = ok, mark.Seq
	return nil
}

// runs deletes finished runs of a workflow, a few in a transaction, and returns their number.
func (c *Cleaner) runs(ctx context.Context, w *store.Workflow, r *rule, t *turn, now dag.Micros) (total int, err error) {
	x, err := c.expiry(ctx, w, r, now)
	if err != nil {
		return 0, err
	}
	for {
		if err := c.tallied(ctx, w, &x); err != nil { // the marks may have changed in the last minutes
			return total, err
		}
		x.Limit = max(t.runs, forgetRunsMin)
		began := time.Now()
		did, err := c.rows.Expire(ctx, c.cfg.Owner(), x)
		if err != nil {
			return total, err
		}
		took := time.Since(began)
		c.cfg.Gone(len(did.Runs))
		if err := c.deleteLogs(ctx, w, did.Runs); err != nil {
			c.cfg.Log.Warn("files of deleted runs could not be deleted; a later pass deletes them", "code", "run_files_left", "err", err)
		}
		total += len(did.Runs)
		// Runs after To are selected by age alone, and most of them are younger than those before them. Old runs
		// that stay because of their keys or a backfill do not end the pass.
		if did.Next.IsZero() || len(did.Runs) == 0 && !did.Old && did.Next.Compare(x.To) > 0 {
			break
		}
		x.After = did.Next
		// A call examines several times as many runs as it may delete. So the bound grows only if there were
		// more runs to delete.
		switch {
		case took > forgetTime:
			t.runs = max(x.Limit/2, forgetRunsMin)
		case len(did.Runs) == x.Limit:
			t.runs = min(2*x.Limit, forgetRunsMax)
		}
		select {
		case <-ctx.Done():
			return total, ctx.Err()
		case <-time.After(c.cfg.rest(took)):
		}
	}
	if total > 0 {
		c.cfg.Log.Info("finished runs were deleted", "code", "runs_deleted", "workflow", w.Namespace+"/"+w.Name, "runs", total, "age", time.Duration(r.Age), "keep", r.Runs)
	}
	return total, nil
}

// rule returns the retention of a workflow. It is the retention of the workflow's present version, completed
// by the settings of the node.
func (c *Cleaner) rule(ctx context.Context, w *store.Workflow) (rule, error) {
	r, known := c.rules[w.ID]
	if !known || r.version != w.Version {
		v, err := c.cfg.Store.Version(ctx, w.ID, w.Version)
		if errors.Is(err, store.ErrNotFound) && w.State == store.WorkflowDeleted {
			return rule{Retention: workflow.Retention{Age: workflow.Duration(c.cfg.Rules().Age), Runs: int64(c.cfg.Rules().Runs)}}, nil
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
		c.rules[w.ID] = r
	}
	if r.Age == 0 {
		r.Age = workflow.Duration(c.cfg.Rules().Age)
	}
	if r.Runs == 0 {
		r.Runs = int64(c.cfg.Rules().Runs)
	}
	return r, nil
}

// deleteLogs deletes the log files and artifacts of deleted runs on this node and in the shared folders.
// The part in the database was deleted with the runs.
func (c *Cleaner) deleteLogs(ctx context.Context, w *store.Workflow, gone []dag.RunID) error {
	if len(gone) == 0 {
		return nil
	}
	runs := make([]logs.Run, len(gone))
	for i, id := range gone {
		runs[i] = logs.Run{Namespace: w.Namespace, Workflow: w.Name, ID: id}
	}
	return c.cfg.DeleteFiles(ctx, runs)
}

// files deletes folders of logs or artifacts whose run no longer exists, because another node has deleted the
// run, or this one died before it deleted the files. A pass checks strayLooks folders, and the next pass
// continues after them.
func (c *Cleaner) files(ctx context.Context, root string) error {
	all, err := filepath.Glob(filepath.Join(root, "*", "*", "*"))
	if err != nil {
		return err
	}
	last := c.stray[root]
	c.stray[root] = ""
	looked := 0
	for _, path := range all { // sorted by name
		id, err := dag.ParseRunID(filepath.Base(path))
		if path <= last || err != nil {
			continue
		}
		if looked++; looked > strayLooks {
			c.stray[root] = last
			break
		}
		last = path
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < StrayAge {
			continue
		}
		if err := c.cfg.Exists(ctx, id); errors.Is(err, errkind.ErrNotFound) {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("delete the files of a deleted run: %w", err)
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}
