package postgres

import (
	"context"
	"fmt"
	"math"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Alerts = (*DB)(nil)

// alerts implements store.Alerts for the database that embeds it.
type alerts struct{ d *DB }

// alertRows sends the incidents and notices of a batch in their order, because a batch may insert and change
// the same row.
func (x *tx) alertRows(b *store.Batch) {
	for i := range b.Incidents {
		n := &b.Incidents[i]
		if _, fenced := x.seq(n.Shard); !fenced {
			x.fail = fmt.Errorf("incident %s is of shard %d, which has no fence: %w", n.ID, n.Shard, store.ErrFenced)
			return
		}
		if n.Revision == 1 {
			x.send("insertIncident", args{}.id(dag.RunID(n.ID)).int4(int32(n.Shard)).int8(int64(n.Workflow)).text(n.Namespace).text(n.Rule).text(n.State).
				int8(n.Revision).int8(int64(n.Created)).int8(int64(n.Modified)).int8(int64(n.Ended)).blob(whole(n.Data)))
		} else {
			x.send("updateIncident", args{}.id(dag.RunID(n.ID)).int4(int32(n.Shard)).text(n.State).int8(n.Revision).int8(int64(n.Modified)).
				int8(int64(n.Ended)).blob(whole(n.Data)))
		}
	}
	for i := range b.Notices {
		n := &b.Notices[i]
		if _, fenced := x.seq(n.Shard); !fenced {
			x.fail = fmt.Errorf("a notice of incident %s is of shard %d, which has no fence: %w", n.Incident, n.Shard, store.ErrFenced)
			return
		}
		x.send("insertNotice", args{}.id(dag.RunID(n.Incident)).int4(n.Seq).text(n.Channel).text(n.Namespace).int4(int32(n.Shard)).int8(int64(n.Workflow)).
			text(n.State).int4(n.Tries).int8(int64(n.Due)).int8(int64(n.Created)).int8(int64(n.Ended)).text(n.Error).blob(whole(n.Data)))
	}
}

// whole returns an empty blob for nil, because the column does not allow NULL.
func whole(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// PutAlertChannel implements store.Alerts.
func (e alerts) PutAlertChannel(ctx context.Context, c store.AlertChannel) (store.AlertChannel, error) {
	found, err := e.change(ctx, "putAlertChannel", args{}.text(c.Namespace).text(c.Name).int8(c.Version).blob(whole(c.Data)).text(c.By).int8(store.AlertChannelsMax))
	switch {
	case err != nil:
		return c, fmt.Errorf("channel %s/%s: %w", c.Namespace, c.Name, err)
	case len(found) > 0:
		return found[0], nil
	}
	all, err := e.AlertChannels(ctx)
	if err != nil {
		return c, err
	}
	if _, there := store.FindAlertChannel(all, c.Namespace, c.Name); !there && c.Version == 1 && len(all) >= store.AlertChannelsMax {
		return c, fmt.Errorf("there are already %d channels, the limit: %w", store.AlertChannelsMax, store.ErrRefused)
	}
	return c, fmt.Errorf("channel %s/%s: %w", c.Namespace, c.Name, store.ErrFenced)
}

// DropAlertChannel implements store.Alerts.
func (e alerts) DropAlertChannel(ctx context.Context, namespace, name string) error {
	found, err := e.change(ctx, "dropAlertChannel", args{}.text(namespace).text(name))
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("channel %s/%s: %w", namespace, name, err)
	}
	return nil
}

func (e alerts) change(ctx context.Context, name string, a args) (found []store.AlertChannel, err error) {
	if err := ended(ctx, name); err != nil {
		return nil, err
	}
	err = e.d.change(ctx, nil, notedQuery(ctx, query{name, a, into(&found, scanAlertChannel)}))
	return found, err
}

// AlertChannels implements store.Alerts.
func (e alerts) AlertChannels(ctx context.Context) ([]store.AlertChannel, error) {
	return list(ctx, e.d, query{name: "alertChannels"}, scanAlertChannel)
}

// OpenIncidents implements store.Alerts.
func (e alerts) OpenIncidents(ctx context.Context, shard dag.ShardID, after uuid.UUID, limit int) ([]store.Incident, error) {
	return list(ctx, e.d, query{name: "openIncidents", args: args{}.int4(int32(shard)).id(dag.RunID(after)).int8(int64(limit))}, scanIncident)
}

// Incident implements store.Alerts.
func (e alerts) Incident(ctx context.Context, id uuid.UUID) (store.Incident, error) {
	return first(ctx, e.d, query{name: "incident", args: args{}.id(dag.RunID(id))}, scanIncident)
}

// Incidents implements store.Alerts.
func (e alerts) Incidents(ctx context.Context, q store.IncidentQuery) ([]store.Incident, error) {
	before := int64(q.Before)
	if q.Before == 0 {
		before = math.MaxInt64
	}
	in := store.AuditQuery{Namespaces: q.Namespaces}
	a := args{}.int8(before).id(dag.RunID(q.BeforeID)).text(in.In()).int8(int64(q.Workflow)).flag(q.Counting).int8(int64(q.Limit)).text(q.State)
	name := "incidentsOpen"
	if q.Over {
		name = "incidents"
	}
	return list(ctx, e.d, query{name: name, args: a}, scanIncident)
}

// Notices implements store.Alerts.
func (e alerts) Notices(ctx context.Context, incident uuid.UUID) ([]store.Notice, error) {
	return list(ctx, e.d, query{name: "notices", args: args{}.id(dag.RunID(incident))}, scanNotice)
}

// DueNotices implements store.Alerts.
func (e alerts) DueNotices(ctx context.Context, q store.NoticeQuery) ([]store.Notice, error) {
	not := make([]string, len(q.Not))
	for i, k := range q.Not {
		not[i] = k.Namespace + "/" + k.Name
	}
	a := args{}.shards(shardNumbers(q.Shards)).int8(int64(q.Now)).array(texts(not)).int8(int64(q.Limit))
	return list(ctx, e.d, query{name: "dueNotices", args: a}, scanNotice)
}

func shardNumbers(shards []dag.ShardID) []int32 {
	all := make([]int32, len(shards))
	for i, s := range shards {
		all[i] = int32(s)
	}
	return all
}

// NextNotice implements store.Alerts.
func (e alerts) NextNotice(ctx context.Context, shards []dag.ShardID) (dag.Micros, error) {
	return first(ctx, e.d, query{name: "nextNotice", args: args{}.shards(shardNumbers(shards))}, func(r *row, at *dag.Micros) error {
		*at = r.micros()
		return r.damaged("notice")
	})
}

// NoteNotice implements store.Alerts.
func (e alerts) NoteNotice(ctx context.Context, n store.Notice) error {
	return e.d.alter(ctx, "record the end of a notice's call", nil, query{name: "noteNotice", args: args{}.id(dag.RunID(n.Incident)).int4(n.Seq).text(n.Channel).
		text(n.State).int4(n.Tries).int8(int64(n.Due)).int8(int64(n.Ended)).text(n.Error)})
}

// AlertTroubles implements store.Alerts.
func (e alerts) AlertTroubles(ctx context.Context, since dag.Micros) ([]store.Trouble, error) {
	return list(ctx, e.d, query{name: "alertTroubles", args: args{}.int8(int64(since))}, func(r *row, t *store.Trouble) error {
		t.Namespace, t.Name, t.Pending, t.Lost, t.Error = r.text(), r.text(), r.int(), r.int(), r.text()
		return r.damaged("the notices of channel %s", t.Name)
	})
}

// ExpireIncidents implements store.Alerts.
func (e alerts) ExpireIncidents(ctx context.Context, x store.IncidentExpiry) (n int, err error) {
	err = e.d.alter(ctx, "delete incidents", nil, query{"expireIncidents", args{}.int8(int64(x.Before)).int8(int64(x.Limit)).int8(int64(x.Keep)), func(r *row) error {
		n = int(r.int())
		return r.damaged("the number of incidents")
	}})
	return n, err
}

func scanAlertChannel(r *row, c *store.AlertChannel) error {
	c.Namespace, c.Name, c.Version, c.Data, c.By, c.Created, c.Modified = r.text(), r.text(), r.int(), r.blob(), r.text(), r.micros(), r.micros()
	return r.damaged("channel %s/%s", c.Namespace, c.Name)
}

func scanIncident(r *row, n *store.Incident) error {
	n.ID, n.Shard, n.Workflow, n.Namespace, n.Rule, n.State = uuid.UUID(r.id()), dag.ShardID(r.int()), dag.WorkflowID(r.int()), r.text(), r.text(), r.text()
	n.Revision, n.Created, n.Modified, n.Ended, n.Data = r.int(), r.micros(), r.micros(), r.micros(), r.blob()
	return r.damaged("incident %s", n.ID)
}

func scanNotice(r *row, n *store.Notice) error {
	n.Incident, n.Seq, n.Channel, n.Namespace, n.Shard, n.Workflow = uuid.UUID(r.id()), int32(r.int()), r.text(), r.text(), dag.ShardID(r.int()), dag.WorkflowID(r.int())
	n.State, n.Tries, n.Due, n.Created, n.Ended = r.text(), int32(r.int()), r.micros(), r.micros(), r.micros()
	n.Error, n.Data = r.text(), r.blob()
	return r.damaged("a notice of incident %s", n.Incident)
}
