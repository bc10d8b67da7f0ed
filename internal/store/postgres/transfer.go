package postgres

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Portable = (*DB)(nil)

// Export implements store.Portable.
func (d *DB) Export(ctx context.Context, to store.Rows) error {
	return d.snapshot(ctx, "export", func(c *conn, sql map[string]string) error {
		head, err := readHead(ctx, c, sql)
		if err != nil {
			return err
		}
		if err := to.Head(head); err != nil {
			return err
		}
		for _, t := range store.Tables() {
			values := make([]store.Value, len(t.Columns))
			err := each(ctx, c, t.Name, sql["export "+t.Name], func(r *row) error {
				for i := range t.Columns {
					if err := readValue(r, &t.Columns[i], &values[i]); err != nil {
						return fmt.Errorf("table %s: %w: %w", t.Name, store.ErrCorrupt, err)
					}
				}
				return to.Row(t, values)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// snapshot calls f with a connection that sees the database as of one instant, however long f takes.
func (d *DB) snapshot(ctx context.Context, doing string, f func(*conn, map[string]string) error) error {
	if err := ended(ctx, doing); err != nil {
		return err
	}
	c, err := d.readers.take(ctx)
	if err != nil {
		return err
	}
	defer d.readers.give(c) // give closes the connection if the transaction is still open
	sql := statements("transfer")
	if _, err := c.Exec(ctx, sql["readAll"]).ReadAll(); err != nil {
		return translate(doing, err)
	}
	if err := f(c, sql); err != nil {
		return err
	}
	_, err = c.Exec(ctx, "COMMIT").ReadAll()
	return translate(doing, err)
}

// each passes the rows of a statement to the function see, as they arrive. It returns the errors of see
// without changes.
func each(ctx context.Context, c *conn, name, sql string, see func(*row) error) error {
	result := c.ExecParams(ctx, sql, nil, nil, nil, binaryForm)
	for result.NextRow() {
		if err := see(&row{values: result.Values(), result: result}); err != nil {
			hangUp(c) // this avoids reading the rest of a large table
			return err
		}
	}
	_, err := result.Close()
	return translate(name, err)
}

func readHead(ctx context.Context, c *conn, sql map[string]string) (h store.Head, err error) {
	err = each(ctx, c, "head", sql["head"], func(r *row) error {
		h.Cluster, h.Created, h.Isolation = r.text(), r.micros(), r.text()
		return r.damaged("meta")
	})
	if err != nil {
		return h, err
	}
	err = each(ctx, c, "shards", sql["shards"], func(r *row) error {
		h.Shards = append(h.Shards, store.ShardHead{Epoch: r.int(), Seq: r.int(), Watermark: r.micros()})
		return r.damaged("shard")
	})
	return h, err
}

// readValue reads the next column. The columns of the database have the types that c declares.
func readValue(r *row, c *store.Column, v *store.Value) error {
	b := r.values[r.col]
	v.Null, v.Bytes = b == nil, b
	if c.Kind == store.KindInt4 || c.Kind == store.KindInt8 {
		v.Int, v.Bytes = r.int(), nil
		return r.bad
	}
	r.col++
	if c.Kind == store.KindID && !v.Null && len(b) != len(dag.RunID{}) {
		return fmt.Errorf("column %s: an id of %d bytes", c.Name, len(b))
	}
	return nil
}

// Counts implements store.Portable.
func (d *DB) Counts(ctx context.Context) (n map[string]int64, err error) {
	return n, d.snapshot(ctx, "count", func(c *conn, sql map[string]string) error {
		n, err = counts(ctx, c, sql)
		return err
	})
}

func counts(ctx context.Context, c *conn, sql map[string]string) (map[string]int64, error) {
	n := map[string]int64{}
	return n, each(ctx, c, "count", sql["counts"], func(r *row) error {
		for _, t := range store.Tables() {
			n[t.Name] = r.int()
		}
		return r.damaged("counts")
	})
}

// RunStates implements store.Portable.
func (d *DB) RunStates(ctx context.Context) (map[string]int64, error) {
	n := map[string]int64{}
	return n, d.snapshot(ctx, "count runs", func(c *conn, sql map[string]string) error {
		return each(ctx, c, "count runs", sql["runStates"], func(r *row) error {
			state := r.text()
			n[state] = r.int()
			return r.damaged("counts")
		})
	})
}

// Import implements store.Portable.
func (d *DB) Import(ctx context.Context, fill func(store.Rows) error) error {
	if err := ended(ctx, "import"); err != nil {
		return err
	}
	c, err := d.writers.take(ctx)
	if err != nil {
		return err
	}
	defer d.writers.give(c) // give closes the connection if the transaction is still open, so nothing of it is written

	first, err := c.line(ctx) // this is read before the transaction, because an error in a transaction would abort it
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	in := &importer{ctx: ctx, conn: c, sql: statements("transfer"), shards: d.shards}
	if _, err := c.Exec(ctx, in.sql["fillAll"]).ReadAll(); err != nil {
		return translate("import", err)
	}
	is, err := counts(ctx, c, in.sql)
	if err != nil {
		return err
	}
	for _, t := range store.Tables() {
		if is[t.Name] > 0 {
			return fmt.Errorf("schema %s of %s is not empty (table %s: %d rows): %w", d.schema, place(d.config), t.Name, is[t.Name], store.ErrRefused)
		}
	}
	if err := fill(in); err != nil {
		in.abandon(err)
		return err
	}
	if err := in.finish(); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, in.sql["derive"]).ReadAll(); err != nil {
		return translate("import", err)
	}
	if err := c.query(ctx, "firstEra", args{}.text(first.system).int8(first.timeline), nil); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, "COMMIT").ReadAll(); err != nil {
		return fmt.Errorf("import: %w: %w", store.ErrUnknown, err)
	}
	d.cluster = in.cluster
	return nil
}

// importer writes rows in the transaction of an Import, table by table.
type importer struct {
	ctx     context.Context
	conn    *conn
	sql     map[string]string
	shards  int
	cluster string
	copy    *copying // the COPY of the table in progress
	scratch []byte
}

// Head implements store.Rows.
func (in *importer) Head(h store.Head) error {
	if len(h.Shards) != in.shards {
		return fmt.Errorf("%d shards, this database has %d: %w", len(h.Shards), in.shards, store.ErrFormat)
	}
	in.cluster = h.Cluster
	run := func(name string, a args, oids ...uint32) error {
		return translate("import", in.conn.ExecParams(in.ctx, in.sql[name], a, oids, binaryForm, binaryForm).Read().Err)
	}
	err := run("importHead", args{}.text(h.Cluster).int8(int64(h.Created)).text(h.Isolation), oidText, oidInt8, oidText)
	if err != nil {
		return err
	}
	for i, s := range h.Shards {
		a := args{}.int4(int32(i)).int8(s.Epoch).int8(s.Seq).int8(int64(s.Watermark))
		err := run("importShard", a, oidInt4, oidInt8, oidInt8, oidInt8)
		if err != nil {
			return err
		}
	}
	return nil
}

// Row implements store.Rows.
func (in *importer) Row(t *store.Table, values []store.Value) error {
	if in.copy == nil || in.copy.table != t.Name {
		if err := in.finish(); err != nil {
			return err
		}
		in.copy = startCopy(in.ctx, in.conn.PgConn, t.Name, in.sql["import "+t.Name])
	}
	b := binary.BigEndian.AppendUint16(in.scratch[:0], uint16(len(values)))
	for i := range values {
		v := &values[i]
		switch kind := t.Columns[i].Kind; {
		case v.Null:
			b = binary.BigEndian.AppendUint32(b, 0xffffffff)
		case kind == store.KindInt4:
			b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 4), uint32(v.Int))
		case kind == store.KindInt8:
			b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(v.Int))
		default:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v.Bytes))), v.Bytes...)
		}
	}
	in.scratch = b
	return in.copy.write(b)
}

