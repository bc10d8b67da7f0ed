package server_test

import (
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// TestSecrets: values go in and never come out.
func TestSecrets(t *testing.T) {
	b := newBed(t, true)
	const value = "canary-of-a-value"
	set := func(path, value string) answer {
		return b.do("PUT", "/api/v1/secrets/"+path, `{"value":"`+value+`"}`, "Content-Type", "application/json")
	}
	first := want[api.Secret](t, set("shop/A", value), 200)
	if first.Namespace != "shop" || first.Name != "A" || first.Version != 1 || first.User == "" || first.CreatedAt.IsZero() {
		t.Errorf("%+v", first)
	}
	if again := want[api.Secret](t, set("shop/A", value+"2"), 200); again.Version != 2 || again.CreatedAt != first.CreatedAt {
		t.Errorf("%+v", again)
	}
	for _, path := range []string{"shop/B", "web/A", "a/Z"} {
		want[api.Secret](t, set(path, value), 200)
	}
	names := func(query string) (text string, next *string) {
		a := b.get("/api/v1/secrets" + query)
		page := want[api.List[api.Secret]](t, a, 200)
		for _, s := range page.Items {
			text += s.Namespace + "/" + s.Name + " "
		}
		if strings.Contains(a.body, value) {
			t.Errorf("a list gives a value: %s", a.body)
		}
		return text, page.Next
	}
	if all, _ := names(""); all != "a/Z shop/A shop/B web/A " {
		t.Error(all)
	}
	if some, next := names("?namespace=shop"); some != "shop/A shop/B " || next != nil {
		t.Error(some, next)
	}
	one, next := names("?namespace=shop&limit=1")
	if one != "shop/A " || next == nil {
		t.Fatal(one, next)
	}
	if two, next := names("?namespace=shop&limit=1&cursor=" + *next); two != "shop/B " || next != nil {
		t.Error(two, next)
	}
	wantProblem(t, b.get("/api/v1/secrets?namespace=web&cursor="+*next), 422, api.ProblemInvalid)
	for path, value := range map[string]string{"shop/1A": value, "Shop/A": value, "shop/A": "abc12", "shop/C": `canary\u0000value`} {
		a := set(path, value)
		if wantProblem(t, a, 422, api.ProblemInvalid); strings.Contains(a.body, value) {
			t.Errorf("a refusal gives the value: %s", a.body)
		}
	}
	a := b.do("PUT", "/api/v1/secrets/shop/A", `{"value":["`+value+`"]}`, "Content-Type", "application/json")
	if a.status/100 != 4 || strings.Contains(a.body, value) {
		t.Errorf("a refusal gives the value: %d %s", a.status, a.body)
	}
	rotated := want[api.KeyRotation](t, b.post("/api/v1/keys:rotate", `{}`), 200)
	if rotated.Sealed != 4 || rotated.Left || rotated.Key == "" {
		t.Errorf("%+v", rotated)
	}
	if a := b.do("DELETE", "/api/v1/secrets/shop/A", ""); a.status != 204 {
		t.Errorf("%+v", a)
	}
	wantProblem(t, b.do("DELETE", "/api/v1/secrets/shop/A", ""), 404, api.ProblemNotFound)
}

// TestSecretParams: a parameter of type secret is sealed at the start. No answer and no row has its value,
// and no hash of it. A repeated start and a rerun recognise the value.
func TestSecretParams(t *testing.T) {
	b := newBed(t, true)
	const value = "canary-of-a-param"
	source := "name: w\nnamespace: shop\nparams: {s: secret, d: {default: a}}\ntasks: {a: {run: 'true', env: {X: '${{ params.s }}'}}}\n"
	if a := b.do("PUT", "/api/v1/workflows/shop/w", source, "Content-Type", "application/yaml"); a.status != 201 {
		t.Fatal(a.status, a.body)
	}
	hides := func(a answer) answer {
		t.Helper()
		if strings.Contains(a.body, value) || strings.Contains(a.body, "sealed:") {
			t.Errorf("an answer shows the value: %d %s", a.status, a.body)
		}
		return a
	}
	body := `{"workflow":"shop/w","params":{"s":"` + value + `"},"idempotency_key":"k"}`
	run := want[api.Run](t, hides(b.post("/api/v1/runs", body)), 202)
	if run.Params["s"] != "***" || run.Params["d"] != "a" {
		t.Errorf("params %v", run.Params)
	}
	if again := want[api.Run](t, hides(b.post("/api/v1/runs", body)), 200); again.ID != run.ID {
		t.Errorf("a repeated start is run %s, not %s", again.ID, run.ID)
	}
	wantProblem(t, hides(b.post("/api/v1/runs", strings.Replace(body, value, value+"2", 1))), 409, api.ProblemIdempotency)
	again := want[api.Run](t, hides(b.post("/api/v1/runs/"+run.ID+":rerun", "{}")), 202)
	batch := hides(b.post("/api/v1/runs:batch", `{"runs":[{"workflow":"shop/w","params":{"s":"`+value+`"},"idempotency_key":"b"}]}`))
	if batch.status/100 != 2 {
		t.Errorf("a batch: %d %s", batch.status, batch.body)
	}
	for _, path := range []string{"/runs?include=params", "/runs/" + run.ID, "/runs/" + run.ID + "/events", "/runs/" + run.ID + "/explain", "/secrets", "/workflows/shop/w"} {
		if a := hides(b.get("/api/v1" + path)); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	texts := map[string]string{}
	for _, id := range []string{run.ID, again.ID} {
		of, err := dag.ParseRunID(id)
		if err != nil {
			t.Fatal(err)
		}
		row, err := b.db.Run(t.Context(), of)
		if err != nil || strings.Contains(string(row.Params), value) || !strings.Contains(string(row.Params), `"s":"sealed:1:`) {
			t.Fatalf("row %s, %v", row.Params, err)
		}
		texts[string(row.Params)] = id
	}
	if len(texts) != 1 {
		t.Errorf("the rerun has another value: %v", texts)
	}
	for _, bad := range []string{`"abc"`, `["` + value + `"]`, `{"a":"` + value + `"}`, "null"} {
		wantProblem(t, hides(b.post("/api/v1/runs", `{"workflow":"shop/w","params":{"s":`+bad+`}}`)), 422, api.ProblemInvalidParams)
	}
	// A value that is too short is refused as such: no hash of it is compared with the run of its key.
	wantProblem(t, hides(b.post("/api/v1/runs", strings.Replace(body, value, "abc", 1))), 422, api.ProblemInvalidParams)
	at := `,"instants":["2001-01-01T00:00:00Z"]}`
	wantProblem(t, hides(b.post("/api/v1/backfills", `{"workflow":"shop/w","params":{"s":"`+value+`"}`+at)), 422, api.ProblemInvalidParams)
}

// TestSecretParamsOfOthers: no answer shows a value that reached a row without a start of the API. The split
// of an enqueued run seals it. A text that looks sealed is not accepted as a value.
func TestSecretParamsOfOthers(t *testing.T) {
	b := newBed(t, true)
	const value = "canary-of-a-param"
	source := "name: w\nnamespace: shop\nparams: {s: secret, d: {default: a}}\ntasks: {a: {run: 'true', env: {X: '${{ params.s }}'}}}\n"
	if a := b.do("PUT", "/api/v1/workflows/shop/w", source, "Content-Type", "application/yaml"); a.status != 201 {
		t.Fatal(a.status, a.body)
	}
	w, err := b.db.Workflow(t.Context(), "shop", "w")
	if err != nil {
		t.Fatal(err)
	}
	stored := func(id dag.RunID) string {
		t.Helper()
		row, err := b.db.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return string(row.Params)
	}
	ids := map[dag.Origin]dag.RunID{}
	// The second origin stands for a row that is not split yet, or is never split.
	for _, origin := range []dag.Origin{dag.OriginEnqueue, dag.OriginAPI} {
		made, err := b.engine.Submit(t.Context(), engine.Submission{Workflow: w, Origin: origin, Params: []byte(`{"s":"` + value + `","d":"b"}`)})
		if err != nil {
			t.Fatal(err)
		}
		ids[origin] = made.Run
	}
	failed := want[api.Run](t, b.get("/api/v1/runs/"+ids[dag.OriginEnqueue].String(), "Prefer", "wait=60"), 200)
	if failed.State != "failed" || failed.Cause == nil || *failed.Cause != "split" || stored(ids[dag.OriginEnqueue]) != `{"d":"b","s":"***"}` {
		t.Errorf("enqueued: %+v, row %s", failed, stored(ids[dag.OriginEnqueue]))
	}
	if row := stored(ids[dag.OriginAPI]); !strings.Contains(row, value) {
		t.Fatalf("the row has no plain value: %s", row)
	}
	for _, path := range []string{"/runs?include=params", "/runs/" + ids[dag.OriginAPI].String()} {
		if a := b.get("/api/v1" + path); a.status != 200 || strings.Contains(a.body, value) || !strings.Contains(a.body, `"s":"***"`) || !strings.Contains(a.body, `"d":"b"`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	rows, err := b.engine.Reader.Rows(t.Context(), ids[dag.OriginAPI])
	if err != nil || rows.Run.Params != `{"d":"b","s":"***"}` {
		t.Errorf("rows show %s, %v", rows.Run.Params, err)
	}
	sealed := workflow.SealedPrefix + "AAAA"
	wantProblem(t, b.post("/api/v1/runs", `{"workflow":"shop/w","params":{"s":"`+sealed+`"}}`), 422, api.ProblemInvalidParams)
	wantProblem(t, b.post("/api/v1/backfills", `{"workflow":"shop/w","params":{"s":"`+sealed+`"},"instants":["2001-01-01T00:00:00Z"]}`), 422, api.ProblemInvalidParams)
}
