package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Alerts = (*DB)(nil)

// alerts implements store.Alerts for the database that embeds it.
type alerts struct{ d *DB }

// alertRows writes the incidents and notices of a batch.
func (e alerts) alertRows(b *store.Batch) error {
	d := e.d
	for i := range b.Incidents {
		n := &b.Incidents[i]
		if err := checkShard(n.Shard); err != nil {
			return fmt.Errorf("incident %s: %w", n.ID, err)
		}
		var err error
		if n.Revision == 1 {
			_, err = d.stmts.insertIncident.row().blob(n.ID[:]).int(int64(n.Shard)).int(int64(n.Workflow)).text(n.Namespace).text(n.Rule).text(n.State).
				int(n.Revision).int(int64(n.Created)).int(int64(n.Modified)).int(int64(n.Ended)).blob(some(n.Data)).exec(d.conn)
		} else {
			err = d.stmts.updateIncident.row().blob(n.ID[:]).int(int64(n.Shard)).text(n.State).int(n.Revision).int(int64(n.Modified)).
				int(int64(n.Ended)).blob(some(n.Data)).one(d.conn)
		}
		if err != nil {
			return err
		}
	}
	for i := range b.Notices {
		n := &b.Notices[i]
		if err := checkShard(n.Shard); err != nil {
			return fmt.Errorf("notice of incident %s: %w", n.Incident, err)
		}
		_, err := d.stmts.insertNotice.row().blob(n.Incident[:]).int(int64(n.Seq)).text(n.Channel).text(n.Namespace).int(int64(n.Shard)).int(int64(n.Workflow)).
			text(n.State).int(int64(n.Tries)).int(int64(n.Due)).int(int64(n.Created)).int(int64(n.Ended)).text(n.Error).blob(some(n.Data)).exec(d.conn)
		if err != nil {
			return err
		}
	}
	return nil
}

// PutAlertChannel implements store.Alerts.
func (e alerts) PutAlertChannel(ctx context.Context, c store.AlertChannel) (store.AlertChannel, error) {
	d := e.d
	err := changeNoted(ctx, d, "change of channels", func() error {
		n, err := d.stmts.putAlertChannel.row().text(c.Namespace).text(c.Name).int(c.Version).blob(some(c.Data)).text(c.By).int(int64(wall())).
			int(store.AlertChannelsMax).exec(d.conn)
		if err == nil && n == 0 {
			err = errNoChange
		}
		return err
	})
	if err != nil && !errors.Is(err, errNoChange) {
		return c, err
	}
	all, failed := e.AlertChannels(ctx)
	if failed != nil {
		return c, failed
	}
	is, there := store.FindAlertChannel(all, c.Namespace, c.Name)
	switch {
	case err == nil:
		return is, nil
	case !there && c.Version == 1 && len(all) >= store.AlertChannelsMax:
		return c, fmt.Errorf("there are already %d channels, the limit: %w", store.AlertChannelsMax, store.ErrRefused)
	}
	return c, fmt.Errorf("channel %s/%s: %w", c.Namespace, c.Name, store.ErrFenced)
}

// DropAlertChannel implements store.Alerts.
func (e alerts) DropAlertChannel(ctx context.Context, namespace, name string) error {
	return changeNoted(ctx, e.d, "change of channels", func() error {
		n, err := e.d.stmts.dropAlertChannel.row().text(namespace).text(name).exec(e.d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("channel %s/%s: %w", namespace, name, store.ErrNotFound)
		}
		return err
	})
}

// AlertChannels implements store.Alerts.
func (e alerts) AlertChannels(ctx context.Context) ([]store.AlertChannel, error) {
	return list(e.d, ctx, "alertChannels", nil, func(s *sqlite.Stmt, c *store.AlertChannel) error {
		r := row{s: s}
		c.Namespace, c.Name, c.Version, c.Data, c.By, c.Created, c.Modified = r.text(), r.text(), r.int(), r.blob(), r.text(), r.micros(), r.micros()
		return nil
	})
}

// OpenIncidents implements store.Alerts.
func (e alerts) OpenIncidents(ctx context.Context, shard dag.ShardID, after uuid.UUID, limit int) ([]store.Incident, error) {
	return list(e.d, ctx, "openIncidents", []any{int64(shard), after[:], int64(limit)}, scanIncident)
}

// Incident implements store.Alerts.
func (e alerts) Incident(ctx context.Context, id uuid.UUID) (store.Incident, error) {
	return first(e.d, ctx, "incident", []any{id[:]}, scanIncident)
}

