package server

import (
	"context"
	"errors"
	"net/http"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// verb is an operator's verb on a run.
type verb struct {
	name, summary string
	intent        dag.Intent
}

var runVerbs = [...]verb{
	{"stop", "Stop a run: no task starts, and running attempts get TERM and, after the grace, KILL", dag.IntentStop},
	{"kill", "Kill a run: all of its processes get KILL at once", dag.IntentKill},
	{"pause", "Pause a run: running attempts finish, and no new ones start", dag.IntentPause},
	{"resume", "Resume a paused run", dag.IntentRun},
}

type verbIn struct {
	RunPath
	Idempotent
	Body *api.VerbRequest
}

func (s *Server) runVerb(v verb) func(context.Context, *verbIn) (*runOut, error) {
	return func(ctx context.Context, in *verbIn) (*runOut, error) {
		id, err := in.run()
		if err != nil {
			return nil, err
		}
		c := engine.Command{Run: id, Intent: v.intent, Actor: userOf(ctx)}
		if in.Body != nil {
			c.Reason = in.Body.Reason
		}
		status, err := s.once(ctx, in.Key, &c, "POST /runs/"+id.String()+":"+v.name)
		if err != nil {
			return nil, err
		}
		run, err := s.readRun(ctx, id, false)
		if err != nil {
			return nil, err
		}
		return &runOut{Status: status, Body: run}, nil
	}
}

// once carries out a command, unless its key was used before. In that case the answer is the present run,
// with the status 200. If the command is refused, nothing is stored under the key.
func (s *Server) once(ctx context.Context, key string, c *engine.Command, scope string) (int, error) {
	if key == "" {
		return http.StatusAccepted, s.engine.Tell(ctx, *c)
	}
	hash, err := verbHash(c)
	if err != nil {
		return 0, err
	}
	if done, err := s.done(ctx, scope, key, hash); done || err != nil {
		return http.StatusOK, err
	}
	c.Request = &store.Request{Scope: scope, Key: key, Hash: hash, Answer: []byte(`{"status":202}`)}
	err = s.engine.Tell(ctx, *c)
	if errors.Is(err, errkind.ErrConflict) { // there may be two concurrent requests with the same key
		if _, other := s.done(ctx, scope, key, hash); other != nil {
			return 0, other
		}
	}
	return http.StatusAccepted, err
}

// verbHash returns a hash that distinguishes requests with the same key.
func verbHash(c *engine.Command) ([]byte, error) {
	if !c.Recover && c.Mark == 0 {
		return hashJSON(api.VerbRequest{Reason: c.Reason})
	}
	return hashJSON(struct {
		Scope   dag.Scope
		Mark    dag.Mark
		Task    string
		Outputs []byte
		Reason  string
	}{c.Scope, c.Mark, c.Task, c.Outputs, c.Reason})
}

func (s *Server) done(ctx context.Context, scope, key string, hash []byte) (bool, error) {
	r, err := s.engine.Request(ctx, scope, key)
	if errors.Is(err, errkind.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, sameRequest(r.Hash, hash)
}
