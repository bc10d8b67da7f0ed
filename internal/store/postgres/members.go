package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Cluster = (*DB)(nil)

// Join implements store.Cluster.
func (d *DB) Join(ctx context.Context, m store.Member) error {
	own, named := args{}.text(m.Name).int8(int64(m.Handler)), args{}.text(m.Name)
	row := args{}.int8(int64(m.Handler)).text(m.UUID).text(m.Name).text(m.Address).text(m.Version).int4(int32(m.Format)).
		text(m.State).int4(m.Slots).int4(m.Busy).flag(m.Worker).int8(int64(m.Home)).int8(m.Lease).text(traits(&m))
	if m.Worker { // a worker owns no shards, and no shard is to move to it
		joined := false
		err := d.alter(ctx, "join the cluster", d.endBlockers, query{"joinWorker", row, mark(&joined)}, query{"find", named, nil})
		if err == nil && !joined {
			err = fmt.Errorf("join the cluster as %s: %w", m.Name, store.ErrNameHeld)
		}
		return err
	}
	return d.alter(ctx, "join the cluster", d.endBlockers, query{"lockNamed", named, nil}, query{"freeNamed", own, nil}, query{"join", row, nil},
		query{"rewant", own, nil}, query{"reshift", own, nil}, query{"find", named, nil})
}

// Renew implements store.Cluster.
func (d *DB) Renew(ctx context.Context, m store.Member) (bool, error) {
	listed := false
	row := args{}.int8(int64(m.Handler)).text(m.State).int4(m.Busy).int8(int64(m.Home)).int8(m.Lease).text(traits(&m))
	err := d.alter(ctx, "renew a member", nil, query{"renew", row, mark(&listed)})
	return listed && err == nil, err
}

// traitsRow is the form of traits and load in a row.
type traitsRow struct {
	store.Traits
	Load *store.Load `json:"load,omitempty"`
}

// traits returns the traits and the load as they are stored in a row, or "" if there are none. The error of
// Marshal is ignored, because plain texts and numbers cannot fail.
func traits(m *store.Member) string {
	t := &m.Traits
	if len(t.Groups)+len(t.Labels)+len(t.Kinds)+len(t.Extensions) == 0 && t.Room.IsZero() && t.Used.IsZero() && !t.Full && t.Quick == 0 && !t.Proves && m.Load == nil {
		return ""
	}
	text, _ := json.Marshal(traitsRow{m.Traits, m.Load})
	return string(text)
}

// Attach implements store.Cluster.
func (d *DB) Attach(ctx context.Context, m store.Member) (int64, error) {
	lease := int64(0)
	is := args{}.int8(int64(m.Handler)).text(m.UUID).int8(int64(m.Home)).int4(m.Slots).int4(m.Busy).text(traits(&m)).text(m.Name)
	err := d.alter(ctx, "attach a worker", nil, query{"attach", is, func(r *row) error { lease = r.int(); return nil }})
	if err != nil {
		return 0, err
	}
	return lease, nil
}

// NodeKey implements store.Cluster.
func (d *DB) NodeKey(ctx context.Context) ([]byte, error) {
	key, err := first(ctx, d, query{name: "nodeKey"}, func(r *row, key *[]byte) error {
		*key = r.blob()
		return r.bad
	})
	if err != nil {
		return nil, fmt.Errorf("read the key of the nodes: %w", err)
	}
	return key, nil
}

// Rise implements store.Cluster.
func (d *DB) Rise(ctx context.Context) (int, error) {
	is := 0
	err := d.alter(ctx, "raise the format", nil, query{"lockMeta", nil, nil}, query{"rise", nil, func(r *row) error { is = int(r.int()); return nil }})
	if err != nil {
		return 0, err
	}
	d.learn(is)
	return is, nil
}

// mark returns a function that records that a statement has returned a row.
func mark(done *bool) func(*row) error {
	return func(*row) error {
		*done = true
		return nil
	}
}

// Members implements store.Cluster.
func (d *DB) Members(ctx context.Context) ([]store.Member, []store.ShardRow, error) {
	var members []store.Member
	shards := make([]store.ShardRow, 0, d.shards)
	err := d.queries(ctx, query{"snapshot", nil, nil}, query{"members", nil, into(&members, scanMember)},
		query{"shards", nil, into(&shards, scanShard)}, query{"done", nil, nil})
	if err != nil {
		return nil, nil, fmt.Errorf("read members and shards: %w", err)
	}
	for i := range shards {
		d.era.see(shards[i].Epoch)
	}
	return members, shards, nil
}

func scanMember(r *row, m *store.Member) error {
	m.Handler, m.UUID, m.Name, m.Address, m.Version = dag.HandlerID(r.int()), r.text(), r.text(), r.text(), r.text()
	m.Format, m.State, m.Slots, m.Busy = int(r.int()), r.text(), int32(r.int()), int32(r.int())
	m.Beat, m.Started, m.Seen = r.int(), r.micros(), r.micros()
	m.Cordoned, m.Stopped = r.bool(), r.bool()
	m.Worker, m.Home, m.Lease = r.bool(), dag.HandlerID(r.int()), r.int()
	if text := r.text(); text != "" {
		var t traitsRow
		if err := json.Unmarshal([]byte(text), &t); err != nil {
			return fmt.Errorf("traits of member %s: %w: %w", m.Name, store.ErrCorrupt, err)
		}
		m.Traits, m.Load = t.Traits, t.Load
	}
	return r.damaged("member %s", m.Name)
}

