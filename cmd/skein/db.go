package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/dbadmin"
)

func (c *cli) dbCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "db", Short: "Manage the database: status, show, migrate, backup, restore, recovered, copy",
		Long: `Manages the database of the settings (--db, else SQLite in the data folder).

One node uses an SQLite file, the node of its data folder. Several nodes may share a PostgreSQL schema.`,
	}
	needsVerb(cmd)
	cmd.AddCommand(c.dbStatusCmd(), dbShowCmd(c), c.dbMigrateCmd(), c.dbBackupCmd(), c.dbRestoreCmd(), c.dbRecoveredCmd(), c.dbCopyCmd())
	return cmd
}

func (c *cli) dbStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show engine, location, format, size, runs and nodes of the database",
		Long:    "Shows the state of the database without a change. It works while nodes run, and with any format.",
		Example: "  skein db status\n  skein db status --db 'postgres://skein@db/skein' -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			s, err := dbadmin.ReadStatus(ctx, c.cfg)
			if err != nil {
				return dbHint(err)
			}
			return one(c, s, s.Location, func() error { return c.dbCard(&s) })
		}),
	}
}

func (c *cli) dbCard(s *dbadmin.Status) error {
	format := fmt.Sprintf("%d (this program knows up to %d)", s.Format, s.Known)
	switch {
	case s.Format == 0:
		format = "not made yet: the first node makes it, or skein db migrate"
	case s.Format < s.Known && len(s.Pending) == 0:
		format += "; it rises when all nodes know more"
	case s.Format < s.Known:
		format += ": the next node brings it up to date, or skein db migrate"
	case s.Format > s.Known:
		format += ": use a newer skein"
	}
	rows := [][]string{{"engine", s.Engine}, {"location", s.Location}, {"format", format},
		{"migrations", orNone(strings.Join(s.Applied, ", "))}}
	if len(s.Pending) > 0 {
		rows = append(rows, []string{"pending", strings.Join(s.Pending, ", ")})
	}
	if s.Cluster != "" {
		rows = append(rows, []string{"cluster", s.Cluster}, []string{"size", size(s.Bytes)}, []string{"runs", countsText(s.Runs)},
			[]string{"shards", shardsText(s)})
	}
	if s.Holder != "" {
		rows = append(rows, []string{"held by", s.Holder})
	}
	for _, m := range s.Members {
		rows = append(rows, []string{"member", fmt.Sprintf("%s (handler %d) at %s, %s, version %s, %d of %d slots busy, shards %s, seen %s", m.Name, m.Handler,
			m.Address, m.State, m.Version, m.Busy, m.Slots, orNone(ranges(m.Shards)), m.Seen.UTC().Format("15:04:05 UTC"))})
	}
	return c.card(rows)
}

// card prints names with their values.
func (c *cli) card(rows [][]string) error {
	if !c.outTTY {
		return showPlain(c.out, rows, []column[[]string]{
			{get: func(r []string) string { return r[0] }}, {get: func(r []string) string { return r[1] }}})
	}
	for i := range rows {
		rows[i][0] = c.paint(dim, rows[i][0])
	}
	return writeRows(c, rows)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func shardsText(s *dbadmin.Status) string {
	if s.Engine != "postgres" {
		return strconv.Itoa(s.Shards)
	}
	return fmt.Sprintf("%d, %d of them without an owner", s.Shards, s.Free)
}

func countsText(n map[string]int64) string {
	var parts []string
	for what, k := range n {
		if k > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", k, what))
		}
	}
	slices.Sort(parts)
	return orNone(strings.Join(parts, ", "))
}

// ranges formats the numbers 0, 1, 2, 5 as "0–2, 5".
func ranges(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		k := i
		for k+1 < len(n) && n[k+1] == n[k]+1 {
			k++
		}
		part := strconv.Itoa(n[i])
		if k > i {
			part += "–" + strconv.Itoa(n[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	return strings.Join(parts, ", ")
}

func (c *cli) dbMigrateCmd() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Create the database, or migrate it to the format of this program",
		Long: `Applies the missing migrations and lists them. A node does the same when it starts; this command does it at a
moment of your choice. On PostgreSQL it is safe while nodes run: the migrations of one version only add tables,
columns and indexes, and the format rises when all listed nodes know the new one. An SQLite file can be migrated
only while no node uses it.`,
		Example: "  skein db migrate --db 'postgres://skein@db/skein?schema=skein'",
		Args:    cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			m, err := dbadmin.Migrate(ctx, c.cfg)
			if err != nil {
				return dbHint(err)
			}
			return one(c, m, m.Location, func() error {
				text := fmt.Sprintf("%s has format %d already: nothing to do", m.Location, m.To)
				if len(m.Applied) > 0 {
					text = fmt.Sprintf("%s: format %d → %d (%s)", m.Location, m.From, m.To, strings.Join(m.Applied, ", "))
				}
				if m.To < m.Known {
					text += fmt.Sprintf("; it rises to %d when all nodes know that", m.Known)
				}
				_, err := fmt.Fprintln(c.out, text)
				return err
			})
		}),
	}
}

