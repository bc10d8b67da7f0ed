package postgres

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/google/uuid"

	"skein.dev/skein/internal/store"
)

// ready checks that everything that this program needs is in the schema, or adds it.
func (d *DB) ready(ctx context.Context, shards int) error {
	c, err := d.writers.take(ctx)
	if err != nil {
		return err
	}
	defer d.writers.give(c)
	if err := checkServer(ctx, c); err != nil {
		return err
	}
	is, applied, err := d.readMeta(ctx, c)
	if err == nil && applied < formatNewest {
		if err = d.migrate(ctx, c, shards); err == nil {
			is, _, err = d.readMeta(ctx, c)
		}
	}
	if err != nil {
		return err
	}
	d.learn(is)
	if is > format {
		return fmt.Errorf("schema %s of %s: %w: the database has format %d, this program knows up to %d; use a newer skein",
			d.schema, place(d.config), store.ErrFormat, is, format)
	}
	return nil
}

// writable returns an error if the database can be read but accepts no writes yet.
func (d *DB) writable(ctx context.Context) error {
	c, err := d.writers.take(ctx)
	if err != nil {
		return err
	}
	defer d.writers.give(c)
	err = c.query(ctx, "writable", nil, func(r *row) error {
		if !r.bool() {
			return noWrites()
		}
		return nil
	})
	if err != nil {
		hangUp(c) // the next connection may reach a server that accepts writes
	}
	return err
}

func noWrites() error {
	return fmt.Errorf("%w: %w", store.ErrUnavailable, &answered{codeReadOnly, "the database takes no writes: it recovers, is a replica, or was set to be read only"})
}

func checkServer(ctx context.Context, c *conn) error {
	return c.query(ctx, "server", nil, func(r *row) error {
		encoding, version := r.text(), r.int()
		switch {
		case version < versionMin:
			return fmt.Errorf("%w: the database is PostgreSQL %d, and Skein needs %d or newer", store.ErrFormat, version/10000, versionMin/10000)
		case encoding != "UTF8":
			return fmt.Errorf("%w: the database is in %s, and Skein needs UTF8 (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0)", store.ErrFormat, encoding)
		}
		return nil
	})
}

// readMeta reads the row in which the database describes itself. The format is 0 if there is no such row
// yet.
func (d *DB) readMeta(ctx context.Context, c *conn) (is, applied int, err error) {
	there := false
	err = c.query(ctx, "hasMeta", args{}.text(d.schema), func(r *row) error {
		there = r.bool()
		return nil
	})
	if err != nil || !there {
		return 0, 0, err
	}
	err = c.query(ctx, "meta", nil, func(r *row) error {
		is, d.cluster, d.shards, applied, d.isolation = int(r.int()), r.text(), int(r.int()), int(r.int()), r.text()
		return nil
	})
	return is, applied, err
}

// migrate carries out the missing migrations in one transaction. Nodes that start at the same time wait for
// the advisory lock. Afterwards only the first of them has something to do. The format rises in the same
// transaction, unless a listed node does not know the new format. In this case it rises later (Rise).
//
// A migration must not build an index of a large table or wait for a vacuum, because nodes of the earlier
// version would wait for its locks. Upgrade does such work. The time of the transaction is not bounded,
// because a migration that is always cut off would never be completed. Each wait for a lock is bounded by
// lockMax.
func (d *DB) migrate(ctx context.Context, c *conn, shards int) error {
	files, err := scripts.ReadDir("migrations")
	if err != nil {
		return err
	}
	run := func(sql string) error {
		_, err := c.Exec(ctx, sql).ReadAll()
		return translate("migrate schema "+d.schema, err)
	}
	first, err := c.line(ctx) // this is read before the transaction, because an error in a transaction would abort it
	if err != nil {
		return err
	}
	// A text of several statements cannot be prepared, so the text is composed here. It contains only a
	// checked name, numbers, and a UUID.
	if err := run(fmt.Sprintf("BEGIN; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(%d)", lockKey(d.schema))); err != nil {
		return err
	}
	is, applied, err := d.readMeta(ctx, c)
	if err == nil && is == 0 {
		err = run("CREATE SCHEMA IF NOT EXISTS " + d.schema)
	}
	for i := applied; i < len(files) && err == nil; i++ {
		var script []byte
		if script, err = scripts.ReadFile("migrations/" + files[i].Name()); err == nil {
			err = run(string(script))
		}
	}
	if err == nil && is == 0 {
		err = run(fmt.Sprintf(`INSERT INTO meta (one, format, cluster, shards, created, isolation)
			VALUES (1, %d, '%s', %d, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, '%s');
			INSERT INTO shard (id) SELECT generate_series(0, %d)`, format, uuid.NewString(), shards, store.IsolationNew, shards-1))
	} else if err == nil && format < formatRising {
		err = run(fmt.Sprintf("UPDATE meta SET format = %d", max(is, format)))
	}
	if err == nil && applied < formatEra {
		if is != 0 { // until the format rises, nodes write without comparing histories, so an era begins when it rises
			first.timeline = 0
		}
		err = c.query(ctx, "firstEra", args{}.text(first.system).int8(first.timeline), nil)
	}
	if err == nil {
		if err = run(fmt.Sprintf("UPDATE meta SET applied = %d", max(applied, len(files)))); err == nil && is != 0 && format >= formatRising {
			err = c.query(ctx, "rise", nil, nil)
		}
	}
	if err == nil {
		return run("COMMIT")
	}
	_ = run("ROLLBACK")
	return err
}

// lockKey returns the advisory lock of a schema's migrations.
func lockKey(schema string) int64 { return advisoryKey("skein.migrate." + schema) }

// buildKey returns the advisory lock of a session that builds indexes of a schema.
func buildKey(schema string) int64 { return advisoryKey("skein.build." + schema) }

func advisoryKey(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return int64(h.Sum64())
}
