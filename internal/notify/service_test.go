package notify_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/store"
)

// told returns the notices of one incident: the opening, an escalation, and the end.
func told(t *testing.T) (all []store.Notice) {
	t.Helper()
	rule := &alert.Rule{Name: "failed", On: []alert.Event{alert.Failed}, To: []string{"ops"}, Severity: "error", Message: "see *the* runbook",
		Escalate: []alert.Rung{{After: 1_000_000, To: []string{"ops"}}}}
	h := alert.Happening{Event: alert.Failed, Run: "0199a000-0000-7000-8000-000000000001", Origin: dag.OriginManual, Cause: "task", Message: "task load failed: <exit> code_1",
		At: 1_767_225_600_000_000, ID: uuid.MustParse("0199a000-0000-7000-8000-00000000000a"), Of: alert.Subject{Workflow: 5, Namespace: "shop", Name: "orders"}}
	first := alert.Step(rule, nil, &h)
	second := rule.Climb(first.Incident, h.At+1_000_000)
	last := alert.Close(second.Incident, alert.Word{Run: "0199a000-0000-7000-8000-000000000002", At: h.At + 2_000_000})
	return append(append(first.Notices, second.Notices...), last.Notices...)
}

// TestServices compares the bodies that the vendors get with the forms that they document.
func TestServices(t *testing.T) {
	type got struct{ path, body string }
	for name, c := range map[string]struct {
		config string // with %s for the address of the server
		want   []got
	}{
		"pagerduty": {`{"pagerduty":{"key":{"secret":"skey"},"url":"%s/v2/enqueue"}}`, []got{
			{"/v2/enqueue", `{"client":"Skein","dedup_key":"0199a000-0000-7000-8000-00000000000a","event_action":"trigger","payload":{"class":"failed","component":"orders","custom_details":{"cause":"task","count":1,"incident":"0199a000-0000-7000-8000-00000000000a","message":"see *the* runbook","reason":"task load failed: <exit> code_1","rule":"failed","run":"0199a000-0000-7000-8000-000000000001"},"group":"shop","severity":"error","source":"shop/orders","summary":"shop/orders: run 0199a000-0000-7000-8000-000000000001 failed: task load failed: <exit> code_1","timestamp":"2026-01-01T00:00:00Z"},"routing_key":"KEY"}`},
			{"/v2/enqueue", `"event_action":"trigger"`},
			{"/v2/enqueue", `"event_action":"resolve"`},
		}},
		"alertmanager": {`{"alertmanager":{"url":"%s/"}}`, []got{
			{"/api/v2/alerts", `[{"annotations":{"description":`},
			{"/api/v2/alerts", `"endsAt":"2026-01-31T00:00:01Z","labels":{"alertname":"SkeinAlert","incident":"0199a000-0000-7000-8000-00000000000a","namespace":"shop","rule":"failed","severity":"error","workflow":"orders"},"startsAt":"2026-01-01T00:00:00Z"}]`},
			{"/api/v2/alerts", `"endsAt":"2026-01-01T00:00:02Z","labels":{"alertname":"SkeinAlert","incident":"0199a000-0000-7000-8000-00000000000a","namespace":"shop","rule":"failed","severity":"error","workflow":"orders"},"startsAt":"2026-01-01T00:00:00Z"}]`},
		}},
		"teams": {`{"teams":{"url":{"secret":"surl"}}}`, []got{
			{"/hook", `{"attachments":[{"content":{"$schema":"http://adaptivecards.io/schemas/adaptive-card.json","body":[{"color":"Attention","text":"\\[error\\] shop/orders: run`},
			{"/hook", `see \\*the\\* runbook`},
			{"/hook", `"type":"AdaptiveCard","version":"1.4"},"contentType":"application/vnd.microsoft.card.adaptive","contentUrl":null}],"type":"message"}`},
		}},
		"discord": {`{"discord":{"url":{"secret":"surl"}}}`, []got{
			{"/hook", `{"allowed_mentions":{"parse":[]},"content":"**[error] shop/orders: run`},
			{"/hook", `(not acknowledged)`},
			{"/hook", `**[resolved] shop/orders is resolved`},
		}},
		"telegram": {`{"telegram":{"token":{"secret":"skey"},"chat":"-100123","url":"%s"}}`, []got{
			{"/botKEY/sendMessage", `{"chat_id":"-100123","link_preview_options":{"is_disabled":true},"text":"[error] shop/orders: run`},
			{"/botKEY/sendMessage", `task load failed: <exit> code_1`},
			{"/botKEY/sendMessage", `[resolved]`},
		}},
		"googlechat": {`{"googlechat":{"url":{"secret":"surl"}}}`, []got{
			{"/hook", `{"text":"*[error] shop/orders: run`}, {"/hook", `&lt;exit&gt;`}, {"/hook", `*[resolved]`},
		}},
		"dingtalk": {`{"dingtalk":{"url":{"secret":"surl"}}}`, []got{
			{"/hook", `{"msgtype":"text","text":{"content":"[error] shop/orders: run`}, {"/hook", `see *the* runbook\n`}, {"/hook", `[resolved]`},
		}},
		"feishu": {`{"feishu":{"url":{"secret":"surl"}}}`, []got{
			{"/hook", `{"card":{"elements":[{"tag":"div","text":{"content":"see *the* runbook\nWorkflow: shop/orders\n`},
			{"/hook", `"header":{"template":"red","title":{"content":"[error] shop/orders: run`},
			{"/hook", `"header":{"template":"green","title":{"content":"[resolved] shop/orders is resolved`},
		}},
		"wecom": {`{"wecom":{"url":{"secret":"surl"}}}`, []got{
			{"/hook", `{"msgtype":"text","text":{"content":"[error] shop/orders: run`}, {"/hook", `task load failed: <exit> code_1`}, {"/hook", `[resolved]`},
		}},
		"ntfy": {`{"ntfy":{"topic":"alerts","token":{"secret":"skey"},"url":"%s/"}}`, []got{
			{"/", `{"message":"see *the* runbook\nWorkflow: shop/orders\n`},
			{"/", `"priority":4,"title":"[error] shop/orders: run`},
			{"/", `"priority":3,"title":"[resolved] shop/orders is resolved`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var heard []got
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var plain any
				if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(body, &plain) != nil {
					t.Errorf("%s %v %s", r.Method, r.Header, body)
				}
				body, _ = marshal(plain)
				heard = append(heard, got{strings.ReplaceAll(r.URL.Path, "the-key-of-a-vendor", "KEY"), strings.ReplaceAll(string(body), "the-key-of-a-vendor", "KEY")})
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, `{"errcode":0,"code":0}`)
			}))
			defer server.Close()
			for _, n := range told(t) {
				err := notify.Send(t.Context(), strings.ReplaceAll(c.config, "%s", server.URL), map[string]string{"skey": "the-key-of-a-vendor", "surl": server.URL + "/hook"}, &n)
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(heard) != len(c.want) {
				t.Fatalf("%d calls: %v", len(heard), heard)
			}
			for i := range heard {
				if heard[i].path != c.want[i].path || !strings.Contains(heard[i].body, c.want[i].body) {
					t.Errorf("call %d: %s %s\nwant %s %s", i+1, heard[i].path, heard[i].body, c.want[i].path, c.want[i].body)
				}
			}
		})
	}
}

