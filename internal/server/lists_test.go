package server_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	api "skein.dev/skein/sdk/api/v1"
)

// listed reads a list of runs to its end, and checks the bound of bytes of every answer.
func listed[T any](b *bed, path string, id func(*T) string) (items []T, pages int) {
	b.t.Helper()
	seen := map[string]bool{}
	for cursor := ""; ; pages++ {
		a := b.get(path + "&cursor=" + cursor)
		page := want[api.List[T]](b.t, a, 200)
		if len(a.body) > 8<<20 {
			b.t.Fatalf("an answer of %d bytes", len(a.body))
		}
		for i := range page.Items {
			if k := id(&page.Items[i]); seen[k] {
				b.t.Fatalf("%s comes twice", k)
			} else {
				seen[k] = true
			}
		}
		if items = append(items, page.Items...); page.Next == nil {
			return items, pages + 1
		}
		if len(page.Items) == 0 {
			b.t.Fatal("an empty page that goes on")
		}
		cursor = *page.Next
	}
}

// TestAnswersAreBounded: a page of runs with large parameters, or of tasks with large outputs, ends early
// and continues with next. That includes parameters that are larger in an answer than in the store.
func TestAnswersAreBounded(t *testing.T) {
	b := newBed(t, false)
	b.spec = nil // checking answers of this size against the document takes minutes
	b.put("fat", "name: fat\nparams: {text: string}\ntasks:\n  a: {run: \"true\"}\n")
	const runs = 24
	for i := range runs {
		c := "x"
		if i%2 == 0 {
			c = "<"
		}
		want[api.Run](t, b.post("/api/v1/runs", fmt.Sprintf(`{"workflow":"fat","params":{"text":%q}}`, strings.Repeat(c, 250_000))), 202)
	}
	all, pages := listed(b, "/api/v1/runs?limit=1000&include=params", func(r *api.Run) string { return r.ID })
	if len(all) != runs || pages < 3 {
		t.Fatalf("%d runs on %d pages", len(all), pages)
	}
	for i := range all {
		if text, _ := all[i].Params["text"].(string); len(text) != 250_000 {
			t.Fatalf("parameters %d: %d bytes", i, len(text))
		}
	}
	lean := b.get("/api/v1/runs?limit=1000")
	if page := want[api.List[api.Run]](t, lean, 200); len(page.Items) != runs || page.Next != nil || page.Items[0].Params != nil || len(lean.body) > 200_000 {
		t.Errorf("without parameters: %d runs, %d bytes", len(page.Items), len(lean.body))
	}
	source := "name: wide\ntasks:\n"
	const tasks = 60
	for i := range tasks {
		source += fmt.Sprintf("  t%d: {run: \"true\", outputs: {text: string}}\n", i)
	}
	b.put("wide", source)
	for range runs { // the attempts of these runs hold the slots
		b.exec.end(<-b.exec.got, succeeded())
	}
	run := b.run("wide")
	for range tasks {
		b.exec.end(<-b.exec.got, dag.Result{State: dag.AttemptSucceeded, Outputs: []byte(`{"text":"` + strings.Repeat("<", 60_000) + `"}`)})
	}
	eventually(t, "the wide run ends", func() bool { return b.ended(run.ID) })
	got, pages := listed(b, "/api/v1/runs/"+run.ID+"/tasks?limit=1000", func(t *api.Task) string { return t.Name })
	if len(got) != tasks || pages < 3 {
		t.Fatalf("%d tasks on %d pages", len(got), pages)
	}
	if with := want[api.Run](t, b.get("/api/v1/runs/"+run.ID+"?include=tasks"), 200); with.Tasks != nil {
		t.Errorf("%d tasks with their run", len(with.Tasks))
	}
}

// TestRunsAreFiltered checks every filter of a list of runs.
func TestRunsAreFiltered(t *testing.T) {
	b := newBed(t, false)
	b.put("one", "name: one\nparams: {who: {type: string, default: ada}}\ntasks:\n  a: {run: \"true\"}\n  b: {run: \"true\"}\n")
	b.put("timed", timed)
	key := b.post("/api/v1/runs", `{"workflow":"one","idempotency_key":"order-4711"}`)
	keyed := want[api.Run](t, key, 202)
	for range 2 {
		b.exec.end(<-b.exec.got, dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, ExitCode: 3})
	}
	stopped := b.run("one")
	want[api.Run](t, b.post("/api/v1/runs/"+stopped.ID+":stop", `{}`), 202)
	eventually(t, "both end", func() bool {
		return b.ended(keyed.ID) && b.ended(stopped.ID)
	})
	running := b.run("one")
	cause := *want[api.Run](t, b.get("/api/v1/runs/"+stopped.ID), 200).Cause
	for query, ids := range map[string][]string{
		"":                                  {running.ID, stopped.ID, keyed.ID},
		"state=failed":                      {keyed.ID},
		"state=failed&state=stopped":        {stopped.ID, keyed.ID},
		"state=active":                      {running.ID},
		"state=failed&ns=default":           {keyed.ID},
		"ns=other":                          {},
		"origin=api&state=stopped":          {stopped.ID},
		"origin=schedule":                   {},
		"trigger=nightly":                   {},
		"backfill=7":                        {},
		"parent=" + keyed.ID:                {},
		"q=ORDER-47":                        {keyed.ID},
		"q=" + stopped.ID[:20]:              {stopped.ID},
		"node=node-1&state=failed":          {keyed.ID},
		"node=node-2":                       {},
		"until=2001-01-01T00%3A00%3A00Z":    {},
		"since=2001-01-01T00%3A00%3A00Z":    {running.ID, stopped.ID, keyed.ID},
		"until=" + at(running.CreatedAt):    {stopped.ID, keyed.ID},
		"cause=" + cause:                    {stopped.ID},
		"count=true&state=failed":           {keyed.ID},
		"workflow=one&state=failed&q=order": {keyed.ID},
	} {
		page := want[api.List[api.Run]](t, b.get("/api/v1/runs?"+query), 200)
		var got []string
		for i := range page.Items {
			got = append(got, page.Items[i].ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(ids) {
			t.Errorf("%s: %v, want %v", query, got, ids)
		}
		if has := page.Total != nil; has != strings.Contains(query, "count") || has && *page.Total != (api.Total{N: 1, Exact: true}) {
			t.Errorf("%s: total %+v", query, page.Total)
		}
	}
	failed := want[api.List[api.Run]](t, b.get("/api/v1/runs?state=failed&include=params"), 200).Items[0]
	if fmt.Sprint(failed.FailedTasks) != "[a b]" || failed.Duration == nil || *failed.Duration < 0 || failed.Params["who"] != "ada" {
		t.Errorf("the failed run: %v, %v, %v", failed.FailedTasks, failed.Duration, failed.Params)
	}
	for _, bad := range []string{"state=lazy", "until=noon", "backfill=x", "backfill=0", "parent=nobody", "include=tasks", "origin=chance", "count=7"} {
		wantProblem(t, b.get("/api/v1/runs?"+bad), 422, api.ProblemInvalid)
	}
}

func (b *bed) ended(id string) bool {
	b.t.Helper()
	run := want[api.Run](b.t, b.get("/api/v1/runs/"+id), 200)
	return run.Ended()
}

func at(t api.Time) string { return url.QueryEscape(t.String()) }
