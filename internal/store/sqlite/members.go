package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Workers = (*DB)(nil)

// members implements store.Workers for the database that embeds it.
type members struct{ d *DB }

// Join implements store.Workers.
func (e members) Join(ctx context.Context, m store.Member) error {
	switch {
	case !m.Worker:
		return fmt.Errorf("join as %s: a store for one node lists only workers: %w", m.Name, store.ErrRefused)
	case m.State != store.MemberActive && m.State != store.MemberLeaving && m.State != store.MemberDrained:
		return fmt.Errorf("join as %s: a member cannot have the state %q: %w", m.Name, m.State, store.ErrRefused)
	}
	d := e.d
	return d.changeBeside(ctx, "change of members", func() error {
		n, err := d.stmts.joinMember.row().int(int64(m.Handler)).text(m.UUID).text(m.Name).text(m.Version).int(int64(m.Format)).
			text(m.State).int(int64(m.Slots)).int(int64(m.Busy)).int(int64(wall())).int(int64(m.Home)).int(m.Lease).text(traits(m.Traits)).exec(d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("join as %s: %w", m.Name, store.ErrNameHeld)
		}
		if err == nil {
			_, err = d.stmts.findMember.row().text(m.Name).exec(d.conn)
		}
		return err
	})
}

// Attach implements store.Workers.
func (e members) Attach(ctx context.Context, m store.Member) (lease int64, err error) {
	d := e.d
	err = d.changeBeside(ctx, "change of members", func() error {
		n, err := d.stmts.attachMember.row().int(int64(m.Handler)).text(m.UUID).int(int64(m.Home)).int(int64(m.Slots)).int(int64(m.Busy)).
			text(traits(m.Traits)).int(int64(wall())).text(m.Name).exec(d.conn)
		if err != nil || n == 0 {
			return err
		}
		lease, err = scalar(d.conn, fmt.Sprintf("SELECT lease FROM member WHERE handler = %d", m.Handler))
		return err
	})
	if err != nil {
		return 0, err
	}
	return lease, nil
}

// Members implements store.Workers.
func (e members) Members(ctx context.Context) (all []store.Member, shards []store.ShardRow, err error) {
	d := e.d
	conn, err := d.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer d.give(ctx, conn, &err)
	if all, err = listOn(d, conn, "members", nil, scanMember); err != nil {
		return nil, nil, err
	}
	shards, err = listOn(d, conn, "owners", nil, func(s *sqlite.Stmt, r *store.ShardRow) error {
		c := row{s: s}
		r.ID, r.Epoch, r.Seq, r.Owner, r.Workflows = dag.ShardID(c.int()), c.int(), c.int(), dag.HandlerID(c.int()), int(c.int())
		return nil
	})
	return all, shards, err
}

// Leave implements store.Workers.
func (e members) Leave(ctx context.Context, handler dag.HandlerID) error {
	return e.d.changeBeside(ctx, "change of members", func() error {
		_, err := e.d.stmts.leaveMember.row().int(int64(handler)).exec(e.d.conn)
		return err
	})
}

// traits returns the traits as they are stored in a row, or "" if there are none. The error of Marshal is
// ignored, because plain texts cannot fail.
func traits(t store.Traits) string {
	if len(t.Groups)+len(t.Labels)+len(t.Kinds)+len(t.Extensions) == 0 && t.Room.IsZero() && t.Used.IsZero() && !t.Full && t.Quick == 0 && !t.Proves {
		return ""
	}
	text, _ := json.Marshal(t)
	return string(text)
}

func scanMember(s *sqlite.Stmt, m *store.Member) error {
	c := row{s: s}
	m.Worker = true
	m.Handler, m.UUID, m.Name, m.Version, m.Format = dag.HandlerID(c.int()), c.text(), c.text(), c.text(), int(c.int())
	m.State, m.Slots, m.Busy = c.text(), int32(c.int()), int32(c.int())
	m.Beat, m.Started, m.Seen, m.Home, m.Lease = c.int(), c.micros(), c.micros(), dag.HandlerID(c.int()), c.int()
	if text := c.text(); text != "" {
		if err := json.Unmarshal([]byte(text), &m.Traits); err != nil {
			return fmt.Errorf("traits of member %s: %w: %w", m.Name, store.ErrCorrupt, err)
		}
	}
	return nil
}
