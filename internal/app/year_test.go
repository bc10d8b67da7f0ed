package app

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/depot"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/retention"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/tally"
)

// Sizes of a year of TestYear.
const (
	yearSteps     = 24 // half months
	yearStep      = 365 * 24 * time.Hour / yearSteps
	yearWorkflows = 10
)

// yearTables says for each table whether the year adds rows to it. The rows of any other table are bounded by
// the declared objects, by the shards and members, or by the unfinished work.
var yearTables = map[string]bool{
	"workflow": true, "version": true, "version_file": true, "run": true, "attempt": true, "event": true, "request": true,
	"fire": true, "fire_day": true, "backfill": true, "backfill_run": true, "handler": true, "token": true, "session": true,
	"roll": true, "run_hash": false, "run_key": false, // tables of SQLite; the year has too few keys for the last two
	"unsuccessful": true, "run_tag": true, "log": true, "node_order": true, // tables of PostgreSQL
	"meta": false, "shard": false, "shift": false, "trigger": false, "trigger_on": false, "queue": false, "class": false, "line": false,
	"rights": false, "principal": true, "role": true, "binding": true, "password": true, "identity": true, "secret": true, "secret_key": false,
	"audit": true, "audit_tree": false, "alert_channel": false, "connection": false, "git_source": false, "namespace": false, "tally": true, "tally_mark": false, "trace_mark": false, "sent_event": true, "sent_head": false, "namespace_use": false, "namespace_stock": false, "alert_silence": false, "alert_rules": false, "member_lost": false, "incident": true, "notice": true,
	"message": false, "member": false, "active": false, "submitted": false, "wave": false, "era": false,
}

// TestYear plays a year in half months, with bounds that are reached within some months. Every table and
// every file stops growing. A table that is missing in yearTables fails the test: add it with its bound.
func TestYear(t *testing.T) { onBothStores(t, liveYear) }

// yearDB is a database of a year. query reads pairs of a text and a number. tables is a query for the names
// of all tables, and sizes a query for their sizes in bytes.
type yearDB struct {
	engineOfYear
	query         func(sql string, see func(name string, n int64)) error
	tables, sizes string
	tidy          string // "" if it does not need to be tidied
}

