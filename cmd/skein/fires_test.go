//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/sqlite"
)

// ticking is a workflow whose triggers are due all the time, one for each way to catch up and to overlap.
// Their instants are whole seconds, so that a test knows the expected instants without a schedule.
const ticking = `name: ticking
params:
  at: {type: string, default: "${{ trigger.time }}"}
triggers:
  - {name: all, cron: "* * * * * *", catchup: all, overlap: allow}
  - {name: latest, cron: "*/2 * * * * *", catchup: latest, overlap: skip}
  - {name: none, every: 1s, catchup: none, overlap: queue, overlap_limit: 3}
  - {name: cancel, every: 3s, catchup: latest, overlap: cancel_running}
max_concurrent_runs: 20
tasks:
  a: {run: "true"}
`

// steps has the distance between the instants of each trigger of ticking, in seconds.
var steps = map[string]int64{"all": 1, "latest": 2, "none": 1, "cancel": 3}

// TestKilledAtTheInstant kills the server at the very instant at which triggers are due, fifty times. The
// ledger then has one outcome for every instant, and every outcome that names a run has that run.
func TestKilledAtTheInstant(t *testing.T) {
	t.Parallel()
	const kills = 50
	h := newHome(t)
	file := filepath.Join(h.dir, "ticking.yaml")
	if err := os.WriteFile(file, []byte(ticking), 0o600); err != nil {
		t.Fatal(err)
	}
	server, _ := h.server()
	h.run("workflow", "apply", file)
	rng := rand.New(rand.NewPCG(3, 4))
	for range kills {
		// The kill comes at a random time between a little before the next full second and a little after the commit.
		now := time.Now()
		at := now.Truncate(time.Second).Add(time.Second + time.Duration(rng.IntN(60)-15)*time.Millisecond)
		time.Sleep(time.Until(at))
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = server.Wait()
		server, _ = h.server()
	}
	until := dag.Micro(time.Now())
	h.until("everything is decided", func() bool { return decidedUntil(t, h) >= until })
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("the server's end: %v", err)
	}
	if out := h.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
		t.Errorf("verify: %s", out)
	}
	db := openRows(t, h)
	defer db.Close()
	checkLedger(t, db)
}

// TestFiresThroughTakeover kills the node that owns a workflow at the instant at which its triggers are
// due. The other node takes over. Every instant has one outcome, and the test prints the delay of the due
// fires. With SKEIN_FIRE_KILLS=n it kills n times.
func TestFiresThroughTakeover(t *testing.T) {
	t.Parallel()
	kills := 2
	if n, err := strconv.Atoi(os.Getenv("SKEIN_FIRE_KILLS")); err == nil {
		kills = n
	}
	f := newFlight(t, 2)
	file := filepath.Join(t.TempDir(), "ticking.yaml")
	if err := os.WriteFile(file, []byte(ticking), 0o600); err != nil {
		t.Fatal(err)
	}
	f.members[0].home.run("workflow", "apply", file)
	db, err := postgres.Open(t.Context(), postgres.Options{URL: f.db})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rng := rand.New(rand.NewPCG(5, 4))
	var takeovers, beyond []time.Duration
	for range kills {
		f.own(map[string]int{"n1": 16, "n2": 16})
		m, other := f.members[0], f.members[1]
		if f.ownerOf("ticking") != m.name {
			m, other = other, m
		}
		// The kill comes at a random time between a little before the next full second and a little after the commit.
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + time.Duration(rng.IntN(60)-15)*time.Millisecond)))
		m.kill()
		killed := time.Now()
		other.home.until("it is taken over", func() bool { return f.ownerOf("ticking") == other.name })
		took := time.Since(killed)
		takeovers = append(takeovers, took)
		until := dag.Micro(time.Now())
		other.home.until("everything is decided", func() bool { return decided(t, db) >= until })
		worst := time.Duration(0)
		for _, l := range firesOf(t, db, "all") {
			if l.At > dag.Micro(killed)-1e6 && l.At <= until {
				worst = max(worst, time.Duration(l.Decided-l.At)*time.Microsecond-took)
			}
		}
		beyond = append(beyond, worst)
		m.start()
	}
	for _, m := range f.members {
		m.stop()
	}
	t.Logf("takeovers took %v; fires came so much later than that: %v", takeovers, beyond)
	checkLedger(t, db)
}

