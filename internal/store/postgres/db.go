// Package postgres is the store of a cluster: one schema of a PostgreSQL database (14 or newer), shared by
// any number of nodes.
//
// A commit is one round trip on one connection. All statements are sent at once, the fence first. If the
// transaction before is still in flight, the fence is sent last (ahead.go). A guard that misses raises an
// error inside the database, so nothing of the transaction stays. Rows travel by columns, thousands in one
// statement.
//
// A DB replaces lost connections by itself, when they are needed. Until the database answers, every call
// returns store.ErrUnavailable.
package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
	"skein.dev/skein/internal/zipped"
)

// The archive holds migrations/*.sql and *.sql. After a change of these files, write it by
// go test . -run TestScriptsArePacked -pack.
//
//go:embed sql.zip.gz
var scriptsZip []byte

var scripts = zipped.New(scriptsZip)

const (
	// formatNewest is the newest format. It rises with the migrations.
	formatNewest = 51
	// formatRising is the first format in which a database records how many migrations were applied. From it
	// on, the format rises only when all nodes know the next one.
	formatRising = 10
	// formatHands is the first format with packed assignments.
	formatHands = 12
	// formatEnds is the first format with packed plain ends.
	formatEnds = 13
	// formatWaves is the first format that groups unfinished runs into waves.
	formatWaves = 14
	// formatAhead is the first format under which transactions are written ahead. A new owner of a shard
	// waits for them.
	formatAhead = 15
	// formatStates is the first format under which all programs list the unsuccessful runs.
	formatStates = 16
	// formatPast is the first format under which all programs know that lines of the ledger are deleted.
	formatPast = 17
	// formatEra is the first format under which all programs compare the server's history with that of the
	// era before a connection writes.
	formatEra = 33
	// formatTally is the first format under which all programs know that ended runs are counted.
	formatTally = 35
	// formatShift is the first format under which all programs know shifts.
	formatShift = 38
	// formatTags is the first format under which all programs know the tags of runs.
	formatTags = 43
	// formatLevels is the first format under which all programs know the levels of namespaces.
	formatLevels = 46
	// formatNames is the first format under which all programs know Demands, and queues and classes of
	// namespaces.
	formatNames = 47
	// formatKept is the first format under which all programs know EventRow.Weight and RunRow.Kept.
	formatKept = 48
	// formatRunAs is the first format under which all programs know the users of namespaces.
	formatRunAs = 50
	// versionMin is the oldest PostgreSQL, as the database numbers its versions.
	versionMin = 14_00_00

	shardsDefault  = 32
	shardsMax      = 1024
	schemaDefault  = "skein"
	writersDefault = 8
	readersDefault = 8

	// statementMax bounds the time of one statement. The database cancels a statement that takes longer.
	statementMax = 30 * time.Second
	// lockMax bounds the wait for a lock of another transaction.
	lockMax = 10 * time.Second
	// transactionIdleMax bounds the time for which a client may send nothing within a transaction. Then the
	// database ends the session.
	transactionIdleMax = 10 * time.Second
	// tryPause is the pause between two tries of a patient Open.
	tryPause = 250 * time.Millisecond
	// silenceMax bounds the time for which the other machine may not answer. Then the connection is closed.
	silenceMax = 15 * time.Second
)

// claims is the newest format that a build claims to know; "" means all. Tests build programs that claim
// less to run versions side by side. Such a program still carries out all migrations, because its
// statements use the tables and columns that they add
// (-ldflags "-X skein.dev/skein/internal/store/postgres.claims=9").
var claims string

// format is the newest format that this program claims to know.
var format = known(claims)

func known(claims string) int {
	if n, err := strconv.Atoi(claims); err == nil && n > 0 && n < formatNewest {
		return n
	}
	return formatNewest
}

