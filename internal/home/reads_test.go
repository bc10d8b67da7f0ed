package home_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/logs"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// unhurried makes a home wait as long as a slow machine may take.
func unhurried(c *home.Config) { c.ReadMax = time.Minute }

// printer registers a worker that sends pieces of logs.
func (t *town) printer(n *node, name string) *hand {
	t.Helper()
	h := &hand{t: t, uuid: uuid.NewString()}
	h.printsAt(n, name)
	t.until("every node knows it", func() bool {
		for _, n := range t.nodes {
			if _, ok := n.m.Member(dag.HandlerID(h.handler)); !ok {
				return false
			}
		}
		return true
	})
	return h
}

// printsAt attaches the worker to a node.
func (h *hand) printsAt(n *node, name string) {
	h.t.Helper()
	h.c = workerv1connect.NewWorkersClient(n.http.Client(), n.http.URL)
	out, err := h.c.Register(h.t.Context(), &workerv1.RegisterRequest{Name: name, Uuid: h.uuid, Handler: h.handler, Slots: 1, GivesLogs: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.handler, h.lease, h.ack = out.Handler, out.Lease, 0
}

// asked polls until the worker is asked for n pieces.
func (h *hand) asked(n int) (all []*workerv1.LogRead) {
	h.t.Helper()
	h.t.until("a worker is asked for a piece of a log", func() bool { all = append(all, h.poll().Read...); return len(all) >= n })
	return all
}

// give sends a piece of a log, and returns the reason for a refusal.
func (h *hand) give(ticket, data string) string {
	if _, err := h.c.GiveLog(h.t.Context(), &workerv1.GiveLogRequest{Handler: h.handler, Lease: h.lease, Uuid: h.uuid, Ticket: ticket, Data: []byte(data)}); err != nil {
		return reason(err)
	}
	return ""
}

// piece is the answer that a reader gets.
type piece struct {
	text string
	err  error
}

// wants reads a piece of a worker's log through a node.
func (h *hand) wants(ctx context.Context, n *node) <-chan piece {
	got := make(chan piece, 1)
	go func() {
		data, err := n.h.ReadLog(ctx, dag.HandlerID(h.handler), logs.Ref{Namespace: "test", Workflow: "w", Run: dag.RunID{1}, Task: 2, Name: "t2", Token: 3}, logs.Piece{Offset: 40})
		got <- piece{string(data), err}
	}()
	return got
}

// TestReads: any node can get a piece of a log from its worker. A piece is accepted only if it was requested,
// only once, and only from the worker to which the request was sent.
func TestReads(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 2, unhurried)
	a, b := tn.printer(tn.nodes[0], "a"), tn.printer(tn.nodes[0], "b")
	for _, n := range tn.nodes {
		got := a.wants(t.Context(), n)
		want := a.asked(1)[0]
		if x := want.Attempt; x.Run != (dag.RunID{1}).String() || x.Task != 2 || x.Token != 3 || want.Namespace != "test" || want.Workflow != "w" || want.Task != "t2" ||
			want.Offset != 40 || want.Limit != logs.PieceMax {
			t.Errorf("asked for %v", want)
		}
		if why := a.give(want.Ticket, strings.Repeat("x", logs.PieceMax+1)); why != "MALFORMED" {
			t.Errorf("too much: %s", why)
		}
		for _, bad := range []string{b.give(want.Ticket, "of b"), a.give("guessed", "more"), a.give("", "")} {
			if bad != "STALE" {
				t.Errorf("what was not asked for: %q", bad)
			}
		}
		if why := a.give(want.Ticket, "text"); why != "" {
			t.Errorf("what was asked for: %s", why)
		}
		if p := <-got; p.text != "text" || p.err != nil {
			t.Errorf("by way of %s: %q %v", n.name, p.text, p.err)
		}
		if why := a.give(want.Ticket, "text"); why != "STALE" {
			t.Errorf("once more: %q", why)
		}
	}
}

// TestReadsInVain: a worker without the log answers that it has none. A worker of an earlier version gets no
// request. A worker that has left sends nothing. The read ends when its caller has gone.
func TestReadsInVain(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 2, unhurried)
	old := tn.hand(tn.nodes[0], "old", 1)
	a := tn.printer(tn.nodes[0], "a")
	tn.until("the older one is known", func() bool { _, ok := tn.nodes[1].m.Member(dag.HandlerID(old.handler)); return ok })
	for _, n := range tn.nodes {
		if p := <-old.wants(t.Context(), n); p.text != "" || p.err != nil {
			t.Errorf("an older worker: %v", p)
		}
		got := a.wants(t.Context(), n)
		if why := a.give(a.asked(1)[0].Ticket, ""); why != "" {
			t.Error(why)
		}
		if p := <-got; p.text != "" || p.err != nil {
			t.Errorf("it has none: %v", p)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got = a.wants(ctx, n)
		ticket := a.asked(1)[0].Ticket
		cancel()
		if p := <-got; p.err == nil {
			t.Errorf("who has gone got %q", p.text)
		}
		tn.until("nobody waits for it", func() bool { return a.give(ticket, "") == "STALE" })
	}
	if _, err := a.c.Leave(t.Context(), &workerv1.LeaveRequest{Handler: a.handler, Lease: a.lease, Uuid: a.uuid}); err != nil {
		t.Fatal(err)
	}
	for _, n := range tn.nodes {
		if p := <-a.wants(t.Context(), n); p.text != "" {
			t.Errorf("a worker that has left: %v", p)
		}
	}
}

// TestReadsOfAFrozenWorker: the wait for a worker that does not answer is bounded.
func TestReadsOfAFrozenWorker(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 2, func(c *home.Config) { c.ReadMax = time.Millisecond })
	a := tn.printer(tn.nodes[0], "a")
	for _, got := range []<-chan piece{a.wants(t.Context(), tn.nodes[0]), a.wants(t.Context(), tn.nodes[1])} {
		if p := <-got; p.err == nil {
			t.Errorf("nobody gave %q", p.text)
		}
	}
}

// TestReadsAtOnce: a worker gets requests for only a few pieces at a time, and each reader has its turn.
func TestReadsAtOnce(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 1, unhurried)
	a := tn.printer(tn.nodes[0], "a")
	const readers, most = 20, 4
	var all []<-chan piece
	for range readers {
		all = append(all, a.wants(t.Context(), tn.nodes[0]))
	}
	for given := 0; given < readers; {
		wants := a.asked(1)
		if len(wants) > most {
			t.Errorf("asked for %d pieces at once", len(wants))
		}
		for _, want := range wants {
			if why := a.give(want.Ticket, "text"); why != "" {
				t.Error(why)
			}
			given++
		}
	}
	for _, got := range all {
		if p := <-got; p.text != "text" {
			t.Errorf("%v", p)
		}
	}
}

// TestReadsAgain: a worker that did not get the request is asked again, also by its next home.
func TestReadsAgain(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 2, unhurried)
	a := tn.printer(tn.nodes[0], "a")
	got := a.wants(t.Context(), tn.nodes[1])
	ack := a.ack
	first := a.asked(1)[0]
	a.ack = ack // the answer with the request did not arrive
	if again := a.asked(1)[0]; again.Ticket != first.Ticket {
		t.Errorf("asked for %v, then for %v", first, again)
	}
	a.printsAt(tn.nodes[1], "a")
	for began := time.Now(); ; {
		if why := a.give(a.asked(1)[0].Ticket, "text"); why == "" {
			break
		} else if time.Since(began) > time.Minute {
			t.Fatal(why)
		}
	}
	if p := <-got; p.text != "text" {
		t.Errorf("%v", p)
	}
}
