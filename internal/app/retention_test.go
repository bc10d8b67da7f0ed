package app

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/retention"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestRetention checks that a workflow keeps the configured number of finished runs, that the log files of a
// run are deleted with it, that unfinished runs stay, and that old log folders without a run are deleted.
func TestRetention(t *testing.T) {
	c := testConfig(t, nil)
	n, k, stop := startNode(t, c)
	file := filepath.Join(t.TempDir(), "w.yaml")
	gate := filepath.Join(t.TempDir(), "gate")
	text := "name: w\nretention: {runs: 3}\nparams: {wait: {default: \"\"}}\nenv: {WAIT: \"${{ params.wait }}\"}\ntasks:\n  a: {run: 'echo said; until [ -z \"$WAIT\" -o -e " + gate + " ]; do sleep 0.05; done'}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Apply(t.Context(), "w", api.ApplyRequest{Source: text}); err != nil {
		t.Fatal(err)
	}
	start := func(wait string) string {
		t.Helper()
		run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "w", Params: map[string]any{"wait": wait}}, skein.Wait(30*time.Second*time.Duration(1-min(1, len(wait)))))
		if err != nil {
			t.Fatal(err)
		}
		return run.ID
	}
	long := start("yes")
	var ids []string
	for range 5 {
		ids = append(ids, start(""))
	}
	folder := func(id string) string { return filepath.Join(c.Data, "logs", "default", "w", id) }
	stray, young := folder("00000000-0000-7000-8000-000000000001"), folder("00000000-0000-7000-8000-000000000002")
	for _, dir := range []string{stray, young} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * retention.StrayAge)
	for _, dir := range []string{stray, folder(ids[4])} {
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	f := retention.New(n.retention())
	for range 2 { // the second time there is nothing to do
		if err := f.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range append(ids, long) {
		_, err := k.Run(t.Context(), id)
		_, gone := os.Stat(folder(id))
		if wanted := i >= 2; wanted != (err == nil) || !wanted != errors.Is(err, skein.ErrNotFound) || wanted != (gone == nil) {
			t.Errorf("run %d: %v, its logs: %v", i, err, gone)
		}
	}
	if _, err := os.Stat(stray); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an old folder without a run: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
	if is := n.engine.Stats().Expired.Load(); is != 2 {
		t.Errorf("%d are counted", is)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := dag.ParseRunID(long)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is idle", n.Idle)
	if row, err := n.store.Run(t.Context(), id); err != nil || row.State != dag.RunSucceeded {
		t.Errorf("%v, %v", row.State, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestRetentionOfMade checks a workflow that a task makes: versions without runs are deleted. Other workflows
// keep their newest version.
func TestRetentionOfMade(t *testing.T) {
	n, k, stop := startNode(t, testConfig(t, map[string]string{"retention-runs": "1"}))
	defer stop()
	text := "name: w\nparams: {n: {type: int}}\ntasks:\n  plan: {tasks: '${{ [{\"name\": \"t\" + string(params.n), \"run\": \"true\"}] }}'}\n"
	if _, err := k.Apply(t.Context(), "w", api.ApplyRequest{Source: text}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "w", Params: map[string]any{"n": i}}, skein.Wait(30*time.Second))
		if err != nil || run.State != "succeeded" {
			t.Fatal(run.State, err)
		}
	}
	all, err := n.store.Workflows(t.Context(), store.WorkflowQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	cfg := n.retention()
	for _, superseded := range []time.Duration{retention.SupersededMin, 0} {
		cfg.Superseded = superseded
		if err := retention.New(cfg).Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if !strings.HasPrefix(all[i].Name, "w-") {
				continue
			}
			versions, err := n.store.Versions(t.Context(), all[i].ID, 0, 10)
			if want := map[time.Duration]int{retention.SupersededMin: 4, 0: 1}[superseded]; err != nil || len(versions) != want || versions[0].Version != 4 {
				t.Errorf("%s has %d versions after %v, %v", all[i].Name, len(versions), superseded, err)
			}
			all[i].Revision = -1 // the row was seen
		}
	}
	if !slices.ContainsFunc(all, func(w store.Workflow) bool { return w.Revision == -1 }) {
		t.Error("there is no workflow that the task has made")
	}
}

// TestForgottenFires deletes fires from a schedule's ledger. Their counts by day remain readable, and verify
// accepts the rest of the ledger.
func TestForgottenFires(t *testing.T) {
	n, k, stop := startNode(t, testConfig(t, nil))
	defer stop()
	text := "name: w\ntriggers:\n  - {name: often, every: 1s}\ntasks:\n  a: {run: 'true'}\n"
	if _, err := k.Apply(t.Context(), "w", api.ApplyRequest{Source: text}); err != nil {
		t.Fatal(err)
	}
	w, err := n.store.Workflow(t.Context(), "default", "w")
	if err != nil {
		t.Fatal(err)
	}
	key := store.TriggerKey{Workflow: w.ID, Name: "often"}
	ledger := func() []store.Fire {
		t.Helper()
		lines, err := n.store.Fires(t.Context(), store.FireQuery{Workflow: w.ID, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	eventually(t, "the ledger has 4 lines", func() bool { return len(ledger()) >= 4 })
	if _, err := k.PauseSchedule(t.Context(), "w", "often", "to see"); err != nil {
		t.Fatal(err)
	}
	before := ledger()
	n.cfg.Bounds.FiresAge = time.Microsecond
	if err := retention.New(n.retention()).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := ledger()
	if len(after) >= len(before) || len(after) == 0 {
		t.Fatalf("%d lines of %d are left", len(after), len(before))
	}
	row, err := n.store.Trigger(t.Context(), w.ID, "often")
	if err != nil {
		t.Fatal(err)
	}
	if found := trigger.Verify(&row, after, 0); len(found) == 0 {
		t.Error("no instant is missing from the lines that are left")
	}
	if found, err := dbadmin.Verify(t.Context(), n.cfg); err != nil || len(found) > 0 {
		t.Errorf("verify: %v %v", found, err)
	}
	days, err := k.ScheduleDays(t.Context(), "w", "often", "", 0)
	if err != nil || len(days.Items) == 0 || days.Items[0].Fired+days.Items[0].Late == 0 {
		t.Errorf("days: %+v %v", days, err)
	}
	if at, err := trigger.Forgotten(t.Context(), n.store, key); err != nil || at == 0 {
		t.Errorf("forgotten up to %v, %v", at, err)
	}
}
