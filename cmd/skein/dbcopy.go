package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/dbadmin"
)

// copyNamed is the maximum number of rows that the table for people names. The output of -o json names more.
const copyNamed = 10

func (c *cli) dbCopyCmd() *cobra.Command {
	var leaveOut bool
	cmd := &cobra.Command{
		Use: "copy FROM TO", Short: "Copy a database into an empty one, from SQLite to PostgreSQL or back",
		Long: `Copies a whole database into an empty one: runs with their ids, attempts and history, workflows with versions
and files, triggers with their ledger, backfills, and answers to requests. FROM and TO are sqlite:PATH or
postgres://user@host:port/database?schema=NAME. If the numbers of shards differ, workflows are spread evenly.

A copy that fails or is interrupted leaves nothing behind; start it again. The command refuses a target that is
not empty. It also refuses while a node uses either database, because unfinished runs would continue in both.
After the copy, it verifies both databases and counts their rows. Unfinished runs continue when a node starts on
the copy. Do not start a node on the source again.`,
		Example: "  skein db copy sqlite:$HOME/.local/share/skein/skein.db 'postgres://skein@db/skein'",
		Args:    cobra.ExactArgs(2),
		RunE: c.do(func(ctx context.Context, args []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			r, err := dbadmin.Copy(ctx, c.cfg, args[0], args[1], dbadmin.CopyOptions{LeaveOut: leaveOut, Progress: c.copied(), Say: c.say})
			c.copyWarnings(&r)
			if err != nil {
				return copyHint(err)
			}
			return one(c, r, r.To, func() error { return c.copyCard(&r) })
		}),
	}
	cmd.Flags().BoolVar(&leaveOut, "leave-out", false, "if the target cannot hold some rows, copy all other rows")
	return cmd
}

// copied prints the progress of a copy.
func (c *cli) copied() func(table string, rows int64, done bool) {
	return func(table string, rows int64, done bool) {
		switch {
		case done && c.errTTY:
			fmt.Fprintf(c.rawErr, "\r%s: %d   \n", table, rows)
		case done:
			c.say("%s: %d", table, rows)
		case c.errTTY:
			fmt.Fprintf(c.rawErr, "\r%s: %d …", table, rows)
		}
	}
}

// copyWarnings names the rows that the target cannot hold, the quarantined runs, and the violations that both
// databases have.
func (c *cli) copyWarnings(r *dbadmin.CopyResult) {
	list := func(head string, lines []string) {
		if len(lines) == 0 {
			return
		}
		c.say("%s:", head)
		for _, line := range lines[:min(len(lines), copyNamed)] {
			c.say("  %s", line)
		}
		if more := len(lines) - copyNamed; more > 0 {
			c.say("  … and more (-o json names them)")
		}
	}
	list("rows that the target cannot hold", r.Bad)
	list("runs that are quarantined, in the copy as in the source", r.Quarantined)
	var found []string
	for _, v := range r.Violations {
		found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s: %s", v.Run, v.Rule, v.What)))
	}
	list("verify finds in the copy what it finds in the source", found)
}

func (c *cli) copyCard(r *dbadmin.CopyResult) error {
	rows := [][]string{{"from", r.From}, {"to", r.To}}
	for _, table := range slices.Sorted(maps.Keys(r.Rows)) {
		text := fmt.Sprint(r.Rows[table])
		if n := r.LeftOut[table]; n > 0 {
			text += fmt.Sprintf(", %d left out", n)
		}
		rows = append(rows, []string{table, text})
	}
	rows = append(rows, []string{"shards", fmt.Sprintf("%d → %d", r.FromShards, r.ToShards)}, []string{"runs", countsText(r.Runs)},
		[]string{"seconds", fmt.Sprintf("%.1f", r.Seconds)})
	return c.card(rows)
}

// copyHint adds the remedy to an error of a copy.
func copyHint(err error) error {
	switch {
	case errors.Is(err, dbadmin.ErrIncomplete):
		return hint(&said{errInvalid, err.Error()}, "look at them: skein verify; or copy the others: --leave-out")
	case errors.Is(err, dbadmin.ErrNotEmpty):
		return hint(&said{errConflict, err.Error()}, "choose another file, or another schema: …?schema=NAME")
	}
	return dbHint(err)
}
