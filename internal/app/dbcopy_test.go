package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// quietCopy reports nothing.
func quietCopy() dbadmin.CopyOptions { return dbadmin.CopyOptions{Say: func(string, ...any) {}} }

// TestCopyToPostgres: a database with runs in all states is copied to a real PostgreSQL. Finished runs are
// unchanged there, and unfinished runs continue.
func TestCopyToPostgres(t *testing.T) {
	server, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	address := server.URL("postgres") + "&schema=moved"
	c := testConfig(t, map[string]string{"lag": "1s", "heartbeat": "200ms"})
	gate := filepath.Join(t.TempDir(), "gate")
	n, k, stop := startNode(t, c)
	ended := begin(t, k, "  a: {run: 'echo \"n=4\" >> \"$SKEIN_OUTPUT\"', outputs: {n: int}}\n  b: {run: 'false', needs: a}\n")
	if run := end(t, k, ended); run.State != "failed" {
		t.Fatal(run.State)
	}
	good := begin(t, k, "  a: {run: 'true'}\n")
	end(t, k, good)
	stopped := beginAt(t, k, gate, "stopped")
	if _, err := k.StopRun(t.Context(), stopped, "no"); err != nil {
		t.Fatal(err)
	}
	end(t, k, stopped)
	paused, running := beginAt(t, k, gate, "paused"), beginAt(t, k, gate, "running")
	if _, err := k.PauseRun(t.Context(), paused, "later"); err != nil {
		t.Fatal(err)
	}
	damaged := begin(t, k, "  a: {run: 'true', retry: {max: 1}}\n")
	end(t, k, damaged)
	for i := range 40 {
		source := fmt.Sprintf("name: w%d\ntriggers: [{name: t, every: 1h}]\ntasks:\n  a: {run: 'true'}\n", i)
		if _, err := k.Apply(t.Context(), fmt.Sprintf("w%d", i), api.ApplyRequest{Source: source}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.FireSchedule(t.Context(), "w7", "t", "by hand"); err != nil {
		t.Fatal(err)
	}
	var locked *datadir.LockedError
	if _, err := dbadmin.Copy(t.Context(), c, "sqlite:"+c.DBPath(), address, quietCopy()); !errors.As(err, &locked) {
		t.Errorf("copied under a running node: %v", err)
	}
	n.Hurry()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	before := history(t, c, ended)
	spoil(t, c.DBPath(), damaged)

	res, err := dbadmin.Copy(t.Context(), c, "sqlite:"+c.DBPath(), address, quietCopy())
	if err != nil {
		t.Fatal(err)
	}
	if res.FromShards != 1 || res.ToShards < 8 || res.Rows["run"] != 7 || res.Rows["trigger"] != 40 || len(res.LeftOut) != 0 {
		t.Errorf("%+v", res)
	}
	if len(res.Quarantined) != 1 || !strings.HasPrefix(res.Quarantined[0], damaged) {
		t.Errorf("quarantined: %q", res.Quarantined)
	}
	if _, err := dbadmin.Copy(t.Context(), c, "sqlite:"+c.DBPath(), address, quietCopy()); !errors.Is(err, dbadmin.ErrNotEmpty) {
		t.Errorf("copied twice: %v", err)
	}

	there, err := c.At(address)
	if err != nil {
		t.Fatal(err)
	}
	after := history(t, there, ended)
	if !slices.Equal(before, after) {
		t.Errorf("the history of a run is another one:\n%v\n%v", before, after)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	goesOn(t, there, paused, running)
	if found, err := dbadmin.Verify(t.Context(), there); err != nil || len(found) != 1 || found[0].Run != damaged {
		t.Errorf("%v, %v", found, err)
	}
	backAndForth(t, there, damaged)
}

// beginAt starts a run that waits until a file exists. It returns when the run has begun to wait.
func beginAt(t *testing.T, k *skein.Client, gate, name string) string {
	t.Helper()
	id := begin(t, k, "  a: {run: 'touch "+gate+"."+name+"; until [ -e "+gate+" ]; do sleep 0.01; done'}\n  b: {run: 'true', needs: a}\n")
	for _, err := os.Stat(gate + "." + name); err != nil; _, err = os.Stat(gate + "." + name) {
		time.Sleep(time.Millisecond)
	}
	return id
}

// spoil gives a run an unknown state.
func spoil(t *testing.T, path, run string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.Execute(conn, "UPDATE run SET state = 'flying' WHERE hex(id) = ?", &sqlitex.ExecOptions{Args: []any{strings.ToUpper(strings.ReplaceAll(run, "-", ""))}})
	if err != nil || conn.Changes() != 1 {
		t.Fatal(err, conn.Changes())
	}
}

// history returns the history of a run, without a node.
func history(t *testing.T, c *config.Config, run string) (lines []string) {
	t.Helper()
	o, err := Observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	k, err := skein.New("http://127.0.0.1", skein.WithHandler(o.Handler()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := k.Run(t.Context(), run, skein.WithTasks())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range r.Tasks {
		lines = append(lines, fmt.Sprintf("%s %s %v %v", task.Name, task.State, task.Outputs, len(task.Attempts)))
		for _, a := range task.Attempts {
			lines = append(lines, fmt.Sprintf("%d %s %v", a.Number, a.State, a.AssignedAt))
		}
	}
	for e, err := range k.EachEvent(t.Context(), run) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%+v", e.Kind))
	}
	return append(lines, fmt.Sprintf("%s %s %v", r.State, r.CreatedAt, r.FinishedAt))
}

// goesOn checks that a node on the copy ends the unfinished runs, and knows the triggers.
func goesOn(t *testing.T, c *config.Config, paused, running string) {
	t.Helper()
	_, k, stop := startNode(t, c)
	if run := end(t, k, running); run.State != "succeeded" || len(run.Tasks[0].Attempts) != 2 {
		t.Errorf("%s: %+v", run.State, run.Tasks)
	}
	if run, err := k.Run(t.Context(), paused); err != nil || run.State == "succeeded" {
		t.Errorf("the paused one is %s, %v", run.State, err)
	}
	if _, err := k.ResumeRun(t.Context(), paused, ""); err != nil {
		t.Fatal(err)
	}
	if run := end(t, k, paused); run.State != "succeeded" {
		t.Errorf("%s: %+v", run.State, run.Tasks)
	}
	end(t, k, begin(t, k, "  a: {run: 'true'}\n"))
	if s, err := k.Schedule(t.Context(), "w7", "t"); err != nil || s.State != "active" {
		t.Errorf("%+v, %v", s, err)
	}
	st, err := dbadmin.ReadStatus(t.Context(), c)
	if err != nil || len(st.Members) != 1 || len(st.Members[0].Shards) != st.Shards || st.Runs["succeeded"] < 4 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := dbadmin.Copy(t.Context(), c, c.Postgres, "sqlite:"+filepath.Join(t.TempDir(), "x.db"), quietCopy()); !errors.Is(err, dbadmin.ErrInUse) {
		t.Errorf("copied under a running node: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// backAndForth checks that a backup of a PostgreSQL database is a complete database, which can be restored.
func backAndForth(t *testing.T, c *config.Config, damaged string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "backup.db")
	b, err := dbadmin.Backup(t.Context(), c, file, false)
	if err != nil || b.Bytes == 0 || !strings.Contains(b.PgDump, "--schema=moved") {
		t.Fatalf("%+v, %v", b, err)
	}
	saved, err := c.At("sqlite:" + file)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := dbadmin.Verify(t.Context(), saved); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
	other, err := c.At(strings.Replace(c.Postgres, "schema=moved", "schema=again", 1))
	if err != nil {
		t.Fatal(err)
	}
	r, err := dbadmin.Restore(t.Context(), other, file, false, quietCopy())
	if err != nil || r.Runs["succeeded"] == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if a, b := history(t, c, damagedNeighbour(t, c, damaged)), history(t, other, damagedNeighbour(t, c, damaged)); !slices.Equal(a, b) {
		t.Errorf("%v\n%v", a, b)
	}
	folder := testConfig(t, nil)
	if _, err := dbadmin.Restore(t.Context(), folder, file, false, quietCopy()); err == nil || !strings.Contains(err.Error(), "nothing was restored") {
		t.Errorf("a backup with a violation was restored: %v", err)
	}
	if _, err := os.Stat(folder.DBPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if r, err := dbadmin.Restore(t.Context(), folder, file, true, quietCopy()); err != nil || len(r.Violations) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// damagedNeighbour returns the newest run other than the damaged one.
func damagedNeighbour(t *testing.T, c *config.Config, damaged string) string {
	t.Helper()
	o, err := Observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	k, err := skein.New("http://127.0.0.1", skein.WithHandler(o.Handler()))
	if err != nil {
		t.Fatal(err)
	}
	page, err := k.Runs(t.Context(), skein.RunsQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range page.Items {
		if run.ID != damaged {
			return run.ID
		}
	}
	t.Fatal("there is no run")
	return ""
}
