package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) nodeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "node", Short: "List the nodes of a cluster with their shards, and take nodes out of service",
		Example: "  skein node list\n  skein node drain n2 --wait",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.nodeListCmd(), c.nodeGetCmd(), c.nodeDrainCmd(), c.nodeMoveCmd(),
		c.nodeVerbCmd("cordon", "Cordon a node: move its shards away, and assign it no new ones; running attempts finish",
			"The node stays cordoned until skein node uncordon, also after a restart.", (*skein.Client).Cordon),
		c.nodeVerbCmd("uncordon", "Uncordon a node: it gets shards again", "This undoes cordon and drain, also for a node that is away.", (*skein.Client).Uncordon),
		c.nodeStopCmd(), c.nodeStartCmd(), c.nodeLogLevelCmd(), nodeRevokeCmd(c))
	return cmd
}

// nodeTable prints a list of nodes.
func (c *cli) nodeTable(all []api.Node) error {
	return show(c, all, nodeName, []column[api.Node]{
		{head: "NODE", get: nodeName},
		{head: "STATE", get: func(n api.Node) string { return c.state(n.State) }},
		{head: "SLOTS", get: func(n api.Node) string { return slotsText(n.Slots) }},
		{head: "CPU", get: func(n api.Node) string { return fmt.Sprintf("%g/%g", n.Resources.CPU.Used, n.Resources.CPU.Total) }},
		{head: "MEMORY", get: func(n api.Node) string {
			return size(n.Resources.Memory.Used) + "/" + size(n.Resources.Memory.Total)
		}},
		{head: "SHARDS", get: func(n api.Node) string { return strconv.Itoa(n.Shards.Owned) }},
		{head: "LOAD", get: func(n api.Node) string { return percent(n.Load) }},
		{head: "LAG", get: nodeLag},
		{head: "SIGHT", get: func(n api.Node) string { return nodeSight(&n) }},
		{head: "UP SINCE", get: func(n api.Node) string { return c.when(&n.StartedAt) }},
		{head: "VERSION", get: func(n api.Node) string { return n.Version }},
		{head: "ROLES", get: func(n api.Node) string { return strings.Join(n.Roles, ",") }},
		{head: "HOME", get: func(n api.Node) string { return text(n.Home) }},
		{head: "GROUPS", get: func(n api.Node) string { return orNone(strings.Join(n.Groups, ",")) }},
		{head: "LABELS", get: func(n api.Node) string { return orNone(strings.Join(labelsOf(&n), ",")) }},
		{head: "ADDRESS", get: func(n api.Node) string { return text(n.Address) }},
	})
}

func slotsText(s api.Slots) string { return fmt.Sprintf("%d/%d", s.Busy, s.Total) }

func labelsOf(n *api.Node) (all []string) {
	for k, v := range n.Labels {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return all
}

func nodeName(n api.Node) string { return n.Name }

func nodeLag(n api.Node) string {
	if n.SeenAt == nil {
		return "-"
	}
	return fmt.Sprintf("%.1fs", n.Lag)
}

// nodeSight says how the answering node sees another node, and which nodes cannot reach that node.
func nodeSight(n *api.Node) string {
	if n.Sight == nil {
		return "-"
	}
	text := n.Sight.State
	if n.Sight.Reason != nil && text != "self" && text != "reached" {
		text += ": " + *n.Sight.Reason
	}
	if by := n.Sight.UnreachedBy; len(by) > 0 {
		text += " (not reached by " + strings.Join(by, ", ") + ")"
	}
	return text
}

func (c *cli) nodeListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the nodes, with load, shards and lag",
		Long: `Lists the nodes.

SLOTS shows busy and all slots. LOAD is the part of a node's capacity that its shards use. LAG is the time since
the node's last heartbeat, which it sends every --heartbeat. After a silence of --lag the node counts as dead.
SIGHT says whether the node that answers can reach the listed node, and which nodes cannot reach it.

STATE is active, cordoned (the node gets no shard), drained (cordoned, without shards and running attempts), stopped
(skein node stop), or leaving.`,
		Example: "  skein node list\n  skein node list -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			page, err := s.Nodes(ctx)
			if err != nil {
				return err
			}
			for i := range page.Items {
				s.observed(&page.Items[i])
			}
			return c.nodeTable(page.Items)
		})),
	}
}

// observed corrects the state that an observer reports for itself, because it runs no tasks.
func (s *session) observed(n *api.Node) {
	if s.observing && n.SeenAt == nil {
		n.State = "stopped"
	}
}

