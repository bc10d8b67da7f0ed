package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
)

const (
	pauseMin = 50 * time.Millisecond
	pauseMax = 2 * time.Second
	// sendersMax bounds the number of calls under way. Further reports wait in memory; there is at most one
	// per slot.
	sendersMax = 16
	checksMax  = 64   // the largest number of waiting checks; a dropped check is made again
	cancelsMax = 1024 // the cancels that may wait; a reload of the owner sends dropped ones again
)

// Client is the engine's Peers.
type Client struct {
	*Caller
	dir    Directory
	engine Engine
	log    *slog.Logger

	cancels chan target
	checks  chan question
	nudges  chan dag.ShardID

	wake chan struct{}
	open sync.WaitGroup // counts the reports that have not arrived
	left atomic.Int64   // the number of these reports

	mu      sync.Mutex // protects following fields
	waiting []report
	pending map[engine.AttemptID]int // attempts with a report that has not arrived
}

// target is a list of cancels for one handler.
type target struct {
	handler dag.HandlerID
	cancels []dag.Cancel
}

// question asks a handler which attempts it does not hold.
type question struct {
	handler  dag.HandlerID
	attempts []engine.AttemptID
}

var _ engine.Peers = (*Client)(nil)

// NewClient makes a client. Run executes its requests. The engine may be made after the client: it must be
// ready before the first call of Run, Check or Submit.
func NewClient(calls *Caller, dir Directory, e Engine, log *slog.Logger) *Client {
	return &Client{Caller: calls, dir: dir, engine: e, log: log,
		cancels: make(chan target, cancelsMax), checks: make(chan question, checksMax), nudges: make(chan dag.ShardID, cancelsMax), wake: make(chan struct{}, 1),
		pending: map[engine.AttemptID]int{}}
}

// Alive implements engine.Peers.
func (c *Client) Alive(h dag.HandlerID) bool { return c.dir.Alive(h) }

// Report implements engine.Peers. The report is sent until an owner takes it, or the run has ended.
func (c *Client) Report(r engine.Report) {
	c.open.Add(1)
	c.left.Add(1)
	c.mu.Lock()
	c.waiting = append(c.waiting, report{c.dir.Self().Handler, r})
	c.pending[attemptOf(&r)]++
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Waiting returns the number of reports that have not arrived.
func (c *Client) Waiting() int { return int(c.left.Load()) }

// Pending reports whether a report of an attempt has not arrived.
func (c *Client) Pending(id engine.AttemptID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[id] > 0
}

func attemptOf(r *engine.Report) engine.AttemptID {
	return engine.AttemptID{Run: r.Run, Task: r.Task, Token: r.Token}
}

// arrived counts a report that need not be sent any more. taken reports whether an owner accepted it.
func (c *Client) arrived(r *report, taken bool) {
	id := attemptOf(&r.Report)
	c.mu.Lock()
	if taken { // otherwise the report stays pending, because the next process of this node must report it again
		if c.pending[id]--; c.pending[id] == 0 {
			delete(c.pending, id)
		}
	}
	c.mu.Unlock()
	c.left.Add(-1)
	c.open.Done()
}

// Flush waits until every report has arrived.
func (c *Client) Flush(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.open.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		c.log.Warn("some reports did not reach the owners of their runs; their attempts run again", "code", "reports_lost")
	}
}

// Cancel implements engine.Peers.
func (c *Client) Cancel(h dag.HandlerID, cs []dag.Cancel) {
	select {
	case c.cancels <- target{h, cs}:
	default:
		c.log.Warn("another node could not be ordered to end attempts, because too many calls wait", "code", "peer_calls_full", "attempts", len(cs))
	}
}

// Run sends until ctx ends. Reports that have not arrived by then are lost with this process,
// and so are their attempts: their tasks run again.
func (c *Client) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer func() {
		wg.Wait()
		for _, r := range c.take() {
			c.arrived(&r, false)
		}
	}()
	room := make(chan struct{}, sendersMax)
	send := func(f func()) bool {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		wg.Go(func() {
			defer func() { <-room }()
			f()
		})
		return true
	}
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-c.cancels:
			if !send(func() { c.sendCancels(ctx, t) }) {
				return
			}
		case q := <-c.checks:
			if !send(func() { c.sendCheck(ctx, q) }) {
				return
			}
		case s := <-c.nudges:
			if !send(func() { c.sendNudge(ctx, s) }) {
				return
			}
		case <-c.wake:
			for _, r := range c.take() {
				if !send(func() { c.deliver(ctx, r) }) {
					c.arrived(&r, false)
				}
			}
		}
	}
}

func (c *Client) take() []report {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waiting
	c.waiting = nil
	return all
}

// deliver sends one report to the present owner of its run. The owner may be this node again.
func (c *Client) deliver(ctx context.Context, r report) {
	taken := false
	defer func() { c.arrived(&r, taken) }()
	for pause := pauseMin; ctx.Err() == nil; pause = min(2*pause, pauseMax) {
		err := c.try(ctx, r)
		if err == nil {
			taken = true
			return
		}
		if pause == pauseMax {
			c.log.Warn("a report does not reach the owner of its run yet", "code", "report_delayed", "run", r.Report.Run.String(), "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (c *Client) try(ctx context.Context, r report) error {
	row, err := c.engine.RunRow(ctx, r.Report.Run)
	switch {
	case errors.Is(err, errkind.ErrNotFound) || err == nil && row.State.Terminal():
		return nil // the run has ended, so it needs no report
	case err != nil:
		return err
	}
	owner, ok := c.dir.OwnerOf(row.Shard)
	if !ok {
		return fmt.Errorf("no node owns shard %d now", row.Shard)
	}
	if owner.Handler == c.dir.Self().Handler {
		_, err := c.engine.Hear(ctx, r.Handler, r.Report)
		return err
	}
	return c.post(ctx, owner, reportPath, r)
}

func (c *Client) sendCancels(ctx context.Context, t target) {
	m, ok := c.dir.Member(t.handler)
	if ok && m.Worker { // the home node informs the worker
		m, ok = c.dir.Member(m.Home)
	}
	if !ok {
		return // a member that has gone has no attempts to end
	}
	if err := c.post(ctx, m, cancelPath, t.cancels); err != nil && ctx.Err() == nil {
		c.log.Warn("another node could not be ordered to end attempts", "code", "peer_unreachable", "node", m.Name, "err", err)
	}
}

// Confirm implements engine.Peers.
func (c *Client) Confirm(h dag.HandlerID, ids []engine.AttemptID) {
	select {
	case c.checks <- question{h, ids}:
	default: // the owner will ask it again
	}
}

func (c *Client) sendCheck(ctx context.Context, q question) {
	m, ok := c.dir.Member(q.handler)
	if !ok {
		return // the engine declares the attempts of a gone member lost
	}
	if err := c.post(ctx, m, ownPath, q.attempts); err != nil && ctx.Err() == nil {
		c.log.Debug("a peer could not be asked for its attempts", "node", m.Name, "err", err)
	}
}

// Nudge implements engine.Peers.
func (c *Client) Nudge(s dag.ShardID) {
	select {
	case c.nudges <- s:
	default: // the node will look by itself soon
	}
}

func (c *Client) sendNudge(ctx context.Context, s dag.ShardID) {
	if m, ok := c.dir.OwnerOf(s); ok {
		_ = c.post(ctx, m, wakePath, nil) // an error does no harm, because the node will look by itself soon
	}
}