// Bad implements store.Rows. It writes nothing.
func (in *importer) Bad(*store.Table, string, string) error { return nil }

// finish ends the COPY of the present table.
func (in *importer) finish() error {
	if in.copy == nil {
		return nil
	}
	c := in.copy
	in.copy = nil
	return c.finish()
}

func (in *importer) abandon(why error) {
	if in.copy != nil {
		in.copy.abandon(why)
	}
}

// Inspect describes a database. It creates and migrates nothing.
func Inspect(ctx context.Context, o Options) (store.Seen, error) {
	seen := store.Seen{Known: format}
	o, err := o.complete()
	if err != nil {
		return seen, err
	}
	config, err := pgconn.ParseConfig(o.URL)
	if err != nil {
		return seen, fmt.Errorf("the address of the database: %w: %w", store.ErrUnavailable, err)
	}
	c, err := newHosts(config).dial(ctx, statements("read"))
	if err != nil {
		return seen, err
	}
	defer hangUp(c)
	there, applied := false, 0
	err = c.query(ctx, "hasMeta", args{}.text(o.Schema), func(r *row) error {
		there = r.bool()
		return nil
	})
	if err == nil && there {
		// The name was checked, so it needs no quotes.
		err = each(ctx, c, "format", "SELECT format, coalesce((to_jsonb(meta) ->> 'applied')::int, format) FROM "+o.Schema+".meta", func(r *row) error {
			seen.Format, applied = int(r.int()), int(r.int())
			return r.damaged("meta")
		})
	}
	if err != nil {
		return seen, err
	}
	files, err := scripts.ReadDir("migrations")
	for i, f := range files {
		if i < applied {
			seen.Applied = append(seen.Applied, f.Name())
		} else if i < format {
			seen.Pending = append(seen.Pending, f.Name())
		}
	}
	return seen, err
}
