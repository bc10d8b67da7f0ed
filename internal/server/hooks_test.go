package server_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

const hookPath = "/api/v1/hooks/default/timed/hook"

func mac(secret, text string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// signed returns the headers of a signed call.
func signed(at time.Time, body string) []string {
	t := fmt.Sprint(at.Unix())
	return []string{"X-Skein-Signature", "t=" + t + ",v1=" + mac("s3cret", t+"."+body)}
}

func TestWebhook(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", strings.Replace(timed, "tasks:", "  - {name: any, webhook: {secret: hook}, overlap: allow}\ntasks:", 1))
	const body = `{"ref":"main","n":1}`
	proof := signed(time.Now(), body)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	a := b.post(hookPath+"?from=there", body, append(proof, api.HeaderClaimedBy, "mallory", "Traceparent", trace)...)
	o := want[api.Occurrence](t, a, 202)
	if o.Outcome != "fired" || o.Run == nil || o.Existing || o.Key == nil || a.header.Get("Location") != "/api/v1/runs/"+*o.Run {
		t.Errorf("%+v", o)
	}
	run := must(b.client.Run(t.Context(), *o.Run))
	if run.Origin != "sensor" || *run.Trigger != "hook" || run.User != "" {
		t.Errorf("%+v", run)
	}
	if row := must(b.engine.RunRow(t.Context(), must(dag.ParseRunID(*o.Run)))); row.Trace() != trace {
		t.Errorf("the trace of the run is %q", row.Trace())
	}
	again := want[api.Occurrence](t, b.post(hookPath, body, proof...), 200)
	if !again.Existing || *again.Run != *o.Run {
		t.Errorf("the same call once more: %+v", again)
	}
	hub := want[api.Occurrence](t, b.post(hookPath, body, "X-Hub-Signature-256", "sha256="+mac("s3cret", body)), 202)
	if *hub.Run == *o.Run {
		t.Errorf("%+v", hub)
	}
	const other = `{"ref":"topic"}`
	no := want[api.Occurrence](t, b.post(hookPath, other, signed(time.Now(), other)...), 200)
	if no.Outcome != "filtered" || no.Run != nil || no.Key != nil || no.Reason == nil {
		t.Errorf("%+v", no)
	}
	if fires := want[api.List[api.Fire]](t, b.get(oneSchedule+"hook/fires"), 200); len(fires.Items) != 2 || fires.Items[0].Key == nil {
		t.Errorf("%+v", fires.Items)
	}
	// Any media type is accepted, and so is an empty body.
	want[api.Occurrence](t, b.do("POST", "/api/v1/hooks/default/timed/any", "not JSON", append(signed(time.Now(), "not JSON"), "Content-Type", "text/plain")...), 202)
	want[api.Occurrence](t, b.post("/api/v1/hooks/default/timed/any", "", signed(time.Now(), "")...), 202)
}

func TestBadCallsOfWebhooks(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", strings.Replace(timed, "tasks:", "  - {name: odd, webhook: {secret: hook, filter: \"event.body.n > 1\"}}\ntasks:", 1))
	const body = `{"ref":"main"}`
	now := time.Now()
	sentences := map[string]bool{}
	for name, headers := range map[string][]string{
		"unsigned":     nil,
		"empty":        {"X-Skein-Signature", ""},
		"rubbish":      {"X-Skein-Signature", "trust me"},
		"other body":   signed(now, body+" "),
		"old":          signed(now.Add(-time.Hour), body),
		"of to-morrow": signed(now.Add(24*time.Hour), body),
		"other secret": {"X-Hub-Signature-256", "sha256=" + mac("guess", body)},
		"other hash":   {"X-Hub-Signature-256", "sha1=" + mac("s3cret", body)},
	} {
		p := wantProblem(t, b.post(hookPath, body, headers...), 401, api.ProblemSignature)
		if sentences[p.Detail] = true; len(sentences) != 1 {
			t.Errorf("%s: the sentence tells something: %v", name, sentences)
		}
	}
	wantProblem(t, b.post(hookPath, strings.Repeat("x", 1<<20+1)), 413, api.ProblemTooLarge)
	exact := `{"ref":"main","x":"` + strings.Repeat("x", 1<<20-22) + `"}`
	exact = exact[:len(exact)-2] + `"}`
	if a := b.post(hookPath, exact, signed(now, exact)...); len(exact) > 1<<20 || a.status != 202 {
		t.Errorf("%d bytes: %d %.200s", len(exact), a.status, a.body)
	}
	// A stranger learns neither which webhooks exist nor which of them have a secret.
	for _, path := range []string{"timed/none", "timed/nightly", "none/hook", "timed/lost"} {
		for _, headers := range [][]string{nil, signed(now, body)} {
			p := wantProblem(t, b.post("/api/v1/hooks/default/"+path, body, headers...), 401, api.ProblemSignature)
			if sentences[p.Detail] = true; len(sentences) != 1 {
				t.Errorf("%s: the sentence tells something: %v", path, sentences)
			}
		}
	}
	wantProblem(t, b.post("/api/v1/hooks/default/timed/odd", body, signed(now, body)...), 422, api.ProblemInvalid)
	must(b.client.PauseSchedule(t.Context(), "timed", "hook", ""))
	wantProblem(t, b.post(hookPath, body, signed(now, body)...), 409, api.ProblemConflict)
	wantProblem(t, b.post(hookPath, body), 401, api.ProblemSignature) // without a signature, the caller does not learn that the trigger is paused
	if a := b.get(hookPath); a.status != 405 {
		t.Errorf("GET: %d", a.status)
	}
}

func TestForeignCallersOfWebhooks(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", timed)
	const body = `{"ref":"main"}`
	call := func(headers ...string) answer {
		return b.post(hookPath, body, append(signed(time.Now(), body), headers...)...)
	}
	if a := call("Host", "my-tunnel.example"); a.status != 202 {
		t.Errorf("by way of a tunnel: %d %s", a.status, a.body)
	}
	wantProblem(t, call("Origin", "http://evil.example"), 403, api.ProblemForeignOrigin)
	wantProblem(t, call("Sec-Fetch-Site", "cross-site"), 403, api.ProblemForeignOrigin)
	for _, path := range []string{"/api/v1/hooks", "/api/v1/hooksome/x", "/api/v1/schedules", "/api/v1/hooks/../schedules", "/api/v1/x/../hooks/default/timed/hook"} {
		a := b.do("GET", path, "", "Host", "my-tunnel.example")
		if a.status != 421 && a.status != 404 && a.status != 405 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestTooManyCallsOfWebhooks(t *testing.T) {
	b := newBed(t, true)
	b.put("timed", strings.Replace(timed, "secret: gone", "secret: slow", 1))
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 64 {
		calls.Go(func() {
			// This call is refused if it arrives together with the calls below; then it is repeated.
			for ctx.Err() == nil {
				req := must(http.NewRequestWithContext(ctx, "POST", b.http.URL+"/api/v1/hooks/default/timed/lost", nil))
				if resp, err := b.http.Client().Do(req); err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	const body = `{"ref":"main"}`
	var a answer
	eventually(t, "no place is free", func() bool {
		a = b.post(hookPath, body, signed(time.Now(), body)...)
		return a.status == 429
	})
	wantProblem(t, a, 429, api.ProblemBusy)
	if a.header.Get("Retry-After") == "" {
		t.Errorf("%v", a.header)
	}
	cancel()
	calls.Wait()
	eventually(t, "places are free again", func() bool { return b.post(hookPath, body, signed(time.Now(), body)...).status < 300 })
}

// TestReplayedCalls: a call that has fired a trigger fires no other trigger with the same secret, not even
// after a rename, or after the workflow was deleted and applied again.
func TestReplayedCalls(t *testing.T) {
	const workflow = `
name: hooked
params: {admin: {type: string, default: "no"}}
triggers:
  - {name: in, webhook: {secret: hook}, overlap: allow}
  - {name: in2, webhook: {secret: hook}, overlap: allow}
  - {name: gate, webhook: {secret: hook, filter: "has(event.query.admin)"}, overlap: allow}
  - {name: loose, webhook: {secret: hook, filter: "has(event.query.admin)", unsigned: [query.admin]}, overlap: allow}
  - {name: odd, webhook: {secret: hook, filter: "event.query.level == '2'", unsigned: [query.level]}, overlap: allow}
  - {name: signs, webhook: {secret: hook, filter: "event.query == {'list': 'a;b', 'share': '5%', 'mark': '', 'a b': 'ö'}"}, overlap: allow}
tasks:
  a: {run: "true"}
`
	b := newBed(t, true)
	b.put("hooked", workflow)
	const path = "/api/v1/hooks/default/hooked/"
	hub := func(body string) []string { return []string{"X-Hub-Signature-256", "sha256=" + mac("s3cret", body)} }
	stamp := fmt.Sprint(time.Now().Unix())
	calls := map[string][]string{
		`{"n":1}`: signed(time.Now(), `{"n":1}`),
		`{"n":2}`: hub(`{"n":2}`),
		`{"n":3}`: {"X-Skein-Signature", "t=" + stamp + ",id=order-3,v2=" + mac("s3cret", "v2:"+stamp+":order-3:"+`{"n":3}`)},
	}
	for body, proof := range calls {
		first := want[api.Occurrence](t, b.post(path+"in", body, proof...), 202)
		again := want[api.Occurrence](t, b.post(path+"in", body, proof...), 200)
		if !again.Existing || *again.Run != *first.Run {
			t.Errorf("the same call once more: %+v", again)
		}
		wantProblem(t, b.post(path+"in2", body, proof...), 401, api.ProblemSignature)
	}
	b.put("hooked", strings.Replace(workflow, "name: in,", "name: renamed,", 1))
	for body, proof := range calls {
		wantProblem(t, b.post(path+"renamed", body, proof...), 401, api.ProblemSignature)
	}
	if a := b.do("DELETE", "/api/v1/workflows/default/hooked", ""); a.status >= 300 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	b.put("hooked", workflow)
	for body, proof := range calls {
		wantProblem(t, b.post(path+"in", body, proof...), 401, api.ProblemSignature)
	}
	// Values that are not signed have no effect. v3 also signs the query.
	const body = `{"n":4}`
	if o := want[api.Occurrence](t, b.post(path+"gate?admin=yes", body, hub(body)...), 200); o.Outcome != "filtered" {
		t.Errorf("an unsigned query: %+v", o)
	}
	v3 := "t=" + stamp + ",id=order-4,v3=" + mac("s3cret", "v3:"+stamp+":order-4:default/hooked/gate?admin=yes\n"+body)
	wantProblem(t, b.post(path+"gate", body, "X-Skein-Signature", v3), 401, api.ProblemSignature)
	wantProblem(t, b.post(path+"gate?admin=yes&more=1", body, "X-Skein-Signature", v3), 401, api.ProblemSignature)
	want[api.Occurrence](t, b.post(path+"gate?admin=yes", body, "X-Skein-Signature", v3), 202)
	// The filter sees each parameter that is signed, also if it has characters that not all parsers of queries
	// accept.
	const query = "list=a;b&share=5%&mark&a+b=%C3%B6"
	signs := "t=" + stamp + ",id=order-5,v3=" + mac("s3cret", "v3:"+stamp+":order-5:default/hooked/signs?"+query+"\n"+body)
	if o := want[api.Occurrence](t, b.post(path+"signs?"+query, body, "X-Skein-Signature", signs), 202); o.Outcome != "fired" {
		t.Errorf("a query with semicolons and percent signs: %+v", o)
	}
	// A filtered call fires nothing later, whatever its unsigned values.
	const late = `{"n":5}`
	if o := want[api.Occurrence](t, b.post(path+"loose", late, hub(late)...), 200); o.Outcome != "filtered" {
		t.Errorf("the call that is filtered first: %+v", o)
	}
	if o := want[api.Occurrence](t, b.post(path+"loose?admin=yes", late, hub(late)...), 200); o.Outcome != "filtered" || o.Run != nil {
		t.Errorf("it came again with an unsigned query that passes: %+v", o)
	}
	wantProblem(t, b.post(path+"in", late, hub(late)...), 401, api.ProblemSignature)
	// A call whose filter could not be evaluated fires nothing later, either.
	const odd = `{"n":6}`
	wantProblem(t, b.post(path+"odd", odd, hub(odd)...), 422, api.ProblemInvalid)
	if o := want[api.Occurrence](t, b.post(path+"odd?level=2", odd, hub(odd)...), 200); o.Outcome != "filtered" || o.Run != nil {
		t.Errorf("it came again with an unsigned query over which the filter can be evaluated: %+v", o)
	}
	page := b.get("/metrics")
	if page.status != http.StatusOK {
		t.Fatalf("the metrics: %d %s", page.status, page.body)
	}
	for _, line := range []string{`skein_webhook_calls_total{form="hub",outcome="replayed"} 4`, `skein_webhook_calls_total{form="v3",outcome="taken"} 2`,
		`skein_webhook_calls_total{form="",outcome="unsigned"} 2`} {
		if !strings.Contains(page.body, line) {
			t.Errorf("the metrics do not have %s:\n%s", line, page.body)
		}
	}
}

// TestCallsOfAnotherNodesHooks: a call that another node answers is counted there, not here as failed.
func TestCallsOfAnotherNodesHooks(t *testing.T) {
	b := &bed{t: t, dir: t.TempDir(), auto: true, frozen: &frozen{}, logs: &logs{text: map[server.LogRef][]byte{}}}
	b.start()
	t.Cleanup(func() { b.stop() })
	b.put("timed", timed)
	const body = `{"ref":"main"}`
	b.frozen.away = true
	b.restart()
	a := b.post(hookPath, body, signed(time.Now(), body)...)
	if a.status != http.StatusServiceUnavailable || a.header.Get("X-Skein-Elsewhere") == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if strings.Contains(b.get("/metrics").body, "skein_webhook_calls_total{") {
		t.Error("the call is counted")
	}
}

// TestStrangersLearnNothing: the answer to an unsigned call is equal to the answer for a missing webhook,
// byte for byte and in all headers, also if another node owns the shard of the webhook. However many calls
// come, the log has one line, about the secret that is missing.
func TestStrangersLearnNothing(t *testing.T) {
	b := &bed{t: t, dir: t.TempDir(), auto: true, frozen: &frozen{}, logs: &logs{text: map[server.LogRef][]byte{}}}
	b.start()
	t.Cleanup(func() { b.stop() })
	b.put("timed", timed)
	for _, away := range []bool{false, true} {
		b.frozen.away = away
		b.said = &said{}
		b.restart()
		var first string
		for _, path := range []string{"timed/hook", "timed/hoot", "timid/hook", "timed/lost"} {
			for _, proof := range [][]string{nil, {"X-Hub-Signature-256", "sha256=" + mac("guess", "{}")}, {"X-Skein-Signature", "t=1,v1=" + mac("s3cret", "1.{}")}} {
				a := b.post("/api/v1/hooks/default/"+path, "{}", proof...)
				a.header.Del("Date")
				is := fmt.Sprint(a.status, a.header, strings.ReplaceAll(a.body, path, "X"))
				if first == "" {
					first = is
				}
				if is != first || a.status != http.StatusUnauthorized {
					t.Errorf("away %v, %s, %v: %s\nand not %s", away, path, proof, is, first)
				}
			}
		}
		if lines := b.said.lines(); len(lines) != 1 || !strings.Contains(lines[0], "code=no_secret") {
			t.Errorf("away %v, the log has %d lines:\n%s", away, len(lines), strings.Join(lines, "\n"))
		}
	}
}

// said is a log in memory.
type said struct {
	mu   sync.Mutex // protects following fields
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.FieldsFunc(s.text.String(), func(r rune) bool { return r == '\n' })
}

// TestSecretOfAWebhook: calls of a webhook that names no secret are signed with the secret that Skein made.
// During a rotation, the earlier secret is also accepted. The secret of another trigger is never accepted. No
// answer shows a secret again.
func TestSecretOfAWebhook(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "cluster", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	for _, role := range []string{"editor", "admin"} {
		b.token(store.Token{Name: role, Principal: b.principal(role, store.PrincipalActive, store.Binding{Role: role, Namespace: "web"}), Verbs: "*", Namespaces: "*"})
	}
	const source = `
name: made
namespace: web
triggers:
  - {name: in, webhook: {}, overlap: allow}
  - {name: in2, webhook: {}, overlap: allow}
  - {name: file, webhook: {secret: hook}}
  - {name: daily, daily: "06:00"}
tasks: {a: {run: "true"}}
`
	put := func() {
		t.Helper()
		if a := b.do("PUT", "/api/v1/workflows/web/made", source, "Content-Type", "application/yaml"); a.status >= 300 {
			t.Fatal(a.status, a.body)
		}
	}
	put()
	const at = "/schedules/web/made/"
	rotate := func(who, trigger, body string, status int, says string) (is api.HookSecret) {
		t.Helper()
		got, text := b.call(who, "POST", at+trigger+":secret", body, "Content-Type", "application/json")
		if got != status || !strings.Contains(text, says) {
			t.Fatalf("%s, %s: %d %s, want %d and %s", who, trigger, got, text, status, says)
		}
		if got == 200 {
			must(0, json.Unmarshal([]byte(text), &is))
		}
		return is
	}
	n := 0
	call := func(trigger, secret string, status int) {
		t.Helper()
		n++
		body, id, stamp := fmt.Sprintf(`{"n":%d}`, n), fmt.Sprintf("msg_%d", n), fmt.Sprint(time.Now().Unix())
		key := must(base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")))
		h := hmac.New(sha256.New, key)
		h.Write([]byte(id + "." + stamp + "." + body))
		a := b.do("POST", "/api/v1/hooks/web/made/"+trigger, body, "Content-Type", "application/json", "Webhook-Id", id, "Webhook-Timestamp", stamp,
			"Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)))
		if a.status != status {
			t.Fatalf("%s: %d %s, want %d", trigger, a.status, a.body, status)
		}
	}
	guess := "whsec_" + base64.StdEncoding.EncodeToString(digestOf("guess"))
	call("in", guess, 401)
	rotate("editor", "in", "", 403, "secret.write")
	rotate("admin", "daily", "", 422, "only a webhook")
	rotate("admin", "file", "", 409, "remove the key secret")
	rotate("admin", "none", "", 404, "")
	rotate("admin", "in", `{"grace":"8d"}`, 422, "grace")
	one, of2 := rotate("admin", "in", "", 200, "whsec_"), rotate("admin", "in2", "", 200, "whsec_")
	call("in", one.Secret, 202)
	call("in2", of2.Secret, 202)
	call("in", of2.Secret, 401)
	call("in", guess, 401)
	two := rotate("admin", "in", "", 200, "whsec_")
	if len(two.Earlier) != 1 || time.Until(two.Earlier[0].Time) < 23*time.Hour || two.Secret == one.Secret || two.Workflow != "web/made" || two.Trigger != "in" {
		t.Errorf("%+v", two)
	}
	call("in", one.Secret, 202)
	call("in", two.Secret, 202)
	rotate("admin", "in", "", 200, "whsec_")
	rotate("admin", "in", "", 409, "--grace 0s")
	call("in", one.Secret, 202)
	last := rotate("admin", "in", `{"grace":"0s"}`, 200, `"earlier":[]`)
	call("in", one.Secret, 401)
	call("in", two.Secret, 401)
	call("in", last.Secret, 202)
	for _, path := range []string{"/secrets", "/schedules/web/made/in", "/workflows/web/made/versions/1"} {
		if status, text := b.call("cluster", "GET", path, ""); status != 200 || strings.Contains(text, "whsec_") || strings.Contains(text, "__hook") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	// The secret ends with the workflow.
	if a := b.do("DELETE", "/api/v1/workflows/web/made", ""); a.status >= 300 {
		t.Fatal(a.status, a.body)
	}
	put()
	call("in", last.Secret, 401)
}

func digestOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}
