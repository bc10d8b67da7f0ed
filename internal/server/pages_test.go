package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestFiresInLargePages lists a ledger that is larger than the largest page, in the largest pages.
func TestFiresInLargePages(t *testing.T) {
	const lines = 1005
	b := newBed(t, true)
	b.spec = nil // checking answers of this size against the document takes long
	b.put("timed", strings.Replace(timed, "tasks:", "  - {name: any, webhook: {secret: hook}, overlap: allow}\ntasks:", 1))
	w := must(b.engine.Workflow(t.Context(), "default", "timed"))
	var occurring sync.WaitGroup
	keys := make(chan string, lines)
	for i := range lines {
		keys <- fmt.Sprint(i)
	}
	close(keys)
	for range 50 {
		occurring.Go(func() {
			for key := range keys {
				if _, err := b.engine.Occur(t.Context(), store.TriggerKey{Workflow: w.ID, Name: "any"}, engine.Occurrence{Key: key}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	occurring.Wait()
	id := func(f *api.Fire) string { return *f.Key }
	for _, path := range []string{"/api/v1/fires?limit=1000", "/api/v1/fires?limit=999", "/api/v1/fires?limit=1000&system=true",
		oneSchedule + "any/fires?limit=1000"} {
		if got, pages := listed(b, path, id); len(got) != lines || pages != 2 {
			t.Errorf("%s: %d lines on %d pages, want %d on 2", path, len(got), pages, lines)
		}
	}
}

// rowsOfOne answers each read of a history with rows of three transactions; the second one has three rows.
type rowsOfOne struct{ store.Store }

func (s *rowsOfOne) Events(_ context.Context, run dag.RunID, after int64, limit int) (rows []dag.EventRow, _ error) {
	large := strings.Repeat("x", 1<<20)
	for i, seq := range []int64{1000, 1001, 1001, 1001, 1002} {
		records := []dag.Record{{Kind: dag.RecStarted, Task: dag.TaskID(i), Token: 1}}
		if seq == 1001 {
			for len(records) < 6 {
				records = append(records, dag.Record{Kind: dag.RecState, Task: dag.TaskID(i), Reason: fmt.Sprint(i, len(records), large)})
			}
		}
		if seq > after && len(rows) < limit {
			rows = append(rows, dag.EventRow{Run: run, Seq: seq, At: 1, Records: dag.PackRecords(records)})
		}
	}
	return rows, nil
}

// TestHistoryInPages reads a history in pages of every size. The bound of the bytes of an answer splits a
// transaction of several rows, and no line is lost or comes twice.
func TestHistoryInPages(t *testing.T) {
	f := &frozen{}
	b := &bed{t: t, dir: t.TempDir(), auto: true, frozen: f, logs: &logs{text: map[server.LogRef][]byte{}}}
	b.start()
	t.Cleanup(func() { b.stop() })
	b.spec = nil // checking answers of this size against the document takes long
	b.apply("w")
	run := b.run("w").ID
	f.mu.Lock()
	f.history = (&rowsOfOne{}).Events
	f.mu.Unlock()
	for _, limit := range []int{1, 3, 6} { // one row of a transaction, all of its rows, and more than that
		got, pages, reasons := 0, 0, map[string]bool{}
		for cursor := ""; ; pages++ {
			a := b.get(fmt.Sprintf("/api/v1/runs/%s/events?limit=%d&cursor=%s", run, limit, cursor))
			page := want[api.List[api.Event]](t, a, http.StatusOK)
			if len(page.Items) == 0 || len(a.body) > 8<<20 {
				t.Fatalf("a page of %d lines and %d bytes", len(page.Items), len(a.body))
			}
			for i := range page.Items {
				if r := page.Items[i].Reason; r != nil {
					reasons[*r] = true
				}
			}
			if got += len(page.Items); page.Next == nil || pages > 20 {
				break
			}
			cursor = *page.Next
		}
		if got != 1+3*6+1 || len(reasons) != 3*5 {
			t.Errorf("limit %d: %d lines with %d reasons, want 20 with 15", limit, got, len(reasons))
		}
	}
}

// TestSlowReadOfTheBuiltIn: a read of the program's own workflow that the store does not answer delays no
// other list.
func TestSlowReadOfTheBuiltIn(t *testing.T) {
	f := &frozen{}
	b := &bed{t: t, dir: t.TempDir(), auto: true, frozen: f, logs: &logs{text: map[server.LogRef][]byte{}}}
	b.start()
	t.Cleanup(func() { b.stop() })
	reading, answered := make(chan struct{}), make(chan struct{})
	f.mu.Lock()
	f.builtIn = sync.OnceFunc(func() {
		close(reading)
		<-answered
	})
	f.mu.Unlock()
	first := make(chan int, 1)
	go func() { first <- b.get("/api/v1/runs").status }()
	<-reading
	f.mu.Lock()
	f.builtIn = nil
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // reached only if the test fails
	defer cancel()
	resp, err := b.http.Client().Do(must(http.NewRequestWithContext(ctx, http.MethodGet, b.http.URL+"/api/v1/runs", nil)))
	if err != nil {
		t.Error(err)
	} else {
		resp.Body.Close()
	}
	close(answered)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first list: %d", status)
	}
}
