package notify_test

import (
	"strings"
	"testing"

	"skein.dev/skein/internal/notify"
)

// TestBounds refuses configurations that would cost every look of every node, and addresses with a password.
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
