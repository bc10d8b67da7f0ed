package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestTracesOfCallers checks that the tasks of a run belong to the trace of the caller that started the run.
// The same holds for the runs that this run starts: by calls, by calls of foreach, and by triggers that
// follow it. A workflow that follows its own called runs, without end, leaves the trace.
func TestTracesOfCallers(t *testing.T) {
	const (
		sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		unsampled = "00-11111111111111112222222222222222-3333333333333333-00"
	)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	n, k, _ := startNode(t, testConfig(t, nil))
	const tell = `{run: 'echo "trace=$TRACEPARENT" >> "$SKEIN_OUTPUT"', outputs: {trace: string}}`
	for name, source := range map[string]string{
		"child":  "tasks:\n  a: " + tell,
		"parent": "tasks:\n  a: " + tell + "\n  call: {workflow: child}\n  each: {foreach: [1, 2], workflow: child}",
		"after":  "triggers:\n  - {name: after, run_of: parent}\ntasks:\n  a: " + tell,
	} {
		if _, err := k.Apply(t.Context(), name, api.ApplyRequest{Source: "name: " + name + "\n" + source}); err != nil {
			t.Fatal(err)
		}
	}
	post := func(path, body string, trace ...string) []byte {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/v1/"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header["Traceparent"] = trace
		w := httptest.NewRecorder()
		if n.Handler().ServeHTTP(w, r); w.Code >= 300 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return w.Body.Bytes()
	}
	started := func(path, body string, trace ...string) string {
		t.Helper()
		var run api.Run
		if err := json.Unmarshal(post(path, body, trace...), &run); err != nil {
			t.Fatal(err)
		}
		return run.ID
	}
	traceOf := func(id string) string {
		t.Helper()
		if run := end(t, k, id); run.State != "succeeded" {
			t.Fatalf("run %s of %s is %s: %v", id, run.Workflow, run.State, run.Message)
		}
		task, err := k.Task(t.Context(), id, "a")
		if err != nil {
			t.Fatal(err)
		}
		var out struct{ Trace string }
		if err := json.Unmarshal(task.Outputs, &out); err != nil {
			t.Fatal(err)
		}
		return out.Trace
	}
	is := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: trace context %s, want %s", what, got, want)
		}
	}
	first := started("runs", `{"workflow":"parent"}`, sampled)
	is("a run", traceOf(first), sampled)
	found := map[string]int{}
	for found["after"] == 0 {
		for run, err := range k.EachRun(t.Context(), skein.RunsQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			found[run.Workflow]++
			is("a run of "+run.Workflow, traceOf(run.ID), sampled)
		}
	}
	if found["child"]%3 != 0 || found["child"] == 0 {
		t.Errorf("runs: %v", found)
	}
	is("a run that is repeated", traceOf(started("runs/"+first+":rerun", "{}")), sampled)
	is("a run that is repeated in another trace", traceOf(started("runs/"+first+":rerun", "{}", unsampled)), unsampled)
	own := traceOf(started("runs", `{"workflow":"child"}`))
	if own == "" || strings.Contains(own, sampled[3:35]) {
		t.Errorf("without a caller's trace: %s", own)
	}
	is("with an invalid header", traceOf(started("runs", `{"workflow":"child"}`, sampled, sampled))[:3], "00-")
	var batch api.BatchResult
	if err := json.Unmarshal(post("runs:batch", `{"runs":[{"workflow":"child","idempotency_key":"k"},
		{"workflow":"child","idempotency_key":"l","traceparent":"`+sampled+`"}]}`, unsampled), &batch); err != nil {
		t.Fatal(err)
	}
	is("a run of a batch", traceOf(*batch.Items[0].Run), unsampled)
	is("a run of a batch in a trace of its own", traceOf(*batch.Items[1].Run), sampled)

	for name, source := range map[string]string{
		"pong": "tasks:\n  a: " + tell,
		"ping": "triggers:\n  - {name: again, run_of: pong, overlap: allow}\ntasks:\n  a: " + tell + "\n  call: {workflow: pong, needs: [a]}",
	} {
		if _, err := k.Apply(t.Context(), name, api.ApplyRequest{Source: "name: " + name + "\n" + source}); err != nil {
			t.Fatal(err)
		}
	}
	runs, id := 0, started("runs", `{"workflow":"ping"}`, unsampled)
	for ; traceOf(id) == unsampled; runs++ {
		if runs > 100 {
			t.Fatal("the runs never leave the trace")
		}
		for last := id; id == last; {
			for run, err := range k.EachRun(t.Context(), skein.RunsQuery{Workflow: "ping"}) {
				if err != nil {
					t.Fatal(err)
				}
				if run.ID <= last {
					break
				}
				id = run.ID
			}
		}
	}
	if runs != 17 {
		t.Errorf("%d runs share the trace, want 1 and 16 that follow it", runs)
	}
}
