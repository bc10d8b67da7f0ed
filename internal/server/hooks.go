package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// hooksPath is where calls of foreigners arrive. They are believed for their signature
// alone.
const hooksPath = api.Prefix + "/hooks/"

// outcomeFiltered is of a call that the trigger does not want: nothing is kept of it.
const outcomeFiltered = "filtered"

// callIn is a call as it came: any header and any query may count for the filter.
type callIn struct {
	TriggerPath
	RawBody []byte `contentType:"application/octet-stream"`
	header  http.Header
	query   url.Values
}

// Resolve takes what huma does not read by itself.
func (in *callIn) Resolve(ctx huma.Context) []error {
	in.header = http.Header{}
	ctx.EachHeader(in.header.Add)
	u := ctx.URL()
	in.query = u.Query()
	return nil
}

// callHook has a webhook fire. What is wrong with a signature is told to the log only, and
// nothing but the name of the trigger is looked at before it holds.
func (s *Server) callHook(ctx context.Context, in *callIn) (*occurrenceOut, error) {
	if err := s.hooks.enter("calls to webhooks are being looked at"); err != nil {
		return nil, err
	}
	defer s.hooks.leave()
	w, t, err := s.trigger(ctx, &in.TriggerPath)
	if isNotFound(err) || err == nil && t.Kind != workflow.KindWebhook {
		return nil, notFound("there is no webhook %s of workflow %s", in.Trigger, fullName(in.Namespace, in.Workflow))
	}
	if err != nil {
		return nil, err
	}
	o, err := s.verified(ctx, &w, &t, in)
	switch {
	case errors.Is(err, trigger.ErrSignature) || errors.Is(err, trigger.ErrStale):
		s.log.Info("a call to a webhook is refused", "workflow", fullName(w.Namespace, w.Name), "trigger", t.Name, "why", err)
		return nil, fail(http.StatusUnauthorized, api.ProblemSignature, "the call is not signed with the webhook's secret, or too long ago")
	case errors.Is(err, trigger.ErrFiltered):
		return occurred(&w, &t, "", engine.Occurred{Outcome: outcomeFiltered, Reason: err.Error()}), nil
	case err != nil:
		return nil, err
	}
	done, err := s.engine.Occur(ctx, store.TriggerKey{Workflow: t.Workflow, Name: t.Name}, o)
	if err != nil {
		return nil, err
	}
	return occurred(&w, &t, o.Key, done), nil
}

// verified makes an event of a call that is genuine and meant.
func (s *Server) verified(ctx context.Context, w *store.Workflow, t *store.Trigger, in *callIn) (engine.Occurrence, error) {
	none := engine.Occurrence{}
	decl, err := workflow.DecodeTrigger(t.Spec)
	if err != nil {
		return none, err
	}
	unknown := fail(http.StatusServiceUnavailable, api.ProblemUnavailable, "the secret of this webhook cannot be read here; the node's log says why")
	if s.cfg.Secrets == nil {
		unknown.cause = errors.New("this node has no secrets")
		return none, unknown
	}
	secret, err := s.cfg.Secrets.Secret(ctx, w.Namespace, decl.Webhook.Secret)
	if err != nil {
		unknown.cause = err
		return none, unknown
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return none, err
	}
	return trigger.VerifyHook(decl, secret, trigger.Call{Header: in.header, Query: in.query, Body: in.RawBody}, now)
}
