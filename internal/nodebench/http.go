package nodebench

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/bench"
	"skein.dev/skein/internal/config"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// HTTPConfig says how a node's HTTP interface is measured.
type HTTPConfig struct {
	bench.Config               // Runs is the number of rounds
	Span         time.Duration // the duration of each half of a round
	Make         bench.Make    // makes the calls; nil if this process does
}

// doorRounds is the default of HTTPConfig.Runs.
const doorRounds = 5

// doorBatch is the number of starts of a batch.
const doorBatch = 1000

// doorWorkflow has one task, which its condition leaves out: a run of it is started and ended by the
// scheduler alone, so the figures are about starts.
const doorWorkflow = "name: bench\ntasks:\n  nothing: {run: \"true\", if: \"false\"}\n"

// HTTP measures calls to a whole node over its listener, with a token, in turn with a route that does
// nothing.
func HTTP(ctx context.Context, cfg *config.Config, c HTTPConfig) (bench.Door, error) {
	door := bench.Door{Store: c.At.Engine()}
	limits, err := bench.Measure(ctx, c.Dir, c.At)
	if err != nil {
		return door, err
	}
	door.FdatasyncP50 = limits.FdatasyncP50
	if cfg, err = cfg.At(c.At.Database()); err != nil {
		return door, err
	}
	if c.Make == nil {
		c.Make = func(ctx context.Context, k bench.Calls) (bench.CallTally, error) { return k.Make(ctx) }
	}
	if c.Runs == 0 {
		c.Runs = doorRounds
	}
	err = withNode(ctx, cfg, c.Dir, doorWorkflow, func(n *app.Node, k *skein.Client) error {
		token, err := k.CreateToken(ctx, api.TokenRequest{Kind: "api", Name: "bench", NeverExpires: true})
		if err != nil {
			return fmt.Errorf("bench: make a token: %w", err)
		}
		door.Lines, err = doorLines(ctx, &c, bench.Calls{URL: n.URL(), Token: token.Secret, Span: c.Span})
		return err
	})
	return door, err
}

// doorLines measures each kind of HTTP call, and returns one line of the report for each kind.
func doorLines(ctx context.Context, c *HTTPConfig, of bench.Calls) (lines []bench.DoorLine, err error) {
	for _, k := range []struct {
		call        string
		connections int
		each        int // starts or rows of one call
		calls       bench.Calls
	}{
		{"start", 1, 1, bench.Calls{Method: http.MethodPost, Path: api.Prefix + "/runs", Body: `{"workflow":"bench"}`, Keyed: true}},
		{"start", 64, 1, bench.Calls{Method: http.MethodPost, Path: api.Prefix + "/runs", Body: `{"workflow":"bench"}`, Keyed: true}},
		{"batch", 4, doorBatch, bench.Calls{Method: http.MethodPost, Path: api.Prefix + "/runs:batch", Keyed: true,
			Body: `{"runs":[` + strings.TrimSuffix(strings.Repeat(`{"workflow":"bench"},`, doorBatch), ",") + `]}`}},
		{"list", 4, 1, bench.Calls{Method: http.MethodGet, Path: api.Prefix + "/runs?limit=50"}},
	} {
		bare := of
		bare.Method, bare.Path, bare.Connections = http.MethodGet, "/livez", k.connections
		k.calls.URL, k.calls.Token, k.calls.Span, k.calls.Connections = of.URL, of.Token, of.Span, k.connections
		line, err := bench.Beside(ctx, c.Make, k.calls, bare, k.each, c.Runs)
		if err != nil {
			return lines, err
		}
		line.Call = k.call
		lines = append(lines, line)
	}
	return lines, nil
}
