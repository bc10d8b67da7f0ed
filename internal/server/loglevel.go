package server

import (
	"context"
	"net/http"

	api "skein.dev/skein/sdk/api/v1"
)

// LogLevel is the level of the process's log.
type LogLevel interface {
	Level() string
	// SetLevel changes the level until the process ends, or reads its settings again. by is the caller, for the
	// log.
	SetLevel(level, by string)
}

// logLevels answers the calls about the level of a node's log.
type logLevels struct{ *Server }

type logLevelIn struct {
	Name string `path:"name" minLength:"1" maxLength:"100"`
	Body api.LogLevelRequest
}

func (s logLevels) get(ctx context.Context, in *nodeIn) (*jsonOut[api.LogLevel], error) {
	if err := s.isNode(ctx, in.Name); err != nil {
		return nil, err
	}
	return &jsonOut[api.LogLevel]{Body: api.LogLevel{Node: in.Name, Level: s.cfg.LogLevel.Level()}}, nil
}

func (s logLevels) set(ctx context.Context, in *logLevelIn) (*jsonOut[api.LogLevel], error) {
	if err := s.isNode(ctx, in.Name); err != nil {
		return nil, err
	}
	noteAudit(ctx, "", "level "+in.Body.Level)
	// the row comes first: it would be worse if a level had changed without a row
	if err := recordAudit(ctx, s.Server); err != nil {
		return nil, err
	}
	s.cfg.LogLevel.SetLevel(in.Body.Level, userOf(ctx))
	return &jsonOut[api.LogLevel]{Body: api.LogLevel{Node: in.Name, Level: s.cfg.LogLevel.Level()}}, nil
}

// isNode returns nil if this process is the node with that name and has a log.
func (s logLevels) isNode(ctx context.Context, name string) error {
	if err := isSelf(ctx, s.Server, name, workerLevel(name)); err != nil || s.cfg.LogLevel != nil {
		return err
	}
	return fail(http.StatusConflict, api.ProblemConflict, "node %s does not run now, so its log level cannot be changed", name)
}

// workerLevel returns an error that says how the level of a worker can be changed.
func workerLevel(name string) error {
	return fail(http.StatusConflict, api.ProblemConflict, "%s is a worker: change log_level in its config file and send it HUP", name)
}
