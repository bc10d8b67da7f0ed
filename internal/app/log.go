package app

import (
	"io"
	"log/slog"
)

// NewLog makes the node's log. Lines about attempts carry workflow, run, task and attempt; lines about
// runs carry run.
func NewLog(c *Config, to io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}