// Options are the settings of a store. Only URL is required.
type Options struct {
	// URL is the address of the database: postgres://user@host:port/database?sslmode=…, or in the form of
	// libpq. Missing parts come from the environment (PGHOST …).
	URL string
	// Schema is the schema of all tables. Open creates it if it does not exist. "" means "skein".
	Schema string
	// Shards is the number of shards of a new database, which can never be changed; 0 means 32. An existing
	// database keeps its number.
	Shards int
	// Application is the application name of the connections; "" means "skein".
	Application string
	// Writers and Readers bound the number of connections; 0 means 8 of each.
	Writers, Readers int
	// Patience bounds the time for which Open tries again while the database does not answer, is temporarily
	// unable to answer, or accepts no writes. If it is 0, Open returns the first failure, and accepts a
	// database that can only be read.
	Patience time.Duration
	// Waiting, if it is not nil, is called with the reason why Open tries again: at the first failure and
	// each time the reason changes.
	Waiting func(error)
}

// DB is an open database.
type DB struct {
	eras
	rights
	rotations
	sessions
	secrets
	audits
	namespaces
	tallies
	traces
	alerts
	connections
	gitSources
	sentEvents
	config  *pgconn.Config
	hosts   *hosts
	schema  string
	cluster string
	// isolation is the value of Info.Isolation.
	isolation string
	shards    int
	writers   *pool
	readers   *pool
	logs      *pool
	settings  args
	stands    atomic.Int32 // the database's format, as last read
	era       knownEra
	pooler    pooler
	handed    packed.Handed
	waves     waves
	flights   flights
	// statesListed is set once this process knows that all unsuccessful runs are listed by their states.
	statesListed atomic.Bool
	// built is set once this process knows that Upgrade has built all indexes and set up all tables.
	built atomic.Bool
}

var _ store.Store = (*DB)(nil)

// Open connects to a database, and creates or migrates the schema if needed. Nodes that do this at the same
// time wait for each other.
func Open(ctx context.Context, o Options) (*DB, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	config, err := pgconn.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of the database: %w: %w", store.ErrUnavailable, err)
	}
	ms := func(t time.Duration) string { return strconv.FormatInt(t.Milliseconds(), 10) }
	d := &DB{config: config, schema: o.Schema, settings: args{}.text(o.Application).text(o.Schema).text(ms(statementMax)).
		text(ms(lockMax)).text(ms(transactionIdleMax)).text(ms(silenceMax))}
	d.eras, d.rights, d.rotations, d.sessions, d.secrets, d.audits, d.alerts, d.connections, d.namespaces, d.tallies, d.traces = eras{d}, rights{d}, rotations{d}, sessions{d}, secrets{d}, audits{d}, alerts{d}, connections{d}, namespaces{d}, tallies{d}, traces{d}
	d.sentEvents, d.gitSources = sentEvents{d}, gitSources{d}
	config.DialFunc = dialer(silenceMax)
	d.hosts = newHosts(config)
	sql := statements("read")
	for _, more := range []string{"write", "members", "logs", "tokens", "claims", "classes", "past", "access", "sessions", "secrets", "audit", "alerts", "connections", "git", "namespaces", "tally", "traces", "sent"} {
		maps.Copy(sql, statements(more))
	}
	for _, name := range notedNames {
		sql[name+notedSuffix] = notedSQL(sql[name], sql["insertAudit"])
	}
	for _, name := range writeNames {
		if one := singular(sql[name]); one != "" {
			sql[single(name)] = one
		}
	}
	open := func(ctx context.Context) (*conn, error) { return d.connect(ctx, sql) }
	d.writers, d.readers, d.logs = newPool(o.Writers, open), newPool(o.Readers, open), newPool(logWriters, open)
	if err := d.await(ctx, o); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// await calls ready until it succeeds, for at most Options.Patience.