func scanShard(r *row, s *store.ShardRow) error {
	s.ID, s.Epoch, s.Owner, s.Wanted = dag.ShardID(r.int()), r.int(), dag.HandlerID(r.int()), dag.HandlerID(r.int())
	s.Workflows, s.Seq = int(r.int()), r.int()
	s.Shift = store.Shift{At: r.micros(), From: dag.HandlerID(r.int()), To: dag.HandlerID(r.int()), Counts: dag.HandlerID(r.int()), Why: r.text()}
	return r.damaged("shard %d", s.ID)
}

// Depose implements store.Cluster.
func (d *DB) Depose(ctx context.Context, handler dag.HandlerID, beat int64) (bool, error) {
	won := false
	who := args{}.int8(int64(handler))
	err := d.alter(ctx, "depose a member", d.endBlockers,
		query{"depose", lostArgs(handler, beat), mark(&won)}, query{"freeGone", who, nil})
	return won && err == nil, err
}

// Leave implements store.Cluster.
func (d *DB) Leave(ctx context.Context, handler dag.HandlerID) error {
	who := args{}.int8(int64(handler))
	return d.alter(ctx, "leave the cluster", d.endBlockers, query{"leave", who, nil}, query{"freeGone", who, nil})
}

// Claim implements store.Cluster.
func (d *DB) Claim(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	if err := shardsKnown(d, "claim", shards...); err != nil {
		return nil, err
	}
	d.Unstage()
	var got []store.Acquired
	err := d.alter(ctx, "claim shards", d.endBlockers,
		query{"claim", args{}.shards(numbers(shards)).int8(int64(owner)), into(&got, scanAcquired)}, unpackOwned(owner, shards))
	d.handed.Forget()
	d.waves.forget(shards)
	if err != nil {
		return nil, err
	}
	for i := range got {
		d.era.see(got[i].Epoch)
	}
	d.warm(ctx)
	sort.Slice(got, func(i, j int) bool { return got[i].Shard < got[j].Shard })
	return got, nil
}

// shardsKnown returns ErrNotFound if one of the shards does not exist.
func shardsKnown(d *DB, doing string, shards ...dag.ShardID) error {
	for _, id := range shards {
		if !d.hasShard(id) {
			return fmt.Errorf("%s shard %d: %w", doing, id, store.ErrNotFound)
		}
	}
	return nil
}

// Release implements store.Cluster.
func (d *DB) Release(ctx context.Context, fences []store.Fence) error {
	ids, epochs := make([]int32, len(fences)), make([]int64, len(fences))
	for i, f := range fences {
		ids[i], epochs[i] = int32(f.Shard), f.Epoch
	}
	for _, f := range fences {
		d.waves.forget([]dag.ShardID{f.Shard})
	}
	return d.alter(ctx, "release shards", nil, query{"release", args{}.shards(ids).array(int8s(epochs)), nil})
}

// Move implements store.Cluster.
func (d *DB) Move(ctx context.Context, shard dag.ShardID, to dag.HandlerID) error {
	if err := shardsKnown(d, "move", shard); err != nil {
		return err
	}
	found := false
	err := d.alter(ctx, "move a shard", nil, notedQuery(ctx, query{"move", args{}.int4(int32(shard)).int8(int64(to)), mark(&found)}), query{"unshift", args{}.int4(int32(shard)), nil})
	if err == nil && !found {
		err = fmt.Errorf("move shard %d: it has no row: %w", shard, store.ErrCorrupt)
	}
	return err
}

// Shift implements store.Cluster.
func (d *DB) Shift(ctx context.Context, m store.ShiftMove) (bool, error) {
	if err := shardsKnown(d, "shift", m.Shard); err != nil {
		return false, err
	}
	done := false
	is := args{}.int4(int32(m.Shard)).int8(m.Epoch).int8(int64(m.From)).int8(int64(m.To)).int8(int64(m.Counts)).text(m.Why).
		int8(m.Apart.Microseconds()).int8(formatShift)
	err := d.alter(ctx, "shift a shard", nil, query{"lockMeta", nil, nil}, query{"shift", is, mark(&done)})
	return done && err == nil, err
}

// Order implements store.Cluster.
func (d *DB) Order(ctx context.Context, o store.Order, stand bool) (bool, error) {
	changed := false
	q := query{"withdraw", args{}.text(o.Node).text(o.What), mark(&changed)}
	if stand {
		q = query{"order", args{}.text(o.Node).text(o.What).text(o.Actor), mark(&changed)}
	}
	err := d.alter(ctx, "order a node", nil, notedQuery(ctx, q))
	return changed && err == nil, err
}

// Orders implements store.Cluster.
func (d *DB) Orders(ctx context.Context) ([]store.Order, error) {
	return list(ctx, d, query{"orders", nil, nil}, func(r *row, o *store.Order) error {
		o.Node, o.What, o.Actor, o.At = r.text(), r.text(), r.text(), r.micros()
		return r.damaged("order to %s", o.Node)
	})
}

// Submitted implements store.Cluster.
func (d *DB) Submitted(ctx context.Context, shards []dag.ShardID, limit int) ([]dag.RunID, error) {
	return list(ctx, d, query{"submitted", args{}.shards(numbers(shards)).int8(limitOf(limit)), nil}, scanID)
}

// alter runs statements that write in one transaction, each on a snapshot of its own.
func (d *DB) alter(ctx context.Context, doing string, blocked func(context.Context, uint32), all ...query) error {
	if err := ended(ctx, doing); err != nil {
		return err
	}
	if err := d.change(ctx, blocked, all...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
