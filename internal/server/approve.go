package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

type approveIn struct {
	TaskPath
	Body *api.ApproveRequest
}

// approve decides about a task that waits for a person.
func (s *Server) approve(ctx context.Context, in *approveIn) (*jsonOut[api.Task], error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	d := engine.Decision{Run: id, Task: in.Task, Actor: userOf(ctx)}
	if in.Body != nil {
		d.Reject, d.Comment = in.Body.Reject, in.Body.Comment
	}
	if d.Outputs, err = json.Marshal(map[string]string{"approved_by": d.Actor, "comment": d.Comment}); err != nil {
		return nil, err
	}
	d.May = func(row *dag.RunRow) error { return s.mayApprove(ctx, row, in.Task) }
	if err := s.engine.Decide(ctx, d); err != nil {
		return nil, err
	}
	return s.getTask(ctx, &in.TaskPath)
}

// mayPass returns a refusal for ending a task that waits for an approval, if the caller may not approve it.
func mayPass(ctx context.Context, s *Server, id dag.RunID, task string) error {
	row, err := s.engine.RunRow(ctx, id)
	if err != nil {
		return err
	}
	def, err := s.definition(ctx, &store.Workflow{ID: row.Workflow}, row.Version)
	if err != nil {
		return err
	}
	if i, ok := def.Find(task); !ok || def.Tasks[i].Approval == nil {
		return nil
	}
	return s.mayApprove(ctx, &row, task)
}

// mayApprove allows an approval only to the users and services that the workflow names. It does not compare
// the names of tokens, which prove nothing.
func (s *Server) mayApprove(ctx context.Context, row *dag.RunRow, task string) error {
	def, err := s.definition(ctx, &store.Workflow{ID: row.Workflow}, row.Version)
	if err != nil {
		return err
	}
	i, ok := def.Find(task)
	if !ok || def.Tasks[i].Approval == nil {
		return notFound("run %s has no approval %q", row.ID, task)
	}
	by, name := def.Tasks[i].Approval.By, auth.Identity(ctx)
	switch {
	case len(by) == 0 || name != "" && slices.Contains(by, name):
		return nil
	case name == "":
		return fail(http.StatusForbidden, api.ProblemNotAllowed, "task %s is decided by %s, and this call proves no name; sign in as that user, or show a token of that user (skein token create --for NAME)",
			task, strings.Join(by, " or "))
	}
	return fail(http.StatusForbidden, api.ProblemNotAllowed, "task %s is decided by %s, not by %s", task, strings.Join(by, " or "), name)
}
