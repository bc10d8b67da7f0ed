//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestEnqueue starts runs by the transactions of a program, under a database role that may do nothing else,
// while a real node owns the shards.
func TestEnqueue(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 1)
	m := f.members[0]
	file := filepath.Join(t.TempDir(), "greet.yaml")
	src := "name: greet\npriority: low\nparams:\n  who: {required: true}\n  n: {type: int, default: 3}\n  at: {default: '${{ trigger.time }}'}\n" +
		"tasks:\n  a: {run: 'echo \"$WHO $N\"; echo trace=$TRACEPARENT >> $SKEIN_OUTPUT', outputs: {trace: string}, " +
		"env: {WHO: '${{ params.who }}', N: '${{ params.n }}'}}\n"
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	m.home.run("workflow", "apply", file)
	if err := f.pg.SQL("postgres", "CREATE ROLE shop LOGIN; GRANT USAGE ON SCHEMA skein TO shop; "+
		"GRANT EXECUTE ON FUNCTION skein.skein_enqueue(text, jsonb, text, text, text) TO shop; CREATE TABLE public.orders (id int); GRANT ALL ON public.orders TO shop"); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), strings.Replace(f.db, "skein@", "shop@", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	enqueue := func(e skein.Enqueue, commit bool) (string, error) {
		t.Helper()
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		if _, err := tx.Exec(t.Context(), "INSERT INTO orders VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		id, err := skein.EnqueueTx(t.Context(), tx, e)
		if commit && err == nil {
			err = tx.Commit(t.Context())
		}
		return id, err
	}
	ended := func(id string) api.Run {
		t.Helper()
		run, err := m.client.Run(t.Context(), id, skein.Wait(time.Minute))
		if err != nil || !run.Ended() {
			t.Fatalf("%s: %+v %v", id, run, err)
		}
		return run
	}
	order := skein.Enqueue{Workflow: "greet", Params: map[string]any{"who": "${{ 1 + 1 }}"}, Key: "order-1"}
	gone, err := enqueue(order, false)
	if err != nil {
		t.Fatal(err)
	}
	id, err := enqueue(order, true)
	if err != nil {
		t.Fatal(err)
	}
	run := ended(id)
	if run.State != "succeeded" || run.Origin != "enqueue" || run.User != "enqueue:shop" || run.ClaimedBy != nil || run.Priority != "low" ||
		run.Params["n"] != float64(3) && run.Params["n"] != int64(3) || run.Params["at"] == nil || run.Params["who"] != "${{ 1 + 1 }}" {
		t.Errorf("committed: %+v", run)
	}
	if out := m.home.run("logs", id+"/a"); string(out) != "${{ 1 + 1 }} 3\n" {
		t.Errorf("log: %q", out)
	}
	if _, err := m.client.Run(t.Context(), gone); !errors.Is(err, skein.ErrNotFound) {
		t.Errorf("rolled back: %v", err)
	}
	if again, err := enqueue(order, true); err != nil || again != id {
		t.Errorf("the key again: %s %v, not %s", again, err, id)
	}
	order.Params = map[string]string{"who": "eve"}
	if _, err := enqueue(order, true); !errors.Is(err, skein.ErrConflict) {
		t.Errorf("the key with another request: %v", err)
	}
	for _, e := range []skein.Enqueue{{Workflow: "greet", Params: []int{1}}, {Workflow: "greet", Priority: "urgent"},
		{Workflow: "greet", Key: strings.Repeat("k", 256)}} {
		if _, err := enqueue(e, true); !errors.Is(err, skein.ErrInvalid) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	m.home.run("user", "create", "root", "--no-password")
	if id, err = enqueue(skein.Enqueue{Workflow: "greet", Params: map[string]any{"who": "eve"}, User: "root"}, true); err != nil {
		t.Fatal(err)
	}
	if run := ended(id); run.User != "enqueue:shop (root)" || run.ClaimedBy == nil || *run.ClaimedBy != "root" {
		t.Errorf("a run of which the role says that it is root's: user %q, claimed by %v", run.User, run.ClaimedBy)
	}
	if out := m.home.run("run", "list", "--user", "root", "-o", "json"); strings.Contains(string(out), id) {
		t.Errorf("the run is listed as root's: %s", out)
	}
	if out := m.home.run("audit", "list", "-o", "json"); !strings.Contains(string(out), `"enqueue:shop (root)"`) {
		t.Errorf("the audit log does not have the role that started the run: %s", out)
	}
	if _, err := enqueue(skein.Enqueue{Workflow: "other/greet"}, true); !errors.Is(err, skein.ErrNotFound) {
		t.Errorf("no such workflow: %v", err)
	}
	bad, err := enqueue(skein.Enqueue{Workflow: "default/greet", Params: map[string]any{"n": "many", "whom": 1}}, true)
	if err != nil {
		t.Fatal(err)
	}
	run = ended(bad)
	if run.State != "failed" || run.Message == nil || !strings.Contains(*run.Message, "parameter who is required") || !strings.Contains(*run.Message, `no parameter "whom"`) {
		t.Errorf("bad parameters: %+v", run)
	}
	m.home.run("namespace", "set", "default", "--quota", "runs_per_hour=1")
	refused := 0
	for range 3 { // an hour may begin meanwhile
		if id, err = enqueue(skein.Enqueue{Workflow: "greet", Params: map[string]any{"who": "ada"}}, true); err != nil {
			t.Fatal(err)
		}
		if run = ended(id); run.State == "failed" && run.Message != nil && strings.Contains(*run.Message, "runs_per_hour") {
			refused++
		}
	}
	if refused == 0 {
		t.Errorf("no row beyond the quota is refused: %+v", run)
	}
	m.home.run("namespace", "set", "default", "--quota", "runs_per_hour=none")
	if _, err := c.Exec(t.Context(), "SELECT * FROM skein.run"); err == nil {
		t.Error("the role can read runs")
	}
	if out := m.home.run("verify"); !strings.Contains(string(out), `"violations": []`) {
		t.Errorf("verify: %s", out)
	}
	f.together(c, enqueue)
	const caller = "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for given, want := range map[string]string{"00" + caller + "03": "00" + caller + "01", "00" + caller + "00": "00" + caller + "00",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "", "no context": ""} {
		id, err := enqueue(skein.Enqueue{Workflow: "greet", Params: map[string]any{"who": "ada"}, Traceparent: given}, true)
		if err != nil {
			t.Fatal(err)
		}
		if run := ended(id); run.State != "succeeded" {
			t.Fatalf("with %q: %+v", given, run)
		}
		task, err := m.client.Task(t.Context(), id, "a")
		if err != nil || want != "" && string(task.Outputs) != `{"trace":"`+want+`"}` || want == "" && strings.Contains(string(task.Outputs), caller[2:30]) {
			t.Errorf("with %q: %s %v", given, task.Outputs, err)
		}
	}
	m.stop()
}

// together uses the same key in two transactions at once. The second transaction waits for the first one, and
// gets the same run.
func (f *flight) together(c *pgx.Conn, enqueue func(skein.Enqueue, bool) (string, error)) {
	f.t.Helper()
	tx, err := c.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	e := skein.Enqueue{Workflow: "greet", Params: map[string]any{"who": "both"}, Key: "both"}
	first, err := skein.EnqueueTx(f.t.Context(), tx, e)
	if err != nil {
		f.t.Fatal(err)
	}
	other, err := pgx.Connect(f.t.Context(), f.db)
	if err != nil {
		f.t.Fatal(err)
	}
	defer other.Close(context.Background())
	second := make(chan string, 1)
	go func() {
		id, err := skein.EnqueueTx(context.Background(), other, e)
		if err != nil {
			id = err.Error()
		}
		second <- id
	}()
	f.members[0].home.until("the second waits", func() bool {
		n, err := f.query("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%skein_enqueue%'")
		return err == nil && n == "1"
	})
	if err := tx.Commit(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	if id := <-second; id != first {
		f.t.Errorf("the second has %s, the first %s", id, first)
	}
}
