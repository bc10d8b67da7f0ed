//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// ask sends a request unchanged, and returns status and body. It sends the token of the node's user, unless
// the header has an Authorization. If that is "", it sends no credential.
func (p *process) ask(method, path string, header map[string]string, body io.Reader) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, other := header["Authorization"]; !other {
		req.Header.Set("Authorization", "Bearer "+ownToken(p.t, p.data))
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v
		}
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error() // the connection was cut off, which some requests expect
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Errorf("%s %.100s: %v", method, path, err)
	}
	return resp.StatusCode, string(b)
}

// TestBadRequests: every invalid request is refused with a status 4xx and a problem, and changes nothing.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	p.apply("a", "  t: {run: 'echo hello'}\n")
	id := p.begin("a", nil)
	p.wantState(id, "succeeded")
	other := p.begin("a", nil)
	p.wantState(other, "succeeded")
	js := map[string]string{"Content-Type": "application/json"}
	rep := strings.Repeat
	for name, f := range map[string]struct {
		method, path string
		header       map[string]string
		body         string
		want         []int
	}{
		"no JSON":        {"POST", "/runs", js, "{", []int{400, 422}},
		"no body":        {"POST", "/runs", js, "", []int{400, 422}},
		"two":            {"POST", "/runs", js, `{"workflow":"a"}{"workflow":"a"}`, []int{400, 422}},
		"deep":           {"POST", "/runs", js, `{"workflow":"a","params":{"x":` + rep("[", 100_000) + rep("]", 100_000) + `}}`, []int{400, 422}},
		"list":           {"POST", "/runs", js, `[]`, []int{400, 422}},
		"null":           {"POST", "/runs", js, `null`, []int{400, 422}},
		"unknown field":  {"POST", "/runs", js, `{"workflow":"a","wrkflow":1}`, []int{422}},
		"wrong type":     {"POST", "/runs", js, `{"workflow":7}`, []int{422}},
		"unknown param":  {"POST", "/runs", js, `{"workflow":"a","params":{"x":1}}`, []int{422}},
		"NUL":            {"POST", "/runs", js, `{"workflow":"a\u0000"}`, []int{404, 422}},
		"NUL key":        {"POST", "/runs", js, `{"workflow":"a","idempotency_key":"\u0000"}`, []int{422}},
		"bad UTF-8":      {"POST", "/runs", js, "{\"workflow\":\"a\",\"idempotency_key\":\"\xff\xfe\"}", []int{400, 422, 202}},
		"long key":       {"POST", "/runs", js, `{"workflow":"a","idempotency_key":"` + rep("k", 256) + `"}`, []int{422}},
		"no workflow":    {"POST", "/runs", js, `{"workflow":"nobody"}`, []int{404}},
		"path workflow":  {"POST", "/runs", js, `{"workflow":"../../etc/passwd"}`, []int{404, 422}},
		"version":        {"POST", "/runs", js, `{"workflow":"a","version":99}`, []int{404}},
		"minus version":  {"POST", "/runs", js, `{"workflow":"a","version":-1}`, []int{422}},
		"great version":  {"POST", "/runs", js, `{"workflow":"a","version":1e99}`, []int{400, 422}},
		"priority":       {"POST", "/runs", js, `{"workflow":"a","priority":"urgent"}`, []int{422}},
		"big":            {"POST", "/runs", js, `{"workflow":"` + rep("a", 2<<20) + `"}`, []int{413}},
		"form":           {"POST", "/runs", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, "workflow=a", []int{415}},
		"text":           {"POST", "/runs", map[string]string{"Content-Type": "text/plain"}, `{"workflow":"a"}`, []int{415}},
		"rubbish type":   {"PUT", "/workflows/default/b", map[string]string{"Content-Type": ";;;"}, "name: b\n", []int{415}},
		"big definition": {"PUT", "/workflows/default/b", map[string]string{"Content-Type": "application/yaml"}, rep("# x\n", 9<<20), []int{413}},
		"other name":     {"PUT", "/workflows/default/b", map[string]string{"Content-Type": "application/yaml"}, "name: c\ntasks: {a: {run: x}}\n", []int{400, 409, 422}},
		"bad definition": {"PUT", "/workflows/default/b", map[string]string{"Content-Type": "application/yaml"}, "name: b\ntasks: {a: {rum: x}}\n", []int{422}},
		"file out":       {"PUT", "/workflows/default/b", js, `{"source":"name: b\ntasks: {a: {run: x}}\nfiles: ['x']\n","files":[{"name":"../x","data":""}]}`, []int{422}},
		"dir":            {"PUT", "/workflows/default/b", js, `{"source":"name: b\ntasks: {a: {run: x}}\n","dir":"relative"}`, []int{422}},
		"id":             {"GET", "/runs/rubbish", nil, "", []int{404, 422}},
		"zero id":        {"GET", "/runs/00000000-0000-0000-0000-000000000000", nil, "", []int{404}},
		"path id":        {"GET", "/runs/..%2f..%2fetc", nil, "", []int{404, 422}},
		"NUL id":         {"GET", "/runs/%00", nil, "", []int{404, 422}},
		"task":           {"GET", "/runs/" + id + "/tasks/..%2f..%2fpasswd/logs", nil, "", []int{404, 422}},
		"attempt":        {"GET", "/runs/" + id + "/tasks/t/logs?attempt=99", nil, "", []int{404}},
		"minus attempt":  {"GET", "/runs/" + id + "/tasks/t/logs?attempt=-1", nil, "", []int{422}},
		"offset":         {"GET", "/runs/" + id + "/tasks/t/logs?offset=x", nil, "", []int{422}},
		"far offset":     {"GET", "/runs/" + id + "/tasks/t/logs?offset=9223372036854775807", nil, "", []int{200, 416}},
		"far back":       {"GET", "/runs/" + id + "/tasks/t/logs?offset=-9223372036854775808", nil, "", []int{200, 416}},
		"zero limit":     {"GET", "/runs/" + id + "/tasks/t/logs?limit=0", nil, "", []int{422}},
		"range":          {"GET", "/runs/" + id + "/tasks/t/logs", map[string]string{"Range": "bytes=9-2"}, "", []int{416}},
		"ranges":         {"GET", "/runs/" + id + "/tasks/t/logs", map[string]string{"Range": "bytes=" + rep("0-0,", 5000) + "1-1"}, "", []int{200, 206, 416, 431}},
		"cursor":         {"GET", "/runs?cursor=rubbish", nil, "", []int{422}},
		"foreign cursor": {"GET", "/runs/" + id + "/tasks?cursor=" + url.QueryEscape(other), nil, "", []int{422}},
		"limit":          {"GET", "/runs?limit=-1", nil, "", []int{422}},
		"great limit":    {"GET", "/runs?limit=99999999999999999999", nil, "", []int{422}},
		"since":          {"GET", "/runs?since=yesterday", nil, "", []int{422}},
		"state":          {"GET", "/runs?state=lazy", nil, "", []int{422}},
		"unknown query":  {"GET", "/runs?nope=1", nil, "", []int{422}},
		"etag":           {"DELETE", "/workflows/default/a", map[string]string{"If-Match": "rubbish"}, "", []int{412, 422, 400}},
		"verb":           {"POST", "/runs/" + id + ":explode", js, "{}", []int{404, 405}},
		"late verb":      {"POST", "/runs/" + id + ":stop", js, "{}", []int{409}},
		"long reason":    {"POST", "/runs/" + id + ":stop", js, `{"reason":"` + rep("x", 1001) + `"}`, []int{422}},
		"method":         {"PATCH", "/runs", js, "{}", []int{405}},
		"nowhere":        {"GET", "/nowhere", nil, "", []int{404}},
		"host":           {"GET", "/runs", map[string]string{"Host": "evil.example"}, "", []int{421}},
		"rebound host":   {"GET", "/runs", map[string]string{"Host": "127.0.0.1.evil.example"}, "", []int{421}},
		"origin":         {"POST", "/runs", map[string]string{"Content-Type": "application/json", "Origin": "http://evil.example"}, `{"workflow":"a"}`, []int{403}},
		"null origin":    {"POST", "/runs", map[string]string{"Content-Type": "application/json", "Origin": "null"}, `{"workflow":"a"}`, []int{403}},
		"cross site":     {"POST", "/runs", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, `{"workflow":"a"}`, []int{403}},
		"user":           {"GET", "/runs", map[string]string{"Skein-Claimed-By": "a\tb"}, "", []int{422}},
		"topics":         {"GET", "/events?topics=" + rep("run:"+id+",", 1200), nil, "", []int{422, 431, 414}},
		"header bomb":    {"GET", "/runs", map[string]string{"X-Bomb": rep("x", 1<<20)}, "", []int{431, 0}},
	} {
		status, body := p.ask(f.method, api.Prefix+f.path, f.header, strings.NewReader(f.body))
		good := false
		for _, want := range f.want {
			good = good || status == want
		}
		var problem api.Problem
		if !good {
			t.Errorf("%s: want %v, got %d %.300s", name, f.want, status, body)
		}
		if status >= 400 && status != 431 && (json.Unmarshal([]byte(body), &problem) != nil || problem.Status != status || problem.Detail == "") {
			t.Errorf("%s: %d is no problem: %.300s", name, status, body)
		}
	}
	if got := p.logOf(id, "t", 1); got != "hello\n" {
		t.Errorf("the log is %q", got)
	}
	if strings.Contains(p.log.String(), "panic") {
		t.Errorf("it panicked: %s", p.log)
	}
	if _, err := p.Workflow(t.Context(), "b"); !errors.Is(err, skein.ErrNotFound) {
		t.Errorf("a refused definition is there: %v", err)
	}
	p.stop()
	w.verify()
}

