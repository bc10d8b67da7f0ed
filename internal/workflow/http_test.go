package workflow

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
)

const requests = `
name: w
params: {day: string, n: int, token: string, rows: json, path: {default: "/x"}}
defaults: {retry: {max: 2, delay: 10s}, timeout: 1m}
tasks:
  a: {http: {url: "http://warehouse/health", expect: {status: 200}}}
  b:
    needs: a
    foreach: [eu, us]
    http:
      method: POST
      url: "https://warehouse/${{ params.day }}/${{ item }}"
      headers: {Authorization: "Bearer ${{ params.token }}", X-Status: "${{ tasks.a.outputs.status }}"}
      body: {day: "${{ params.day }}", n: "${{ params.n }}", list: ["${{ item }} x", 1.5, null, true], rows: "${{ params.rows }}"}
      timeout: 5s
      expect: {status: [200, 201], body: ok}
      answer: json
      keep: [ETag, Location]
    retry: {max: 1}
  c: {needs: b, http: {method: PUT, url: "http://h${{ params.path }}", body: "n is ${{ params.n }}", headers: {Content-Type: text/csv}, answer: text}}
  d: {needs: [b, c], run: x, env: {S: "${{ tasks.c.outputs.status + 1 }}", B: "${{ tasks.c.outputs.body }}", E: "${{ tasks.b.outputs.map(o, o.headers.etag) }}"}}
`

func TestRequests(t *testing.T) {
	w := must(t, requests)
	again, err := Decode(mustJSON(t, w))
	if err != nil {
		t.Fatal(err)
	}
	if p := again.Policy(1); p.Retry.Max != 1 || p.Timeout != time.Minute {
		t.Errorf("%+v", p)
	}
	in := Inputs{Params: []byte(`{"day":"mon","n":7,"token":"s3cret","rows":[{"a":1}],"path":"/p?q=1"}`), Item: []byte(`"eu"`),
		Outputs: func(string) (json.RawMessage, dag.TaskState) { return []byte(`{"status":200}`), dag.Succeeded }}
	for task, want := range map[int]string{
		0: `GET http://warehouse/health [] `,
		1: `POST https://warehouse/mon/eu [{Authorization Bearer s3cret} {X-Status 200} {Content-Type application/json}] ` +
			`{"day":"mon","list":["eu x",1.5,null,true],"n":7,"rows":[{"a":1}]}`,
		2: `PUT http://h/p?q=1 [{Content-Type text/csv}] n is 7`,
	} {
		res, err := again.Resolve(task, in)
		if err != nil {
			t.Fatal(err)
		}
		s := res.Request
		if got := s.Method + " " + s.URL + " " + textOf(s.Headers) + " " + string(s.Body); got != want {
			t.Errorf("task %d is %s, want %s", task, got, want)
		}
	}
	if reads := again.ReadsOutputs(1); len(reads) != 1 || reads[0] != "a" {
		t.Errorf("it reads %v", reads)
	}
	for params, want := range map[string]string{
		`{"path":":port/"}`:               "url: this is not a valid address; write it as https://HOST/PATH",
		`{"path":"/","n":1,"day":"a\nb"}`: "",
	} {
		in.Params = []byte(params)
		if _, err := again.Resolve(2, in); want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %s", params, err, want)
		}
	}
	in.Params = []byte(`{"day":"mon","n":7,"token":"a\r\nX-Other: b","rows":1}`)
	if _, err := again.Resolve(1, in); err == nil || !strings.Contains(err.Error(), "header Authorization has more than one line") {
		t.Errorf("a header of two lines: %v", err)
	}
	in.Params = []byte(`{"day":"mon","n":7,"token":"t","rows":"` + strings.Repeat("x", 60<<10) + `"}`)
	if _, err := again.Resolve(1, in); err != nil {
		t.Error(err)
	}
}

func textOf(headers []KV) string {
	var all []string
	for _, h := range headers {
		all = append(all, "{"+h.Name+" "+h.Value+"}")
	}
	return "[" + strings.Join(all, " ") + "]"
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