// Incidents implements store.Alerts.
func (e alerts) Incidents(ctx context.Context, q store.IncidentQuery) ([]store.Incident, error) {
	before, id := int64(q.Before), q.BeforeID
	if q.Before == 0 {
		before = math.MaxInt64
	}
	in := store.AuditQuery{Namespaces: q.Namespaces}
	name := "incidentsOpen"
	if q.Over {
		name = "incidents"
	}
	return list(e.d, ctx, name, []any{before, id[:], in.In(), int64(q.Workflow), q.Counting, int64(q.Limit), q.State}, scanIncident)
}

// Notices implements store.Alerts.
func (e alerts) Notices(ctx context.Context, incident uuid.UUID) ([]store.Notice, error) {
	return list(e.d, ctx, "notices", []any{incident[:]}, scanNotice)
}

// DueNotices implements store.Alerts.
func (e alerts) DueNotices(ctx context.Context, q store.NoticeQuery) ([]store.Notice, error) {
	not := make([]string, len(q.Not))
	for i, k := range q.Not {
		not[i] = k.Namespace + "/" + k.Name
	}
	return list(e.d, ctx, "dueNotices", []any{jsonArray(q.Shards), int64(q.Now), jsonArray(not), int64(q.Limit)}, scanNotice)
}

// jsonArray is a parameter of json_each.
func jsonArray[T any](all []T) string {
	text, _ := json.Marshal(all) // numbers and texts can always be encoded
	return string(text)
}

// NextNotice implements store.Alerts.
func (e alerts) NextNotice(ctx context.Context, shards []dag.ShardID) (dag.Micros, error) {
	return first(e.d, ctx, "nextNotice", []any{jsonArray(shards)}, func(s *sqlite.Stmt, at *dag.Micros) error {
		r := row{s: s}
		*at = r.micros()
		return nil
	})
}

// NoteNotice implements store.Alerts.
func (e alerts) NoteNotice(ctx context.Context, n store.Notice) error {
	return e.d.changeBeside(ctx, "change of notices", func() error {
		return e.d.stmts.noteNotice.row().blob(n.Incident[:]).int(int64(n.Seq)).text(n.Channel).text(n.State).int(int64(n.Tries)).int(int64(n.Due)).
			int(int64(n.Ended)).text(n.Error).one(e.d.conn)
	})
}

// AlertTroubles implements store.Alerts.
func (e alerts) AlertTroubles(ctx context.Context, since dag.Micros) ([]store.Trouble, error) {
	return list(e.d, ctx, "alertTroubles", []any{int64(since)}, func(s *sqlite.Stmt, t *store.Trouble) error {
		r := row{s: s}
		t.Namespace, t.Name, t.Pending, t.Lost, t.Error = r.text(), r.text(), r.int(), r.int(), r.text()
		return nil
	})
}

// ExpireIncidents implements store.Alerts.
func (e alerts) ExpireIncidents(ctx context.Context, x store.IncidentExpiry) (n int, err error) {
	d := e.d
	err = d.changeBeside(ctx, "change of incidents", func() error {
		var gone []uuid.UUID
		err := d.stmts.endedIncidents.row().int(int64(x.Before)).int(int64(x.Limit)).int(int64(x.Keep)).each(func(r row) error {
			id, err := uuid.FromBytes(r.blob())
			gone = append(gone, id)
			return err
		})
		for i := 0; i < len(gone) && err == nil; i++ {
			if _, err = d.stmts.expireNotices.row().blob(gone[i][:]).exec(d.conn); err == nil {
				_, err = d.stmts.expireIncident.row().blob(gone[i][:]).exec(d.conn)
			}
		}
		n = len(gone)
		return err
	})
	return n, err
}

func scanIncident(s *sqlite.Stmt, n *store.Incident) (err error) {
	r := row{s: s}
	if n.ID, err = uuid.FromBytes(r.blob()); err != nil {
		return fmt.Errorf("incident: %w: %w", store.ErrCorrupt, err)
	}
	n.Shard, n.Workflow, n.Namespace, n.Rule, n.State = dag.ShardID(r.int()), dag.WorkflowID(r.int()), r.text(), r.text(), r.text()
	n.Revision, n.Created, n.Modified, n.Ended, n.Data = r.int(), r.micros(), r.micros(), r.micros(), r.blob()
	return nil
}

func scanNotice(s *sqlite.Stmt, n *store.Notice) (err error) {
	r := row{s: s}
	if n.Incident, err = uuid.FromBytes(r.blob()); err != nil {
		return fmt.Errorf("notice: %w: %w", store.ErrCorrupt, err)
	}
	n.Seq, n.Channel, n.Namespace, n.Shard, n.Workflow = int32(r.int()), r.text(), r.text(), dag.ShardID(r.int()), dag.WorkflowID(r.int())
	n.State, n.Tries, n.Due, n.Created, n.Ended = r.text(), int32(r.int()), r.micros(), r.micros(), r.micros()
	n.Error, n.Data = r.text(), r.blob()
	return nil
}
