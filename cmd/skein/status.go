package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) statusCmd() *cobra.Command {
	system := false
	cmd := &cobra.Command{
		Use: "status", Short: "Show the server and its active runs",
		Example: "  skein status\n  skein status -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			var opts []skein.CallOption
			if system {
				opts = append(opts, skein.WithSystem())
			}
			st, err := s.Status(ctx, opts...)
			if err != nil {
				return err
			}
			if s.observing {
				st.State, st.Accepting = "stopped", false
			}
			return one(c, st, st.Node, func() error { return c.statusCard(ctx, s, &st) })
		})),
	}
	cmd.Flags().BoolVar(&system, "system", false, systemHelp)
	return cmd
}

func (c *cli) statusCard(ctx context.Context, s *session, st *api.Status) error {
	where := s.URL()
	if s.observing {
		where = "no server (skein dev or skein server starts one)"
	}
	rows := [][]string{
		{"server", where},
		{"state", st.State},
		{"version", st.Version},
		{"store", fmt.Sprintf("%s %s, %s", st.Store.Engine, st.Store.Location, size(st.Store.Bytes))},
		{"runs", runsText(st.Runs)},
	}
	page, err := s.Nodes(ctx)
	if err != nil {
		return err
	}
	nodes := page.Items
	more, err := clusterRows(ctx, s, nodes)
	if err != nil {
		return err
	}
	rows = append(rows, more...)
	if !s.observing {
		slots := api.Slots{}
		for i := range nodes { // these include the server's own slots
			slots.Busy, slots.Total = slots.Busy+nodes[i].Slots.Busy, slots.Total+nodes[i].Slots.Total
		}
		rows = append(rows, []string{"slots", fmt.Sprintf("%d of %d busy", slots.Busy, slots.Total)})
		for i := range nodes {
			rows = append(rows, []string{"resources", nodes[i].Name + ": " + roomText(&nodes[i])})
		}
	}
	if err := c.card(rows); err != nil || !c.outTTY {
		return err
	}
	newest, err := s.Runs(ctx, skein.RunsQuery{Limit: 10})
	if err != nil || len(newest.Items) == 0 {
		return err
	}
	fmt.Fprintln(c.out)
	return c.runTable(newest.Items)
}

// clusterRows describes the other nodes. It returns no rows if the node is alone.
func clusterRows(ctx context.Context, s *session, nodes []api.Node) ([][]string, error) {
	if len(nodes) == 0 || nodes[0].SeenAt == nil {
		return nil, nil
	}
	sch, err := s.Scheduler(ctx)
	if err != nil {
		return nil, err
	}
	rows := [][]string{{"scheduler", schedulerText(&sch)}}
	for i, n := range nodes {
		head := "nodes"
		if i > 0 {
			head = ""
		}
		text := fmt.Sprintf("%s %s, %s, %d of %d slots busy, seen %s ago", n.Name, n.State,
			count(n.Shards.Owned, "shard"), n.Slots.Busy, n.Slots.Total, nodeLag(n))
		if sight := nodeSight(&n); !slices.Contains([]string{"-", "self", "reached", "unknown"}, sight) {
			text += ", " + sight
		}
		if n.Load != nil {
			text += ", load " + percent(n.Load)
		}
		rows = append(rows, []string{head, text})
	}
	if to, s := lastShift(nodes); s != nil {
		rows = append(rows, []string{"last move", fmt.Sprintf("shard %d to %s at %s: %s", s.ID, to, s.At, s.Why)})
	}
	return rows, nil
}

// roomText shows the resources of a node or worker, and the part that tasks use.
func roomText(n *api.Node) string {
	r := &n.Resources
	return fmt.Sprintf("%g of %g cores and %s of %s taken", r.CPU.Used, r.CPU.Total, size(r.Memory.Used), size(r.Memory.Total))
}

func runsText(runs map[string]int) string {
	var parts []string
	for state, n := range runs {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(parts) == 0 {
		return "none unfinished"
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func size(bytes int64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 10<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 10<<10:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

const (
	topRuns    = 20
	topEvery   = time.Second
	topRunsMax = 1000
	topNodes   = 8
)

func (c *cli) topCmd() *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "Watch the unfinished runs",
		Long:    "Shows unfinished runs, and refreshes them each second until Ctrl-C. In a pipe it shows them once.",
		Example: "  skein top",
		Args:    cobra.NoArgs,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			if !c.outTTY || !c.errTTY || c.format != "table" {
				page, err := s.Runs(ctx, skein.RunsQuery{State: "active", Limit: topRunsMax})
				if err != nil {
					return err
				}
				return c.runTable(page.Items)
			}
			screen := newScreen(c)
			defer screen.clear()
			tick := time.NewTicker(topEvery)
			defer tick.Stop()
			for {
				lines, err := c.topLines(ctx, s)
				if err != nil {
					if errors.Is(err, context.Canceled) || ctx.Err() != nil {
						return nil
					}
					return err
				}
				screen.draw(lines)
				select {
				case <-ctx.Done():
					return nil // the user ends this view with Ctrl-C, so there is no error
				case <-tick.C:
				}
			}
		})),
	}
}

func (c *cli) topLines(ctx context.Context, s *session) ([]string, error) {
	st, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	page, err := s.Runs(ctx, skein.RunsQuery{State: "active", Limit: topRuns})
	if err != nil {
		return nil, err
	}
	p := painter{colour: c.colour}
	lines := []string{fmt.Sprintf("%s  %s  slots %s %d/%d  runs: %s", s.URL(), st.State, bar(st.Slots.Busy, st.Slots.Total), st.Slots.Busy,
		st.Slots.Total, runsText(st.Runs))}
	nodes, err := s.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		if i == topNodes {
			lines = append(lines, fmt.Sprintf("  … and %d more", len(nodes.Items)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("  %s  %s", nodes.Items[i].Name, roomText(&nodes.Items[i])))
	}
	for _, r := range page.Items {
		done, total := 0, 0
		for state, n := range r.Counts {
			total += n
			if terminal(state) {
				done += n
			}
		}
		lines = append(lines, fmt.Sprintf("  %s  %-12s %s %d/%d  %s  %s", r.ID, p.state(r.State), bar(done, total), done, total,
			took(&r.CreatedAt, nil), r.Workflow))
	}
	if len(page.Items) == 0 {
		lines = append(lines, "  nothing runs")
	}
	return lines, nil
}
