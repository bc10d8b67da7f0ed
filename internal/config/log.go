package config

import (
	"io"
	"log/slog"
)

// levels returns the level of the log. The level can change while the process runs.
func (c *Config) levels() *slog.LevelVar {
	if c.level == nil {
		c.level = new(slog.LevelVar)
		c.level.Set(levelOf(c.LogLevel))
	}
	return c.level
}

// levelOf reads a level. Any other text means info.
func levelOf(text string) (level slog.Level) {
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return slog.LevelInfo
	}
	return level
}

// NewLog makes the node's log. Lines about attempts have the attributes workflow, run, task and attempt.
// Lines about runs have run.
func NewLog(c *Config, to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.levels()}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}
