package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/gitsync"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// GitSyncer reads repositories on request.
type GitSyncer interface {
	Sync(ctx context.Context, namespace, name string) (store.GitSource, *gitsync.Outcome, error)
	Plan(ctx context.Context, namespace, name string) (store.GitSource, *gitsync.Outcome, error)
	Preview(ctx context.Context, g store.GitSource) (store.GitSource, *gitsync.Outcome, error)
	Hook(ctx context.Context, namespace, name string, header http.Header, body []byte) (looks bool, form string, err error)
}

// gitting are the routes of git sources.
type gitting struct{ s *Server }

func gitRoutes(s *Server, sources tag) {
	g := gitting{s}
	route(s, sources.get("/git-sources", "list-git-sources", "List the git sources by namespace and name, each with the result of the last look"), g.list)
	route(s, sources.put("/git-sources/{ns}/{name}", "set-git-source", "Make a git source, or change it; a node looks at it soon"), g.set)
	route(s, sources.delete("/git-sources/{ns}/{name}", "delete-git-source", "Remove a git source; its workflows stay"), g.delete)
	route(s, sources.verb("/git-sources/{ns}/{name}:sync", "sync-git-source", "Look at the repository now, and apply its commit: all workflows in one transaction, or none"), g.sync)
	hook := sources.verb("/hooks/{ns}/{name}", "call-git-hook", "Look at the repository soon; the call of the server of the repository is signed with the secret of the source")
	hook.Description, hook.MaxBodyBytes, hook.RequestBody = gitHookDoc, gitsync.HookBytesMax+1, &huma.RequestBody{}
	hook.RejectUnknownQueryParameters = false
	route(s, hook, g.hook)
	hook.RequestBody.Required = false // huma makes every raw body required
	plan := sources.verb("/git-sources/{ns}/{name}:plan", "plan-git-source", "Show what a sync would change, and change nothing")
	plan.Description = "With a body, the plan is for a source with these values in place of the stored ones. The source need not exist. This needs the rights of setting them."
	route(s, plan, g.plan)
}

func (g gitting) store() (store.GitSources, error) {
	if g.s.cfg.GitSources == nil {
		return nil, notFound("this process has no git sources; ask a node")
	}
	return g.s.cfg.GitSources, nil
}

type listGitSourcesIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only git sources of this namespace."`
}

func (g gitting) list(ctx context.Context, in *listGitSourcesIn) (*jsonOut[api.List[api.GitSource]], error) {
	st, err := g.store()
	if err != nil {
		return nil, err
	}
	text, err := in.after()
	if err != nil {
		return nil, err
	}
	ns, name, ok := strings.Cut(text, "/")
	if text != "" && !ok || in.Namespace != "" && text != "" && ns != in.Namespace {
		return nil, badCursor()
	}
	if text == "" {
		ns = in.Namespace
	}
	all, err := st.GitSourceList(ctx, ns, name, in.Limit+1)
	if err != nil {
		return nil, unread(err)
	}
	items := []api.GitSource{}
	for i := range all {
		if in.Namespace != "" && all[i].Namespace != in.Namespace {
			break
		}
		if len(items) == in.Limit {
			last := &items[len(items)-1]
			return list(items, last.Namespace+"/"+last.Name), nil
		}
		st := gitsync.ReadState(all[i].State)
		items = append(items, gitShown(&all[i], &st))
	}
	return list(items, ""), nil
}

