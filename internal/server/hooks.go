package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// hooksPath is the path of webhook calls. Only their signature proves their origin.
const hooksPath = api.Prefix + "/hooks/"

// The results of a call to a webhook: outcomes in the metric, and codes in the log.
const (
	hookTaken    = "taken"
	hookFiltered = "filtered" // the filter of the trigger rejects the event
	hookUnknown  = "unknown"  // the webhook does not exist
	hookNoSecret = "no_secret"
	hookUnsigned = "unsigned"
	hookStale    = "stale"
	hookReplayed = "replayed" // the same call was sent to another trigger before
	hookFailed   = "failed"
)

// callIn is a call in its original form, because the filter may read any header and query parameter.
type callIn struct {
	TriggerPath
	RawBody []byte `contentType:"application/octet-stream"`
	call    trigger.Call
}

// Resolve reads the parts of the request that huma does not read.
func (in *callIn) Resolve(ctx huma.Context) []error {
	header := http.Header{}
	ctx.EachHeader(header.Add)
	u := ctx.URL()
	in.call = trigger.Call{Header: header, Query: queryOf(u.RawQuery), Target: u.RawQuery}
	return nil
}

// queryOf reads a query as browsers do, so that a filter sees all parameters that the signature covers. A
// semicolon is a part of a value. Text that cannot be decoded is used as it is written, whereas
// url.ParseQuery would drop the parameter.
func queryOf(raw string) url.Values {
	q := url.Values{}
	for part := range strings.SplitSeq(raw, "&") {
		if name, value, _ := strings.Cut(part, "="); part != "" {
			q.Add(decoded(name), decoded(value))
		}
	}
	return q
}

func decoded(s string) string {
	if is, err := url.QueryUnescape(s); err == nil {
		return is
	}
	return s
}

// callHook makes a webhook fire. A caller without a valid signature learns nothing: calls that are unsigned,
// late or repeated, or that name no webhook, get the same answer. All of them are counted.
func (s *Server) callHook(ctx context.Context, in *callIn) (*occurrenceOut, error) {
	if err := s.hooks.enter("calls to webhooks are being looked at"); err != nil {
		return nil, err
	}
	defer s.hooks.leave()
	in.call.Body = in.RawBody
	target := in.Namespace + "/" + in.Workflow + "/" + in.Trigger
	if query := in.call.Target; query != "" {
		target += "?" + query
	}
	in.call.Target = target
	out, form, outcome, err := s.fireHook(ctx, in)
	if !errkind.IsElsewhere(err) { // if another node answers, that node counts the call
		s.metrics.hooks.WithLabelValues(outcome, form).Inc()
	}
	return out, err
}

// fireHook does the work of callHook. It also returns the outcome for the metric.
func (s *Server) fireHook(ctx context.Context, in *callIn) (out *occurrenceOut, form, outcome string, err error) {
	w, t, err := s.trigger(ctx, &in.TriggerPath)
	if isNotFound(err) || err == nil && t.Kind != workflow.KindWebhook {
		now, err := s.engine.Clock(ctx)
		if err != nil {
			return nil, "", hookFailed, err
		}
		_, _ = madeKeys(ctx, s, &w, in.Trigger, now) // this takes the time that the call of an existing webhook would take
		return nil, "", hookUnknown, refusedCall(trigger.Refuse(in.call, now))
	}
	if err != nil {
		return nil, "", hookFailed, err
	}
	o, err := s.verified(ctx, &w, &t, &in.call)
	switch {
	case errors.Is(err, errNoSecret):
		s.tellOnce(&w, &t, hookNoSecret, "calls to this webhook are refused, because its secret cannot be read", err)
		return nil, "", hookNoSecret, refusedCall(err)
	case errors.Is(err, trigger.ErrStale):
		return nil, "", hookStale, refusedCall(err)
	case errors.Is(err, trigger.ErrSignature):
		return nil, "", hookUnsigned, refusedCall(err)
	case errors.Is(err, trigger.ErrFiltered), errors.Is(err, trigger.ErrFilter):
		o.Filtered = err.Error()
	case err != nil:
		return nil, o.Form, hookFailed, err
	}
	// the call is remembered before it is refused, so that it cannot fire later with other values that are
	// not signed
	refusal := err
	if weak := weakForms[o.Form]; weak != "" {
		s.tellOnce(&w, &t, "webhook_signature_"+o.Form, "calls to this webhook are signed in an older form: "+weak, nil)
	}
	o.Trace = callerTrace(ctx)
	done, err := s.engine.Occur(ctx, store.TriggerKey{Workflow: t.Workflow, Name: t.Name}, o.Occurrence)
	switch {
	case errors.Is(err, errkind.ErrReplayed):
		return nil, o.Form, hookReplayed, refusedCall(err)
	case err != nil:
		return nil, o.Form, hookFailed, err
	case errors.Is(refusal, trigger.ErrFilter):
		return nil, o.Form, hookFailed, refusal
	case done.Outcome == engine.OutcomeFiltered:
		return occurred(&w, &t, "", done), o.Form, hookFiltered, nil
	}
	return occurred(&w, &t, o.Key, done), o.Form, hookTaken, nil
}

