package notify_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/store"
)

// TestBounds checks that addresses with a password are refused, and large configurations, because every node
// reads all configurations at each look.
func TestBounds(t *testing.T) {
	key := `{"secret":"a"}`
	for config, want := range map[string]string{
		`{"webhook":{"url":"https://x.example/a","keys":[` + strings.Repeat(key+",", 9) + key + `]}}`:  "",
		`{"webhook":{"url":"https://x.example/a","keys":[` + strings.Repeat(key+",", 10) + key + `]}}`: "up to 10",
		`{"log":{}}` + strings.Repeat(" ", notify.ConfigMax):                                           "the limit is 8192",
		`{"command":{"run":["/bin/page","` + strings.Repeat("x", notify.ConfigMax) + `"]}}`:            "the limit is 8192",
		`{"webhook":{"url":"https://ann:word@x.example/a"}}`:                                           "{secret: NAME}",
		`{"webhook":{"url":"https://ann@x.example/a"}}`:                                                "{secret: NAME}",
	} {
		_, err := notify.Parse([]byte(config))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.100s: %v, want %q", config, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "word@") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}

// TestMentions: the text of a run mentions no person. Mattermost and Rocket.Chat interpret @all in plain
// text.
func TestMentions(t *testing.T) {
	var body []byte
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) }))
	defer receiver.Close()
	s := notify.New(notify.Options{Transport: func(context.Context, string) (http.RoundTripper, error) { return http.DefaultTransport, nil },
		Secret: func(context.Context, string, string) ([]byte, error) { return []byte(receiver.URL), nil }, Log: slog.New(slog.DiscardHandler)})
	row := store.AlertChannel{Namespace: "shop", Name: "ops", Data: []byte(`{"slack":{"url":{"secret":"slack"}}}`)}
	if err := s.Test(t.Context(), &row, "@all <!here>"); err != nil {
		t.Fatal(err)
	}
	var is struct{ Text string }
	if err := json.Unmarshal(body, &is); err != nil || !strings.Contains(is.Text, "@\u200ball &lt;!here&gt;") {
		t.Errorf("text %q, %v", is.Text, err)
	}
}