func (d *DB) await(ctx context.Context, o Options) error {
	said := ""
	for began := time.Now(); ; {
		err := d.ready(ctx, o.Shards)
		if err == nil && o.Patience > 0 {
			err = d.writable(ctx)
		}
		if err == nil || !Passes(err) || time.Since(began) >= o.Patience {
			return err
		}
		if text := err.Error(); o.Waiting != nil && text != said {
			said = text
			o.Waiting(err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(tryPause):
		}
	}
}

// schemaName matches names of schemas that need no quotes, so that a name reads the same everywhere.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func (o Options) complete() (Options, error) {
	or := func(v *int, otherwise int) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	or(&o.Shards, shardsDefault)
	or(&o.Writers, writersDefault)
	or(&o.Readers, readersDefault)
	if o.Schema == "" {
		o.Schema = schemaDefault
	}
	if o.Application == "" {
		o.Application = "skein"
	}
	if !schemaName.MatchString(o.Schema) || strings.HasPrefix(o.Schema, "pg_") {
		return o, fmt.Errorf("%w: a schema is a name of lower-case letters, digits and _, not %q", store.ErrUnavailable, o.Schema)
	}
	if o.Shards > shardsMax {
		return o, fmt.Errorf("%w: %d shards, at most %d", store.ErrUnavailable, o.Shards, shardsMax)
	}
	return o, nil
}

// connect makes a connection and sets up its session: the schema, and bounds on everything that holds
// locks.
func (d *DB) connect(ctx context.Context, sql map[string]string) (*conn, error) {
	c, err := d.hosts.dial(ctx, sql)
	if err != nil {
		return nil, err
	}
	err = c.query(ctx, "session", d.settings, func(r *row) error {
		c.backend = uint32(r.int())
		return nil
	})
	if err = pooled(err); err == nil && c.backend != c.PID() {
		err = d.checkPooler(ctx)
	}
	if err != nil {
		hangUp(c)
		return nil, err
	}
	return c, nil
}

// statements returns the named statements of a .sql file, which is given without this ending. A text with two
// names becomes two statements.
func statements(file string) map[string]string {
	text, err := scripts.ReadFile(file + ".sql")
	if err != nil {
		panic("postgres: an embedded script: " + err.Error())
	}
	out := map[string]string{}
	for _, part := range strings.Split(string(text), "-- name: ")[1:] {
		names, body, _ := strings.Cut(part, "\n")
		end := strings.LastIndexByte(body, ';') + 1 // a comment after the last semicolon belongs to the next statement
		for name := range strings.SplitSeq(names, ",") {
			out[strings.TrimSpace(name)] = strings.TrimSpace(body[:end])
		}
	}
	return out
}

// Close waits for calls under way and closes every connection.
func (d *DB) Close() error {
	d.flights.close()
	d.Unstage() // the staged transaction holds connections
	d.writers.close()
	d.readers.close()
	d.logs.close()
	return nil
}

// learn records the database's format. The recorded format never falls.
func (d *DB) learn(is int) {
	for was := d.stands.Load(); int32(is) > was && !d.stands.CompareAndSwap(was, int32(is)); {
		was = d.stands.Load()
	}
}

// hasShard reports whether a shard exists: all shards are created with the database.
func (d *DB) hasShard(id dag.ShardID) bool { return id >= 0 && int(id) < d.shards }

// Info implements store.Store.
func (d *DB) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Engine: "postgres", Location: place(d.config) + ", schema " + d.schema, Cluster: d.cluster, Isolation: d.isolation,
		Known: format, Shards: d.shards}
	err := d.query(ctx, "meta", nil, func(r *row) error {
		info.Format = int(r.int())
		d.learn(info.Format)
		return nil
	})
	if err != nil {
		return info, err
	}
	err = d.query(ctx, "size", nil, func(r *row) error {
		info.Bytes = r.int()
		return nil
	})
	return info, err
}

// Unfinished implements store.Store.
func (d *DB) Unfinished(ctx context.Context) (map[string]int, error) {
	runs := map[string]int{}
	err := d.query(ctx, "activeStates", nil, func(r *row) error {
		state := r.text()
		runs[state] = int(r.int())
		return nil
	})
	return runs, err
}
