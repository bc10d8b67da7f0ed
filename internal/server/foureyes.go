package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// starter is the principal that started a run.
type starter struct {
	id int64 // a principal; 0 means the operator of the machine of a node
	// makers are the principals that have made a token with which the run may have been started.
	makers []int64
}

// starterOf finds the principal that started a run by hand. It also returns all tokens.
func starterOf(ctx context.Context, s *Server, row *dag.RunRow) (is starter, tokens []store.Token, err error) {
	name := row.Starter()
	tokens, err = s.cfg.Tokens.TokenList(ctx)
	if err != nil {
		return is, nil, unread(err)
	}
	if name == localUser || claimOf(name) != "" {
		return is, tokens, nil
	}
	rights, err := s.cfg.Access.Rights(ctx)
	if err != nil {
		return is, nil, unread(err)
	}
	// The name of a token stands for the first service. The principal of any other unknown name was deleted.
	is.id = store.FirstService
	if i := slices.IndexFunc(rights.Principals, func(p store.Principal) bool { return p.Name == name }); i >= 0 {
		is.id = rights.Principals[i].ID
	}
	for i := range tokens {
		t := &tokens[i]
		own := t.Kind == store.TokenAPI && t.Principal == is.id && (is.id != store.FirstService || t.Name == name)
		if own && t.Maker != 0 && t.Created <= row.Created && (t.Revoked == 0 || row.Created < t.Revoked) {
			is.makers = append(is.makers, t.Maker)
		}
	}
	return is, tokens, nil
}

// fourEyes returns a refusal if the caller must not decide about an approval, because the caller started the
// run, or because one of the two has made a token of the other one.
func fourEyes(ctx context.Context, s *Server, row *dag.RunRow, task string) error {
	by, name, run := row.Starter(), auth.Identity(ctx), row.ID.String()
	refused := func(why string) *failure {
		why = by + " started run " + run + why
		noteRefused(ctx, s, row.ID, "four_eyes: "+why)
		return fail(http.StatusForbidden, api.ProblemFourEyes, "%s, and task %s has four_eyes: another person must approve or reject it", why, task)
	}
	own := func() error { return refused("").about("four_eyes", "run", run, "task", task, "starter", by) }
	switch {
	case by == "" || strings.HasPrefix(by, enqueued): // no person and no service
		return nil
	case name == "":
		return refused(", this call proves no name (sign in as another user, or show a token of that user)").
			about("four_eyes_unproven", "run", run, "task", task, "starter", by)
	case name == by:
		return own()
	}
	is, tokens, err := starterOf(ctx, s, row)
	if err != nil {
		return err
	}
	held := credentialOf(ctx, tokens)
	if held[0].Principal == is.id {
		return own()
	}
	for _, t := range held {
		if t.Kind == store.TokenAPI && (t.Maker == is.id || t.Principal == is.id) {
			return refused(" and has made the token of this call").about("four_eyes_token", "run", run, "task", task, "starter", by)
		}
	}
	if slices.Contains(is.makers, held[0].Principal) {
		return refused(", "+name+" has made a token of "+by).about("four_eyes_maker", "run", run, "task", task, "starter", by, "caller", name)
	}
	return nil
}

// addRefusal adds to the reason of an approval why the caller must not decide about it, so that a page need
// not offer the decision.
func addRefusal(ctx context.Context, s *Server, id dag.RunID, r *inspect.Reason) error {
	task, _ := r.Args["task"].(string)
	if r.Code != "approval" || r.Args["four_eyes"] == nil && r.Args["by"] == nil {
		return nil
	}
	row, err := s.engine.RunRow(ctx, id)
	if err != nil {
		return err
	}
	err = s.mayApprove(ctx, &row, task)
	var f *failure
	if !errors.As(err, &f) || f.Status != http.StatusForbidden {
		return err
	}
	r.Args["refused"] = map[string]any{"detail": f.Detail, "about": f.About, "args": f.Args}
	return nil
}

