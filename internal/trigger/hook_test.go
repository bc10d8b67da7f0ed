package trigger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

func sign(secret, signed string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return hex.EncodeToString(mac.Sum(nil))
}

func header(pairs ...string) map[string][]string {
	h := map[string][]string{}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
	}
	return h
}

func TestVerifyHook(t *testing.T) {
	const secret, body, stamp = "s3cret", `{"ref":"main","n":2}`, 1_767_225_600
	now := dag.Micros(stamp)*second + 3
	v1 := func(at int, signed string) map[string][]string {
		return header("X-Skein-Signature", fmt.Sprintf("t=%d,v1=%s", at, sign(secret, fmt.Sprintf("%d.%s", at, signed))))
	}
	v2 := func(id, signed string) map[string][]string {
		return header("X-Skein-Signature", fmt.Sprintf("t=%d,id=%s,v2=%s", stamp, id, sign(secret, fmt.Sprintf("v2:%d:%s:%s", stamp, id, signed))))
	}
	github := func(signed string, more ...string) map[string][]string {
		return header(append([]string{"X-Hub-Signature-256", "sha256=" + sign(secret, signed)}, more...)...)
	}
	hook := func(filter string, unsigned ...string) *workflow.Trigger {
		return decl(workflow.KindWebhook, func(d *workflow.Trigger) {
			d.Webhook = &workflow.Webhook{Secret: "hook", Filter: filter, Unsigned: unsigned}
		})
	}
	const target = "shop/orders/hook?ref=main"
	v3 := func(id, target, signed string) map[string][]string {
		return header("X-Skein-Signature", fmt.Sprintf("t=%d,id=%s,v3=%s", stamp, id, sign(secret, fmt.Sprintf("v3:%d:%s:%s\n%s", stamp, id, target, signed))))
	}
	standard := func(id string, at int, signed string) map[string][]string {
		mac, err := hex.DecodeString(sign(secret, fmt.Sprintf("%s.%d.%s", id, at, signed)))
		if err != nil {
			t.Fatal(err)
		}
		return header("Webhook-Id", id, "Webhook-Timestamp", fmt.Sprint(at), "Webhook-Signature", "v1,AAAA v1a,AAAA v1,"+base64.StdEncoding.EncodeToString(mac))
	}
	for _, c := range []struct {
		name   string
		decl   *workflow.Trigger
		header map[string][]string
		body   string
		want   error
		key    string
	}{
		{"v1", hook(""), v1(stamp, body), body, nil, "hook/"},
		{"v2", hook(""), v2("order-17", body), body, nil, "id/order-17"},
		{"GitHub", hook(""), github(body), body, nil, "hook/"},
		{"GitHub's form", hook(""), github("payload=%7B%7D"), "payload=%7B%7D", nil, "hook/"},
		{"an old secret beside the new one", hook(""), header("X-Skein-Signature", fmt.Sprintf("t=%d,v1=%s,v1=%s", stamp, sign("old", fmt.Sprintf("%d.%s", stamp, body)), sign(secret, fmt.Sprintf("%d.%s", stamp, body)))), body, nil, "hook/"},
		{"five minutes old", hook(""), v1(stamp-300, body), body, nil, "hook/"},
		{"older", hook(""), v1(stamp-301, body), body, ErrStale, ""},
		{"of the future", hook(""), v1(stamp+301, body), body, ErrStale, ""},
		{"no signature", hook(""), nil, body, ErrSignature, ""},
		{"another body", hook(""), v1(stamp, body), body + " ", ErrSignature, ""},
		{"another time", hook(""), header("X-Skein-Signature", fmt.Sprintf("t=%d,v1=%s", stamp+1, sign(secret, fmt.Sprintf("%d.%s", stamp, body)))), body, ErrSignature, ""},
		{"another secret", hook(""), header("X-Hub-Signature-256", "sha256="+sign("other", body)), body, ErrSignature, ""},
		{"an id that nobody signed", hook(""), header("X-Skein-Signature", v1(stamp, body)["X-Skein-Signature"][0]+",id=fresh"), body, ErrSignature, ""},
		{"another id", hook(""), header("X-Skein-Signature", strings.Replace(v2("a", body)["X-Skein-Signature"][0], "id=a", "id=b", 1)), body, ErrSignature, ""},
		{"v1 turned into GitHub's, for ever", hook(""), github(fmt.Sprintf("%d.%s", stamp, body)), fmt.Sprintf("%d.%s", stamp, body), ErrSignature, ""},
		{"v2 turned into GitHub's", hook(""), github("v2:1:a:" + body), "v2:1:a:" + body, ErrSignature, ""},
		{"v1 with a body that looks like v2", hook(""), header("X-Skein-Signature", fmt.Sprintf("t=%d,id=x,v2=%s", stamp, sign(secret, fmt.Sprintf("%d.x:%s", stamp, body)))), body, ErrSignature, ""},
		{"odd time", hook(""), header("X-Skein-Signature", "t=+5,v1="+sign(secret, "+5."+body)), body, ErrSignature, ""},
		{"no hex", hook(""), header("X-Hub-Signature-256", "sha256=zz"), body, ErrSignature, ""},
		{"large", hook(""), github(body), strings.Repeat("x", HookBytesMax+1), ErrTooLarge, ""},
		{"filter holds", hook(`event.body.ref == "main"`), github(body), body, nil, "hook/"},
		{"filter does not", hook(`event.body.ref == "dev"`), github(body), body, ErrFiltered, ""},
		{"filter sees unsigned headers that are named", hook(`event.headers["x-github-event"] == "push"`, "headers.x-github-event"), github(body, "X-Github-Event", "push"), body, nil, "hook/"},
		{"filter sees no other header", hook(`event.headers["x-github-event"] == "push"`), github(body, "X-Github-Event", "push"), body, ErrFilter, ""},
		{"filter sees no unsigned query", hook(`event.query.ref == "main"`), v1(stamp, body), body, ErrFilter, ""},
		{"filter sees an unsigned query that is named", hook(`event.query.ref == "main"`, "query.ref"), v1(stamp, body), body, nil, "hook/"},
		{"v3", hook(`event.query.ref == "main"`), v3("order-17", target, body), body, nil, "id/order-17"},
		{"v3 for another trigger", hook(""), v3("order-17", "shop/orders/other?ref=main", body), body, ErrSignature, ""},
		{"v3 with another query", hook(""), v3("order-17", target+"&admin=yes", body), body, ErrSignature, ""},
		{"v3 without an id", hook(""), v3("", target, body), body, ErrSignature, ""},
		{"v3 that does not hold, with a v1 that does", hook(""), header("X-Skein-Signature", v1(stamp, body)["X-Skein-Signature"][0]+",id=a,v3=00"), body, ErrSignature, ""},
		{"Standard Webhooks", hook(""), standard("msg_1", stamp, body), body, nil, "id/msg_1"},
		{"Standard Webhooks, late", hook(""), standard("msg_1", stamp-301, body), body, ErrStale, ""},
		{"Standard Webhooks, another body", hook(""), standard("msg_1", stamp, body), body + " ", ErrSignature, ""},
		{"Standard Webhooks, a dot in the id", hook(""), standard("msg.1", stamp, body), body, ErrSignature, ""},
		{"Standard Webhooks, an id that is a time", hook(""), standard(fmt.Sprint(stamp), stamp, body), body, ErrSignature, ""},
		{"Standard Webhooks, a query", hook(`event.query.ref == "main"`), standard("msg_1", stamp, body), body, ErrFilter, ""},
		{"filter cannot be evaluated", hook(`event.body.missing == 1`), github(body), body, ErrFilter, ""},
		{"after its end", func() *workflow.Trigger { d := hook(""); d.End = "2025-01-01"; return d }(), github(body), body, ErrFiltered, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := VerifyHook(c.decl, [][]byte{[]byte(secret)}, Call{Header: c.header, Query: header("ref", "main"), Body: []byte(c.body), Target: target}, now)
			if !errors.Is(err, c.want) || !strings.HasPrefix(got.Key, c.key) || (got.Key == "") != (c.want != nil) {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	one, err := VerifyHook(hook(""), [][]byte{[]byte(secret)}, Call{Header: github(body, "X-Github-Delivery", "1"), Body: []byte(body)}, now)
	two, err2 := VerifyHook(hook(""), [][]byte{[]byte(secret)}, Call{Header: github(body, "X-Github-Delivery", "2"), Body: []byte(body)}, now+99*hour)
	if err != nil || err2 != nil || one.Key != two.Key {
		t.Errorf("the same call under a fresh id is another event: %s, %s", one.Key, two.Key)
	}
	coded := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key of sixteen bytes"))
	mac := sum([]byte("a key of sixteen bytes"), []byte(fmt.Sprintf("msg_1.%d.%s", stamp, body)))
	call := Call{Header: header("Webhook-Id", "msg_1", "Webhook-Timestamp", fmt.Sprint(stamp), "Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac)), Body: []byte(body)}
	if got, err := VerifyHook(hook(""), [][]byte{[]byte(coded)}, call, now); err != nil || got.Form != FormStandard {
		t.Errorf("a secret in the form of Standard Webhooks: %+v, %v", got, err)
	}
	for name, h := range map[string]map[string][]string{"v1": v1(stamp, body), "GitHub": github(body)} {
		got, err := VerifyHook(hook(""), [][]byte{[]byte(secret)}, Call{Header: h, Body: []byte(body), Target: target}, now)
		other, err2 := VerifyHook(hook(""), [][]byte{[]byte(secret)}, Call{Header: h, Body: []byte(body), Target: "shop/orders/other"}, now)
		if err != nil || err2 != nil || got.Seen != other.Seen || !strings.HasPrefix(got.Seen.Scope, store.CallScope) || got.Seen.Key == "" {
			t.Errorf("%s: one call is known by two names: %v, %v", name, got.Seen, other.Seen)
		}
	}
	if _, err := VerifyHook(hook(""), nil, Call{Header: header("X-Hub-Signature-256", "sha256="+sign("", body)), Body: []byte(body)}, now); !errors.Is(err, ErrSignature) {
		t.Errorf("an empty secret: %v", err)
	}
	if _, err := VerifyHook(cronDecl("0 * * * *", nil), [][]byte{[]byte(secret)}, Call{}, now); err == nil {
		t.Error("a schedule takes calls")
	}
}

func TestHookEvent(t *testing.T) {
	c := Call{Header: header("X-Hub-Signature-256", "x", "Authorization", "x", "Cookie", "x", "Content-Type", "text/plain"),
		Query: header("a", "1", "a", "2"), Body: []byte("no json \xff\x00")}
	all := []string{"headers.x-hub-signature-256", "headers.authorization", "headers.cookie", "headers.content-type", "headers.x-long", "query.a"}
	if got := string(c.event(false, all)); got != "{\"body\":\"no json \uFFFD\\u0000\","+`"headers":{"content-type":"text/plain"},"query":{"a":"1"}}` {
		t.Error(got)
	}
	c.Body, c.Header = []byte(`{"a": [1.50, 12345678901234567890]}`), header("X-Long", strings.Repeat("x", hookHeaderBytesMax+1))
	if got := string(c.event(false, nil)); !strings.HasSuffix(got, `"headers":{},"query":{}}`) {
		t.Error(got)
	}
	if got := string(c.event(true, all)); got != `{"body":{"a":[1.50,12345678901234567890]},"headers":{},"query":{"a":"1"}}` {
		t.Error(got)
	}
}

func FuzzVerifyHook(f *testing.F) {
	f.Add("t=1767225600,v1=00", "sha256=00", []byte("{}"))
	f.Add("t=1,id=a,v2=00,v1=", "", []byte("payload="))
	f.Add("t=1767225600,id=a,v3=00", "", []byte("{}"))
	d := decl(workflow.KindWebhook, func(d *workflow.Trigger) { d.Webhook = &workflow.Webhook{Secret: "hook"} })
	f.Fuzz(func(t *testing.T, skein, hub string, body []byte) {
		_, err := VerifyHook(d, [][]byte{[]byte("a secret nobody guesses")}, Call{Header: header("X-Skein-Signature", skein, "X-Hub-Signature-256", hub), Body: body}, 1_767_225_600*second)
		if err == nil {
			t.Fatal("taken")
		}
	})
}

// TestVerifyHookOfSeveral: a call that is signed with any key of a webhook is accepted, and each key
// remembers its own calls. A call that no key has signed, or that a further key has signed, is refused.
func TestVerifyHookOfSeveral(t *testing.T) {
	const stamp, body = 1_767_225_600, `{"ref":"main"}`
	now := dag.Micros(stamp) * second
	keys := [][]byte{[]byte("new"), []byte("older"), []byte("oldest"), []byte("one too many")}
	decl := &workflow.Trigger{Name: "h", Kind: workflow.KindWebhook, Webhook: &workflow.Webhook{}}
	call := func(key string, at int64) Call {
		mac := hex.EncodeToString(sum([]byte(key), fmt.Appendf(nil, "%d.%s", at, body)))
		return Call{Header: map[string][]string{"X-Skein-Signature": {fmt.Sprintf("t=%d,v1=%s", at, mac)}}, Body: []byte(body), Target: "shop/orders/h"}
	}
	scopes := map[string]bool{}
	for i, key := range keys {
		got, err := VerifyHook(decl, keys, call(string(key), stamp), now)
		if want := i < HookKeysMax; (err == nil) != want || !want && !errors.Is(err, ErrSignature) {
			t.Errorf("signed with %s: %v", key, err)
		}
		scopes[got.Seen.Scope] = true
		if _, err := VerifyHook(decl, keys, call(string(key), stamp-400), now); i < HookKeysMax && !errors.Is(err, ErrStale) {
			t.Errorf("signed with %s, late: %v", key, err)
		}
	}
	if len(scopes) != len(keys) { // one more is the scope of the refused call
		t.Errorf("the calls are remembered under %v", scopes)
	}
	for _, none := range [][][]byte{nil, {nil}, {{}, {}}} {
		if _, err := VerifyHook(decl, none, call("", stamp), now); !errors.Is(err, ErrSignature) {
			t.Errorf("without a secret: %v", err)
		}
	}
}