// gitShown shows a git source. If the description cannot be read, it shows an empty one.
func gitShown(g *store.GitSource, st *gitsync.State) api.GitSource {
	spec, _ := gitsync.Parse(g.Spec)
	out := api.GitSource{Namespace: g.Namespace, Name: g.Name, Version: g.Version, User: g.By, CreatedAt: instant(g.Created), ModifiedAt: instant(g.Modified),
		GitSourceRequest: api.GitSourceRequest{URL: spec.URL, Branch: spec.Branch, Tag: spec.Tag, Folder: spec.Folder, Login: spec.User, Password: spec.Password,
			Key: spec.Key, KnownHosts: spec.KnownHosts, Hook: spec.Hook, Removed: spec.Removed, Adopt: spec.Adopt}}
	if spec.Every != 0 {
		out.Every = spec.Every.String()
	}
	at := func(t time.Time) *api.Time {
		if t.IsZero() {
			return nil
		}
		return &api.Time{Time: t}
	}
	out.State = api.GitState{Seen: textOrNull(st.Seen), Applied: textOrNull(st.Applied), AppliedAt: at(st.AppliedAt), Author: textOrNull(st.Author), Subject: textOrNull(st.Subject),
		LookedAt: at(st.LookedAt), Workflows: []api.GitWorkflow{}}
	if f := st.Failing; f != nil {
		out.State.Failing = &api.GitFailing{Since: api.Time{Time: f.Since}, Commit: textOrNull(f.Commit), Why: f.Why, Errors: fileErrors(f.Faults), More: f.More}
	}
	for _, w := range st.Workflows {
		out.State.Workflows = append(out.State.Workflows, api.GitWorkflow{Workflow: fullName(g.Namespace, w.Name), File: w.File, Gone: w.Gone})
	}
	return out
}

type GitSourcePath struct {
	Namespace string `path:"ns" maxLength:"63"`
	Name      string `path:"name" maxLength:"63"`
}

type setGitSourceIn struct {
	GitSourcePath
	Versioned
	Body api.GitSourceRequest
}

// check checks the names of a source that is made or changed.
func (p *GitSourcePath) check() error {
	switch {
	case !namespaceOK.MatchString(p.Namespace) || p.Namespace == engine.SystemNamespace:
		return invalidField("namespace", fmt.Sprintf("%.63q cannot be the namespace of a git source", p.Namespace))
	case !gitsync.IsName(p.Name):
		return invalidField("name", fmt.Sprintf("%.63q cannot be the name of a git source: it is 1 to 63 of a-z 0-9 and -", p.Name))
	}
	return nil
}

// invalidField refuses one value of a request. Errors names the value, so that a form shows the message at
// its field.
func invalidField(key, message string) error {
	f := invalid("%s", message)
	f.Errors = []api.FileError{{Line: 1, Column: 1, Key: key, Message: message}}
	return f
}

func (g gitting) set(ctx context.Context, in *setGitSourceIn) (*jsonOut[api.GitSource], error) {
	st, err := g.store()
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	data, err := gitSpec(ctx, &in.GitSourcePath, &in.Body)
	if err != nil {
		return nil, err
	}
	for range setTries {
		was, err := st.GitSourceOf(ctx, in.Namespace, in.Name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, unread(err)
		}
		if err := in.met(was.Version, "git source "+fullName(in.Namespace, in.Name)); err != nil {
			return nil, err
		}
		row := store.GitSource{Namespace: in.Namespace, Name: in.Name, Version: was.Version + 1, Shard: was.Shard, Spec: data, By: userOf(ctx)}
		if was.Version == 0 {
			if row.Shard, err = engine.EmptiestShard(ctx, g.s.engine); err != nil {
				return nil, err
			}
		}
		is, err := st.PutGitSource(ctx, row)
		switch {
		case err == nil:
			state := gitsync.ReadState(is.State)
			return &jsonOut[api.GitSource]{Body: gitShown(&is, &state)}, nil
		case errors.Is(err, store.ErrRefused):
			return nil, fmt.Errorf("%w: there are already %d git sources, the limit; remove one", errkind.ErrConflict, store.GitSourcesMax)
		case !errors.Is(err, store.ErrFenced):
			return nil, unread(err)
		}
	}
	return nil, fmt.Errorf("%w: git source %s/%s was changed at the same time; try again", errkind.ErrConflict, in.Namespace, in.Name)
}

