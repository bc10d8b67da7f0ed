package store

import (
	"context"
	"strings"

	"skein.dev/skein/internal/dag"
)

// Kind is the type of a column, in all engines.
type Kind uint8

// The kinds of columns.
const (
	KindInt4 Kind = iota + 1
	KindInt8
	KindText
	KindBlob
	KindID // 16 bytes: a run's id, a UUID
)

// Column is one column of a Table.
type Column struct {
	Name string
	Kind Kind
	Null bool // the column may be NULL
}

// Table is one kind of row that every engine can export and import. An engine derives its other data (lists,
// bitmaps, numbers) from these rows.
type Table struct {
	Name    string
	Columns []Column
}

// Index returns the index of the column with a name, or -1 if there is none.
func (t *Table) Index(name string) int {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// Tables lists the tables of a database in the order in which rows are copied: a row comes after the rows to
// which it refers. A migration that adds a column adds it here. Tests of the engines compare this list with
// their schemas.
func Tables() []*Table {
	return []*Table{
		table("handler", "id i8, uuid id, node t, started i8"),
		table("workflow", "id i8, shard i4, namespace t, name t, state t, version i4, latest i4, max_runs i4, revision i8, created i8, modified i8, tags t"),
		table("version", "workflow i8, version i4, source b, def b, graph b, digest b, user t, created i8"),
		table("version_file", "workflow i8, version i4, name t, mode i8, data b"),
		table("run", "id id, shard i4, workflow i8, version i4, priority t, origin t, user t, key t?, key_hash b?, params b?, fire b?, "+
			"created i8, first_seq i8, first_at i8, events_first b?, state t, intent t, generation i4, cause t, message t, graph b?, base b?, "+
			"final b?, split i8, started i8, finished i8, leader i8, leader_at i8, last_seq i8?, last_at i8?, events_last b?, claim b?, hands b?, ends b?"),
		table("attempt", "run id, task i4, token i4, generation i4, handler i8, assigned i8, state t, cause t, message t, exit_code i4?, "+
			"signal t, outputs b?, started i8, finished i8, retry_at i8, retry_wait i8"),
		table("event", "run id, seq i8, at i8, records b, hands b?"),
		table("request", "scope t, key t, hash b, answer b, created i8"),
		table("message", "id i8, sender i4, target i4, payload b, created i8"),
		table("trigger", "workflow i8, name t, shard i4, version i4, kind t, state t, actor t, reason t, next i8, decided i8, since i8, "+
			"fired i8, max_runs i4, revision i8, created i8, modified i8, hears t?, data b?, spec b?"),
		table("trigger_on", "target t, workflow i8, name t"),
		table("fire", "workflow i8, trigger t, at i8, key t, last i8, count i8, outcome t, reason t, run id?, decided i8"),
		table("fire_day", "workflow i8, trigger t, day i4, fired i8, late i8, skipped i8, merged i8, missed i8, until i8"),
		table("backfill", "id i8, workflow i8, shard i4, trigger t, state t, total i8, started i8, ended i8, failed i8, parallel i4, "+
			"user t, revision i8, created i8, modified i8, spec b?, instants b?"),
		table("backfill_run", "backfill i8, instant i8, workflow i8, run id"),
		table("queue", "name t, max_runs i4, per_key t, ordering t, overflow t, rate i4, each i8, state t, actor t, reason t, until i8, "+
			"paced i8, revision i8, created i8, modified i8"),
		table("class", "name t, cpu i8, memory i8, actor t, created i8, modified i8"),
		table("secret", "namespace t, name t, version i8, key t, wrapped b, data b, actor t, created i8, modified i8"),
		table("secret_key", "one i8, id t, since i8"),
		table("audit", "id i8, key id, idx i8, hash b?, at i8, last i8, count i8, principal t, kind t, token i8, session i8, address t, "+
			"verb t, action t, object t, namespace t, outcome t, request t, detail t"),
		table("audit_tree", "one i8, size i8, first i8, head b, edge b, era i8, base i8"),
		table("namespace", "name t, revision i8, runs i8, runs_per_hour i8, tasks i8, params_bytes i8, stored_bytes i8, versions i8, triggers i8, tokens i8, requests_per_minute i8, modified i8, actor t, logs_per_day i8, isolation t, allow_read t, allow_write t, egress t, locks t, run_as t"),
		table("tally", "workflow i8, span i4, at i4, task t, n i8, data b"),
		table("tally_mark", "shard i4, workflow i8, rev i8, seq i8, at i8"),
		table("alert_channel", "namespace t, name t, version i8, data b, actor t, created i8, modified i8"),
		table("incident", "id id, shard i4, workflow i8, namespace t, rule t, state t, revision i8, created i8, modified i8, ended i8, data b"),
		table("notice", "incident id, seq i4, channel t, namespace t, shard i4, workflow i8, state t, tries i4, due i8, created i8, ended i8, error t, data b"),
		table("connection", "namespace t, name t, version i8, data b, actor t, created i8, modified i8"),
		table("git_source", "namespace t, name t, version i8, shard i8, spec b, state b?, seq i8, actor t, created i8, modified i8"),
		table("alert_silence", "id id, namespace t, workflow t, rule t, until i8, created i8, actor t, reason t"),
		table("alert_rules", "namespace t, version i8, data b, actor t, created i8, modified i8"),
		table("sent_event", "seq i8, received i8, namespace t, source t, id t, type t, data b"),
		table("sent_head", "one i8, seq i8, received i8"),
		table("line", "line t, level i4, asked i8, run id, kept i4"),
	}
}

// table makes a table from a list of columns: "name kind, name kind?, …".
func table(name, columns string) *Table {
	kinds := map[string]Kind{"i4": KindInt4, "i8": KindInt8, "t": KindText, "b": KindBlob, "id": KindID}
	t := &Table{Name: name}
	for part := range strings.SplitSeq(columns, ", ") {
		column, kind, _ := strings.Cut(part, " ")
		kind, null := strings.CutSuffix(kind, "?")
		t.Columns = append(t.Columns, Column{Name: column, Kind: kinds[kind], Null: null})
	}
	return t
}

// Value is the value of a column: Int for integers, Bytes for all other kinds.
type Value struct {
	Null  bool
	Int   int64
	Bytes []byte
}

// Head describes a database and the progress of its shards.
type Head struct {
	Cluster string
	Created dag.Micros
	// Isolation is the value of Info.Isolation.
	Isolation string
	Shards    []ShardHead // sorted by id
}

// ShardHead is the progress of a shard.
type ShardHead struct {
	Epoch, Seq int64
	Watermark  dag.Micros
}

// Rows receives the content of a database.
type Rows interface {
	// Head receives the head of the database. It is called before the other methods.
	Head(h Head) error
	// Row receives one row, in the order of Tables. The values belong to the caller and are valid until Row
	// returns. ErrRefused means that this row is invalid; the copy may continue with others.
	Row(t *Table, values []Value) error
	// Bad reports a row whose values do not have the kinds of its columns.
	Bad(t *Table, which, why string) error
}

// Portable is the part of a store that copies a whole database.
type Portable interface {
	// Export passes all rows to a receiver, from one read snapshot. A writer may work meanwhile.
	Export(ctx context.Context, to Rows) error
	// Import fills an empty database in one transaction, so it stores all rows that fill passes, or none. It
	// returns ErrRefused if the database is not empty. The Head that fill passes must have as many shards as
	// the database. Afterwards no shard has an owner.
	Import(ctx context.Context, fill func(Rows) error) error
	// Counts returns the number of rows by table.
	Counts(ctx context.Context) (map[string]int64, error)
	// RunStates counts all runs by state, including ended ones. It reads every run.
	RunStates(ctx context.Context) (map[string]int64, error)
}

// Seen describes a database of any format without opening it for use.
type Seen struct {
	Known   int      // the newest format that this program knows
	Format  int      // the format of the database; 0 if the database has no tables yet
	Applied []string // migrations
	Pending []string
}