func (c *cli) nodeGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get NODE", Short: "Show a node",
		Example: "  skein node get n1\n  skein node get n1 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			n, err := s.Node(ctx, args[0])
			if err != nil {
				return err
			}
			s.observed(&n)
			return c.nodeCard(&n)
		})),
	}
}

func (c *cli) nodeCard(n *api.Node) error {
	return one(c, *n, n.Name, func() error {
		rows := [][]string{
			{"node", n.Name},
			{"state", c.state(n.State)},
			{"handler", n.Handler},
			{"version", n.Version},
			{"roles", strings.Join(n.Roles, ", ")},
			{"address", text(n.Address)},
			{"home", text(n.Home)},
			{"groups", orNone(strings.Join(n.Groups, ", "))},
			{"labels", orNone(strings.Join(labelsOf(n), ", "))},
			{"slots", fmt.Sprintf("%d of %d busy", n.Slots.Busy, n.Slots.Total)},
			{"cpu", fmt.Sprintf("%g of %g cores taken", n.Resources.CPU.Used, n.Resources.CPU.Total)},
			{"memory", fmt.Sprintf("%s of %s taken", size(n.Resources.Memory.Used), size(n.Resources.Memory.Total))},
			{"shards", shardRanges(n.Shards.List)},
			{"moved", shardRanges(n.Shards.Moved)},
			{"load", percent(n.Load)},
			{"started", c.when(&n.StartedAt)},
			{"seen", c.when(n.SeenAt)},
			{"sight", nodeSight(n)},
		}
		rows = append(rows, loadRows(c, n)...)
		if !c.outTTY {
			return showPlain(c.out, rows, []column[[]string]{
				{get: func(r []string) string { return r[0] }}, {get: func(r []string) string { return r[1] }}})
		}
		for i := range rows {
			rows[i][0] = c.paint(dim, rows[i][0])
		}
		return writeRows(c, rows)
	})
}

// shardRanges returns a text such as "4: 0-2, 7".
func shardRanges(list []int32) string {
	if len(list) == 0 {
		return "none"
	}
	var parts []string
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		part := strconv.Itoa(int(list[i]))
		if k > i {
			part += "-" + strconv.Itoa(int(list[k]))
		}
		parts = append(parts, part)
		i = k + 1
	}
	return fmt.Sprintf("%d: %s", len(list), strings.Join(parts, ", "))
}

func (c *cli) nodeVerbCmd(verb, short, long string, do func(*skein.Client, context.Context, string) (api.Node, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NODE", Short: short, Long: short + ".\n" + long,
		Example: "  skein node " + verb + " n1",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			n, err := do(s.Client, ctx, args[0])
			if err != nil {
				return err
			}
			return c.nodeTable([]api.Node{n})
		})),
	}
}

// drainPoll is the pause between two reads of the state of a node that is draining.
const drainPoll = 500 * time.Millisecond

func (c *cli) nodeDrainCmd() *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Cordon a node, and with --wait wait until it runs no attempt",
		Long: `Cordons a node: its shards move to other nodes, which advance their runs. Running attempts finish. When the node is
drained, you can end its process without loss. The node stays drained until skein node uncordon, also after a restart.`,
		Example: "  skein node drain n2 --wait\n  skein node drain n2 --wait --timeout 10m",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			n, err := s.Cordon(ctx, args[0])
			if err == nil && wait {
				n, err = c.drained(ctx, s, n, timeout)
			}
			if err != nil {
				return err
			}
			return c.nodeTable([]api.Node{n})
		})),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the node is drained or has left the cluster")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: stop waiting after this time (exit 8); 0: never")
	return cmd
}

// drained waits until a node is drained. A node that is gone counts as drained.
func (c *cli) drained(ctx context.Context, s *session, n api.Node, timeout time.Duration) (api.Node, error) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	began, told := time.Now(), ""
	for n.State != "drained" && n.State != "absent" {
		if left := fmt.Sprintf("%s: %s, %s", n.Name, count(n.Slots.Busy, "attempt"), count(n.Shards.Owned, "shard")); left != told {
			c.say("%s", left)
			told = left
		}
		if !n.Cordoned {
			return n, hint(&said{errConflict, "node " + n.Name + " was uncordoned before it was drained"}, "skein node drain "+n.Name)
		}
		if timeout > 0 && time.Since(began) > timeout {
			return n, hint(&said{errTimedOut, fmt.Sprintf("node %s is not drained after %v", n.Name, timeout)}, "to see what runs there: skein task list --state running")
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-tick.C:
		}
		is, err := s.Node(ctx, n.Name)
		switch {
		case errors.Is(err, skein.ErrNotFound):
			n.State = "absent"
		case err != nil && !notHere(err):
			return n, err
		case err == nil:
			n = is
		}
	}
	return n, nil
}

