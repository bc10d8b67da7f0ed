package server_test

import (
	"maps"
	"net/url"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestTags: runs have the tags of their workflow and of their start, and lists find them.
func TestTags(t *testing.T) {
	b := newBed(t, true)
	w := b.put("tagged", "name: tagged\ntags: {team: data, tier: gold}\ntasks: {a: {run: x}}\n")
	b.apply("plain")
	if !maps.Equal(w.Tags, api.Tags{"team": "data", "tier": "gold"}) {
		t.Errorf("the workflow has %v", w.Tags)
	}
	start := func(body string, status int) api.Run {
		t.Helper()
		return want[api.Run](t, b.post("/api/v1/runs", body, "Prefer", "wait=60", "Idempotency-Key", "k"), status)
	}
	run := start(`{"workflow":"tagged","tags":{"order":"17","tier":"iron"}}`, 201)
	if tags := (api.Tags{"team": "data", "tier": "iron", "order": "17"}); !maps.Equal(run.Tags, tags) {
		t.Errorf("the run has %v", run.Tags)
	}
	if again := start(`{"workflow":"tagged","tags":{"order":"17","tier":"iron"}}`, 200); again.ID != run.ID {
		t.Error("the same key and tags started another run")
	}
	if a := b.post("/api/v1/runs", `{"workflow":"tagged","tags":{"order":"18"}}`, "Idempotency-Key", "k"); a.status != 409 {
		t.Errorf("the same key with other tags: %d %s", a.status, a.body)
	}
	if plain := b.run("plain"); plain.Tags != nil {
		t.Errorf("a run without tags has %v", plain.Tags)
	}
	again := want[api.Run](t, b.post("/api/v1/runs/"+run.ID+":rerun", `{}`, "Prefer", "wait=60"), 202)
	if !maps.Equal(again.Tags, run.Tags) {
		t.Errorf("the rerun has %v", again.Tags)
	}
	eventually(t, "the end of the rerun", func() bool { return b.ended(again.ID) })
	list := func(query string) (names []string) {
		t.Helper()
		for _, r := range want[api.List[api.Run]](t, b.get("/api/v1/runs?"+query), 200).Items {
			names = append(names, r.Workflow)
		}
		return names
	}
	for query, n := range map[string]int{
		"tag=order%3D17": 2, "tag=order%3D17&tag=team%3Ddata": 2, "tag=order%3D17&tag=team%3Dops": 0, "tag=order%3D1": 0,
		"tag=order%3D17&workflow=plain": 0, "tag=order%3D17&state=failed": 0, "tag=order%3D17&state=succeeded": 2,
	} {
		if got := list(query); len(got) != n {
			t.Errorf("%s lists %v, want %d", query, got, n)
		}
	}
	flows := want[api.List[api.Workflow]](t, b.get("/api/v1/workflows?tag=tier%3Dgold"), 200)
	if len(flows.Items) != 1 || flows.Items[0].Name != "tagged" {
		t.Errorf("workflows with the tag: %+v", flows.Items)
	}
	for _, bad := range []string{"team", "=x", "team=", "a b=c", "team=\n"} {
		if a := b.get("/api/v1/runs?tag=" + url.QueryEscape(bad)); a.status != 422 {
			t.Errorf("tag %q: %d %s", bad, a.status, a.body)
		}
	}
	for _, bad := range []string{`{"a b":"c"}`, `{"a":""}`, `{"a":"1","b":"1","c":"1","d":"1","e":"1","f":"1","g":"1","h":"1","i":"1"}`} {
		if a := b.post("/api/v1/runs", `{"workflow":"plain","tags":`+bad+`}`); a.status != 422 {
			t.Errorf("tags %s: %d %s", bad, a.status, a.body)
		}
	}
}
