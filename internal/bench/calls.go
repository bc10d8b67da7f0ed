package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Calls says which HTTP calls a generator makes, and for how long. It goes to a process of its own as JSON.
type Calls struct {
	URL         string        `json:"url"` // the URL of the node
	Token       string        `json:"token"`
	Method      string        `json:"method"`
	Path        string        `json:"path"`
	Body        string        `json:"body,omitempty"`  // JSON; "" if there is none
	Keyed       bool          `json:"keyed,omitempty"` // each call has an idempotency key of its own
	Connections int           `json:"connections"`
	Span        time.Duration `json:"span_ns"`
}

// CallTally is a generator's report about its calls.
type CallTally struct {
	Calls   int64   `json:"calls"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_s"` // processor time of the generator's process
}

// connectionsMax bounds the connections of a generator.
const connectionsMax = 1024

// Make makes the calls, one after the other on each connection, and at least one on each. An answer other
// than 2xx ends it with an error.
func (c *Calls) Make(ctx context.Context) (CallTally, error) {
	if c.Connections < 1 || c.Connections > connectionsMax || c.Span <= 0 {
		return CallTally{}, fmt.Errorf("bench: calls on %d connections for %v: want 1 to %d, and a time", c.Connections, c.Span, connectionsMax)
	}
	rt := &http.Transport{MaxIdleConnsPerHost: c.Connections, DisableCompression: true}
	defer rt.CloseIdleConnections()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var calls atomic.Int64
	cpu, began := processorTime(), time.Now()
	until := began.Add(c.Span)
	var wg sync.WaitGroup
	for range c.Connections {
		wg.Go(func() {
			for first := true; first || time.Now().Before(until) && ctx.Err() == nil; first = false {
				if err := c.call(ctx, rt); err != nil {
					stop(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	t := CallTally{Calls: calls.Load(), Seconds: time.Since(began).Seconds(), CPU: (processorTime() - cpu).Seconds()}
	return t, context.Cause(ctx)
}

func (c *Calls) call(ctx context.Context, rt http.RoundTripper) error {
	var body io.Reader
	if c.Body != "" {
		body = strings.NewReader(c.Body)
	}
	r, err := http.NewRequestWithContext(ctx, c.Method, c.URL+c.Path, body)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Keyed {
		r.Header.Set("Idempotency-Key", uuid.NewString())
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("bench: %s %s answered %s: %s", c.Method, c.Path, resp.Status, text)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// Door compares the calls that a node answers over HTTP with a route on the same listener that does nothing.
type Door struct {
	Store        string     `json:"store"`
	FdatasyncP50 float64    `json:"fdatasync_p50_us"`
	Lines        []DoorLine `json:"lines"`
}

// DoorLine is one kind of call on one number of connections. Rates are the middle of the rounds.
type DoorLine struct {
	Call        string  `json:"call"` // start, batch (counted by its starts) or list
	Connections int     `json:"connections"`
	Rounds      int     `json:"rounds"`
	PerS        float64 `json:"per_s"`
	BarePerS    float64 `json:"bare_per_s"`
	Ratio       float64 `json:"ratio"` // the middle of the rounds' ratios
	// NodeUS and BareNodeUS are the processor time of the node for one call, in µs.
	NodeUS     float64 `json:"node_cpu_us"`
	BareNodeUS float64 `json:"bare_node_cpu_us"`
	// Generator is the generator's share of the processor time of both.
	Generator float64 `json:"generator_share"`
}

// Make runs the calls, in this process or in another one.
type Make func(context.Context, Calls) (CallTally, error)

// Beside measures calls alternately with calls to a bare route, in the given number of rounds. each is the
// number of starts or rows of one call.
func Beside(ctx context.Context, make Make, calls, bare Calls, each, rounds int) (DoorLine, error) {
	line := DoorLine{Connections: calls.Connections, Rounds: rounds}
	var perS, barePerS, ratios []float64
	var node, bareNode, generator, things, bares float64
	for i := range rounds + 1 {
		was, n := processorTime(), 0.0
		b, err := make(ctx, bare)
		if err != nil {
			return line, err
		}
		bareCPU := (processorTime() - was).Seconds()
		was = processorTime()
		c, err := make(ctx, calls)
		if err != nil {
			return line, err
		}
		if i == 0 { // the first of each only warms up
			continue
		}
		n = float64(c.Calls) * float64(each)
		perS, barePerS = append(perS, n/c.Seconds), append(barePerS, float64(b.Calls)/b.Seconds)
		ratios = append(ratios, n/c.Seconds/(float64(b.Calls)/b.Seconds))
		node, bareNode = node+(processorTime()-was).Seconds(), bareNode+bareCPU
		things, bares, generator = things+n, bares+float64(b.Calls), generator+c.CPU
	}
	if things == 0 || bares == 0 {
		return line, errors.New("bench: no call was answered in time")
	}
	line.PerS, line.BarePerS, line.Ratio = middle(perS), middle(barePerS), middle(ratios)
	line.NodeUS, line.BareNodeUS, line.Generator = 1e6*node/things, 1e6*bareNode/bares, generator/(generator+node)
	return line, nil
}

func middle(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// Name returns the name of the line for a list.
func (l *DoorLine) Name() string { return l.Call + ":" + strconv.Itoa(l.Connections) }
