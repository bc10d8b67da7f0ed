package main

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

// percent formats a fraction as a percentage. nil means that it is not known.
func percent(part *float64) string {
	if part == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100**part)
}

// costsShown bounds the shards whose costs a node card shows.
const costsShown = 5

// loadRows shows the costliest shards of a node, and why shards were moved to it because of their load.
func loadRows(c *cli, n *api.Node) (rows [][]string) {
	costs := slices.Clone(n.Shards.Costs)
	sort.Slice(costs, func(i, j int) bool {
		a, b := &costs[i], &costs[j]
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.ID, b.ID)) < 0
	})
	for _, s := range costs[:min(len(costs), costsShown)] {
		rows = append(rows, []string{fmt.Sprintf("shard %d", s.ID), fmt.Sprintf("%.1f%% of the writer, %.1f rows and %.1f transactions a second, wait %v",
			100*s.Busy, s.Rows, s.Commits, time.Duration(s.Wait*float64(time.Second)).Round(100*time.Microsecond))})
	}
	for i := range n.Shards.Shifted {
		s := &n.Shards.Shifted[i]
		rows = append(rows, []string{"moved by load", fmt.Sprintf("shard %d from %s, %s: %s", s.ID, orDash(text(s.From)), c.when(&s.At), s.Why)})
	}
	return rows
}

// lastShift returns the newest move of a shard because of its load, and the node to which the shard moved.
func lastShift(nodes []api.Node) (to string, last *api.ShardShift) {
	for i := range nodes {
		for j := range nodes[i].Shards.Shifted {
			if s := &nodes[i].Shards.Shifted[j]; last == nil || last.At.Before(s.At.Time) {
				to, last = nodes[i].Name, s
			}
		}
	}
	return to, last
}