func (c *cli) dbBackupCmd() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Back up the database into a file, while nodes run",
		Long: `Writes a consistent copy of the database into FILE. FILE is an SQLite database, whatever the engine: you can
query it (skein run list --db sqlite:FILE), verify it, and restore it into either engine. FILE appears only when
the copy is complete and on the disk. Logs of attempts are files and not part of it. For a large PostgreSQL
database, pg_dump or an archive of its write-ahead log is better; the command shows the pg_dump command line.`,
		Example: "  skein db backup /backup/skein.db\n  skein verify --db sqlite:/backup/skein.db",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			b, err := dbadmin.Backup(ctx, c.cfg, args[0], force)
			if err != nil {
				return dbHint(err)
			}
			if b.PgDump != "" {
				c.say("PostgreSQL's own tool: %s", b.PgDump)
			}
			return one(c, b, b.File, func() error {
				_, err := fmt.Fprintf(c.out, "%s: %s of %s\n", b.File, size(b.Bytes), b.From)
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	return cmd
}

func (c *cli) dbRestoreCmd() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup",
		Long: `Restores a backup: FILE becomes the database of the settings. FILE is an SQLite database, as skein db backup
writes it. It is verified before anything is replaced. No node may use the data folder. An existing SQLite
database is replaced only with --force, and is then kept under another name. A PostgreSQL schema must be empty.

A new era begins. Unfinished runs continue when a node starts. They repeat all work that they did after the
backup, under new tokens.`,
		Example: "  skein db restore /backup/skein.db\n  skein db restore /backup/skein.db --db 'postgres://skein@db/skein'",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			r, err := dbadmin.Restore(ctx, c.cfg, args[0], force, dbadmin.CopyOptions{Progress: c.copied(), Say: c.say})
			for _, v := range r.Violations {
				c.say("  %s", strings.TrimSpace(fmt.Sprintf("%s %s: %s", v.Run, v.Rule, v.What)))
			}
			if err != nil {
				return dbHint(err)
			}
			if r.Replaced != "" {
				c.say("the database that was there is now %s", r.Replaced)
			}
			return one(c, r, r.To, func() error {
				_, err := fmt.Fprintf(c.out, "%s: restored from %s, %s\n", r.To, r.File, countsText(r.Runs))
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing database (it is kept under another name), and accept a backup that violates an invariant")
	return cmd
}

func (c *cli) dbRecoveredCmd() *cobra.Command {
	return &cobra.Command{
		Use: "recovered", Short: "Begin a new era after the database was recovered to an earlier state",
		Long: `Begins a new era of the database. Run it after the database was recovered to a point in time, restored by other
tools than skein db restore, or copied back by hand. All attempts that were dispatched before end, and begin
again under new tokens, so two attempts of a task never have the same token.

A running node notices by itself that the database went back, and so does a node that starts with its former
data folder. Then this command is not needed, but it does no harm. On PostgreSQL, nodes may run meanwhile. An
SQLite file must not be in use.`,
		Example: "  skein db recovered --db 'postgres://skein@db/skein'",
		Args:    cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			r, err := dbadmin.Recover(ctx, c.cfg)
			if err != nil {
				return dbHint(err)
			}
			return one(c, r, r.Location, func() error {
				_, err := fmt.Fprintf(c.out, "%s is in era %d\n", r.Location, r.Era)
				return err
			})
		}),
	}
}

// dbHint adds the remedy to an error, and gives it the exit code of a conflict.
func dbHint(err error) error {
	switch {
	case errors.Is(err, dbadmin.ErrExists):
		return hint(&said{errConflict, err.Error()}, "choose another one, or replace it: --force")
	case errors.Is(err, dbadmin.ErrInUse):
		return &said{errConflict, err.Error()}
	case errors.Is(err, dbadmin.ErrNoData):
		return &said{errNoData, err.Error()}
	}
	return err
}
