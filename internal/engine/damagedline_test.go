package engine_test

import (
	"path/filepath"
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store/sqlite"
)

// TestDamagedLine: a damaged row of a queue quarantines only its own runs. Other runs continue, and the
// shards are not taken again.
func TestDamagedLine(t *testing.T) {
	for name, damage := range map[string]string{
		"no list":    "UPDATE line SET runs = '[0,'",
		"twice":      "UPDATE line SET runs = '[0,0]', count = 2",
		"another":    "UPDATE line SET runs = '[1]'",
		"not there":  "DELETE FROM line",
		"of nothing": "UPDATE line SET line = 'other/'",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "skein.db")
			st, err := sqlite.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			h := newHands(t)
			h.held = true
			n := start(t, st, h, naming)
			n.queue("q", 1)
			w, other := n.naming("w", names{Queue: "q"}), n.naming("other", names{})
			first := n.submit(w)
			h.holding(1)
			waits := n.submit(w)
			conn, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			if err := sqlitex.ExecuteTransient(conn, damage, nil); err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			stopped := make(chan error)
			go func() {
				stopped <- n.Do(t.Context(), engine.Command{Run: waits, Intent: dag.IntentStop})
			}()
			h.end(h.holding(1)[0], dag.Result{State: dag.AttemptSucceeded}) // its slot is free
			n.ends(first, dag.RunSucceeded)
			id := n.submit(other)
			h.end(h.of(id), dag.Result{State: dag.AttemptSucceeded})
			n.ends(id, dag.RunSucceeded)
			err = <-stopped
			quarantined := n.Stats().Quarantined.Load() == 1
			if heals := name == "twice"; heals != (err == nil) || heals == quarantined {
				t.Errorf("the stop of its run says %v; quarantined: %v", err, quarantined)
			}
			if n := n.Stats().Retaken.Load(); n != 0 {
				t.Errorf("the shards were taken again %d times", n)
			}
		})
	}
}
