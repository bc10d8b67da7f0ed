package server_test

import (
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestMarkOutputs: a mark needs the outputs that the task declares, or it is refused.
func TestMarkOutputs(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	run := b.run("w")
	path := "/api/v1/runs/" + run.ID + "/tasks/a:mark"
	for outputs, want := range map[string]string{
		`"outputs":{"rows":"5"}`:                              `"rows" must be an int (64 bits), not "5"`,
		`"outputs":{"rows":5.5}`:                              `"rows" must be an int (64 bits), not 5.5`,
		`"outputs":{"more":5}`:                                "declares the output rows (int), which is missing",
		`"outputs":{"rows":5},"texts":{"rows":"5"}`:           "rows is given twice",
		`"outputs":{"rows":5,"a b":1}`:                        `"a b" is not a key`,
		`"outputs":{"rows":1e999}`:                            "number",
		`"outputs":{"rows":` + strings.Repeat("9", 1e5) + `}`: "9999",
		`"texts":{"rows":"five"}`:                             `"rows" must be an int (64 bits), not "five"`,
		`"texts":{"rows":"` + strings.Repeat("9", 1e5) + `"}`: "must be an int",
	} {
		a := b.post(path, `{"state":"succeeded","reason":"x",`+outputs+`}`)
		if a.status != 422 && a.status != 400 || !strings.Contains(string(a.body), strings.ReplaceAll(want, `"`, `\"`)) || len(a.body) > 2000 {
			t.Errorf("%.80s: %d %.3000s", outputs, a.status, a.body)
		}
	}
	if now := want[api.Run](t, b.get("/api/v1/runs/"+run.ID), 200); now.Generation != 1 {
		t.Errorf("generation %d", now.Generation)
	}
	want[api.Task](t, b.post(path, `{"state":"succeeded","reason":"as it is"}`), 202)
	task := want[api.Task](t, b.post(path, `{"state":"succeeded","reason":"x","outputs":{"rows":9007199254740993}}`), 202)
	if string(task.Outputs) != `{"rows":9007199254740993}` {
		t.Errorf("outputs %s", task.Outputs)
	}
	wantProblem(t, b.post("/api/v1/runs/"+run.ID+"/tasks/zz:mark", `{"state":"succeeded","reason":"x"}`), 404, api.ProblemNotFound)
}
