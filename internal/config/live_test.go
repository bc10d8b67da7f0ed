package config

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestReloadDoesNotWait: the caller of a reload handles signals, so a file that does not answer must not
// delay the caller.
func TestReloadDoesNotWait(t *testing.T) {
	var said strings.Builder
	s := NewLive(&Config{}, slog.New(slog.NewTextHandler(&said, nil)), Rules{})
	blocked, ended := make(chan struct{}), make(chan struct{})
	s.Reload(func() (*Config, error) {
		defer close(ended)
		<-blocked
		return nil, errors.New("the disk is away")
	})
	s.SetLevel("warn", "ada") // this call returns although the file does not answer
	s.Reload(func() (*Config, error) { t.Error("two reloads at a time"); return nil, errors.New("no") })
	if got := s.Level(); got != "warn" {
		t.Errorf("level %s", got)
	}
	if !strings.Contains(said.String(), "reload_under_way") {
		t.Errorf("a second reload: %s", said.String())
	}
	close(blocked)
	<-ended
	s.reading.Lock() // this waits for the end of the first reload
	if !strings.Contains(said.String(), "reload_failed") {
		t.Errorf("the first reload: %s", said.String())
	}
}
