package trigger

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestFilesOfTheNodeAreNotWatched: a trigger that watches a protected folder, a folder below it, or a link to
// it, finds no files, and its state has the reason. A trigger that watches the folder above finds the other
// files in it.
func TestFilesOfTheNodeAreNotWatched(t *testing.T) {
	top := t.TempDir()
	data, other := filepath.Join(top, "data"), filepath.Join(top, "inbox")
	below, link, key := filepath.Join(data, "secrets"), filepath.Join(other, "link"), filepath.Join(top, "server.key")
	for _, dir := range []string{data, below, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	alias := filepath.Join(other, "key") // the setting names a link to the key
	if err := os.Symlink(key, alias); err != nil {
		t.Fatal(err)
	}
	protected := []string{data, alias, filepath.Join(top, "absent", "later"), ""}
	for folder, refused := range map[string]bool{
		data: true, below: true, link: true, filepath.Join(link, "secrets"): true, data + "/": true, filepath.Join(other, "..", "data"): true,
		filepath.Join(data, "not", "yet"): true, filepath.Join(top, "absent", "later", "a"): true,
		top: false, other: false, data + "base": false, filepath.Join(top, "absent"): false, "/": false,
	} {
		if err := Watchable(folder, protected); (err != nil) != refused {
			t.Errorf("%s: %v", folder, err)
		}
		synctest.Test(t, func(t *testing.T) {
			if _, err := os.Stat(folder); err != nil || folder == "/" {
				return
			}
			w := &watching{rows: []store.Trigger{fileRow(folder, "", 1)}}
			w.Watch = NewWatch(WatchConfig{Sensors: w.Sensors, Fire: w.Fire, Came: w.Came, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Protected: protected})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- w.Run(ctx) }()
			defer func() {
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			write(t, folder, "seen", "1")
			write(t, top, "server.key", "1")
			pass(time.Minute)
			names := []string{}
			for _, o := range w.fired {
				names = append(names, o.Reason.String())
			}
			state, _ := w.State(store.TriggerKey{Workflow: dag.WorkflowID(1), Name: "t"})
			switch {
			case refused && (len(names) > 0 || state.OK || !strings.Contains(state.Text, "no trigger may watch")):
				t.Errorf("%s: %q arrived, state %+v", folder, names, state)
			case !refused && (len(names) != 1 || names[0] != "file seen arrived" || !state.OK):
				t.Errorf("%s: %q arrived, state %+v", folder, names, state)
			}
		})
	}
}

// TestAllowedFolders: a watch does not read a folder that the rules of the namespace forbid, and its state
// says so. When they allow it, the files that have arrived meanwhile are delivered.
func TestAllowedFolders(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var allowed atomic.Bool
		refused := errors.New("refused")
		w := &watching{rows: []store.Trigger{fileRow(folder, "", 1)}}
		w.Watch = NewWatch(WatchConfig{Sensors: w.Sensors, Fire: w.Fire, Came: w.Came,
			Namespace: func(context.Context, dag.WorkflowID) (string, error) { return "shop", nil },
			Allowed: func(_ context.Context, namespace, path string) error {
				if namespace != "shop" || path != folder || !allowed.Load() {
					return refused
				}
				return nil
			}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		write(t, folder, "seen", "1")
		pass(time.Minute)
		state, _ := w.State(store.TriggerKey{Workflow: 1, Name: "t"})
		if got := w.names(t); got != "" || state.OK || state.Text != "the folder cannot be read: "+refused.Error() {
			t.Errorf("%q arrived, state %+v", got, state)
		}
		allowed.Store(true)
		pass(time.Minute)
		if got := w.names(t); got != "seen" {
			t.Errorf("after the folder was allowed: %q", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
