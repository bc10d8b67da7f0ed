package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestSchedulesGoByAnIndex: with a million triggers and fires, no statement may read all of them or sort its
// result.
func TestSchedulesGoByAnIndex(t *testing.T) {
	whole := map[string]bool{"allHears": true, "allListening": true} // skein verify recounts these
	_, path := openTemp(t)
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for name, text := range statements("schedules_read", "schedules_write") {
		s, _, err := conn.PrepareTransient("EXPLAIN QUERY PLAN " + text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for {
			more, err := s.Step()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !more {
				break
			}
			plan := s.ColumnText(3)
			if (strings.HasPrefix(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE")) && !whole[name] {
				t.Errorf("%s: %s", name, plan)
			}
		}
		if err := s.Finalize(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// formatOne makes a database in the format of the first release, with a workflow and a run.
func formatOne(t *testing.T) (path string, id dag.RunID) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "skein.db")
	schema, err := scripts.ReadFile("migrations/0001_init.sql")
	if err != nil {
		t.Fatal(err)
	}
	script(t, path, string(schema)+`
		PRAGMA application_id = 0x536b6569;
		PRAGMA user_version = 1;
		INSERT INTO meta (one, cluster, created) VALUES (1, '0d5ba2a8-1f0a-4a3c-9d5e-0a6a5d0c7e11', 1);
		UPDATE shard SET epoch = 3, seq = 9, owner = 2;
		INSERT INTO workflow VALUES (7, 0, 'default', 'old', 'active', 2, 3, 5, 10, 20);
		INSERT INTO run VALUES (1, x'0190000000007000800000000000000a', 0, 7, 1, 'medium', 'api', 'ada', 'night', x'01', x'7b7d', 11,
		  9, 11, x'00', 'running', 'run', 1, '', '', NULL, NULL, NULL, 12, 13, 0, 2, 12, NULL, NULL, NULL);
		INSERT INTO attempt VALUES (1, 0, 1, 1, 2, 13, 'assigned', '', '', NULL, '', NULL, 0, 0, 0, 0);
		INSERT INTO roll SELECT list, 0, x'02' || zeroblob(255) FROM (SELECT 'active' AS list UNION SELECT 'w/7' UNION SELECT 'u/ada');
		UPDATE roll SET bits = CAST(bits AS BLOB);`)
	return path, dag.RunID{1, 0x90, 0, 0, 0, 0, 0x70, 0, 0x80, 15: 10}
}

func TestFormatOneIsMigrated(t *testing.T) {
	ctx := context.Background()
	path, id := formatOne(t)
	if d, err := OpenReadOnly(path); !errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), "start a node on it once") {
		t.Fatalf("for reading only: %v, %v", d, err)
	}
	for range 2 { // the second time the migrated database is opened unchanged
		d, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := d.Info(ctx)
		if err != nil || info.Format != format || info.Cluster != "0d5ba2a8-1f0a-4a3c-9d5e-0a6a5d0c7e11" {
			t.Errorf("info %+v, %v", info, err)
		}
		if runs, err := d.Unfinished(ctx); err != nil || runs["running"] != 1 {
			t.Errorf("unfinished %v, %v", runs, err)
		}
		recs, err := d.Load(ctx, store.LoadQuery{Limit: 10})
		if err != nil || len(recs) != 1 || recs[0].Bad != nil || recs[0].Run.ID != id || recs[0].Run.Fire != nil || len(recs[0].Attempts) != 1 {
			t.Errorf("runs %+v, %v", recs, err)
		}
		if r, err := store.RunByKey(ctx, d, 7, "night"); err != nil || r.ID != id {
			t.Errorf("by key %+v, %v", r, err)
		}
		w, err := d.Workflow(ctx, "default", "old")
		if err != nil || w.ID != 7 || w.MaxRuns != 0 {
			t.Errorf("workflow %+v, %v", w, err)
		}
		if bad, err := d.Check(ctx); err != nil || len(bad) != 0 {
			t.Errorf("check: %q, %v", bad, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := d.Acquire(ctx, 2, []dag.ShardID{0})
	if err != nil || got[0].Fence != (store.Fence{Epoch: 4, Seq: 9}) || got[0].Watermark != 0 {
		t.Fatalf("acquired %+v, %v", got, err)
	}
	b := store.Batch{Fences: []store.Fence{got[0].Fence}}
	b.RunUpdates = []dag.RunUpdate{{RunRow: dag.RunRow{Header: dag.Header{ID: id}, State: dag.RunSucceeded, Generation: 1, FinishedAt: 20}, Was: dag.RunRunning}}
	b.TriggerInserts = []store.Trigger{{Workflow: 7, Name: "nightly", State: store.TriggerActive, Next: 30, Revision: 1}}
	b.WorkflowUpdates = []store.Workflow{{ID: 7, State: store.WorkflowActive, Version: 3, Latest: 3, MaxRuns: 4, Revision: 6}}
	b.Watermark = 25
	if _, err := d.Commit(ctx, &b); err != nil {
		t.Fatal(err)
	}
	if r, err := d.Run(ctx, id); err != nil || r.State != dag.RunSucceeded {
		t.Errorf("run %+v, %v", r, err)
	}
	if next, err := d.NextDue(ctx, []dag.ShardID{0}); err != nil || next != 30 {
		t.Errorf("next due %d, %v", next, err)
	}
	if w, err := d.WorkflowByID(ctx, 7); err != nil || w.MaxRuns != 4 {
		t.Errorf("workflow %+v, %v", w, err)
	}
}

// scheduled returns a database with a trigger that reacts to another workflow, a line of its ledger, and a
// backfill with a run.
func scheduled(t *testing.T) (*DB, string) {
	t.Helper()
	d, path := openTemp(t)
	ids := accept(t, d, 1)
	got, err := d.Acquire(context.Background(), 1, []dag.ShardID{0})
	if err != nil {
		t.Fatal(err)
	}
	b := store.Batch{Fences: []store.Fence{got[0].Fence}}
	b.TriggerInserts = []store.Trigger{
		{Workflow: 7, Name: "after", Kind: "run_of", State: store.TriggerActive, On: []string{"default/other", "default/third"}, Revision: 1},
		{Workflow: 7, Name: "nightly", Kind: "cron", State: store.TriggerActive, Next: 30, Revision: 1}}
	b.Fires = []store.Fire{{Workflow: 7, Trigger: "after", At: 5, Key: "event", Last: 5, Count: 1, Outcome: store.OutcomeFired, Run: ids[0], Decided: 6},
		{Workflow: 7, Trigger: "nightly", At: 5, Last: 5, Count: 1, Outcome: store.OutcomeSkipped, Decided: 6}}
	b.BackfillRuns = []store.BackfillRun{{Backfill: 1, Workflow: 7, Instant: 5, Run: ids[0]}}
	if _, err := d.Commit(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	return d, path
}

// TestCheckFindsWrongListeners: Check reports wrong lists of listeners, so it does not always succeed.
func TestCheckFindsWrongListeners(t *testing.T) {
	for name, damage := range map[string]string{
		"not listed":                  "DELETE FROM trigger_on WHERE target = 'default/third'",
		"listed for another workflow": "UPDATE trigger_on SET target = 'default/fourth' WHERE target = 'default/other'",
		"listed though it is gone":    "DELETE FROM trigger WHERE name = 'after'",
		"listed though it is paused":  "UPDATE trigger SET state = 'paused'",
		"a damaged list":              "UPDATE trigger SET hears = '[' WHERE name = 'after'",
	} {
		t.Run(name, func(t *testing.T) {
			d, path := scheduled(t)
			if bad, err := d.Check(context.Background()); err != nil || len(bad) != 0 {
				t.Fatalf("before: %q, %v", bad, err)
			}
			script(t, path, damage)
			if bad, err := d.Check(context.Background()); err != nil || len(bad) == 0 {
				t.Errorf("after: %q, %v", bad, err)
			}
		})
	}
}

// TestDamagedSchedules: a query for a damaged row returns an error; lists show the other rows.
func TestDamagedSchedules(t *testing.T) {
	ctx := context.Background()
	d, path := scheduled(t)
	script(t, path, `UPDATE trigger SET hears = '{}', next = 20 WHERE name = 'after';
		UPDATE fire SET run = x'01' WHERE trigger = 'after'; UPDATE backfill_run SET run = x'01';`)
	for name, read := range map[string]func() error{
		"trigger":       func() error { _, err := d.Trigger(ctx, 7, "after"); return err },
		"last fire":     func() error { _, err := d.LastFire(ctx, 7, "after"); return err },
		"backfill runs": func() error { _, err := d.BackfillRuns(ctx, 1, 0, 9); return err },
		"runs at":       func() error { _, err := d.RunsAt(ctx, 7, 5); return err },
	} {
		if err := read(); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	names := func(all []store.Trigger, err error) string {
		var names []string
		for _, t := range all {
			names = append(names, t.Name)
		}
		return fmt.Sprint(names, err)
	}
	if got := names(d.Due(ctx, []dag.ShardID{0}, 50, 9)); got != "[nightly] <nil>" {
		t.Errorf("due: %s", got)
	}
	if got := names(d.Triggers(ctx, store.TriggerQuery{Workflow: 7})); got != "[nightly] <nil>" {
		t.Errorf("triggers: %s", got)
	}
	if got := names(d.Sensors(ctx, []dag.ShardID{0}, []string{"run_of", "cron"}, store.TriggerKey{}, 9)); got != "[nightly] <nil>" {
		t.Errorf("by kind: %s", got)
	}
	if fires, err := d.Fires(ctx, store.FireQuery{}); err != nil || len(fires) != 1 || fires[0].Trigger != "nightly" {
		t.Errorf("fires %v, %v", fires, err)
	}
}

// TestDamagedFireOfARun: a run with a damaged origin is quarantined, like any run that cannot be read.
func TestDamagedFireOfARun(t *testing.T) {
	d, path := openTemp(t)
	ids := accept(t, d, 3)
	for _, damage := range []string{"x'02'", "x'01000a'", "zeroblob(40)"} {
		script(t, path, "UPDATE run SET fire = "+damage+" WHERE n = 2")
		recs, err := d.Load(context.Background(), store.LoadQuery{Limit: 10})
		if err != nil || len(recs) != 3 {
			t.Fatalf("%s: %d records, %v", damage, len(recs), err)
		}
		for i, rec := range recs {
			if rec.Run.ID != ids[i] || (rec.Bad != nil) != (i == 1) || i == 1 && !errors.Is(rec.Bad, store.ErrCorrupt) {
				t.Errorf("%s: record %d: run %s, bad %v", damage, i, rec.Run.ID, rec.Bad)
			}
		}
		if _, err := d.Run(context.Background(), ids[1]); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: read: %v", damage, err)
		}
	}
}
