package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// PutSilence implements store.Alerts.
func (e *alerts) PutSilence(ctx context.Context, s store.Silence) (store.Silence, error) {
	err := e.change(ctx, func() error {
		if err := checkTexts("silence", s.Namespace, s.Workflow, s.Rule, s.By, s.Reason); err != nil {
			return err
		}
		s.Created = e.s.clock()
		full := len(e.silences) >= store.SilencesMax
		kept := slices.DeleteFunc(slices.Clone(e.silences), func(o store.Silence) bool {
			return o.Until <= s.Created && (full || o.Until <= s.Created-dag.Micros(store.SilencesKept.Microseconds()))
		})
		if len(kept) >= store.SilencesMax {
			return refused("there are already %d silences, the limit", store.SilencesMax)
		}
		e.silences = append(kept, s)
		return nil
	})
	return s, err
}

// EndSilence implements store.Alerts.
func (e *alerts) EndSilence(ctx context.Context, id uuid.UUID) (s store.Silence, err error) {
	err = e.change(ctx, func() error {
		i := slices.IndexFunc(e.silences, func(o store.Silence) bool { return o.ID == id && o.Until > e.s.clock() })
		if i < 0 {
			return fmt.Errorf("silence %s: %w", id, store.ErrNotFound)
		}
		e.silences = slices.Clone(e.silences)
		e.silences[i].Until = e.s.clock()
		s = e.silences[i]
		return nil
	})
	return s, err
}

// Silences implements store.Alerts.
func (e *alerts) Silences(ctx context.Context) (all []store.Silence, err error) {
	err = e.s.read(ctx, Read, func() error {
		all = slices.Clone(e.silences)
		return nil
	})
	slices.SortFunc(all, func(a, b store.Silence) int {
		return cmp.Or(cmp.Compare(b.Created, a.Created), slices.Compare(b.ID[:], a.ID[:]))
	})
	return all, err
}

// LastIncident implements store.Alerts.
func (e *alerts) LastIncident(ctx context.Context, workflow dag.WorkflowID, rule string) (store.Incident, error) {
	found, err := e.some(ctx, int(^uint(0)>>1), func(n *store.Incident) bool { return n.Workflow == workflow && n.Rule == rule })
	if err != nil || len(found) == 0 {
		return store.Incident{}, cmp.Or(err, fmt.Errorf("incidents of rule %s: %w", rule, store.ErrNotFound))
	}
	return slices.MaxFunc(found, func(a, b store.Incident) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), slices.Compare(a.ID[:], b.ID[:]))
	}), nil
}
