package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
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
	var answers api.Params
	if in.Body != nil {
		d.Reject, d.Comment, answers = in.Body.Reject, in.Body.Comment, in.Body.Answers
	}
	d.Outputs = func(row *dag.RunRow) ([]byte, error) { return filled(ctx, s, row, &d, answers) }
	d.May = func(row *dag.RunRow) error { return s.mayApprove(ctx, row, in.Task) }
	if err := s.engine.Decide(ctx, d); err != nil {
		return nil, err
	}
	return s.getTask(ctx, &in.TaskPath)
}

// filled returns the outputs of an approval: the user, the comment, and the answers of the user. The form is
// that of the version of the run, which does not change. The audit row contains the decision and the answers.
func filled(ctx context.Context, s *Server, row *dag.RunRow, d *engine.Decision, answers api.Params) ([]byte, error) {
	out, said := map[string]any{"approved_by": d.Actor, "comment": d.Comment}, "approved"
	if d.Reject {
		if said = "rejected"; len(answers) > 0 {
			return nil, invalid("answers belong to an approval: a rejection takes only a comment")
		}
	} else {
		def, err := s.definition(ctx, &store.Workflow{ID: row.Workflow}, row.Version)
		if err != nil {
			return nil, err
		}
		i, ok := def.Find(d.Task)
		if !ok || def.Tasks[i].Approval == nil {
			return nil, notFound("run %s has no approval %q", row.ID, d.Task)
		}
		asked := def.Tasks[i].Approval
		values, err := asked.Answers(answers)
		if err != nil {
			return nil, invalidAnswers(err)
		}
		for name, v := range values {
			out[name] = v
		}
		if words := asked.Words(values); words != "" {
			said += ": " + words
		}
	}
	if is := store.AuditIn(ctx); is != nil {
		is.Detail = said
	}
	return json.Marshal(out)
}

// invalidAnswers answers with the faults of the fields of a form.
func invalidAnswers(err error) error {
	f := invalid("%s", err.Error())
	var faults workflow.ValueErrors
	if errors.As(err, &faults) {
		for _, e := range faults {
			f.Errors = append(f.Errors, api.FileError{Line: 1, Column: 1, Key: "answers." + e.Name, Message: e.Message, Hint: e.Hint})
		}
	}
	return f
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

// mayApprove allows an approval only to the users and services that the workflow names, and, if the approval
// has four_eyes, not to the person who started the run. It does not compare the names of tokens, which prove
// nothing.
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
	if len(by) > 0 && (name == "" || !slices.Contains(by, name)) {
		all, who := strings.Join(by, " or "), "not by "+name
		if name == "" {
			who = "and this call proves no name; sign in as that user, or show a token of that user (skein token create --for NAME)"
		}
		return fail(http.StatusForbidden, api.ProblemNotAllowed, "task %s is decided by %s, %s", task, all, who).about("not_approver", "task", task, "by", all)
	}
	if def.Tasks[i].Approval.FourEyes {
		return fourEyes(ctx, s, row, task)
	}
	return nil
}
