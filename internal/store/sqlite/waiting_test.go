package sqlite

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestLinesAreMigrated: until format 8, each run in a line had a row. Such runs are still in their lines, and
// can leave them.
func TestLinesAreMigrated(t *testing.T) {
	path, id := formatOne(t)
	files, err := scripts.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	schema := ""
	for _, f := range files[1:8] {
		text, err := scripts.ReadFile("migrations/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		schema += string(text)
	}
	claim := &dag.Claim{Queue: "q", Stage: dag.ClaimAsked, Level: 2, Asked: 50, Kept: true}
	script(t, path, schema+fmt.Sprintf("PRAGMA user_version = 8; INSERT INTO line VALUES ('q/', 2, 50, 1, 1); UPDATE run SET state = 'waiting', claim = x'%x';", claim.Pack()))
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if in, err := d.InLine(t.Context(), "q/", 2, 0, 10); err != nil || len(in) != 1 || in[0].Run != id {
		t.Errorf("in line %+v, %v", in, err)
	}
	if bad, err := d.Check(t.Context()); err != nil || len(bad) != 0 {
		t.Errorf("check: %q, %v", bad, err)
	}
	got, err := d.Acquire(t.Context(), 2, []dag.ShardID{0})
	if err != nil {
		t.Fatal(err)
	}
	is := *claim
	is.Stage = dag.ClaimGranted
	b := store.Batch{Fences: []store.Fence{got[0].Fence}}
	b.Events = []dag.EventRow{{Run: id, At: 60, Records: []byte("begun")}}
	b.RunUpdates = []dag.RunUpdate{{RunRow: dag.RunRow{Header: dag.Header{ID: id}, State: dag.RunRunning, Generation: 1, Claim: &is}, Was: dag.RunWaiting, Claimed: claim}}
	if _, err := d.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if lines, err := d.Lines(t.Context()); err != nil || len(lines) != 0 {
		t.Errorf("lines %+v, %v", lines, err)
	}
	if events, err := d.Events(t.Context(), id, got[0].Fence.Seq, 10); err != nil || len(events) != 1 || string(events[0].Records) != "begun" {
		t.Errorf("history %+v, %v", events, err)
	}
}

// TestWhatWaitedTravels: the row of a run that waited contains its history and the assignments at its
// beginning. In a copy in another database, these are rows of history.
func TestWhatWaitedTravels(t *testing.T) {
	d, _ := openTemp(t)
	h, err := d.Register(t.Context(), uuid.NewString(), "n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Acquire(t.Context(), h.ID, []dag.ShardID{0})
	if err != nil {
		t.Fatal(err)
	}
	fence := got[0].Fence
	put := func(fill func(b *store.Batch)) {
		t.Helper()
		b := store.Batch{Fences: []store.Fence{fence}}
		fill(&b)
		if _, err := d.Commit(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		fence.Seq++
	}
	r := dag.RunRow{Header: dag.Header{ID: dag.RunID{15: 1}, Workflow: 7, User: "ada", Created: 5}, State: dag.RunWaiting, Generation: 1}
	put(func(b *store.Batch) {
		b.RunInserts = []dag.RunRow{r}
		b.Events = []dag.EventRow{{Run: r.ID, At: 10, Records: []byte{1}}}
	})
	put(func(b *store.Batch) {
		u := dag.RunUpdate{RunRow: r, Was: dag.RunWaiting}
		u.State = dag.RunRunning
		b.RunUpdates = []dag.RunUpdate{u}
		b.AttemptInserts = []dag.AttemptRow{{Run: r.ID, Token: 1, Generation: 1, Handler: h.ID, Assigned: 20, State: dag.AttemptAssigned}}
		b.Events = []dag.EventRow{{Run: r.ID, At: 20, Records: []byte{2}}}
	})
	to, _ := openTemp(t)
	if err := to.Import(t.Context(), func(rows store.Rows) error { return d.Export(t.Context(), rows) }); err != nil {
		t.Fatal(err)
	}
	for _, db := range []*DB{d, to} {
		events, err := db.Events(t.Context(), r.ID, -1, 10)
		if err != nil || len(events) != 2 || events[0].At != 10 || events[1].At != 20 || events[1].Seq != fence.Seq {
			t.Errorf("history %+v, %v", events, err)
		}
		attempts, err := db.Attempts(t.Context(), store.AttemptQuery{Run: r.ID})
		if err != nil || len(attempts) != 1 || attempts[0].Assigned != 20 {
			t.Errorf("attempts %+v, %v", attempts, err)
		}
	}
	is, err := d.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if has, err := to.Counts(t.Context()); err != nil || !reflect.DeepEqual(is, has) {
		t.Errorf("counts %v and %v, %v", is, has, err)
	}
}

// TestCheckOfLines: Check finds every run that is missing in its line, has another position, or is in the
// line twice.
func TestCheckOfLines(t *testing.T) {
	for name, damage := range map[string]string{
		"no list":            "UPDATE line SET runs = '[0,'",
		"no end":             "UPDATE line SET runs = '[0,1,2'",
		"twice in a row":     "UPDATE line SET runs = '[0,0,2]' WHERE kept = 0",
		"others counted":     "UPDATE line SET count = 2 WHERE kept = 0",
		"falling":            "UPDATE line SET runs = '[0,2,1]' WHERE kept = 0",
		"no numbers":         "UPDATE line SET runs = '[0,1.5,2]' WHERE kept = 0",
		"at another instant": "UPDATE line SET asked = asked - 1",
		"at another level":   "UPDATE line SET level = level + 1",
		"in another line":    "UPDATE line SET line = 'other/'",
		"kept by now":        "UPDATE line SET kept = 1",
		"kept, in no line":   "DELETE FROM line WHERE kept = 1",
		"kept, another one":  "UPDATE line SET runs = '[0,1,20]' WHERE kept = 1",
		"in two rows":        "INSERT INTO line SELECT line, level, asked + 1, first, kept, count, runs FROM line",
	} {
		t.Run(name, func(t *testing.T) {
			d, path := openTemp(t)
			o := newOwner(t, d)
			for i, kept := range []bool{false, true} {
				b := o.batch(0, 3, nil)
				for j := range b.RunInserts {
					r := &b.RunInserts[j]
					r.State, r.Claim = dag.RunWaiting, &dag.Claim{Queue: "q", Stage: dag.ClaimAsked, Asked: dag.Micros(100 * (i + 1)), Kept: kept}
				}
				b.AttemptInserts = nil
				o.commit(b)
			}
			if bad, err := d.Check(t.Context()); err != nil || len(bad) != 0 {
				t.Fatalf("before: %q, %v", bad, err)
			}
			script(t, path, damage)
			if bad, err := d.Check(t.Context()); err != nil || len(bad) == 0 {
				t.Errorf("not found: %q, %v", bad, err)
			}
		})
	}
}
