package server_test

import (
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestApprovalForm: answers are checked before the decision, and become outputs that conditions read.
func TestApprovalForm(t *testing.T) {
	b := newBed(t, true)
	b.put("refund", `name: refund
tasks:
  ok: {approval: {message: Pay?, form: {amount: {type: number, min: 0}, way: {type: enum, options: [cash, card], default: card}}}}
  big: {needs: ok, if: "tasks.ok.outputs.amount > 100.0", run: "true"}
  small: {needs: ok, if: "tasks.ok.outputs.amount <= 100.0 && tasks.ok.outputs.way == 'card'", run: "true"}
`)
	run := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"refund"}`), 202)
	task := "/api/v1/runs/" + run.ID + "/tasks/ok"
	eventually(t, "the approval", func() bool { return want[api.Task](t, b.get(task), 200).State == "deferred" })
	for body, part := range map[string]string{
		`{}`:                                           `"key":"answers.amount"`,
		`{"answers":{"amount":-1}}`:                    `"key":"answers.amount"`,
		`{"answers":{"amount":"x"}}`:                   `"key":"answers.amount"`,
		`{"answers":{"amount":1,"way":"gold"}}`:        `"key":"answers.way"`,
		`{"answers":{"amount":1,"approved_by":"cfo"}}`: `"key":"answers.approved_by"`,
		`{"reject":true,"answers":{"amount":1}}`:       `"code":"invalid"`,
	} {
		if a := b.post(task+":approve", body); a.status != 422 || !strings.Contains(string(a.body), part) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if s := want[api.Task](t, b.get(task), 200).State; s != "deferred" {
		t.Fatalf("after refused answers the task is %s", s)
	}
	done := want[api.Task](t, b.post(task+":approve", `{"answers":{"amount":"25"}}`), 200)
	for _, part := range []string{`"amount":25.0`, `"way":"card"`, `"approved_by":`} {
		if !strings.Contains(string(done.Outputs), part) {
			t.Errorf("outputs %s lack %s", done.Outputs, part)
		}
	}
	eventually(t, "the end", func() bool { return b.ended(run.ID) })
	for name, state := range map[string]string{"big": "skipped", "small": "succeeded"} {
		if s := want[api.Task](t, b.get("/api/v1/runs/"+run.ID+"/tasks/"+name), 200).State; s != state {
			t.Errorf("%s is %s, want %s", name, s, state)
		}
	}
}

// TestMarkForm: a mark of an approval with a form needs the answers that an approval needs.
func TestMarkForm(t *testing.T) {
	b := newBed(t, true)
	b.put("refund", `name: refund
tasks:
  ok: {approval: {form: {amount: {type: number, max: 9}, way: {type: enum, options: [cash, card], default: card}}}}
  pay: {needs: ok, if: "tasks.ok.outputs.amount > 1.0", run: "true"}
`)
	run := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"refund"}`), 202)
	task := "/api/v1/runs/" + run.ID + "/tasks/ok"
	eventually(t, "the approval", func() bool { return want[api.Task](t, b.get(task), 200).State == "deferred" })
	for body, part := range map[string]string{
		`{"state":"succeeded","reason":"r"}`:                                                      `"key":"answers.amount"`,
		`{"state":"succeeded","reason":"r","texts":{"amount":"10"}}`:                              `"key":"answers.amount"`,
		`{"state":"succeeded","reason":"r","outputs":{"amount":5,"way":"gold"}}`:                  `"key":"answers.way"`,
		`{"state":"succeeded","reason":"r","outputs":{"amount":5},"texts":{"approved_by":"cfo"}}`: `"code":"invalid"`,
		`{"state":"succeeded","reason":"r","outputs":{"amount":5},"texts":{"amount":"5"}}`:        `"code":"invalid"`,
	} {
		if a := b.post(task+":mark", body); a.status != 422 || !strings.Contains(string(a.body), part) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	want[api.Task](t, b.post(task+":mark", `{"state":"succeeded","reason":"by phone","texts":{"amount":"5"}}`), 202)
	eventually(t, "the end", func() bool { return b.ended(run.ID) })
	done := want[api.Task](t, b.get(task), 200)
	for _, part := range []string{`"amount":5.0`, `"way":"card"`, `"comment":"by phone"`} {
		if !strings.Contains(string(done.Outputs), part) {
			t.Errorf("outputs %s lack %s", done.Outputs, part)
		}
	}
}
