package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// A connection belongs to one history (timeline) of the server. A server begins a new timeline with each
// promotion, and with each recovery from a backup, and closes all connections then. The table era records in
// which history the present era began. A connection of another history may show an earlier state. In that
// state a shard may still have an owner from which another node took the shard later. So before a connection
// writes for the first time, settle compares the two. If they differ, settle begins an era: every owner is
// fenced, and new tokens are of the new era. settle cannot know whether anything was lost. So it keeps the
// floor of the era (store.EpochOf), and attempts continue. A node that remembers lost transactions raises the
// floor later (internal/past).

// settleTries bounds how often a connection tries to begin an era while other transactions do the same.
const settleTries = 4

// line is the history that a server writes. A zero field is unknown.
type line struct {
	system   string
	timeline int64
}

// lineNames are the statements that read the timeline of a server, the best one first. The rights of the
// user, or the provider of the server, may not allow all of them. The last one reads only whether the server
// accepts writes.
var lineNames = [...]string{"line", "lineOfLog", "lineUnknown"}

// line reads which history the server of the connection writes. It returns ErrUnavailable for a server that
// accepts no writes, because such a server may begin a timeline while the connection is open.
func (c *conn) line(ctx context.Context) (is line, err error) {
	for _, name := range lineNames {
		recovers := false
		err = c.query(ctx, name, nil, func(r *row) error {
			recovers, is.system, is.timeline = r.bool(), r.text(), r.int()
			return r.damaged("the server's timeline")
		})
		if err == nil && recovers {
			return is, noWrites()
		}
		if answer := (*answered)(nil); err == nil || !errors.As(err, &answer) || Passes(err) {
			return is, err
		}
	}
	return is, err
}

// knownEra is the latest era that this process has read. A database that goes back to an earlier state may
// have lost that era.
type knownEra struct{ atomic.Int32 }

func (k *knownEra) see(epoch int64) {
	era := int32(store.Fence{Epoch: epoch}.Era())
	for was := k.Load(); era > was && !k.CompareAndSwap(was, era); {
		was = k.Load()
	}
}

// writerOf takes a connection for a transaction of owners or members, and settles it.
func writerOf(ctx context.Context, d *DB, take func(context.Context) (*conn, error)) (*conn, error) {
	c, err := take(ctx)
	if err != nil || c.settled || d.stands.Load() < formatEra {
		return c, err
	}
	if err := (&settling{d: d, c: c}).settle(ctx); err != nil {
		hangUp(c) // the next connection may reach another server, which accepts writes
		d.writers.give(c)
		return nil, err
	}
	return c, nil
}

// settling compares the timeline of the server behind a connection with the timeline in which the present era
// began.
type settling struct {
	d       *DB
	c       *conn
	is, was line    // the timeline of that server, and the timeline of the present era
	era     dag.Era // the present era
}

// settle begins an era if the connection belongs to another timeline than the one in which the present era
// began. It does so in a separate transaction. If the process dies after it, the shards have no valid owner
// until they are taken again, as after any end of a node.
func (s *settling) settle(ctx context.Context) (err error) {
	s.is, err = s.c.line(ctx)
	for try := 0; try < settleTries && err == nil; try++ {
		err = s.c.query(ctx, "begun", args{}.text(s.is.system).int8(s.is.timeline), func(r *row) error {
			s.c.settled, s.was.system, s.was.timeline = r.bool(), r.text(), r.int()
			epoch := r.int()
			s.d.era.see(epoch)
			s.era = store.Fence{Epoch: epoch}.Era()
			return r.damaged("the history of the present era")
		})
		if err == nil && s.c.settled {
			return s.name(ctx)
		}
		if err == nil {
			err = s.begin(ctx)
		}
	}
	switch {
	case err == nil:
		err = fmt.Errorf("other transactions raise the era all the time: %w", store.ErrUnavailable)
	case errors.Is(err, store.ErrUnknown): // the caller's transaction was not sent, so its outcome is known
		err = fmt.Errorf("%w: %s", store.ErrUnavailable, err)
	}
	return fmt.Errorf("read the history of the server: %w", err)
}

// name stores the identifier of the server with the present era, if the transaction that began it could not
// read the identifier.
func (s *settling) name(ctx context.Context) error {
	if s.was.system != "" || s.is.system == "" || s.was.timeline != s.is.timeline {
		return nil
	}
	return s.c.query(ctx, "nameSystem", args{}.text(s.is.system).int8(s.is.timeline), nil)
}

// begin begins the next era quietly, unless another transaction has already raised the era.
func (s *settling) begin(ctx context.Context) error {
	was := s.was.timeline
	another := s.was.system != s.is.system && s.was.system != "" && s.is.system != ""
	if another || was == 0 || s.is.timeline == 0 { // timelines of two servers are not comparable
		was = s.is.timeline
	}
	to := store.NextEra(s.era, dag.Era(s.d.era.Load()), was, s.is.timeline)
	if to > dag.EraMax {
		return store.ErrLastEra
	}
	return changeOver(ctx, s.c, s.d.endBlockers, query{"beginEra",
		args{}.int8(int64(s.era)).int8(int64(to)).text(s.is.system).int8(s.is.timeline), nil})
}
