package server_test

import (
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestClasses: when a workflow is applied, its tasks get the values that the class has at that time. If the
// class changes, the same file makes a new version, and applied versions stay the same.
func TestClasses(t *testing.T) {
	b := newBed(t, true)
	const file = "name: w\ntasks:\n  a: {run: x, resources: heavy}\n"
	p := wantProblem(t, b.do("PUT", "/api/v1/workflows/default/w", file, "Content-Type", "application/yaml"), 422, api.ProblemInvalidWorkflow)
	if len(p.Errors) != 1 || p.Errors[0].Line != 3 || !strings.Contains(p.Errors[0].Message, "heavy") {
		t.Errorf("%+v", p)
	}
	for name, body := range map[string]string{"basic": `{"cpu":1}`, "Heavy": `{"cpu":1}`, "none": `{}`, "tiny": `{"cpu":0.0001}`, "huge": `{"cpu":10001}`} {
		wantProblem(t, b.do("PUT", "/api/v1/classes/"+name, body), 422, api.ProblemInvalid)
	}
	made := want[api.Class](t, b.do("PUT", "/api/v1/classes/heavy", `{"cpu":2.5}`), 200)
	if made.CPU != 2.5 || made.Memory != 0 || made.Builtin || made.CreatedAt == nil {
		t.Errorf("%+v", made)
	}
	b.restart()
	apply := func(status int) api.Applied {
		return want[api.Applied](t, b.do("PUT", "/api/v1/workflows/default/w", file, "Content-Type", "application/yaml"), status)
	}
	if w := apply(201); w.Version != 1 || !w.Changed {
		t.Errorf("%+v", w)
	}
	if w := apply(200); w.Version != 1 || w.Changed {
		t.Errorf("applied again: %+v", w)
	}
	want[api.Class](t, b.do("PUT", "/api/v1/classes/heavy", `{"memory":1024}`), 200)
	if w := apply(200); w.Version != 2 || !w.Changed {
		t.Errorf("applied after a change of the class: %+v", w)
	}
	all := want[api.List[api.Class]](t, b.get("/api/v1/classes"), 200).Items
	if len(all) != 4 || all[0].Name != "basic" || !all[0].Builtin || all[3].Name != "heavy" || all[3].CPU != 0 || all[3].Memory != 1024 {
		t.Errorf("%+v", all)
	}
	if a := b.do("DELETE", "/api/v1/classes/heavy", ""); a.status != 204 {
		t.Errorf("%+v", a)
	}
	wantProblem(t, b.do("DELETE", "/api/v1/classes/heavy", ""), 404, api.ProblemNotFound)
	wantProblem(t, b.do("DELETE", "/api/v1/classes/basic", ""), 404, api.ProblemNotFound)
	if v := want[api.Validation](t, b.post("/api/v1/validate", file, "Content-Type", "application/yaml"), 200); len(v.Errors) != 1 {
		t.Errorf("%+v", v)
	}
}
