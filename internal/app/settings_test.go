package app

import (
	"os"
	"regexp"
	"testing"

	"skein.dev/skein/internal/config"
)

// TestRereadSettings compares the page of settings with the effect of a changed setting on a node.
func TestRereadSettings(t *testing.T) {
	page, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|.* \\| (SIGHUP|restart) \\| [^|]*(?:\\\\\\|[^|]*)*\\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(testConfig(t, nil).Values) {
		t.Fatalf("the page has %d settings", len(rows))
	}
	n := &Node{cfg: &config.Config{TLSCert: "before"}, rekept: make(chan struct{}, 1)}
	for _, row := range rows {
		name, says := row[1], row[2]
		if name == "pass_env" || name == "log_level" { // the keeper decides about the one, config.Live about the other
			continue
		}
		if is := n.apply(name, &config.Config{TLSCert: "now"}); is != (says == "SIGHUP") {
			t.Errorf("%s is read again: %v, the page says %s", name, is, says)
		}
	}
}
