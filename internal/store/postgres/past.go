package postgres

import (
	"context"
	"math"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// expireAs runs statements that delete old rows in one transaction, for the owner of a shard. It uses the
// connection for logs, because writers need the other connections.
func expireAs(ctx context.Context, d *DB, shard dag.ShardID, owner dag.HandlerID, all ...query) error {
	if err := ended(ctx, all[0].name); err != nil {
		return err
	}
	c, err := d.logs.take(ctx)
	if err != nil {
		return err
	}
	defer d.logs.give(c)
	return c.change(ctx, append([]query{{"holds", args{}.int4(int32(shard)).int8(int64(owner)), nil}}, all...))
}

// count runs statements that each return a count, and adds the counts up.
func count(ctx context.Context, d *DB, shard dag.ShardID, owner dag.HandlerID, all ...query) (n int, err error) {
	for i := range all {
		all[i].see = func(r *row) error {
			n += int(r.int())
			return r.damaged("a count")
		}
	}
	return n, expireAs(ctx, d, shard, owner, all...)
}

// ExpireFires implements store.Retention. It deletes nothing while a member is listed whose program expects
// the whole ledger.
func (d *DB) ExpireFires(ctx context.Context, owner dag.HandlerID, x store.FireExpiry) (did store.FiresExpired, err error) {
	if d.stands.Load() < formatPast {
		return did, nil
	}
	lines := args{}.int8(int64(x.Workflow)).int8(int64(x.Plain)).int8(int64(x.Exceptions)).int8(int64(max(x.Keep, 1))).
		int8(int64(x.After.Decided)).text(x.After.Trigger).int8(int64(x.After.At)).text(x.After.Key).int8(int64(x.Limit))
	all := []query{{"expireFires", lines, func(r *row) error {
		did.Gone = int(r.int())
		more := int(r.int()) == x.Limit
		if last := (store.FireKey{Decided: r.micros(), Workflow: x.Workflow, Trigger: r.text(), At: r.micros(), Key: r.text()}); more {
			did.Next = last
		}
		return r.damaged("the ledger")
	}}}
	if x.After == (store.FireKey{}) {
		all = append(all, query{"expireDays", args{}.int8(int64(x.Workflow)).int4(x.Days), nil})
	}
	return did, expireAs(ctx, d, x.Shard, owner, all...)
}

// FireDays implements store.Schedules.
func (d *DB) FireDays(ctx context.Context, k store.TriggerKey, before int32, limit int) ([]store.FireDay, error) {
	if before == 0 {
		before = math.MaxInt32
	}
	a := args{}.int8(int64(k.Workflow)).text(k.Name).int4(before).int8(int64(limitOf(limit)))
	return list(ctx, d, query{name: "fireDays", args: a}, func(r *row, v *store.FireDay) error {
		v.Workflow, v.Trigger, v.Day = dag.WorkflowID(r.int()), r.text(), int32(r.int())
		v.Fired, v.Late, v.Skipped, v.Merged, v.Missed, v.Until = r.int(), r.int(), r.int(), r.int(), r.int(), r.micros()
		return r.damaged("what is kept of trigger %s", v.Trigger)
	})
}

// ExpireBackfills implements store.Retention.
func (d *DB) ExpireBackfills(ctx context.Context, owner dag.HandlerID, x store.BackfillExpiry) (int, error) {
	return count(ctx, d, x.Shard, owner, query{name: "expireBackfills",
		args: args{}.int8(int64(x.Workflow)).int8(int64(x.Before)).int8(int64(max(x.Keep, 1))).int8(int64(x.Limit))})
}

// ExpireWorkflow implements store.Retention.
func (d *DB) ExpireWorkflow(ctx context.Context, owner dag.HandlerID, x store.WorkflowExpiry) (int, error) {
	return count(ctx, d, x.Shard, owner, query{name: "expireWorkflow",
		args: args{}.int8(int64(x.Workflow)).int8(int64(x.Before)).int8(int64(x.Limit))})
}

// DeletedWorkflows implements store.Retention.
func (d *DB) DeletedWorkflows(ctx context.Context, after dag.WorkflowID, limit int) ([]store.Workflow, error) {
	return list(ctx, d, query{name: "deletedWorkflows", args: args{}.int8(int64(after)).int8(int64(limitOf(limit)))}, scanWorkflow)
}

// ExpireRecords implements store.Retention. Until Upgrade has built the index of requests by time, it deletes
// no requests, because the search for old requests would read the whole table.
func (d *DB) ExpireRecords(ctx context.Context, owner dag.HandlerID, x store.RecordExpiry) (int, error) {
	by := func(before dag.Micros, keep int) args {
		return args{}.int8(int64(before)).int8(int64(max(keep, 1))).int8(int64(x.Limit))
	}
	all := []query{{name: "expireHandlers", args: by(x.Records, x.RecordsKeep).int8(int64(x.RecordsMin))}, {name: "expireTokens", args: args{}.int8(int64(x.Records))},
		{name: "expireSent", args: by(x.Events, x.EventsKeep)}}
	state, err := indexState(ctx, d, requestIndex)
	if err != nil {
		return 0, err
	}
	if state == IndexValid {
		all = append(all, query{name: "expireRequests", args: by(x.Requests, x.RequestsKeep)},
			query{name: "expireCalls", args: args{}.int8(int64(x.Calls)).int8(int64(x.Limit))},
			query{name: "expireBusyCalls", args: args{}.int8(int64(max(x.CallsKeep, 1))).int8(int64(x.Limit))})
	}
	return count(ctx, d, x.Shard, owner, all...)
}
