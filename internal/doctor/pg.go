package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/store/postgres"
)

const (
	// connectionsPerNode bounds the connections that a node opens: for writing, for reading and for logs, and
	// some to spare.
	connectionsPerNode = 20
	// transactionOld is the age from which an open transaction causes a warning. Until it ends, vacuum
	// removes no row version that was deleted or replaced after it began.
	transactionOld = 10 * time.Minute
	// clockOff is the largest difference between the two clocks that causes no warning.
	clockOff = 2 * time.Second
)

// checkPostgres reports the facts of a cluster's database server that an operator should know.
func checkPostgres(ctx context.Context, db *postgres.DB) []Check {
	f, err := db.Facts(ctx)
	if err != nil {
		return []Check{{Name: "database server", State: Bad, Found: err.Error(), Remedy: "start the database, or name another: --db"}}
	}
	return []Check{serverCheck(&f), durabilityCheck(&f), poolerCheck(&f), connectionsCheck(&f), transactionsCheck(&f), databaseClockCheck(&f), indexCheck(&f)}
}

func serverCheck(f *postgres.Facts) Check {
	c := Check{Name: "database server", State: Good, Found: "PostgreSQL " + f.Version}
	switch {
	case f.Recovering:
		c.State = Bad
		c.Found += ", a standby: it takes no writes"
		c.Remedy = "name all servers in --db, and add target_session_attrs=read-write, so that nodes find the primary"
	case !f.Autovacuum:
		c.State = Warning
		c.Found += ", autovacuum is off: tables only grow"
		c.Remedy = "set autovacuum = on"
	default:
		c.Found += ", autovacuum is on"
	}
	if f.TimelineUnknown {
		c.Found += ", timeline unknown: failovers are noticed by comparison only"
	}
	return c
}

// durabilityCheck reports which commits a power cut and a failover would lose.
func durabilityCheck(f *postgres.Facts) Check {
	c := Check{Name: "database durability", State: Good}
	said := []string{"synchronous_commit " + f.SynchronousCommit + " (Skein's sessions use on)"}
	switch {
	case f.Standbys == 0:
		said = append(said, "no standby is connected")
	case f.Synchronous == 0:
		said = append(said, fmt.Sprintf("%d standbys, none of them synchronous: a failover loses the last commits", f.Standbys))
		c.State, c.Remedy = Warning, "set synchronous_standby_names (Patroni: synchronous_mode: true)"
	default:
		said = append(said, fmt.Sprintf("%d standbys, %d of them synchronous", f.Standbys, f.Synchronous))
	}
	if !f.Fsync {
		said = append(said, "fsync is off: a power cut damages the database")
		c.State, c.Remedy = Bad, "set fsync = on"
	}
	c.Found = strings.Join(said, "; ")
	return c
}

// poolerCheck never fails: the store has already refused a pooler in transaction mode.
func poolerCheck(f *postgres.Facts) Check {
	c := Check{Name: "database pooler", State: Good, Found: "none"}
	if f.Pooler {
		c.Found = "one in session mode"
	}
	return c
}

func connectionsCheck(f *postgres.Facts) Check {
	left := f.ConnectionsMax - f.Connections
	c := Check{Name: "database connections", State: Good, Found: fmt.Sprintf("%d of %d in use, %d left", f.Connections, f.ConnectionsMax, left)}
	if left < connectionsPerNode {
		c.State = Warning
		c.Found += fmt.Sprintf("; a node takes up to %d", connectionsPerNode)
		c.Remedy = "raise max_connections"
	}
	return c
}

func transactionsCheck(f *postgres.Facts) Check {
	c := Check{Name: "database transactions", State: Good, Found: "no transaction of another client is open"}
	if f.OldestTransaction > 0 {
		c.Found = fmt.Sprintf("the oldest open one is %v old", f.OldestTransaction.Round(time.Second))
	}
	if f.OldestTransaction >= transactionOld {
		c.State = Warning
		c.Found += "; until it ends, vacuum cannot clean up"
		c.Remedy = "look for it in pg_stat_activity (xact_start), and end it"
	}
	return c
}

func databaseClockCheck(f *postgres.Facts) Check {
	apart := f.Ahead.Abs()
	c := Check{Name: "database clock", State: Good, Found: fmt.Sprintf("%v apart from this machine's", apart.Round(time.Millisecond))}
	if apart > clockOff+f.RoundTrip {
		c.State = Warning
		c.Remedy = "set both clocks (chrony, systemd-timesyncd): Skein stores the database's time"
	}
	return c
}

// indexCheck reports an index that no node could build. Without this index, the answers kept for idempotency
// keys and the remembered calls of webhooks are never deleted.
func indexCheck(f *postgres.Facts) Check {
	c := Check{Name: "database index", State: Good, Found: "request_created is valid"}
	switch f.RequestIndex {
	case postgres.IndexMissing:
		c.State, c.Found = Warning, "request_created is missing"
	case postgres.IndexInvalid:
		c.State, c.Found = Warning, "request_created is not valid: its build has failed, or is under way"
	default:
		return c
	}
	c.Found += "; meanwhile the table request only grows"
	c.Remedy = "a node builds it within minutes (upgrade_step in its log says what fails); or: DROP INDEX CONCURRENTLY IF EXISTS request_created; " +
		"CREATE INDEX CONCURRENTLY request_created ON request (created)"
	return c
}
