package app

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestYearAtScale plays days of hourly workflows with the default settings of retention:
// SKEIN_YEAR=1000x365 is a year of 1,000 of them. Each run is in the ledger, and one of a hundred has a log.
// The bound of every table depends on the number of workflows, and not on the number of runs that ever
// existed. The test logs the rows and sizes after some of the days.
func TestYearAtScale(t *testing.T) {
	scale, workflows, days := os.Getenv("SKEIN_YEAR"), 0, 0
	if scale == "" {
		t.Skip("this is make year: set SKEIN_YEAR, such as 1000x365")
	}
	if _, err := fmt.Sscanf(scale, "%dx%d", &workflows, &days); err != nil || workflows < 1 || days < 1 {
		t.Fatalf("SKEIN_YEAR=%s: want WORKFLOWSxDAYS, such as 1000x365: %v", scale, err)
	}
	onBothStores(t, func(t *testing.T, db *yearDB) { liveHourly(t, db, workflows, days) })
}

// passDays is the number of days between two passes of retention. A node makes a pass each minute and looks
// at a workflow about once in an hour. At that frequency, the passes would take most of the test's time.
const passDays = 5

// liveHourly is TestYearAtScale on one database.
func liveHourly(t *testing.T, db *yearDB, workflows, days int) {
	c := testConfig(t, nil)
	y, forgetter := newYear(t, db, c, workflows)
	y.begin()
	known := y.tables()
	const day = 24 * time.Hour
	for y.step = 1; y.step <= days; y.step++ {
		for range 24 {
			y.hour()
		}
		if y.step%passDays == 0 || y.step == days {
			y.ok(forgetter.Pass(t.Context()))
		}
		if y.step%max(days/10, 1) != 0 && y.step != days {
			continue
		}
		y.shown(known)
	}
	fires := int64(workflows) * 24 * (int64(c.Bounds.FiresAge/day) + passDays + 1)
	runs := int64(workflows) * int64(min(c.RetentionRuns, 24*(int(c.RetentionAge/day)+2))+24*passDays)
	most := map[string]int64{
		"run": runs, "attempt": runs, "event": 2 * runs, "fire": fires, "fire_day": int64(workflows) * int64(min(days, int(c.Bounds.DaysAge/day)+passDays+1)),
		"workflow": int64(workflows), "version": int64(workflows), "version_file": int64(workflows), "trigger": int64(workflows),
		"log": runs / 50, "files": runs/20 + 100, "roll": runs, "unsuccessful": runs,
	}
	for name, n := range y.counts(known) {
		bound, is := most[name]
		if !is {
			bound = 200 // rows of a new database, and of members
		}
		if n > bound {
			t.Errorf("after %d days of %d hourly workflows, %s has %d rows, at most %d may be there", days, workflows, name, n, bound)
		}
	}
}

// shown logs the rows of each table and the sizes in bytes.
func (y *year) shown(tables []string) {
	text := ""
	if y.db.tidy != "" {
		y.ok(y.db.query(y.db.tidy, func(string, int64) {})) // in a real year the database tidies itself
	}
	for name, n := range y.counts(tables) {
		if n >= 1000 {
			text += fmt.Sprintf(" %s %d,", name, n)
		}
	}
	text += " MB:"
	y.ok(y.db.query(y.db.sizes, func(name string, n int64) { text += fmt.Sprintf(" %s %.1f,", name, float64(n)/1e6) }))
	y.Logf("day %d:%s", y.step, text)
}

// hour makes the hourly run of each workflow, which takes one second.
func (y *year) hour() {
	y.Helper()
	const second = dag.Micros(1_000_000)
	made := make([]dag.RunRow, 0, y.workflows)
	for w := range y.workflows {
		id := dag.WorkflowID(w + 1)
		r := dag.RunRow{Header: dag.Header{ID: y.id(), Workflow: id, Version: 1, Origin: dag.OriginSchedule, Created: y.st.now,
			Fire: &dag.Fire{Trigger: "hourly", Instant: y.st.now}}, State: dag.RunRunning, Generation: 1}
		made = append(made, r)
		y.batch.RunInserts = append(y.batch.RunInserts, r)
		y.batch.AttemptInserts = append(y.batch.AttemptInserts, dag.AttemptRow{Run: r.ID, Token: 1, Generation: 1, Handler: y.owner, Assigned: y.st.now,
			State: dag.AttemptFailed, Finished: y.st.now + second})
		y.batch.Events = append(y.batch.Events, dag.EventRow{Run: r.ID, At: y.st.now, Records: []byte{1}})
		y.batch.Fires = append(y.batch.Fires, store.Fire{Workflow: id, Trigger: "hourly", At: y.st.now, Last: y.st.now, Count: 1,
			Outcome: store.OutcomeFired, Run: r.ID, Decided: y.st.now})
	}
	y.commit()
	for i := range made {
		u := dag.RunUpdate{RunRow: made[i], Was: dag.RunRunning}
		if u.State, u.FinishedAt = dag.RunSucceeded, u.Created+second; i%100 == 0 {
			u.State = dag.RunFailed
		}
		y.batch.RunUpdates = append(y.batch.RunUpdates, u)
		y.batch.Events = append(y.batch.Events, dag.EventRow{Run: made[i].ID, At: u.FinishedAt, Records: []byte{1}})
	}
	y.commit()
	y.said(made)
	y.st.now += 3600 * second
}

// said keeps the log of one run of a hundred.
func (y *year) said(made []dag.RunRow) {
	y.Helper()
	for i := range made {
		y.logged++
		if y.logged%100 != 0 {
			continue
		}
		w := fmt.Sprint("w", made[i].Workflow)
		dir := filepath.Join(y.data, "logs", "default", w, made[i].ID.String())
		y.ok(os.MkdirAll(dir, 0o700))
		y.ok(os.WriteFile(filepath.Join(dir, "0.1.log"), []byte("said"), 0o600))
		if y.logs != nil {
			_, err := y.logs.AppendLogs(y.Context(), []store.LogPart{{LogID: store.LogID{Run: made[i].ID, Task: 0, Token: 1}, Size: 4, Data: []byte("said")}}, 100)
			y.ok(err)
		}
	}
}