// weakForms lists the older forms of signatures, with the weakness of each.
var weakForms = map[string]string{
	trigger.FormV1:  "v1 covers the body and the time only; sign with v3, or with Standard Webhooks",
	trigger.FormV2:  "v2 covers neither the trigger nor the query; sign with v3, or with Standard Webhooks",
	trigger.FormHub: "X-Hub-Signature-256 covers no time, so a call can be sent again once it is forgotten (retention_calls_age); sign with v3, or give this webhook a secret of its own",
}

// refusedCall returns the one answer to calls without a valid signature.
func refusedCall(cause error) error {
	p := fail(http.StatusUnauthorized, api.ProblemSignature, "there is no such webhook, or the call is not signed with its secret, or was signed too long ago, or came before for another trigger")
	p.cause = cause
	return p
}

const (
	toldEvery = time.Hour
	toldMax   = 1000 // number of triggers and reasons that are remembered
)

// tellOnce logs a message about a webhook at most once per hour on this node, so that strangers cannot fill
// the log.
func (s *Server) tellOnce(w *store.Workflow, t *store.Trigger, code, what string, err error) {
	key := code + " " + fullName(w.Namespace, w.Name) + " " + t.Name
	s.toldMu.Lock()
	defer s.toldMu.Unlock()
	if last, ok := s.told[key]; ok && time.Since(last) < toldEvery {
		return
	}
	if len(s.told) >= toldMax {
		clear(s.told)
	}
	s.told[key] = time.Now()
	s.log.Warn(what, "code", code, "workflow", fullName(w.Namespace, w.Name), "trigger", t.Name, "err", err)
}

// errNoSecret says that the secret of a webhook cannot be read.
var errNoSecret = errors.New("the secret cannot be read")

// verified returns the event of a call that is genuine and that the trigger accepts.
func (s *Server) verified(ctx context.Context, w *store.Workflow, t *store.Trigger, call *trigger.Call) (trigger.Verified, error) {
	none := trigger.Verified{}
	decl, err := workflow.DecodeTrigger(t.Spec)
	if err != nil {
		return none, err
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return none, err
	}
	keys, err := hookKeys(ctx, s, w, decl, now)
	if err != nil {
		_ = trigger.Refuse(*call, now)
		return none, fmt.Errorf("%w: %w", errNoSecret, err)
	}
	return trigger.VerifyHook(decl, keys, *call, now)
}

// hookKeys returns the secrets with which calls of a webhook may be signed.
func hookKeys(ctx context.Context, s *Server, w *store.Workflow, decl *workflow.Trigger, now dag.Micros) ([][]byte, error) {
	if decl.Webhook.Secret == "" {
		return madeKeys(ctx, s, w, decl.Name, now)
	}
	if s.cfg.Secrets == nil {
		return nil, errors.New("this node has no secrets")
	}
	secret, err := s.cfg.Secrets.Secret(ctx, w.Namespace, decl.Webhook.Secret)
	return [][]byte{secret}, err
}
