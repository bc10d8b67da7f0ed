package server

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// madeKeys returns the valid secrets that Skein has made for a webhook.
func madeKeys(ctx context.Context, s *Server, w *store.Workflow, name string, now dag.Micros) ([][]byte, error) {
	keys, err := s.cfg.Sealed.HookKeys(ctx, hookOf(w, name), int64(now))
	if err != nil {
		return nil, fmt.Errorf("%w; make one with: skein schedule secret %s/%s", err, fullName(w.Namespace, w.Name), name)
	}
	all := make([][]byte, len(keys))
	for i := range keys {
		all[i] = []byte(keys[i].Secret)
	}
	return all, nil
}

func hookOf(w *store.Workflow, name string) sealed.Hook {
	return sealed.Hook{Namespace: w.Namespace, Workflow: int64(w.ID), Trigger: name}
}

type hookSecretIn struct {
	TriggerPath
	Body *api.RotateRequest
}

// rotateHookSecret makes the first or the next secret of a webhook.
func rotateHookSecret(ctx context.Context, s *Server, in *hookSecretIn) (*jsonOut[api.HookSecret], error) {
	grace, err := graceOf(in.Body)
	if err != nil {
		return nil, err
	}
	w, t, err := s.trigger(ctx, &in.TriggerPath)
	if err != nil {
		return nil, err
	}
	decl, err := workflow.DecodeTrigger(t.Spec)
	if err != nil {
		return nil, err
	}
	switch {
	case decl.Webhook == nil:
		return nil, invalid("trigger %s is of the kind %s, and only a webhook has a secret", t.Name, t.Kind)
	case decl.Webhook.Secret != "":
		return nil, fmt.Errorf("%w: the workflow names the secret %s for this webhook, which is a file of the nodes; remove the key secret from the workflow file, "+
			"apply it, and make a secret then", errkind.ErrConflict, decl.Webhook.Secret)
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Sealed.DropHooks(ctx, w.Namespace, hookGone(ctx, s)); err != nil {
		return nil, unread(err)
	}
	keys, err := s.cfg.Sealed.RotateHook(ctx, hookOf(&w, t.Name), userOf(ctx), int64(now), int64(now)+grace.Microseconds())
	if err != nil {
		return nil, refusedSecret(err)
	}
	out := api.HookSecret{Workflow: fullName(w.Namespace, w.Name), Trigger: t.Name, Secret: keys[0].Secret, Earlier: []api.Time{}}
	for _, k := range keys[1:] {
		out.Earlier = append(out.Earlier, api.Time{Time: dag.Micros(k.Until).Time()})
	}
	return &jsonOut[api.HookSecret]{Body: out}, nil
}

// hookGone returns a function that reports whether a workflow is deleted, so that the secrets of its webhooks
// are not needed any more.
func hookGone(ctx context.Context, s *Server) func(int64) (bool, error) {
	return func(id int64) (bool, error) {
		w, err := s.engine.WorkflowByID(ctx, dag.WorkflowID(id))
		if errors.Is(err, errkind.ErrNotFound) {
			return true, nil
		}
		return err == nil && w.State == store.WorkflowDeleted, err
	}
}
