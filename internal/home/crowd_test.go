// A thousand workers in one process are too many for the race detector, which makes each call about ten
// times slower. The other tests of this package run with it. `make test` runs this test without it.

//go:build !race

package home_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// crowd is many workers of one node. Each registers, polls and reports, as a worker process does.
type crowd struct {
	t        *town
	http     *http.Client
	url      string
	slots    int32
	attached atomic.Int64 // workers that have registered
	served   atomic.Int64 // workers that have been given an attempt
	done     atomic.Int64 // attempts whose ends were accepted
	put      atomic.Int64 // registrations that were postponed
	refused  atomic.Int64 // attempts whose ends were refused
	// open is closed when attempts may end. Until then each worker keeps its attempts.
	open chan struct{}
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// callMax bounds a call of a worker. Skein's own workers give up a call at the same time.
const callMax = 3 * time.Second

func (t *town) crowd(n *node, size int, slots int32) *crowd {
	t.Helper()
	rt := &http.Transport{MaxIdleConnsPerHost: 2 * size, MaxIdleConns: 2 * size}
	c := &crowd{t: t, http: &http.Client{Transport: rt}, url: n.http.URL, slots: slots, open: make(chan struct{})}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	for i := range size {
		c.wg.Go(func() { c.worker(ctx, fmt.Sprint("w", i)) })
	}
	t.Cleanup(func() { c.end(); rt.CloseIdleConnections() })
	return c
}

// end ends all workers without a call to the node.
func (c *crowd) end() {
	c.stop()
	c.wg.Wait()
}

// worker registers until ctx ends. It registers again whenever the node does not know it.
func (c *crowd) worker(ctx context.Context, name string) {
	in := &workerv1.RegisterRequest{Name: name, Uuid: uuid.NewString(), Slots: c.slots, Artifacts: true}
	client := workerv1connect.NewWorkersClient(c.http, c.url)
	known, served := false, false
	for ctx.Err() == nil {
		call, over := context.WithTimeout(ctx, callMax)
		out, err := client.Register(call, in)
		over()
		if err != nil {
			c.pause(ctx, err)
			continue
		}
		if in.Handler = out.Handler; !known {
			known = true
			c.attached.Add(1)
		}
		s := stay{c: c, client: client, handler: out.Handler, lease: out.Lease, uuid: in.Uuid, poll: time.Duration(out.PollMillis) * time.Millisecond}
		for _, a := range in.Running {
			s.has = append(s.has, a)
		}
		for s.turn(ctx) == nil {
			if !served && len(s.has) > 0 {
				served = true
				c.served.Add(1)
			}
			s.ends(ctx)
		}
		in.Running = s.has
	}
}

// pause waits as Skein's own workers do: for the time that a busy node has requested.
func (c *crowd) pause(ctx context.Context, err error) {
	pause := 50 * time.Millisecond
	if reason(err) == "BUSY" {
		c.put.Add(1)
		pause = 2 * time.Second
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause/2 + rand.N(pause)):
	}
}

// stay is a worker that is attached.
type stay struct {
	c              *crowd
	client         workerv1connect.WorkersClient
	handler, lease int64
	uuid           string
	ack            int64
	poll           time.Duration
	has            []*workerv1.Attempt
	over           []*workerv1.Attempt // ended attempts whose reports were accepted; the node may still send their jobs again
}

// turn is one poll.
func (s *stay) turn(ctx context.Context) error {
	call, over := context.WithTimeout(ctx, s.poll+callMax)
	defer over()
	out, err := s.client.Poll(call, &workerv1.PollRequest{Handler: s.handler, Lease: s.lease, Uuid: s.uuid, Ack: s.ack, Running: s.has})
	if err != nil {
		return err
	}
	s.ack = out.Seq
	s.take(out.Start)
	return nil
}

func (s *stay) take(jobs []*workerv1.Job) {
	for _, j := range jobs {
		given := false
		for _, a := range append(s.has, s.over...) {
			given = given || same(a, j.Attempt)
		}
		if !given {
			s.has = append(s.has, j.Attempt)
		}
	}
}

// ends reports all its attempts as ended once attempts may end. It also reports the attempts that come with
// the answers.
func (s *stay) ends(ctx context.Context) {
	select {
	case <-s.c.open:
	default:
		return
	}
	for len(s.has) > 0 && ctx.Err() == nil {
		in := &workerv1.ReportRequest{Handler: s.handler, Lease: s.lease, Uuid: s.uuid, Starts: true}
		for _, a := range s.has {
			in.Results = append(in.Results, good(a))
		}
		call, over := context.WithTimeout(ctx, callMax)
		out, err := s.client.Report(call, in)
		over()
		if err != nil {
			return
		}
		left := s.has[:0:0]
		for i, v := range out.Verdicts {
			switch v {
			case workerv1.Verdict_VERDICT_UNAVAILABLE:
				left = append(left, s.has[i])
			case workerv1.Verdict_VERDICT_ACCEPTED, workerv1.Verdict_VERDICT_DUPLICATE:
				s.c.done.Add(1)
				s.over = append(s.over, s.has[i])
			default:
				s.c.refused.Add(1)
				s.over = append(s.over, s.has[i])
			}
		}
		s.has = left
		s.take(out.Start)
	}
}

// spare gives the workers of a test more time between two polls than usual.
func spare(c *home.Config) { c.Beat = 2 * time.Second }

// TestThousandWorkers: a node with a thousand workers of ten slots serves each of them, and all tasks end.
func TestThousandWorkers(t *testing.T) {
	const workers, slots, runs, tasks = 1000, 10, 100, 100
	tn := newTown(t, 1, spare)
	var all []dag.RunID
	w := tn.apply("w", places(tasks, dag.Anywhere)...)
	for range runs { // the tasks wait before the first worker is attached
		all = append(all, tn.submit(w))
	}
	c := tn.crowd(tn.nodes[0], workers, slots)
	tn.until("every worker is attached", func() bool { return c.attached.Load() == workers })
	tn.until("every worker has been served", func() bool { return c.served.Load() == workers })
	close(c.open)
	tn.until("all tasks have ended", func() bool { return tn.ended(all) && c.done.Load() == runs*tasks })
	if n := c.refused.Load(); n != 0 {
		t.Errorf("%d ends were refused", n)
	}
	if lost := tn.nodes[0].h.Stats.Lost.Load(); lost != 0 {
		t.Errorf("%d attempts were taken for lost", lost)
	}
}