// credentialOf returns the token of a call, followed by its ancestors, and by the token that opened the
// session of the call.
func credentialOf(ctx context.Context, tokens []store.Token) (all []*store.Token) {
	family := store.FamilyOf(tokens)
	t, _ := auth.Holder(ctx)
	all, _ = family.Line(&t)
	if one, ok := auth.SessionOf(ctx); ok && family[one.Token] != nil {
		line, _ := family.Line(family[one.Token])
		all = append(all, line...)
	}
	return all
}

// mayBeginAt returns a refusal for a run that begins at a task, if this skips an approval about which the
// caller may not decide.
func mayBeginAt(ctx context.Context, s *Server, w *store.Workflow, version int32, from string) error {
	if from == "" {
		return nil
	}
	def, err := s.definition(ctx, w, version)
	if err != nil {
		return err
	}
	g, err := s.engine.Graph(w.ID, version)
	if err != nil {
		return err
	}
	first, ok := g.Find(from)
	if !ok {
		return nil // hasTask has refused it
	}
	after := g.After(first)
	for i := range def.Tasks {
		a, name := def.Tasks[i].Approval, def.Tasks[i].Name
		if t, ok := g.Find(name); a == nil || !a.Protected() || ok && after[t] {
			continue
		}
		who, by := auth.Identity(ctx), strings.Join(a.By, " or ")
		const remedy = "begin there or before, or recover a run in which it was approved"
		switch {
		case a.FourEyes:
			return fail(http.StatusForbidden, api.ProblemFourEyes, "a start at task %s skips the approval %s, which has four_eyes: whoever starts a run may not decide about it; %s",
				from, name, remedy).about("four_eyes_from", "from", from, "task", name)
		case who == "" || !slices.Contains(a.By, who):
			return fail(http.StatusForbidden, api.ProblemNotAllowed, "a start at task %s skips the approval %s, about which %s decides; %s",
				from, name, by, remedy).about("not_approver_from", "from", from, "task", name, "by", by)
		}
	}
	return nil
}

// mayForce returns a refusal for a mark that makes a task run although an approval before it was not given,
// if the caller may not give that approval.
func mayForce(ctx context.Context, s *Server, id dag.RunID, task string, m dag.Mark) error {
	row, err := s.engine.RunRow(ctx, id)
	if err != nil {
		return err
	}
	def, err := s.definition(ctx, &store.Workflow{ID: row.Workflow}, row.Version)
	if err != nil {
		return err
	}
	host, _, _ := strings.Cut(task, "[") // the instances of a task have its needs
	var g *dag.Graph
	for i := range def.Tasks {
		a, name := def.Tasks[i].Approval, def.Tasks[i].Name
		if a == nil || !a.Protected() || name == host {
			continue
		}
		if g == nil {
			if g, err = s.engine.Graph(row.Workflow, row.Version); err != nil {
				return err
			}
		}
		t, known := g.Find(host)
		at, ok := g.Find(name)
		if !known || !ok || !leadsAround(g, m, t, at) {
			continue
		}
		v, err := s.engine.Task(ctx, id, name)
		if err != nil {
			return err
		}
		if v.State == dag.Succeeded {
			continue
		}
		if err := s.mayApprove(ctx, &row, name); err != nil {
			return err
		}
	}
	return nil
}

// leadsAround reports whether a mark of task t can make a task run that depends on an approval, although the
// approval was not given. A retry makes t itself run, and a success its dependents. A skip does so only if a
// dependent also needs a task that does not wait for the approval: a task whose needs are all skipped is
// skipped, too.
func leadsAround(g *dag.Graph, m dag.Mark, t, approval dag.TaskID) bool {
	after := g.After(approval)
	if m != dag.MarkSkip {
		return after[t]
	}
	below := g.After(t)
	if !after[t] && !below[approval] {
		return false
	}
	for _, d := range g.Order() {
		if d == t || d == approval || !after[d] || !below[d] {
			continue
		}
		if slices.ContainsFunc(g.Needs(d), func(n dag.TaskID) bool { return n != t && !after[n] }) {
			return true
		}
	}
	return false
}