func (c *cli) nodeMoveCmd() *cobra.Command {
	return &cobra.Command{
		Use: "move SHARD|WORKFLOW NODE", Short: "Move a shard, or the shard of a workflow, to a node; NODE - undoes it",
		Long: `Moves a shard to a node, with all workflows of the shard, without a pause of their runs. The shard stays with
the node while the node accepts shards, also after a restart of the node. While the node is away, another node
gets the shard. NODE "-" undoes the move.`,
		Example: "  skein node move 7 n2\n  skein node move nightly-orders n2\n  skein node move 7 -",
		Args:    cobra.ExactArgs(2),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			var sh api.Shard
			id, err := strconv.ParseInt(args[0], 10, 32)
			if err == nil {
				sh, err = s.MoveShard(ctx, int32(id), args[1])
			} else {
				sh, err = s.MoveWorkflow(ctx, args[0], args[1])
			}
			if err != nil {
				return err
			}
			return show(c, []api.Shard{sh}, func(sh api.Shard) string { return strconv.Itoa(int(sh.ID)) }, []column[api.Shard]{
				{head: "SHARD", get: func(sh api.Shard) string { return strconv.Itoa(int(sh.ID)) }},
				{head: "OWNER", get: func(sh api.Shard) string { return orDash(text(sh.Owner)) }},
				{head: "MOVED TO", get: func(sh api.Shard) string { return orDash(text(sh.MovedTo)) }},
				{head: "WORKFLOWS", get: func(sh api.Shard) string { return strconv.Itoa(sh.Workflows) }},
			})
		})),
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (c *cli) nodeStopCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "stop [NODE]", Short: "Stop the scheduler of a node, or of the whole cluster: runs wait, running attempts finish",
		Long: `Stops the scheduler of one node, or of the whole cluster. The shards of a single node move to other nodes. If
the whole cluster is stopped, no task starts and no trigger fires. Running attempts finish, and their nodes keep
the results. New runs are accepted and wait. The scheduler stays stopped until skein node start, also after
restarts.`,
		Example: "  skein node stop n2\n  skein node stop --yes",
		Args:    cobra.MaximumNArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			node := ""
			if len(args) > 0 {
				node = args[0]
			} else if err := c.confirm(yes, "stop the scheduler of the whole cluster"); err != nil {
				return err
			}
			sch, err := s.StopScheduler(ctx, node)
			if err != nil {
				return err
			}
			return c.schedulerCard(&sch)
		})),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before the whole cluster stops")
	return cmd
}

func (c *cli) nodeStartCmd() *cobra.Command {
	return &cobra.Command{
		Use: "start [NODE]", Short: "Start a stopped scheduler again: of one node, or of all nodes",
		Example: "  skein node start n2\n  skein node start",
		Args:    cobra.MaximumNArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			sch, err := s.StartScheduler(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return c.schedulerCard(&sch)
		})),
	}
}

func (c *cli) schedulerCard(s *api.Scheduler) error {
	return one(c, *s, schedulerText(s), func() error {
		_, err := fmt.Fprintln(c.out, schedulerText(s))
		return err
	})
}

// schedulerText says on which nodes runs are not advanced.
func schedulerText(s *api.Scheduler) string {
	switch {
	case s.Stopped && text(s.User) != "":
		return fmt.Sprintf("stopped in the whole cluster by %s, %s", text(s.User), s.StoppedAt)
	case s.Stopped:
		return "stopped in the whole cluster"
	case len(s.Nodes) > 0:
		return "stopped on " + strings.Join(s.Nodes, ", ")
	}
	return "running"
}

func (c *cli) nodeLogLevelCmd() *cobra.Command {
	return &cobra.Command{
		Use: "log-level NODE [debug|info|warn|error]", Short: "Show or change the level of a node's log",
		Long: `Shows or changes the level of a node's log. A change is valid until the node ends or reads its settings again
(SIGHUP).`,
		Example: "  skein node log-level n1\n  skein node log-level n1 debug",
		Args:    cobra.RangeArgs(1, 2),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) (err error) {
			var l api.LogLevel
			if len(args) == 1 {
				l, err = s.LogLevel(ctx, args[0])
			} else {
				l, err = s.SetLogLevel(ctx, args[0], args[1])
			}
			if err != nil {
				return err
			}
			return one(c, l, l.Level, func() error {
				_, err := fmt.Fprintln(c.out, l.Level)
				return err
			})
		})),
	}
}
