package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// watching is a watch of triggers with given rows, and the files that it has delivered.
type watching struct {
	*Watch
	mu    sync.Mutex
	rows  []store.Trigger
	fired []engine.Occurrence
	came  int
	fail  error
	log   bytes.Buffer
}

func (w *watching) Sensors(_ context.Context, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(kinds, []string{"file", "absent"}) || after.Name != "" {
		return nil, fmt.Errorf("asked for %v after %v", kinds, after)
	}
	return slices.Clone(w.rows), nil
}

func (w *watching) Fire(_ context.Context, _ store.TriggerKey, o engine.Occurrence) (engine.Occurred, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return engine.Occurred{}, w.fail
	}
	w.fired = append(w.fired, o)
	return engine.Occurred{}, nil
}

func (w *watching) Came(context.Context, store.TriggerKey, dag.Micros) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came++
	return nil
}

// names returns the names of the files that were delivered since the last call.
func (w *watching) names(t *testing.T) string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, o := range w.fired {
		var e struct{ Path, Name string }
		if err := json.Unmarshal(o.Event, &e); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(e.Path) != e.Name || o.Reason.String() != "file "+e.Name+" arrived" {
			t.Errorf("%s: %s", o.Event, o.Reason)
		}
		all = append(all, e.Name)
	}
	w.fired = nil
	slices.Sort(all)
	return strings.Join(all, " ")
}

func fileRow(dir, pattern string, since dag.Micros) store.Trigger {
	d := decl(workflow.KindFile, func(d *workflow.Trigger) {
		d.File = &workflow.FileWatch{Path: dir, Pattern: pattern, Settle: workflow.SettleDefault}
	})
	return store.Trigger{Workflow: 1, Name: "t", Kind: d.Kind, Spec: d.Encode(), State: store.TriggerActive, Since: since}
}

// watch runs a watch in a bubble of synctest, and ends it.
func watch(t *testing.T, rows []store.Trigger, see func(t *testing.T, w *watching)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watching{rows: rows}
		w.Watch = NewWatch(WatchConfig{Sensors: w.Sensors, Fire: w.Fire, Came: w.Came, Log: slog.New(slog.NewTextHandler(&w.log, nil))})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		see(t, w)
	})
}

func pass(d time.Duration) {
	time.Sleep(d) // by the clock of the bubble
	synctest.Wait()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatchFiresForFilesThatSettled(t *testing.T) {
	dir := t.TempDir()
	watch(t, []store.Trigger{fileRow(dir, "*.csv", 1)}, func(t *testing.T, w *watching) {
		write(t, dir, "a.csv", "1")
		write(t, dir, "b.txt", "1")
		write(t, dir, ".c.csv", "1")
		if err := os.Mkdir(filepath.Join(dir, "d.csv"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc/passwd", filepath.Join(dir, "e.csv")); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		if got := w.names(t); got != "" {
			t.Errorf("fired for %s before it settled", got)
		}
		if s, ok := w.State(store.TriggerKey{Workflow: 1, Name: "t"}); !ok || !s.OK || s.Settling != 1 {
			t.Errorf("%+v", s)
		}
		write(t, dir, "a.csv", "12") // the file still grows
		pass(6 * time.Second)
		if got := w.names(t); got != "" {
			t.Errorf("fired for %s, which grew", got)
		}
		pass(2 * time.Second)
		if got := w.names(t); got != "a.csv" {
			t.Errorf("fired for %q", got)
		}
		pass(time.Hour)
		if got := w.names(t); got != "" {
			t.Errorf("fired for %s twice", got)
		}
		write(t, dir, "a.csv", "another")
		pass(10 * time.Second)
		if got := w.names(t); got != "a.csv" {
			t.Errorf("written anew: %q", got)
		}
	})
}

func TestWatchTakesTheSameFileForTheSameEvent(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.csv", "1")
	keys := map[string]bool{}
	for range 2 { // two processes, one after the other
		watch(t, []store.Trigger{fileRow(dir, "", 1)}, func(t *testing.T, w *watching) {
			pass(10 * time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, o := range w.fired {
				keys[o.Key] = true
			}
		})
	}
	if len(keys) != 1 {
		t.Errorf("%v", keys)
	}
}

func TestWatchLeavesWhatWasThereBefore(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "old.csv", "1")
	row := fileRow(dir, "*", dag.Micro(time.Now().Add(time.Hour)))
	watch(t, []store.Trigger{row}, func(t *testing.T, w *watching) {
		pass(time.Minute)
		if got := w.names(t); got != "" {
			t.Errorf("fired for %s", got)
		}
	})
}

func TestWatchWaitsForItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	watch(t, []store.Trigger{fileRow(dir, "*", 1)}, func(t *testing.T, w *watching) {
		pass(10 * time.Minute)
		s, _ := w.State(store.TriggerKey{Workflow: 1, Name: "t"})
		if s.OK || !strings.Contains(s.Text, "no such file") || time.Since(s.Since) < 9*time.Minute {
			t.Errorf("%+v", s)
		}
		if n := strings.Count(w.log.String(), "trigger_folder_unreadable"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "a", "1")
		pass(10 * time.Second)
		if got := w.names(t); got != "a" {
			t.Errorf("fired for %q", got)
		}
		if s, _ := w.State(store.TriggerKey{Workflow: 1, Name: "t"}); !s.OK {
			t.Errorf("%+v", s)
		}
	})
}

func TestWatchTriesAgainWhatWasNotTaken(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "1")
	watch(t, []store.Trigger{fileRow(dir, "*", 1)}, func(t *testing.T, w *watching) {
		w.mu.Lock()
		w.fail = errors.New("no room")
		w.mu.Unlock()
		pass(time.Minute)
		if s, _ := w.State(store.TriggerKey{Workflow: 1, Name: "t"}); s.OK || !strings.Contains(s.Text, "no room") || s.Settling != 1 {
			t.Errorf("%+v", s)
		}
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		pass(3 * time.Second)
		if got := w.names(t); got != "a" {
			t.Errorf("fired for %q", got)
		}
	})
}

