package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// PutAlertRules implements store.Alerts.
func (e alerts) PutAlertRules(ctx context.Context, r store.AlertRules) (store.AlertRules, error) {
	var found []store.AlertRules
	if err := ended(ctx, "putAlertRules"); err != nil {
		return r, err
	}
	a := args{}.text(r.Namespace).int8(r.Version).blob(whole(r.Data)).text(r.By)
	err := e.d.change(ctx, nil, notedQuery(ctx, query{"putAlertRules", a, into(&found, scanAlertRules)}))
	if err == nil && len(found) == 0 {
		err = store.ErrFenced
	}
	if err != nil {
		return r, fmt.Errorf("alert rules of namespace %s: %w", r.Namespace, err)
	}
	return found[0], nil
}

// AlertRules implements store.Alerts.
func (e alerts) AlertRules(ctx context.Context) ([]store.AlertRules, error) {
	return list(ctx, e.d, query{name: "alertRules"}, scanAlertRules)
}

func scanAlertRules(r *row, c *store.AlertRules) error {
	c.Namespace, c.Version, c.Data, c.By, c.Created, c.Modified = r.text(), r.int(), r.blob(), r.text(), r.micros(), r.micros()
	return r.damaged("alert rules of namespace %s", c.Namespace)
}

// LostMembers implements store.Alerts.
func (e alerts) LostMembers(ctx context.Context) ([]store.LostMember, error) {
	return list(ctx, e.d, query{name: "lostMembers"}, func(r *row, m *store.LostMember) error {
		m.Name, m.Worker, m.Handler, m.At = r.text(), r.bool(), dag.HandlerID(r.int()), r.micros()
		return r.damaged("lost member %s", m.Name)
	})
}

// Watched implements store.Alerts.
func (e alerts) Watched(ctx context.Context, shards []dag.ShardID) ([]store.Watched, error) {
	return list(ctx, e.d, query{name: "watched", args: args{}.shards(shardNumbers(shards))}, func(r *row, w *store.Watched) error {
		w.Workflow, w.Version, w.Def = dag.WorkflowID(r.int()), int32(r.int()), r.blob()
		return r.damaged("a version of workflow %d", w.Workflow)
	})
}

// anyBeat makes the statement depose remove a member with any counter.
const anyBeat = -1

// Lose implements store.Workers.
func (e alerts) Lose(ctx context.Context, handler dag.HandlerID) error {
	who := args{}.int8(int64(handler))
	return e.d.alter(ctx, "lose a member", e.d.endBlockers, query{"depose", lostArgs(handler, anyBeat), nil}, query{"freeGone", who, nil})
}

// lostArgs returns the arguments of the statement depose.
func lostArgs(handler dag.HandlerID, beat int64) args {
	return args{}.int8(int64(handler)).int8(beat).int8(store.LostMembersKept.Microseconds()).int8(store.LostMembersMax)
}