// TestHalfRequests: connections that send garbage or half a request block no other caller.
func TestHalfRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	p.apply("a", "  t: {run: 'true'}\n")
	address := strings.TrimPrefix(p.url, "http://")
	for i := range 300 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		parts := []string{"", "GET / HT", "\x16\x03\x01\x00\xff", "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
			"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\nffffffffff\r\n"}
		if _, err := io.WriteString(c, parts[i%len(parts)]); err != nil {
			t.Fatal(err)
		}
	}
	p.wantState(p.begin("a", nil), "succeeded")
	p.stop() // none of the connections prevents the end of the server
}

// TestManyWatchers: a thousand streams, most of which read nothing, block no other caller.
func TestManyWatchers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	p.apply("a", "  t: {run: 'true'}\n  u: {run: 'true', needs: t}\n")
	address, token := strings.TrimPrefix(p.url, "http://"), ownToken(t, w.data)
	const streams, readers = 1000, 20
	var wg sync.WaitGroup
	defer wg.Wait()
	seen := make(chan string, streams)
	for i := range streams {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("stream %d: %q: %v", i, line, err)
		}
		if i >= readers {
			continue
		}
		wg.Go(func() {
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, "data:") && strings.Contains(line, `"succeeded"`) && strings.Contains(line, `"task":null`) {
					seen <- line
					return
				}
			}
		})
	}
	for range 5 {
		p.wantState(p.begin("a", nil), "succeeded")
	}
	for range readers {
		select {
		case <-seen:
		case <-p.ended:
			t.Fatal("the server ended")
		}
	}
	p.stop()
	w.verify()
}

