package dispatch

import (
	"errors"
	"strings"
	"testing"
)

// TestHideQuotedRest: an error that quotes a part of a secret keeps its place only.
func TestHideQuotedRest(t *testing.T) {
	s := secretsOf{values: []string{"1h30-hunter2"}}
	err := s.hide(errors.New(`env WAIT: time: unknown unit "-hunter" in duration "1h30-hunter"`))
	if text := err.Error(); strings.Contains(text, "hunter") || !strings.HasPrefix(text, "env WAIT: ") {
		t.Error(text)
	}
	s.values = nil
	if err := s.hide(errors.New("env WAIT: no such key: x")); err.Error() != "env WAIT: no such key: x" {
		t.Error(err)
	}
}
