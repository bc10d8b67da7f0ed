package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// PutSilence implements store.Alerts.
func (e alerts) PutSilence(ctx context.Context, s store.Silence) (store.Silence, error) {
	found, err := e.silenced(ctx, "putSilence", args{}.id(dag.RunID(s.ID)).text(s.Namespace).text(s.Workflow).text(s.Rule).int8(int64(s.Until)).text(s.By).
		text(s.Reason).int8(store.SilencesMax), query{name: "expireSilences", args: args{}.int8(store.SilencesKept.Microseconds()).int8(store.SilencesMax)})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("there are already %d silences, the limit: %w", store.SilencesMax, store.ErrRefused)
	}
	if err != nil {
		return s, err
	}
	return found[0], nil
}

// EndSilence implements store.Alerts.
func (e alerts) EndSilence(ctx context.Context, id uuid.UUID) (store.Silence, error) {
	found, err := e.silenced(ctx, "endSilence", args{}.id(dag.RunID(id)))
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Silence{}, fmt.Errorf("silence %s: %w", id, err)
	}
	return found[0], nil
}

// silenced runs a statement that changes silences, after other statements in the same transaction. It returns
// the changed silences.
func (e alerts) silenced(ctx context.Context, name string, a args, before ...query) (found []store.Silence, err error) {
	if err := ended(ctx, name); err != nil {
		return nil, err
	}
	err = e.d.change(ctx, nil, append(before, notedQuery(ctx, query{name, a, into(&found, scanSilence)}))...)
	return found, err
}

// Silences implements store.Alerts.
func (e alerts) Silences(ctx context.Context) ([]store.Silence, error) {
	return list(ctx, e.d, query{name: "silences"}, scanSilence)
}

// LastIncident implements store.Alerts.
func (e alerts) LastIncident(ctx context.Context, workflow dag.WorkflowID, rule string) (store.Incident, error) {
	return first(ctx, e.d, query{name: "lastIncident", args: args{}.int8(int64(workflow)).text(rule)}, scanIncident)
}

func scanSilence(r *row, s *store.Silence) error {
	s.ID, s.Namespace, s.Workflow, s.Rule, s.Until, s.Created, s.By, s.Reason = uuid.UUID(r.id()), r.text(), r.text(), r.text(), r.micros(), r.micros(), r.text(), r.text()
	return r.damaged("silence %s", s.ID)
}