// TestSubmissionStorm: many thousand concurrent starts. Each start with a 2xx is stored, each refusal has a
// reason, and one key from several callers starts one run.
func TestSubmissionStorm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	p.apply("none", "  a: {run: 'true', if: 'false'}\n")
	const all, clients, keys = 10_000, 200, 20
	var mu sync.Mutex
	accepted, byKey, busy := map[string]bool{}, map[string]map[string]bool{}, 0
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range all / clients {
				req := api.RunRequest{Workflow: "none"}
				if i < keys && c < 50 {
					req.IdempotencyKey = fmt.Sprint("key-", i)
				}
				run, _, err := p.Start(t.Context(), req)
				mu.Lock()
				switch {
				case errors.Is(err, skein.ErrBusy):
					busy++
				case err != nil:
					t.Errorf("submission: %v", err)
				default:
					accepted[run.ID] = true
					if req.IdempotencyKey != "" {
						if byKey[req.IdempotencyKey] == nil {
							byKey[req.IdempotencyKey] = map[string]bool{}
						}
						byKey[req.IdempotencyKey][run.ID] = true
					}
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d runs, %d refused as too many", len(accepted), busy)
	for key, ids := range byKey {
		if len(ids) != 1 {
			t.Errorf("%s made %d runs", key, len(ids))
		}
	}
	p.kill() // all acknowledged starts are on the disk
	p = w.server()
	there := map[string]bool{}
	for run, err := range p.EachRun(t.Context(), skein.RunsQuery{Workflow: "none", Limit: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		there[run.ID] = true
	}
	for id := range accepted {
		if !there[id] {
			t.Errorf("run %s was accepted and is not there", id)
		}
	}
	if len(there) != len(accepted) {
		t.Errorf("%d runs are there, %d were accepted", len(there), len(accepted))
	}
	w.eventually("all have ended", func() bool {
		page, err := p.Runs(t.Context(), skein.RunsQuery{State: "active", Limit: 1})
		return err == nil && len(page.Items) == 0
	})
	p.stop()
	w.verify()
}

// TestOddValues: unusual outputs, logs, parameters and variables of every kind are kept unchanged, or the
// task fails and the reason is reported.
func TestOddValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server("--slots", "8")
	for name, f := range map[string]struct{ task, state, says string }{
		"small":      {"run: 'echo a=1 >> $SKEIN_OUTPUT'", "succeeded", ""},
		"garbage":    {"run: 'head -c 1000 /dev/urandom > $SKEIN_OUTPUT'", "failed", "outputs"},
		"nul":        {"run: 'printf \"a=b\\\\0c\\\\n\" > $SKEIN_OUTPUT'", "failed", "NUL"},
		"escapednul": {`run: "printf '%s' '{\"a\":\"\\u0000\"}' > $SKEIN_OUTPUT"`, "failed", "NUL"},
		"latin1":     {"run: 'printf \"a=\\\\377\\\\n\" > $SKEIN_OUTPUT'", "failed", "UTF-8"},
		"giant":      {"run: 'head -c 70000 /dev/zero | tr \"\\\\0\" x | sed s/^/a=/ > $SKEIN_OUTPUT'", "failed", "larger than"},
		"just":       {"run: 'head -c 65000 /dev/zero | tr \"\\\\0\" x | sed s/^/a=/ > $SKEIN_OUTPUT'", "succeeded", ""},
		"huge":       {"run: 'truncate -s 10G $SKEIN_OUTPUT'", "failed", "larger than"},
		"fifo":       {"run: 'rm -f $SKEIN_OUTPUT; mkfifo $SKEIN_OUTPUT'", "failed", "regular"},
		"dir":        {"run: 'rm -f $SKEIN_OUTPUT; mkdir $SKEIN_OUTPUT'", "failed", "regular"},
		"link":       {"run: 'ln -sf /etc/passwd $SKEIN_OUTPUT'", "failed", "symbolic link"},
		"gone":       {"run: 'rm -f $SKEIN_OUTPUT'", "succeeded", ""},
		"nokey":      {"run: 'echo novalue > $SKEIN_OUTPUT'", "failed", "key=value"},
		"badkey":     {"run: 'echo a-b=1 > $SKEIN_OUTPUT'", "failed", "not a key"},
		"missing":    {"run: 'true', outputs: {rows: int}", "failed", "rows"},
		"noint":      {"run: 'echo rows=many > $SKEIN_OUTPUT', outputs: {rows: int}", "failed", "int"},
		"deepjson":   {"run: 'python3 -c \"print(chr(91)*20000+chr(93)*20000)\" | sed s/^/a=/ > $SKEIN_OUTPUT', outputs: {a: json}", "failed", "JSON"},
		"nonsense":   {"run: [/nonexistent/program]", "failed", "nonexistent"},
		"nodir":      {"run: 'true', dir: /nonexistent", "failed", "nonexistent"},
		"signal":     {"run: 'kill -SEGV $$'", "failed", "SIGSEGV"},
		"longargs":   {"run: [sh, -c, 'true', '" + strings.Repeat("x", 140_000) + "']", "failed", "too large"},
	} {
		p.apply("odd-"+name, "  a: {"+f.task+"}\n")
		run := p.wantState(p.begin("odd-"+name, nil), f.state)
		if a := run.Tasks[0].Attempts; len(a) != 1 || !strings.Contains(deref(a[0].Message), f.says) {
			t.Errorf("%s: does not say %q: %+v %q", name, f.says, a, deref(a[0].Message))
		}
	}
	odd := "line\nquote\" ' ` $HOME $(id) \\ \t%s ä€😀 {{x}} ${{ 1 }}" + strings.Repeat("y", 5000)
	_, err := p.Apply(t.Context(), "params", api.ApplyRequest{Dir: p.dir, Source: `
name: params
params:
  s: {type: string, default: ""}
  n: {type: int, default: 0}
  j: {type: json, default: null}
  f: {type: float, default: 0.0}
tasks:
  a:
    run: printf '%s|' "$S" "$N" "$J" "$F"
    env: {S: "${{ params.s }}", N: "${{ params.n }}", J: "${{ params.j }}", F: "${{ params.f }}"}
`})
	if err != nil {
		t.Fatal(err)
	}
	id := p.begin("params", api.Params{"s": odd, "n": json.Number("9007199254740993"), "j": map[string]any{"k\n\"": []any{odd, nil, true}}, "f": 1e300})
	p.wantState(id, "succeeded")
	if got := p.logOf(id, "a", 1); !strings.HasPrefix(got, odd+"|9007199254740993|") {
		t.Errorf("the task saw %.300q", got)
	}
	for _, bad := range []api.Params{{"s": "a\x00b"}, {"n": "many"}, {"n": 1.5}, {"n": json.Number("9223372036854775808")}, {"nope": 1}, {"j": strings.Repeat("z", 2<<20)}} {
		if _, _, err := p.Start(t.Context(), api.RunRequest{Workflow: "params", Params: bad}); !errors.Is(err, skein.ErrInvalid) {
			t.Errorf("%.60v was taken: %v", bad, err)
		}
	}
	p.apply("bytes", "  a: {run: \"head -c 100000 /dev/urandom | tee kept; printf '\\\\377\\\\000\\\\033[2J'\"}\n")
	id = p.begin("bytes", nil)
	p.wantState(id, "succeeded")
	if got := p.logOf(id, "a", 1); !bytes.Equal([]byte(got), []byte(w.read("kept")+"\xff\x00\x1b[2J")) {
		t.Error("the bytes of a log were changed")
	}
	p.stop()
	w.verify()
}

// TestOddExpressions: an expression that fails, or would cost too much, makes its task fail, or is refused
// before. The node continues to run.
func TestOddExpressions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	for name, f := range map[string]string{
		"zero":   `"1 / (size(tasks.a.outputs.x) - 1) > 0"`,
		"index":  `"tasks.a.outputs.j[99] == 1"`,
		"key":    `"tasks.a.outputs.j.nope == 1"`,
		"kind":   `"tasks.a.outputs.j > 'x'"`,
		"regex":  `"tasks.a.outputs.x.matches('(((a*)*)*)*$')"`,
		"int":    `"int(tasks.a.outputs.x) == 5"`,
		"nested": `"tasks.a.outputs.l.all(x, tasks.a.outputs.l.all(y, tasks.a.outputs.l.all(z, tasks.a.outputs.l.all(u, x + y + z + u >= 0))))"`,
	} {
		source := fmt.Sprintf(`
name: %s
tasks:
  a:
    run: "echo x=a >> $SKEIN_OUTPUT; echo 'j=[1,2]' >> $SKEIN_OUTPUT; seq -s, 0 2000 | sed 's/^/l=[/; s/$/]/' >> $SKEIN_OUTPUT"
    outputs: {x: string, j: json, l: json}
  b: {run: "true", needs: a, if: %s}
  c: {run: "true", needs: a}
`, name, f)
		_, err := p.Apply(t.Context(), name, api.ApplyRequest{Source: source})
		if errors.Is(err, skein.ErrInvalid) {
			continue // a refusal of the workflow is also correct
		}
		if err != nil {
			t.Fatal(name, err)
		}
		run := p.ends(p.begin(name, nil))
		if c := taskOf(t, &run, "c"); c.State != "succeeded" {
			t.Errorf("%s: the other task is %s", name, c.State)
		}
		if b := taskOf(t, &run, "b"); b.State == "failed" && deref(b.Message) == "" && deref(b.Cause) == "" {
			t.Errorf("%s: it does not say why: %+v", name, b)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := p.Ready(ctx); err != nil {
		t.Error(err)
	}
	p.stop()
	w.verify()
}
