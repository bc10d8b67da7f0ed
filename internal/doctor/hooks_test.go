package doctor

import (
	"context"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// hookShelf is a store of triggers and of each trigger's last event.
type hookShelf struct {
	store.Store
	triggers []store.Trigger
	keys     map[string]string
}

func (h *hookShelf) Triggers(context.Context, store.TriggerQuery) ([]store.Trigger, error) {
	return h.triggers, nil
}

func (h *hookShelf) LastFire(_ context.Context, _ dag.WorkflowID, name string) (store.Fire, error) {
	if key, ok := h.keys[name]; ok {
		return store.Fire{Key: key}, nil
	}
	return store.Fire{}, store.ErrNotFound
}

func (*hookShelf) WorkflowByID(context.Context, dag.WorkflowID) (store.Workflow, error) {
	return store.Workflow{Namespace: "default", Name: "w"}, nil
}

func (*hookShelf) SecretOf(_ context.Context, _, name string) (store.Secret, error) {
	if name == "__hook/0/new" {
		return store.Secret{}, nil
	}
	return store.Secret{}, store.ErrNotFound
}

// TestDoctorLooksAtWebhooks checks that doctor names webhooks with an old form of signature, without a
// secret, or with unsigned values.
func TestDoctorLooksAtWebhooks(t *testing.T) {
	h := &hookShelf{keys: map[string]string{"old": "hook/00", "new": "id/order-1"}}
	add := func(name, kind, spec string) {
		h.triggers = append(h.triggers, store.Trigger{Workflow: 1, Name: name, Kind: kind, Spec: []byte(spec)})
	}
	add("daily", workflow.KindCron, `{}`)
	if got := checkHooks(t.Context(), h); got != nil {
		t.Errorf("no webhook: %+v", got)
	}
	add("new", workflow.KindWebhook, `{"name":"new","webhook":{}}`)
	add("never", workflow.KindWebhook, `{"name":"never","webhook":{"secret":"s"}}`)
	if got := checkHooks(t.Context(), h); len(got) != 1 || got[0].State != Good || got[0].Remedy != "" {
		t.Errorf("good ones: %+v", got)
	}
	add("old", workflow.KindWebhook, `{"name":"old","webhook":{"secret":"s"}}`)
	add("loose", workflow.KindWebhook, `{"name":"loose","webhook":{"secret":"s","unsigned":["headers.x-github-event"]}}`)
	add("bare", workflow.KindWebhook, `{"name":"bare","webhook":{}}`)
	got := checkHooks(t.Context(), h)
	if len(got) != 1 || got[0].State != Warning || !strings.Contains(got[0].Remedy, "skein schedule secret default/w/bare") {
		t.Fatalf("%+v", got)
	}
	for _, say := range []string{"5 are active", "or v1: default/w/old;", "every call is refused: default/w/bare;", "default/w/loose (headers.x-github-event)"} {
		if !strings.Contains(got[0].Found, say) {
			t.Errorf("it does not say %q: %s", say, got[0].Found)
		}
	}
}
