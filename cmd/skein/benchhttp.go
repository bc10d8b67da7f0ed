package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/bench"
	"skein.dev/skein/internal/nodebench"
)

// benchSpan is the length of each half of a round.
const benchSpan = time.Second

// benchDoor measures the HTTP interface of a node.
func (c *cli) benchDoor(ctx context.Context, f benchFlags) error {
	if f.nodes != 1 || f.history != 0 {
		return usage("--shape http does not work with --nodes or --history")
	}
	var door bench.Door
	paceHeap() // like a server
	err := c.benchPlace(ctx, f, func(dir string, at bench.Place) (err error) {
		c.say("measuring http …")
		cfg := nodebench.HTTPConfig{Config: bench.Config{Runs: f.runs, Dir: dir, At: at}, Span: benchSpan, Make: generate}
		door, err = nodebench.HTTP(ctx, c.cfg, cfg)
		return err
	})
	if err != nil {
		return err
	}
	return one(c, door, "http", func() error {
		c.say("fdatasync: %.0f µs; NODE µs is the processor time of the node for one", door.FdatasyncP50)
		return show(c, door.Lines, func(l bench.DoorLine) string { return l.Name() }, []column[bench.DoorLine]{
			{head: "CALL", get: func(l bench.DoorLine) string { return l.Call }},
			{head: "CONNECTIONS", get: func(l bench.DoorLine) string { return fmt.Sprint(l.Connections) }},
			{head: "PER S", get: func(l bench.DoorLine) string { return fmt.Sprintf("%.0f", l.PerS) }},
			{head: "BARE/S", get: func(l bench.DoorLine) string { return fmt.Sprintf("%.0f", l.BarePerS) }},
			{head: "RATIO", get: func(l bench.DoorLine) string { return fmt.Sprintf("%.2f", l.Ratio) }},
			{head: "NODE µs", get: func(l bench.DoorLine) string { return fmt.Sprintf("%.0f", l.NodeUS) }},
			{head: "BARE µs", get: func(l bench.DoorLine) string { return fmt.Sprintf("%.0f", l.BareNodeUS) }},
			{head: "GENERATOR", get: func(l bench.DoorLine) string { return fmt.Sprintf("%.0f %%", 100*l.Generator) }},
		})
	})
}

// generate makes the calls in a separate process, so that their processor time is not part of the node's.
func generate(ctx context.Context, calls bench.Calls) (t bench.CallTally, err error) {
	self, err := os.Executable()
	if err != nil {
		return t, fmt.Errorf("bench: %w", err)
	}
	in, err := json.Marshal(calls)
	if err != nil {
		return t, fmt.Errorf("bench: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "bench", "calls")
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &said
	if err := cmd.Run(); err != nil {
		return t, fmt.Errorf("bench: the generator of calls failed: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return t, json.Unmarshal(out.Bytes(), &t)
}

// benchCallsCmd returns the command of that separate process. The command is not for users.
func (c *cli) benchCallsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "calls", Short: "Make the calls that a benchmark asks for on stdin, and report them as JSON", Hidden: true, Args: cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			var calls bench.Calls
			if err := json.NewDecoder(c.in).Decode(&calls); err != nil {
				return usage("stdin: give a request of skein bench: %v", err)
			}
			tally, err := calls.Make(ctx)
			if err != nil {
				return err
			}
			return json.NewEncoder(c.out).Encode(tally)
		}),
	}
}
