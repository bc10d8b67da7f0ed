package postgres

import (
	"context"
	"time"
)

// Facts holds the properties of the server behind a DB that an operator should know.
type Facts struct {
	Version           string // the server's version, in its own form
	SynchronousCommit string // the server's setting; sessions of Skein always use on
	Fsync             bool   // if it is false, a power cut damages the database
	Recovering        bool   // the server is a standby: it takes no writes
	// TimelineUnknown says that this user may not read the timeline. So the server's history cannot be
	// compared, and only the nodes can notice a loss
	TimelineUnknown   bool
	Autovacuum        bool          // if it is false, tables grow with every update
	Connections       int           // clients connected now
	ConnectionsMax    int           // clients that may connect, without the connections for the superuser
	Standbys          int           // standbys that are streaming now
	Synchronous       int           // the number of standbys that confirm each commit
	OldestTransaction time.Duration // age of the oldest open transaction of other clients; 0 if there is none
	Ahead             time.Duration // the server's clock minus this machine's clock, accurate to one round trip
	RoundTrip         time.Duration
	RequestIndex      IndexState
	Pooler            bool // a pooler in session mode is in front of the server
}

// Facts asks the server. It returns ErrUnavailable if the server does not answer.
func (d *DB) Facts(ctx context.Context) (Facts, error) {
	var f Facts
	var clock time.Time
	c, err := d.readers.take(ctx)
	if err != nil {
		return f, err
	}
	defer d.readers.give(c)
	if err := c.prepare(ctx, "facts"); err != nil {
		return f, err
	}
	began := time.Now()
	err = c.query(ctx, "facts", nil, func(r *row) error {
		f.Version, f.SynchronousCommit, f.Fsync, f.Recovering, f.Autovacuum = r.text(), r.text(), r.bool(), r.bool(), r.bool()
		f.ConnectionsMax, f.Connections, f.Standbys, f.Synchronous = int(r.int()), int(r.int()), int(r.int()), int(r.int())
		f.OldestTransaction = time.Duration(r.int()) * time.Microsecond
		clock = r.micros().Time()
		return r.damaged("the server's settings")
	})
	f.RoundTrip = time.Since(began)
	f.Ahead = clock.Sub(began.Add(f.RoundTrip / 2)) // the server has read its clock about half way through the round trip
	f.Pooler = d.pooler.inFront()
	if err != nil {
		return f, err
	}
	if is, err := c.line(ctx); err == nil {
		f.TimelineUnknown = is.timeline == 0
	}
	if err := c.prepare(ctx, "indexState"); err != nil {
		return f, err
	}
	return f, c.query(ctx, "indexState", args{}.text(requestIndex), func(r *row) error {
		f.RequestIndex = IndexState(r.int())
		return r.damaged("the state of an index")
	})
}