// onBothStores runs a test on each kind of database.
func onBothStores(t *testing.T, f func(t *testing.T, db *yearDB)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "skein.db")
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		conn, err := zsqlite.OpenConn(path, zsqlite.OpenReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		query := func(sql string, see func(name string, n int64)) error {
			return sqlitex.Execute(conn, sql, &sqlitex.ExecOptions{ResultFunc: func(s *zsqlite.Stmt) error {
				see(s.ColumnText(0), s.ColumnInt64(1))
				return nil
			}})
		}
		f(t, &yearDB{db, query, "SELECT name, 0 FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
			"SELECT 'database', page_count * page_size FROM pragma_page_count, pragma_page_size " +
				"UNION ALL SELECT 'free pages of it', freelist_count * page_size FROM pragma_freelist_count, pragma_page_size", ""})
	})
	t.Run("postgres", func(t *testing.T) {
		pg, err := pgtest.Start(pgtest.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer pg.Close()
		db, err := postgres.Open(t.Context(), postgres.Options{URL: pg.URL("postgres"), Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		conn, err := pgx.Connect(t.Context(), pg.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		query := func(sql string, see func(name string, n int64)) error {
			rows, err := conn.Query(t.Context(), sql)
			if err != nil {
				return err
			}
			name, n := "", int64(0)
			_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
				see(name, n)
				return nil
			})
			return err
		}
		f(t, &yearDB{db, query, "SELECT schemaname || '.' || tablename, 0::bigint FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
			"SELECT relname::text, pg_total_relation_size(relid) FROM pg_stat_user_tables WHERE pg_total_relation_size(relid) > 1000000 " +
				"UNION ALL SELECT 'database', pg_database_size(current_database())", "VACUUM"})
	})
}

// yearStore is a store whose clock shows the time of the year.
type yearStore struct {
	store.Store
	store.Retention
	now dag.Micros
}

func (s *yearStore) Clock(context.Context) (dag.Micros, error) { return s.now, nil }

// year holds the state of a year that a test plays.
type year struct {
	*testing.T
	st        *yearStore
	db        *yearDB
	logs      store.Logs    // nil if the database has none
	cluster   store.Cluster // nil if it is for one node
	data      string
	workflows int // number of workflows that are not deleted
	batch     store.Batch
	owner     dag.HandlerID
	step      int
	last      uint32 // number in the last id
	logged    int    // runs of TestYearAtScale so far; one of a hundred gets a log
	versions  int32
	tally     *tally.Folder // nil if nothing is counted
}

// engineOfYear holds the methods that the store of a year needs.
type engineOfYear interface {
	store.Store
	store.Retention
	store.Tokens
	store.Sessions
	store.Access
	store.Secrets
	store.Alerts
}

func liveYear(t *testing.T, db *yearDB) {
	c := testConfig(t, nil)
	c.RetentionRuns, c.RetentionAge = 4, 90*24*time.Hour
	c.Bounds = retention.Bounds{KeysAge: 20 * 24 * time.Hour, Keys: 50, CallsAge: 30 * 24 * time.Hour, Calls: 50, EventsAge: 400 * 24 * time.Hour, Events: 50, FiresAge: 30 * 24 * time.Hour, ExceptionsAge: 60 * 24 * time.Hour, Fires: 1000,
		DaysAge: 90 * 24 * time.Hour, TallyAge: 90 * 24 * time.Hour, BackfillsAge: 60 * 24 * time.Hour, Backfills: 3, Versions: 2, RecordsAge: 40 * 24 * time.Hour, Records: 10}
	y, f := newYear(t, db, c, yearWorkflows)
	st := y.st
	kept, err := audit.NewKeeper(audit.Config{Store: st, Keep: func() time.Duration { return 60 * 24 * time.Hour }, Log: slog.New(slog.DiscardHandler)})
	y.ok(err)
	y.begin()
	y.tally = tally.NewFolder(tally.Config{Store: st, Owner: func() dag.HandlerID { return y.owner }, Log: slog.New(slog.DiscardHandler),
		Owns: func(dag.ShardID) bool { return true }, Graphs: inspect.NewGraphs(st, compiler())})
	known := y.tables()
	seen := make([]map[string]int64, yearSteps)
	for y.step = range yearSteps {
		y.live()
		st.now += dag.Micros(yearStep.Microseconds())
		y.ok(kept.Step(t.Context(), true))
		y.ok(y.tally.Step(t.Context()))
		y.ok(f.Pass(t.Context()))
		seen[y.step] = y.counts(known)
	}
	for name := range seen[0] {
		comes, is := yearTables[name]
		if name == "files" {
			comes, is = true, true
		}
		if !is {
			t.Errorf("table %s is new: say in yearTables how it is bounded, and have rows of it come", name)
		}
		most := func(from, to int) (n int64) {
			for _, counts := range seen[from:to] {
				n = max(n, counts[name])
			}
			return n
		}
		early, late := most(yearSteps/3, 2*yearSteps/3), most(2*yearSteps/3, yearSteps)
		if late > early {
			t.Errorf("%s grows: at most %d in the second third of the year, %d in the last", name, early, late)
		}
		if comes && most(0, yearSteps) == 0 {
			t.Errorf("%s was always empty: nothing is shown of it", name)
		}
	}
}

// newYear returns a year that has not begun, with the retention of a node with these settings.
func newYear(t *testing.T, db *yearDB, c *config.Config, workflows int) (*year, *retention.Cleaner) {
	st := &yearStore{Store: db, Retention: db, now: dag.Micro(time.Now())}
	y := &year{T: t, st: st, db: db, data: c.Data, workflows: workflows}
	y.logs, _ = db.engineOfYear.(store.Logs)
	y.cluster, _ = db.engineOfYear.(store.Cluster)
	log := slog.New(slog.DiscardHandler)
	files, err := depot.Open(t.Context(), c, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	cfg := (&Node{services: services{store: st, depot: files}, cfg: c, log: log}).retention()
	cfg.Owner, cfg.Owns, cfg.Gone = func() dag.HandlerID { return y.owner }, func(dag.ShardID) bool { return true }, func(int) {}
	cfg.Rest = 0 // the pauses are for other work, and there is none
	return y, retention.New(cfg)
}

func (y *year) tables() (names []string) {
	y.Helper()
	y.ok(y.db.query(y.db.tables, func(name string, _ int64) { names = append(names, name) }))
	return names
}

// counts returns the number of rows of each table, and the number of files.
func (y *year) counts(tables []string) map[string]int64 {
	y.Helper()
	counts := map[string]int64{"files": y.files()}
	for _, name := range tables {
		y.ok(y.db.query("SELECT '', count(*) FROM "+name, func(_ string, n int64) { counts[filepath.Ext("." + name)[1:]] = n }))
	}
	return counts
}

func (y *year) ok(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *year) files() (n int64) {
	err := filepath.WalkDir(y.data, func(string, fs.DirEntry, error) error {
		n++
		return nil
	})
	y.ok(err)
	return n
}

func (y *year) commit() {
	y.Helper()
	if _, err := y.st.Commit(y.Context(), &y.batch); err != nil {
		y.Fatal(err)
	}
	y.batch.Fences[0].Seq++
	y.ends()
	y.batch.Reset()
}

// ends tells the tally which runs have ended.
func (y *year) ends() {
	if y.tally == nil {
		return
	}
	rows := slices.Clone(y.batch.RunInserts)
	for i := range y.batch.RunUpdates {
		rows = append(rows, y.batch.RunUpdates[i].RunRow)
	}
	for i := range rows {
		if r := &rows[i]; r.State.Terminal() {
			y.tally.Ended([]store.Ended{{Fence: y.batch.Fences[0], ID: r.ID, Workflow: r.Workflow, Version: r.Version, Generation: 1,
				State: r.State, Created: r.Created, Finished: r.FinishedAt}})
		}
	}
}

// begin takes the shard and declares the workflows that are not deleted.
func (y *year) begin() {
	h, err := y.st.Register(y.Context(), uuid.NewString(), "node")
	y.ok(err)
	y.owner = h.ID
	got, err := y.st.Acquire(y.Context(), h.ID, []dag.ShardID{0})
	y.ok(err)
	y.batch.Fences = []store.Fence{got[0].Fence}
	for w := range y.workflows {
		id := dag.WorkflowID(w + 1)
		y.workflow(id)
		y.batch.TriggerInserts = append(y.batch.TriggerInserts, store.Trigger{Workflow: id, Name: "hourly", Version: 1, Kind: "cron", Spec: []byte("{}"),
			State: store.TriggerActive, Revision: 1, Created: y.st.now, Modified: y.st.now, Since: y.st.now, Decided: y.st.now})
	}
	y.versions = 1
	y.commit()
}

func (y *year) workflow(id dag.WorkflowID) store.Workflow {
	w := store.Workflow{ID: id, Namespace: "default", Name: fmt.Sprint("w", id), State: store.WorkflowActive, Version: 1, Latest: 1, Revision: 1,
		Created: y.st.now, Modified: y.st.now}
	y.batch.WorkflowInserts = append(y.batch.WorkflowInserts, w)
	y.batch.Versions = append(y.batch.Versions, y.version(id, 1))
	return w
}

func (y *year) version(id dag.WorkflowID, n int32) store.Version {
	return store.Version{Workflow: id, Version: n, Source: []byte("x"), Def: []byte("{}"), Graph: []byte{1}, Digest: []byte{byte(n)}, User: "ada",
		Created: y.st.now, Files: []store.File{{Name: "a", Mode: 0o644, Data: []byte("x")}}}
}

// live makes some objects of every kind.
func (y *year) live() {
	y.versions++
	for w := range yearWorkflows {
		id := dag.WorkflowID(w + 1)
		y.runs(id)
		b := store.Backfill{ID: int64(y.step*yearWorkflows + w + 1), Workflow: id, State: store.BackfillDone, Parallel: 1, Revision: 1, Created: y.st.now, Modified: y.st.now}
		y.batch.BackfillInserts = append(y.batch.BackfillInserts, b)
		for i := range 3 {
			y.batch.BackfillRuns = append(y.batch.BackfillRuns, store.BackfillRun{Backfill: b.ID, Workflow: id, Instant: dag.Micros(i), Run: y.id()})
		}
		y.batch.Versions = append(y.batch.Versions, y.version(id, y.versions))
		y.batch.WorkflowUpdates = append(y.batch.WorkflowUpdates, store.Workflow{ID: id, Namespace: "default", Name: fmt.Sprint("w", id),
			State: store.WorkflowActive, Version: y.versions, Latest: y.versions, Revision: int64(y.versions), Modified: y.st.now})
	}
	for i := range 20 {
		y.batch.Requests = append(y.batch.Requests, store.Request{Scope: "s", Key: fmt.Sprint(y.step, "/", i), Hash: []byte{1}, Answer: []byte{1}, Created: y.st.now})
		_, err := y.st.AddEvents(y.Context(), []store.SentEvent{{Namespace: "default", Source: "s", ID: fmt.Sprint(y.step, "/", i), Type: "t", Data: []byte("{}")}})
		y.ok(err)
	}
	y.commit()
	gone := y.workflow(dag.WorkflowID(1000 + y.step))
	y.commit()
	y.runs(gone.ID)
	gone.State, gone.Revision = store.WorkflowDeleted, 2
	y.batch.WorkflowUpdates = append(y.batch.WorkflowUpdates, gone)
	y.commit()
	for range 10 {
		y.ok(y.st.AddAudit(y.Context(), store.Audit{Key: uuid.New(), At: y.st.now, Last: y.st.now, Count: 1, Action: "stop-run", Outcome: store.AuditDone}))
	}
	for i := range 5 {
		h, err := y.st.Register(y.Context(), uuid.NewString(), fmt.Sprint("worker-", y.step, "-", i))
		y.ok(err)
		token, err := y.db.AddToken(y.Context(), store.Token{Kind: store.TokenAPI, Name: fmt.Sprint("t", h.ID), Hash: []byte(h.UUID), By: "ada"})
		y.ok(err)
		y.ok(y.db.RevokeToken(y.Context(), token.ID))
		if y.cluster != nil {
			_, err := y.cluster.Order(y.Context(), store.Order{Node: h.Node, What: "cordon", Actor: "ada"}, true)
			y.ok(err)
		}
	}
	y.people()
	y.incidents()
}

// incidents opens incidents, notifies their channels and resolves them. Some of the notices are not sent.
func (y *year) incidents() {
	for i := range 10 {
		n := store.Incident{ID: uuid.UUID(y.id()), Workflow: 1, Namespace: "default", Rule: "failed", State: store.IncidentResolved, Revision: 1,
			Created: y.st.now, Modified: y.st.now, Ended: y.st.now + 1, Data: []byte("{}")}
		y.batch.Incidents = append(y.batch.Incidents, n)
		for seq := range int32(2) {
			y.batch.Notices = append(y.batch.Notices, store.Notice{Incident: n.ID, Seq: seq + 1, Channel: "ops", Namespace: "default", Workflow: 1,
				State: []string{store.NoticeSent, store.NoticeExpired}[i%2], Tries: 1, Created: y.st.now, Ended: y.st.now + 1, Data: []byte("{}")})
		}
	}
	y.commit()
}

// people replaces one user by another in each half month. Each user has a role, a password, an account at a
// provider and a secret. The user signs in often, and leaves sessions that are never ended.
func (y *year) people() {
	name, was := fmt.Sprint("person-", y.step), fmt.Sprint("person-", y.step-1)
	rights, err := y.db.Rights(y.Context())
	y.ok(err)
	c := store.RightsChange{Add: &store.Principal{Kind: store.PrincipalUser, Name: name, State: store.PrincipalActive},
		PutRoles: []store.Role{{Name: name, Verbs: "run.read"}}, Bind: []store.Binding{{Role: name, Namespace: "default"}},
		Password: &store.Password{Hash: "x"}, Identify: &store.Identity{Issuer: "https://there", Subject: name, Source: "oidc:there"}}
	for _, p := range rights.Principals {
		if p.Name == was {
			c.Drop, c.DropRoles = p.ID, []string{was}
		}
	}
	revision, err := y.db.ChangeRights(y.Context(), rights.Revision, c)
	y.ok(err)
	if y.step == 0 {
		y.ok(y.db.SetSecretKey(y.Context(), "k", ""))
	} else {
		y.ok(y.db.DropSecret(y.Context(), "default", was))
	}
	_, err = y.db.PutSecret(y.Context(), store.Secret{Namespace: "default", Name: name, Version: 1, Key: "k", Wrapped: []byte{1}, Data: []byte{1}})
	y.ok(err)
	for i := range 8 {
		one := store.Session{Hash: []byte(fmt.Sprint(name, i)), Principal: revision, Expires: 4e15, Code: i == 1}
		// This session has expired at the next step of the year, because sessions use the clock of the
		// database and not that of the year.
		if i%2 == 0 {
			one.Principal, one.Token, one.Expires = store.FirstService, int64(y.step*8+i), 1
		}
		_, err := y.db.AddSession(y.Context(), one, store.SessionBounds{OfOne: 2, All: 100})
		y.ok(err)
	}
}

// runs makes runs of a workflow. Each has a tag and a fire in the ledger; some have a key, and some failed.
func (y *year) runs(w dag.WorkflowID) {
	var made []dag.RunRow
	for i := range 6 {
		at := y.st.now + dag.Micros(i)*dag.Micros((yearStep/7).Microseconds())
		r := dag.RunRow{Header: dag.Header{ID: y.id(), Workflow: w, Version: 1, Origin: dag.OriginSchedule, User: fmt.Sprint("user-", y.step), Created: at,
			Fire: &dag.Fire{Tags: dag.Tags(fmt.Sprintf("order=%d/%d/%d", y.step, w, i))}}, State: dag.RunRunning, Generation: 1}
		if w < 1000 {
			r.Version = y.versions
		}
		if i%2 == 0 {
			r.Key, r.KeyHash = fmt.Sprint(y.step, "-", i), []byte{1}
		}
		made = append(made, r)
		y.batch.RunInserts = append(y.batch.RunInserts, r)
		y.batch.AttemptInserts = append(y.batch.AttemptInserts, dag.AttemptRow{Run: r.ID, Task: 0, Token: 1, Generation: 1, Handler: y.owner,
			Assigned: at, State: dag.AttemptFailed, Finished: at + 1})
		y.batch.Events = append(y.batch.Events, dag.EventRow{Run: r.ID, At: at, Records: []byte{1}})
		y.batch.Fires = append(y.batch.Fires, store.Fire{Workflow: w, Trigger: "hourly", At: at, Last: at, Count: 1, Outcome: store.OutcomeFired, Run: r.ID, Decided: at},
			store.Fire{Workflow: w, Trigger: fmt.Sprint("renamed-", y.step), At: at, Last: at, Count: 1, Outcome: store.OutcomeSkipped, Reason: "overlap", Decided: at})
		dir := filepath.Join(y.data, "logs", "default", fmt.Sprint("w", w), r.ID.String())
		y.ok(os.MkdirAll(dir, 0o700))
		y.ok(os.WriteFile(filepath.Join(dir, "0.1.log"), []byte("said"), 0o600))
	}
	y.commit()
	if y.logs != nil {
		_, err := y.logs.AppendLogs(y.Context(), []store.LogPart{{LogID: store.LogID{Run: made[0].ID, Task: 0, Token: 1}, Size: 4, Data: []byte("said")}}, 100)
		y.ok(err)
	}
	for range 2 {
		for i := range made {
			y.batch.Events = append(y.batch.Events, dag.EventRow{Run: made[i].ID, At: made[i].Created + 1, Records: []byte{1}})
		}
		y.commit()
	}
	for i := range made {
		u := dag.RunUpdate{RunRow: made[i], Was: dag.RunRunning}
		if u.State, u.FinishedAt = dag.RunSucceeded, u.Created+2; i%3 == 0 {
			u.State = dag.RunFailed
		}
		y.batch.RunUpdates = append(y.batch.RunUpdates, u)
	}
	y.commit()
}

// id returns the id of a run that is made now.
func (y *year) id() (id dag.RunID) {
	y.last++
	binary.BigEndian.PutUint64(id[:8], uint64(y.st.now/1000)<<16|7<<12)
	id[8] = 0x80
	binary.BigEndian.PutUint32(id[12:], y.last)
	return id
}
