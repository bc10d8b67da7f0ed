package notify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"skein.dev/skein/internal/notify"
)

// bot is a server that takes the messages of bots, and answers with a given body.
type bot struct {
	*httptest.Server
	answer string
	code   int
	query  map[string][]string
	header http.Header
	body   []byte
}

func newBot(t *testing.T) *bot {
	b := &bot{answer: `{"errcode":0,"errmsg":"ok","code":0}`, code: http.StatusOK}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.query, b.header = r.URL.Query(), r.Header
		b.body, _ = io.ReadAll(r.Body)
		w.WriteHeader(b.code)
		_, _ = io.WriteString(w, b.answer)
	}))
	t.Cleanup(b.Close)
	return b
}

// sign returns the signature that a vendor expects.
func sign(key, text string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// TestBotsSign checks that DingTalk and Feishu can verify the messages, and that ntfy gets the token.
func TestBotsSign(t *testing.T) {
	b, n := newBot(t), told(t)[0]
	secrets := map[string]string{"skey": "SEC0123456789", "surl": b.URL + "/robot/send?access_token=abc"}
	if err := notify.Send(t.Context(), `{"dingtalk":{"url":{"secret":"surl"},"secret":{"secret":"skey"}}}`, secrets, &n); err != nil {
		t.Fatal(err)
	}
	at := b.query["timestamp"]
	if len(at) != 1 || len(at[0]) != 13 || b.query["access_token"][0] != "abc" || b.query["sign"][0] != sign(secrets["skey"], at[0]+"\n"+secrets["skey"]) {
		t.Errorf("DingTalk: %v", b.query)
	}
	if err := notify.Send(t.Context(), `{"feishu":{"url":{"secret":"surl"},"secret":{"secret":"skey"}}}`, secrets, &n); err != nil {
		t.Fatal(err)
	}
	var card struct{ Timestamp, Sign string }
	if err := json.Unmarshal(b.body, &card); err != nil || len(card.Timestamp) != 10 || card.Sign != sign(card.Timestamp+"\n"+secrets["skey"], "") {
		t.Errorf("Feishu: %s, %v", b.body, err)
	}
	if err := notify.Send(t.Context(), `{"ntfy":{"topic":"alerts","token":{"secret":"skey"},"url":"`+b.URL+`"}}`, secrets, &n); err != nil {
		t.Fatal(err)
	}
	if got := b.header.Get("Authorization"); got != "Bearer SEC0123456789" {
		t.Errorf("ntfy: %q", got)
	}
}

// TestBotsAnswer checks the meaning of the codes in the body of an answer.
func TestBotsAnswer(t *testing.T) {
	b, n := newBot(t), told(t)[0]
	for _, c := range []struct {
		kind, answer string
		code         int
		want         string // ok, again or never
	}{
		{"dingtalk", `{"errcode":0,"errmsg":"ok"}`, 200, "ok"},
		{"dingtalk", `{"errcode":310000,"errmsg":"sign not match"}`, 200, "never"},
		{"dingtalk", `{"status":1111,"wait":5,"errcode":130101,"errmsg":"send too fast, exceed 20 times per minute"}`, 200, "again"},
		{"dingtalk", `{"errcode":-1,"errmsg":"busy"}`, 200, "again"},
		{"feishu", `{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}`, 200, "ok"},
		{"feishu", `{"code":19021,"msg":"sign match fail"}`, 200, "never"},
		{"feishu", `{"code":11232,"msg":"frequency limited"}`, 400, "again"},
		{"feishu", `{"code":9499,"msg":"Bad Request","data":{}}`, 400, "never"},
		{"wecom", `{"errcode":0,"errmsg":"ok"}`, 200, "ok"},
		{"wecom", `{"errcode":93000,"errmsg":"invalid webhook url"}`, 200, "never"},
		{"wecom", `{"errcode":45009,"errmsg":"api freq out of limit"}`, 200, "again"},
		{"wecom", `<html>sign in</html>`, 200, "again"},
		{"wecom", `{"errcode":null}`, 200, "again"},
		{"wecom", `{"errcode":"310000"}`, 200, "again"},
		{"wecom", `{"errcode":0}`, 502, "again"},
		{"wecom", `gone`, 404, "never"},
	} {
		b.answer, b.code = c.answer, c.code
		err := notify.Send(t.Context(), `{"`+c.kind+`":{"url":{"secret":"surl"}}}`, map[string]string{"surl": b.URL + "/robot?key=abc"}, &n)
		var never *notify.PermanentError
		var again *notify.AgainError
		got := "ok"
		if errors.As(err, &never) {
			got = "never"
		} else if errors.As(err, &again) {
			got = "again"
		}
		if got != c.want || err != nil && got == "ok" {
			t.Errorf("%s answers %d %s: %v, want %s", c.kind, c.code, c.answer, err, c.want)
		}
	}
}

// TestBotsLimits checks that long messages keep to the limits of the services, also if JSON needs 6 bytes for
// each byte.
func TestBotsLimits(t *testing.T) {
	b, n := newBot(t), told(t)[0]
	var notice map[string]any
	if err := json.Unmarshal(n.Data, &notice); err != nil {
		t.Fatal(err)
	}
	for _, long := range []string{strings.Repeat("<", 6000), strings.Repeat("程", 3000), strings.Repeat("<@all> ", 1000)} {
		notice["text"] = long
		n.Data, _ = json.Marshal(notice)
		for kind, config := range map[string]string{
			"dingtalk": `{"dingtalk":{"url":{"secret":"surl"}}}`, "feishu": `{"feishu":{"url":{"secret":"surl"}}}`,
			"wecom": `{"wecom":{"url":{"secret":"surl"}}}`, "ntfy": `{"ntfy":{"topic":{"secret":"topic"},"url":{"secret":"surl"}}}`,
		} {
			if err := notify.Send(t.Context(), config, map[string]string{"surl": b.URL, "topic": "alerts"}, &n); err != nil {
				t.Fatal(err)
			}
			var got struct {
				Message string
				Text    struct{ Content string }
			}
			if err := json.Unmarshal(b.body, &got); err != nil {
				t.Fatal(err)
			}
			text := got.Message + got.Text.Content
			most := map[string]int{"wecom": 2048, "ntfy": 4096}[kind]
			if len(b.body) > 20_000 && most == 0 || most > 0 && (len(text) > most || len(text) < most-6) || !utf8.ValidString(text) {
				t.Errorf("%s: %d bytes, text %d", kind, len(b.body), len(text))
			}
			if kind == "wecom" && strings.Contains(text, "<@") {
				t.Error("a message mentions a member")
			}
		}
	}
}
