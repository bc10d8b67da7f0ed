package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// PutSilence implements store.Alerts.
func (e alerts) PutSilence(ctx context.Context, s store.Silence) (store.Silence, error) {
	d := e.d
	s.Created = wall()
	err := changeNoted(ctx, d, "change of silences", func() error {
		_, err := d.stmts.expireSilences.row().int(int64(s.Created)).int(store.SilencesKept.Microseconds()).int(store.SilencesMax).exec(d.conn)
		if err != nil {
			return err
		}
		n, err := d.stmts.putSilence.row().blob(s.ID[:]).text(s.Namespace).text(s.Workflow).text(s.Rule).int(int64(s.Until)).int(int64(s.Created)).
			text(s.By).text(s.Reason).int(store.SilencesMax).exec(d.conn)
		if err == nil && n == 0 {
			err = errNoChange
		}
		return err
	})
	if errors.Is(err, errNoChange) {
		err = fmt.Errorf("there are already %d silences, the limit: %w", store.SilencesMax, store.ErrRefused)
	}
	return s, err
}

// EndSilence implements store.Alerts.
func (e alerts) EndSilence(ctx context.Context, id uuid.UUID) (store.Silence, error) {
	err := changeNoted(ctx, e.d, "change of silences", func() error {
		n, err := e.d.stmts.endSilence.row().blob(id[:]).int(int64(wall())).exec(e.d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("silence %s: %w", id, store.ErrNotFound)
		}
		return err
	})
	if err != nil {
		return store.Silence{}, err
	}
	all, err := e.Silences(ctx)
	for i := range all {
		if all[i].ID == id {
			return all[i], nil
		}
	}
	if err == nil {
		err = fmt.Errorf("silence %s: %w", id, store.ErrNotFound)
	}
	return store.Silence{}, err
}

// Silences implements store.Alerts.
func (e alerts) Silences(ctx context.Context) ([]store.Silence, error) {
	return list(e.d, ctx, "silences", nil, func(s *sqlite.Stmt, n *store.Silence) (err error) {
		r := row{s: s}
		if n.ID, err = uuid.FromBytes(r.blob()); err != nil {
			return fmt.Errorf("silence: %w: %w", store.ErrCorrupt, err)
		}
		n.Namespace, n.Workflow, n.Rule, n.Until, n.Created, n.By, n.Reason = r.text(), r.text(), r.text(), r.micros(), r.micros(), r.text(), r.text()
		return nil
	})
}

// LastIncident implements store.Alerts.
func (e alerts) LastIncident(ctx context.Context, workflow dag.WorkflowID, rule string) (store.Incident, error) {
	return first(e.d, ctx, "lastIncident", []any{int64(workflow), rule}, scanIncident)
}