// marshal writes JSON without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return []byte(b.String()), err
}

// TestServicesHideKeys: an error shows neither the key nor the address, whatever the vendor repeats.
func TestServicesHideKeys(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "no good: "+r.URL.Path+" "+string(body[:min(len(body), 120)]))
		_, _ = w.Write(body[max(0, len(body)-120):])
	}))
	defer server.Close()
	secrets := map[string]string{"skey": "the-key-of-a-vendor", "surl": server.URL + "/a-secret-path/with-a-token"}
	notice := told(t)[0]
	for _, config := range []string{
		`{"pagerduty":{"key":{"secret":"skey"},"url":"` + server.URL + `"}}`,
		`{"telegram":{"token":{"secret":"skey"},"chat":"@ops","url":"` + server.URL + `"}}`,
		`{"teams":{"url":{"secret":"surl"}}}`, `{"discord":{"url":{"secret":"surl"}}}`, `{"googlechat":{"url":{"secret":"surl"}}}`,
		`{"dingtalk":{"url":{"secret":"surl"},"secret":{"secret":"skey"}}}`, `{"feishu":{"url":{"secret":"surl"},"secret":{"secret":"skey"}}}`, `{"wecom":{"url":{"secret":"surl"}}}`,
		`{"ntfy":{"topic":{"secret":"skey"},"url":{"secret":"surl"}}}`,
	} {
		err := notify.Send(t.Context(), config, secrets, &notice)
		if err == nil || !strings.Contains(err.Error(), "400") || strings.Contains(err.Error(), "the-key") || strings.Contains(err.Error(), "a-secret-path") {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// TestParseServices refuses configurations that would show a key, or that cannot work.
func TestParseServices(t *testing.T) {
	for config, want := range map[string]string{
		`{"teams":{"url":"https://x.example"}}`:                                  "teams.url must be {secret: NAME}",
		`{"discord":{"url":"https://x.example"}}`:                                "discord.url must be {secret: NAME}",
		`{"googlechat":{"url":"https://x.example"}}`:                             "googlechat.url must be {secret: NAME}",
		`{"pagerduty":{"key":"abc"}}`:                                            "pagerduty.key must be {secret: NAME}",
		`{"pagerduty":{"key":{"secret":"a"},"url":"x"}}`:                         "pagerduty.url",
		`{"telegram":{"token":"abc","chat":"1"}}`:                                "telegram.token must be {secret: NAME}",
		`{"telegram":{"token":{"secret":"a"},"chat":"ops"}}`:                     "telegram.chat must be",
		`{"dingtalk":{"url":"https://x.example"}}`:                               "dingtalk.url must be {secret: NAME}",
		`{"feishu":{"url":{"secret":"a"},"secret":"key"}}`:                       "feishu.secret must be {secret: NAME}",
		`{"wecom":{"url":{"secret":"a"},"secret":{"secret":"b"}}}`:               "unknown field",
		`{"ntfy":{"topic":"a/b","token":{"secret":"a"}}}`:                        "ntfy.topic must be 1 to 64",
		`{"ntfy":{"topic":"alerts"}}`:                                            "ntfy.topic must be {secret: NAME}",
		`{"ntfy":{"topic":"alerts","token":"tk"}}`:                               "ntfy.token must be {secret: NAME}",
		`{"ntfy":{"topic":{"secret":"a"},"url":"x"}}`:                            "ntfy.url",
		`{"alertmanager":{"url":"x"}}`:                                           "alertmanager.url",
		`{"alertmanager":{"url":"http://x.example"},"log":{}}`:                   "a channel has one kind",
		`{"discord":{"url":{"secret":"a"}},"googlechat":{"url":{"secret":"a"}}}`: "a channel has one kind",
	} {
		if _, err := notify.Parse([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
	for _, config := range []string{`{"pagerduty":{"key":{"secret":"a"}}}`, `{"telegram":{"token":{"secret":"a"},"chat":"-1"}}`, `{"alertmanager":{"url":"http://x.example:9093"}}`,
		`{"ntfy":{"topic":"alerts","token":{"secret":"a"},"url":"http://ntfy.internal"}}`} {
		if _, err := notify.Parse([]byte(config)); err != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
}
