package main

import (
	"strings"
	"testing"
)

// TestReloadSparesDev: HUP ends skein dev, so reload must know it by its arguments.
func TestReloadSparesDev(t *testing.T) {
	for line, want := range map[string]bool{
		"bin/skein dev": true, "skein --data /srv dev --listen :0": true, "skein server --name dev": false, "skein worker --name dev": false, "sleep 60": false,
	} {
		if got := isDev([]byte(strings.ReplaceAll(line, " ", "\x00") + "\x00")); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