// gitSpec checks the description of a source against the rights of the caller. The caller needs further
// rights because a source can delete workflows, and because a repository in a folder of the node can contain
// any file that the node may read.
func gitSpec(ctx context.Context, of *GitSourcePath, b *api.GitSourceRequest) ([]byte, error) {
	spec := gitsync.Spec{URL: b.URL, Branch: b.Branch, Tag: b.Tag, Folder: b.Folder, User: b.Login, Password: b.Password, Key: b.Key, KnownHosts: b.KnownHosts, Hook: b.Hook, Removed: b.Removed, Adopt: b.Adopt}
	var err error
	if b.Every != "" {
		if spec.Every, err = workflow.ParseDuration(b.Every); err != nil {
			return nil, invalidField("every", "every: "+err.Error())
		}
	}
	data, err := json.Marshal(&spec)
	if err == nil {
		spec, err = gitsync.Parse(data)
	}
	var wrong *gitsync.FieldError
	if errors.As(err, &wrong) {
		return nil, invalidField(wrong.Key, wrong.Message)
	}
	if err != nil {
		return nil, invalid("git source %s/%s: %s", of.Namespace, of.Name, err)
	}
	if spec.Removed == gitsync.Delete {
		if err := may(ctx, access.WorkflowDelete, of.Namespace); err != nil {
			return nil, err
		}
	}
	if spec.Local() && !wide(ctx, access.WorkflowWrite) {
		return nil, fail(http.StatusForbidden, api.ProblemForbidden, "a folder of the node (file://) is only for callers with %s in every namespace; use https or ssh", access.WorkflowWrite)
	}
	noteAudit(ctx, of.Namespace, spec.URL) // it has no password
	return data, nil
}

func (g gitting) delete(ctx context.Context, in *GitSourcePath) (*struct{}, error) {
	st, err := g.store()
	if err != nil {
		return nil, err
	}
	err = st.DropGitSource(ctx, in.Namespace, in.Name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noGitSource(in)
	}
	return nil, unread(err)
}

func noGitSource(in *GitSourcePath) error {
	return notFound("there is no git source %s/%s", in.Namespace, in.Name)
}

// syncer returns the part that reads repositories.
func (g gitting) syncer() (GitSyncer, error) {
	if g.s.cfg.Git == nil {
		return nil, notFound("this process only reads the database, so it cannot read repositories; send the call to a node")
	}
	return g.s.cfg.Git(), nil
}

// begins checks whether this node may read a repository. It writes an audit row, because reading uses a
// secret.
func (g gitting) begins(ctx context.Context, in *GitSourcePath) (GitSyncer, error) {
	y, err := g.syncer()
	if err != nil {
		return nil, err
	}
	all, err := g.store()
	if err != nil {
		return nil, err
	}
	switch is, err := all.GitSourceOf(ctx, in.Namespace, in.Name); {
	case errors.Is(err, store.ErrNotFound):
		return nil, noGitSource(in)
	case err != nil:
		return nil, unread(err)
	case !g.s.engine.Owns(is.Shard):
		return nil, &errkind.Elsewhere{Shard: is.Shard}
	}
	return y, recordAudit(ctx, g.s)
}

// looked returns the answer after a repository was read.
func looked(in *GitSourcePath, is *store.GitSource, out *gitsync.Outcome, err error) (*jsonOut[api.GitSync], error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, noGitSource(in)
	case errors.Is(err, store.ErrFenced):
		return nil, fmt.Errorf("%w: git source %s/%s was changed at the same time; try again", errkind.ErrConflict, in.Namespace, in.Name)
	case err != nil:
		return nil, err
	}
	st := gitsync.ReadState(is.State)
	return &jsonOut[api.GitSync]{Body: api.GitSync{Source: gitShown(is, &st), Changes: gitChanges(in.Namespace, out)}}, nil
}

func (g gitting) sync(ctx context.Context, in *GitSourcePath) (*jsonOut[api.GitSync], error) {
	y, err := g.begins(ctx, in)
	if err != nil {
		return nil, err
	}
	is, out, err := y.Sync(store.WithAudit(ctx, nil), in.Namespace, in.Name)
	return looked(in, &is, out, err)
}

type planGitSourceIn struct {
	GitSourcePath
	Body *api.GitSourceRequest
}

func (g gitting) plan(ctx context.Context, in *planGitSourceIn) (*jsonOut[api.GitSync], error) {
	if in.Body != nil {
		return g.preview(ctx, &in.GitSourcePath, in.Body)
	}
	y, err := g.begins(ctx, &in.GitSourcePath)
	if err != nil {
		return nil, err
	}
	is, out, err := y.Plan(store.WithAudit(ctx, nil), in.Namespace, in.Name)
	return looked(&in.GitSourcePath, &is, out, err)
}