func firesOf(t *testing.T, db store.Store, trigger string) []store.Fire {
	t.Helper()
	triggers, err := db.Triggers(t.Context(), store.TriggerQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range triggers {
		if tr.Name == trigger {
			return fires(t, db, store.FireQuery{Workflow: tr.Workflow, Trigger: trigger})
		}
	}
	t.Fatalf("there is no trigger %s", trigger)
	return nil
}

func openRows(t *testing.T, h *home) *sqlite.DB {
	t.Helper()
	db, err := sqlite.OpenReadOnly(filepath.Join(h.data(), "skein.db"))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// decidedUntil returns the time up to which every trigger has an outcome for its instants.
func decidedUntil(t *testing.T, h *home) dag.Micros {
	db := openRows(t, h)
	defer db.Close()
	return decided(t, db)
}

func decided(t *testing.T, db store.Store) dag.Micros {
	t.Helper()
	triggers, err := db.Triggers(t.Context(), store.TriggerQuery{Limit: 100})
	if err != nil || len(triggers) != len(steps) {
		t.Fatalf("%d triggers, %v", len(triggers), err)
	}
	least := triggers[0].Decided
	for _, tr := range triggers {
		least = min(least, tr.Decided)
	}
	return least
}

// checkLedger compares the ledger with a walk over the seconds, and with the runs.
func checkLedger(t *testing.T, db store.Store) {
	t.Helper()
	triggers, err := db.Triggers(t.Context(), store.TriggerQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	started := map[dag.RunID]string{}
	outcomes := map[string]int64{}
	for _, tr := range triggers {
		seen := map[dag.Micros]int{}
		for _, f := range fires(t, db, store.FireQuery{Workflow: tr.Workflow, Trigger: tr.Name}) {
			outcomes[f.Outcome] += f.Count
			step := dag.Micros(steps[tr.Name] * 1e6)
			n := int64(0)
			for at := f.At; at <= f.Last; at += step {
				seen[at]++
				n++
			}
			if n != f.Count {
				t.Errorf("%s: a line from %v to %v counts %d instants, there are %d", tr.Name, f.At.Time(), f.Last.Time(), f.Count, n)
			}
			if f.Run.IsZero() == (f.Outcome == store.OutcomeFired || f.Outcome == store.OutcomeLate) {
				t.Errorf("%s: outcome %s at %v with run %v", tr.Name, f.Outcome, f.At.Time(), f.Run)
			}
			if !f.Run.IsZero() {
				started[f.Run] = fmt.Sprint(tr.Name, f.At)
			}
		}
		step := dag.Micros(steps[tr.Name] * 1e6)
		for at := tr.Since/step*step + step; at <= tr.Decided; at += step {
			if seen[at] != 1 {
				t.Errorf("%s: %d outcomes for %v", tr.Name, seen[at], at.Time())
			}
			delete(seen, at)
		}
		for at := range seen {
			t.Errorf("%s: an outcome for %v, which is no instant of it", tr.Name, at.Time())
		}
	}
	runs := 0
	err = db.Scan(t.Context(), func(rec store.RunRecord, _ []dag.EventRow) error {
		runs++
		f := rec.Run.Fire
		if f == nil || started[rec.Run.ID] != fmt.Sprint(f.Trigger, f.Instant) {
			t.Errorf("run %s of %+v is in no line of the ledger", rec.Run.ID, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if runs != len(started) {
		t.Errorf("the ledger names %d runs, there are %d", len(started), runs)
	}
	t.Logf("%d runs; outcomes %v", runs, outcomes)
	if outcomes[store.OutcomeFired] == 0 {
		t.Error("nothing fired in time: the test did not test anything")
	}
}

// fires returns all lines of the ledger that match a query.
func fires(t *testing.T, db store.Store, q store.FireQuery) []store.Fire {
	t.Helper()
	var all []store.Fire
	for q.Limit = 1000; ; {
		page, err := db.Fires(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if len(page) < q.Limit {
			return all
		}
		last := page[len(page)-1]
		q.Before = store.FireKey{Decided: last.Decided, Workflow: last.Workflow, Trigger: last.Trigger, At: last.At, Key: last.Key}
	}
}