func TestWatchFollowsItsTriggers(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	write(t, one, "a", "1")
	write(t, two, "b", "1")
	watch(t, nil, func(t *testing.T, w *watching) {
		pass(time.Second)
		w.mu.Lock()
		w.rows = []store.Trigger{fileRow(one, "*", 1)}
		w.mu.Unlock()
		w.Changed()
		w.Changed()
		pass(10 * time.Second)
		if got := w.names(t); got != "a" {
			t.Errorf("declared: fired for %q", got)
		}
		w.mu.Lock()
		w.rows = []store.Trigger{fileRow(two, "*", 1)}
		w.mu.Unlock()
		pass(45 * time.Second) // without a call of Changed
		if got := w.names(t); got != "b" {
			t.Errorf("edited: fired for %q", got)
		}
		w.mu.Lock()
		w.rows = nil
		w.mu.Unlock()
		w.Changed()
		write(t, two, "c", "1")
		pass(time.Minute)
		if _, ok := w.State(store.TriggerKey{Workflow: 1, Name: "t"}); ok || w.names(t) != "" {
			t.Error("watches for a trigger that is gone")
		}
	})
}

func TestWatchTellsAbsentThatItsFileCame(t *testing.T) {
	dir := t.TempDir()
	d := decl(workflow.KindAbsent, func(d *workflow.Trigger) {
		d.Absent = &workflow.Absent{File: &workflow.FileWatch{Path: dir, Pattern: "*", Settle: workflow.SettleDefault}, By: "06:00"}
	})
	other := absentDecl("06:00", &workflow.RunOf{Workflows: []string{"a/x"}})
	rows := []store.Trigger{{Workflow: 1, Name: "t", Kind: d.Kind, Spec: d.Encode(), Since: 1}, {Workflow: 1, Name: "u", Kind: d.Kind, Spec: other.Encode()},
		{Workflow: 1, Name: "v", Kind: d.Kind, Spec: []byte("{")}}
	write(t, dir, "a", "1")
	watch(t, rows, func(t *testing.T, w *watching) {
		pass(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.came != 1 || len(w.fired) != 0 {
			t.Errorf("%d times, fired %v", w.came, w.fired)
		}
	})
}

func TestWatchIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range entriesMax + 10 {
		write(t, dir, fmt.Sprint(i), "")
	}
	watch(t, []store.Trigger{fileRow(dir, "*", 1)}, func(t *testing.T, w *watching) {
		pass(7 * time.Second)
		w.mu.Lock()
		n := len(w.fired)
		w.mu.Unlock()
		if n != deliveriesMax {
			t.Errorf("%d at a time", n)
		}
		s, _ := w.State(store.TriggerKey{Workflow: 1, Name: "t"})
		if s.OK || !strings.Contains(s.Text, "more than 10000 entries") || s.Settling != entriesMax-deliveriesMax {
			t.Errorf("%+v", s)
		}
	})
}
