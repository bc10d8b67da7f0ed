package main

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) workflowGraphCmd() *cobra.Command {
	var format string
	var version int32
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use: "graph NAME | FILE | RUN", Short: "Draw the graph of a workflow, or of a run with the state of each task",
		Example: `  skein workflow graph timezones
  skein workflow graph workflow.yaml --format mermaid
  skein workflow graph timezones@latest --format dot | dot -Tsvg > graph.svg`,
		Args: cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			draw, ok := map[string]func(io.Writer, *cli, api.Graph){"ascii": drawASCII, "mermaid": drawMermaid, "dot": drawDot}[format]
			if !ok {
				return usage("--format %s: use ascii, mermaid or dot", format)
			}
			if !strings.Contains(args[0], "@") && !isName(cmd, args[0]) {
				d, err := readDefinition(args[0], c.cfg.TasksMax)
				if err != nil {
					return err
				}
				return c.drawn(d.graph(), draw)
			}
			return c.reading(func(ctx context.Context, s *session, args []string) error {
				g, err := graphOf(ctx, s, args[0], version)
				if err != nil {
					return err
				}
				return c.drawn(g, draw)
			})(ctx, args)
		}),
	}
	cmd.Flags().StringVar(&format, "format", "ascii", "ascii | mermaid | dot")
	cmd.Flags().Int32Var(&version, "version", 0, "version of the workflow (default: the current one)")
	return cmd
}

func (c *cli) drawn(g api.Graph, draw func(io.Writer, *cli, api.Graph)) error {
	return one(c, g, "", func() error {
		var b strings.Builder
		draw(&b, c, g)
		_, err := io.WriteString(c.out, b.String())
		return err
	})
}

func graphOf(ctx context.Context, s *session, ref string, version int32) (api.Graph, error) {
	if !strings.Contains(ref, "@") && !isRunID(ref) {
		g, err := s.WorkflowGraph(ctx, ref, version)
		return g, noSuchName(err, ref)
	}
	id, err := findRun(ctx, s, ref)
	if err != nil {
		return api.Graph{}, err
	}
	return s.RunGraph(ctx, id)
}

// graph returns the graph of the file, which need not be applied.
func (d *definition) graph() api.Graph {
	g := api.Graph{Nodes: []api.GraphNode{}, Edges: []api.GraphEdge{}}
	for i, t := range d.Tasks {
		g.Nodes = append(g.Nodes, api.GraphNode{ID: int32(i), Name: t.Name})
		for _, n := range t.Needs {
			g.Edges = append(g.Edges, api.GraphEdge{From: n, To: t.Name})
		}
	}
	return g
}

// drawASCII lists the tasks by level. The tasks of a level can run at the same time, and form one block.
func drawASCII(w io.Writer, c *cli, g api.Graph) {
	needs := map[string][]string{}
	for _, e := range g.Edges {
		needs[e.To] = append(needs[e.To], e.From)
	}
	levels := levelsOf(g, needs)
	wide := 0
	for _, n := range g.Nodes {
		wide = max(wide, len(n.Name))
	}
	for i, level := range levels {
		if i > 0 {
			fmt.Fprintln(w, c.paint(dim, "│"))
		}
		for k, n := range level {
			corner := "├─"
			if k == 0 && i == 0 {
				corner = "┌─"
			}
			if i == len(levels)-1 && k == len(level)-1 {
				corner = "└─"
			}
			if len(g.Nodes) == 1 {
				corner = "──"
			}
			fmt.Fprintln(w, strings.TrimRight(c.graphLine(corner, n, wide, needs[n.Name]), " "))
		}
	}
}

// graphLine returns the line of one task: its state, if it has one, and the tasks that it needs.
func (c *cli) graphLine(corner string, n api.GraphNode, wide int, needs []string) string {
	line := c.paint(dim, corner) + " " + n.Name + strings.Repeat(" ", wide-len(n.Name))
	if n.State != nil {
		line += "  " + c.state(*n.State)
	}
	if len(needs) > 0 {
		line += "  " + c.paint(dim, "← "+strings.Join(needs, ", "))
	}
	return line
}

// levelsOf groups tasks by the length of the longest path to them.
func levelsOf(g api.Graph, needs map[string][]string) [][]api.GraphNode {
	byName := map[string]api.GraphNode{}
	left := map[string]int{}
	dependents := map[string][]string{}
	level := map[string]int{}
	var ready []string
	for _, n := range g.Nodes {
		byName[n.Name] = n
		if left[n.Name] = len(needs[n.Name]); left[n.Name] == 0 {
			ready = append(ready, n.Name)
		}
		for _, from := range needs[n.Name] {
			dependents[from] = append(dependents[from], n.Name)
		}
	}
	var levels [][]api.GraphNode
	for len(ready) > 0 {
		name := ready[0]
		ready = ready[1:]
		for len(levels) <= level[name] {
			levels = append(levels, nil)
		}
		levels[level[name]] = append(levels[level[name]], byName[name])
		for _, d := range dependents[name] {
			level[d] = max(level[d], level[name]+1)
			if left[d]--; left[d] == 0 {
				ready = append(ready, d)
			}
		}
	}
	for _, l := range levels {
		sort.Slice(l, func(i, j int) bool { return l[i].ID < l[j].ID })
	}
	return levels
}

func drawMermaid(w io.Writer, _ *cli, g api.Graph) {
	fmt.Fprintln(w, "flowchart LR")
	id := map[string]string{}
	for _, n := range g.Nodes {
		id[n.Name] = fmt.Sprintf("t%d", n.ID)
		label := n.Name
		if n.State != nil {
			label += "<br/>" + *n.State
		}
		fmt.Fprintf(w, "  %s[\"%s\"]\n", id[n.Name], label)
	}
	for _, e := range g.Edges {
		fmt.Fprintf(w, "  %s --> %s\n", id[e.From], id[e.To])
	}
}

func drawDot(w io.Writer, _ *cli, g api.Graph) {
	colours := map[string]string{"succeeded": "palegreen", "failed": "lightcoral", "upstream_failed": "mistyrose", "running": "lightblue",
		"stopped": "khaki", "skipped": "lightgrey"}
	fmt.Fprintln(w, "digraph workflow {\n  rankdir=LR; node [shape=box, style=\"rounded,filled\", fillcolor=white];")
	for _, n := range g.Nodes {
		if n.State == nil {
			fmt.Fprintf(w, "  %q;\n", n.Name)
			continue
		}
		colour := colours[*n.State]
		if colour == "" {
			colour = "white"
		}
		fmt.Fprintf(w, "  %q [label=\"%s\\n%s\", fillcolor=%s];\n", n.Name, n.Name, *n.State, colour)
	}
	for _, e := range g.Edges {
		fmt.Fprintf(w, "  %q -> %q;\n", e.From, e.To)
	}
	fmt.Fprintln(w, "}")
}
