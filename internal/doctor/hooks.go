package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

const (
	// hookPagesMax bounds the pages, each of 1,000 triggers, that doctor reads.
	hookPagesMax = 10
	// hooksTold bounds the webhooks that doctor names for each reason.
	hooksTold = 10
)

// checkHooks names the active webhooks that use unsigned values, those without a secret, and those whose last
// call had an old form of signature. It returns no check if there is no webhook.
func checkHooks(ctx context.Context, db store.Store) []Check {
	const name = "webhooks"
	found, old, loose, bare := 0, []string{}, []string{}, []string{}
	q := store.TriggerQuery{State: store.TriggerActive, Limit: 1000}
	for range hookPagesMax {
		page, err := db.Triggers(ctx, q)
		if err != nil {
			return []Check{{Name: name, State: Warning, Found: err.Error()}}
		}
		for i := range page {
			t := &page[i]
			q.After = store.TriggerKey{Workflow: t.Workflow, Name: t.Name}
			if t.Kind != workflow.KindWebhook {
				continue
			}
			found++
			is, err := hookSigns(ctx, db, t)
			if err != nil {
				return []Check{{Name: name, State: Warning, Found: err.Error()}}
			}
			if is.old {
				old = append(old, is.name)
			}
			if is.bare {
				bare = append(bare, is.name)
			}
			if len(is.unsigned) > 0 {
				loose = append(loose, is.name+" ("+strings.Join(is.unsigned, ", ")+")")
			}
		}
		if len(page) < q.Limit {
			break
		}
	}
	if found == 0 {
		return nil
	}
	c := Check{Name: name, State: Good, Found: fmt.Sprintf("%d are active", found)}
	if len(old) > 0 {
		c.State = Warning
		c.Found += "; called in an old form of signature, X-Hub-Signature-256 (without a time) or v1: " + firstOf(old)
		c.Remedy = "sign with v3 or Standard Webhooks; where the sender cannot, give the webhook a secret of its own"
	}
	if len(bare) > 0 {
		c.State = Warning
		c.Found += "; have no secret yet, so every call is refused: " + firstOf(bare)
		c.Remedy = strings.TrimPrefix(c.Remedy+"; make it with: skein schedule secret "+bare[0], "; ")
	}
	if len(loose) > 0 {
		c.State = Warning
		c.Found += "; believe what no signature covers (unsigned): " + firstOf(loose)
		c.Remedy = strings.TrimPrefix(c.Remedy+"; let no unsigned value decide what a run may do", "; ")
	}
	return []Check{c}
}

// signing is what doctor reports about one webhook.
type signing struct {
	name     string
	old      bool // its last call had an old form of signature
	bare     bool // it has no secret: its declaration names none, and Skein has generated none
	unsigned []string
}

func hookSigns(ctx context.Context, db store.Store, t *store.Trigger) (is signing, err error) {
	decl, err := workflow.DecodeTrigger(t.Spec)
	if err != nil || decl.Webhook == nil {
		return is, nil // a node will pause the trigger and say why
	}
	is.unsigned = decl.Webhook.Unsigned
	line, err := db.LastFire(ctx, t.Workflow, t.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return is, err
	default:
		is.old = trigger.OldSignature(line.Key)
	}
	if !is.old && len(is.unsigned) == 0 && decl.Webhook.Secret != "" {
		return is, nil
	}
	w, err := db.WorkflowByID(ctx, t.Workflow)
	if err == nil && decl.Webhook.Secret == "" {
		_, err = db.SecretOf(ctx, w.Namespace, sealed.Hook{Namespace: w.Namespace, Workflow: int64(w.ID), Trigger: t.Name}.Name())
		if is.bare = errors.Is(err, store.ErrNotFound); is.bare {
			err = nil
		}
	}
	is.name = w.Namespace + "/" + w.Name + "/" + t.Name
	return is, err
}

// firstOf lists the first names, and the number of the rest.
func firstOf(names []string) string {
	text := strings.Join(names[:min(len(names), hooksTold)], ", ")
	if more := len(names) - hooksTold; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