// preview plans a sync of a source with values that are not stored. The caller needs the same rights as for
// storing them, because the node connects to the address, with the secrets of the namespace.
func (g gitting) preview(ctx context.Context, of *GitSourcePath, b *api.GitSourceRequest) (*jsonOut[api.GitSync], error) {
	if err := may(ctx, access.WorkflowWrite, of.Namespace); err != nil {
		return nil, err
	}
	if err := of.check(); err != nil {
		return nil, err
	}
	data, err := gitSpec(ctx, of, b)
	if err != nil {
		return nil, err
	}
	y, err := g.syncer()
	if err != nil {
		return nil, err
	}
	all, err := g.store()
	if err != nil {
		return nil, err
	}
	row, err := all.GitSourceOf(ctx, of.Namespace, of.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		now := dag.Micros(time.Now().UnixMicro())
		row = store.GitSource{Namespace: of.Namespace, Name: of.Name, Created: now, Modified: now}
		if row.Shard, err = engine.EmptiestShard(ctx, g.s.engine); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, unread(err)
	}
	if row.Spec, row.By = data, userOf(ctx); !g.s.engine.Owns(row.Shard) {
		return nil, g.previewElsewhere(ctx, row.Shard)
	}
	if err := recordAudit(ctx, g.s); err != nil {
		return nil, err
	}
	is, out, err := y.Preview(store.WithAudit(ctx, nil), row)
	return looked(of, &is, out, err)
}

// previewElsewhere passes a preview to the owner of a shard. A node of an earlier version does not read the
// values, and would answer with a plan of the stored ones.
func (g gitting) previewElsewhere(ctx context.Context, shard dag.ShardID) error {
	info, err := g.s.engine.Info(ctx)
	if err != nil {
		return err
	}
	if info.Format < info.Known {
		return fmt.Errorf("%w: a node of an earlier version is a member, and would plan with the stored values: upgrade all nodes first", errkind.ErrConflict)
	}
	return &errkind.Elsewhere{Shard: shard}
}

const gitHookDoc = "A call is signed by X-Hub-Signature-256 (sha256=HEX: HMAC-SHA256 over the body; GitHub, Gitea, Forgejo), by X-Hub-Signature in the same form (Bitbucket), " +
	"or has the secret in X-Gitlab-Token. A call about another branch or tag than that of the source has no effect. Any media type is taken. The Host of the call may be any; " +
	"a call from a page of another site is refused."

// gitHookIn is a call in its original form, because its signature covers each byte of the body.
type gitHookIn struct {
	GitSourcePath
	RawBody []byte `contentType:"application/octet-stream"`
	header  http.Header
}

// Resolve reads the headers of the call.
func (in *gitHookIn) Resolve(ctx huma.Context) []error {
	in.header = http.Header{}
	ctx.EachHeader(in.header.Add)
	return nil
}

// hook makes a look at a repository due. A caller without the secret learns nothing: it gets the same answer
// whether the source exists or not.
func (g gitting) hook(ctx context.Context, in *gitHookIn) (*jsonOut[api.GitHook], error) {
	if err := g.s.hooks.enter("calls to webhooks are being looked at"); err != nil {
		return nil, err
	}
	defer g.s.hooks.leave()
	y, err := g.syncer()
	if err != nil {
		return nil, err
	}
	looks, form, err := y.Hook(ctx, in.Namespace, in.Name, in.header, in.RawBody)
	outcome := hookTaken
	switch {
	case errkind.IsElsewhere(err): // the other node counts the call
		return nil, err
	case errors.Is(err, gitsync.ErrUnsigned):
		outcome = hookUnsigned
		p := fail(http.StatusUnauthorized, api.ProblemSignature, "there is no such git source, or it has no hook_secret, or the call is not signed with it")
		p.cause, err = err, p
	case err != nil:
		outcome, err = hookFailed, unread(err)
	case !looks:
		outcome = hookFiltered
	}
	g.s.metrics.hooks.WithLabelValues(outcome, form).Inc()
	if err != nil {
		return nil, err
	}
	return &jsonOut[api.GitHook]{Body: api.GitHook{Looks: looks}}, nil
}

func gitChanges(namespace string, out *gitsync.Outcome) []api.GitChange {
	all := []api.GitChange{}
	if out == nil || len(out.Faults) > 0 {
		return all
	}
	for _, c := range out.Changes {
		all = append(all, api.GitChange{Workflow: fullName(namespace, c.Workflow), File: textOrNull(c.File), Change: c.What})
	}
	return all
}
