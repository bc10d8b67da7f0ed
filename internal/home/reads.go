package home

import (
	"context"
	"crypto/rand"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

const (
	// readsMax bounds the log pieces that a worker is asked for at a time. A reader has at most one of them,
	// so it also bounds the memory for logs.
	readsMax = 4
	// readDefault bounds the wait for a piece. After this time the reader learns which part is missing.
	readDefault = 5 * time.Second
	// readAgain is the time between two reads of the row of a worker that has moved.
	readAgain = 100 * time.Millisecond
)

// reading is a requested piece of a log.
type reading struct {
	want *workerv1.LogRead
	seq  int64       // the number of the answer that asked for the piece; 0: none yet
	got  chan []byte // cap 1; closed: the worker is no longer attached here
}

// logPiece is a request for a piece of a log. The home of the worker answers it.
type logPiece struct {
	Worker dag.HandlerID
	Ref    logs.Ref
	logs.Piece
}

// pieceGiven is the answer.
type pieceGiven struct{ Data []byte }

// ReadLog asks a worker, through its home, for a piece of the log of an attempt that it ran. It returns no
// bytes if the worker does not have the piece.
func (h *Home) ReadLog(ctx context.Context, worker dag.HandlerID, ref logs.Ref, p logs.Piece) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadMax)
	defer cancel()
	for {
		data, err := h.readByHome(ctx, &logPiece{worker, ref, p})
		if err == nil {
			return data, nil
		}
		select { // the worker may be attaching to another home
		case <-ctx.Done():
			return nil, err
		case <-time.After(readAgain):
		}
	}
}

// readByHome asks the present home of a worker. It returns no bytes for a worker that is no longer listed.
func (h *Home) readByHome(ctx context.Context, p *logPiece) ([]byte, error) {
	m, listed := h.dir.Member(p.Worker)
	if !listed {
		return nil, nil
	}
	to, there := h.dir.Member(m.Home)
	switch {
	case m.Home == h.self():
		out, err := h.readLog(ctx, p)
		return out.Data, err
	case !there:
		return nil, away(p.Worker)
	}
	var out pieceGiven
	err := h.cfg.Caller.Call(ctx, to, LogPath, p, &out)
	return out.Data, err
}

// readLog asks a worker that is attached here.
func (h *Home) readLog(ctx context.Context, p *logPiece) (out pieceGiven, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadMax) // bounded also if the asking node freezes
	defer cancel()
	h.mu.Lock()
	w := h.workers[p.Worker]
	h.mu.Unlock()
	switch {
	case w == nil:
		return out, away(p.Worker)
	case !w.reader: // an older version, or a program without files
		return out, nil
	}
	select {
	case w.turns <- struct{}{}:
		defer func() { <-w.turns }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	x := &reading{got: make(chan []byte, 1), want: &workerv1.LogRead{Ticket: rand.Text(), Attempt: wireAttempt(key{p.Ref.Run, p.Ref.Task, p.Ref.Token}),
		Namespace: p.Ref.Namespace, Workflow: p.Ref.Workflow, Task: p.Ref.Name, Offset: p.Offset, Limit: logs.PieceMax, Index: p.Index}}
	if !h.asks(w, x) {
		return out, away(p.Worker)
	}
	defer h.asksNoMore(w, x)
	select {
	case data, attached := <-x.got:
		if !attached {
			return out, away(p.Worker)
		}
		return pieceGiven{data}, nil
	case <-ctx.Done():
		return out, ctx.Err()
	}
}

// asks puts a request for a piece into the next answer to a worker's poll. It returns false if the worker
// is no longer attached here.
func (h *Home) asks(w *worker, x *reading) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.out == nil {
		return false
	}
	w.reads[x.want.Ticket] = x
	w.poke()
	return true
}

// asksNoMore drops a request: its reader has the piece, or has gone.
func (h *Home) asksNoMore(w *worker, x *reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(w.reads, x.want.Ticket)
}

// unasked reports whether there is a piece that no answer has asked for. The caller holds h.mu.
func (w *worker) unasked() bool {
	for _, x := range w.reads {
		if x.seq == 0 {
			return true
		}
	}
	return false
}

// reread repeats a request if the answer to the worker was lost. The caller holds h.mu.
func (w *worker) reread(ack int64) {
	for _, x := range w.reads {
		if x.seq > ack {
			x.seq = 0
		}
	}
}

// wanted returns the pieces for which no answer has asked yet. The present answer asks for them. The caller
// holds h.mu.
func (w *worker) wanted() (all []*workerv1.LogRead) {
	for _, x := range w.reads {
		if x.seq == 0 {
			x.seq = w.seq
			all = append(all, x.want)
		}
	}
	return all
}

// hushed ends the requests to a worker that is no longer attached here. The caller holds h.mu.
func (w *worker) hushed() {
	for _, x := range w.reads {
		close(x.got)
	}
	clear(w.reads)
}

// GiveLog implements the protocol. It takes only a requested piece, and takes it once. Only the asked
// worker knows the ticket.
func (d *desk) GiveLog(_ context.Context, in *workerv1.GiveLogRequest) (*workerv1.GiveLogResponse, error) {
	h := d.h
	if len(in.Data) > logs.PieceMax {
		return nil, h.malformed("a piece of %d bytes: want at most %d", len(in.Data), logs.PieceMax)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w, err := h.attached(in)
	if err != nil {
		return nil, err
	}
	x := w.reads[in.Ticket]
	if x == nil {
		return nil, h.no(connect.CodeFailedPrecondition, Stale, "nobody waits for that piece of a log (any more)")
	}
	delete(w.reads, in.Ticket)
	x.got <- in.Data
	return &workerv1.GiveLogResponse{}, nil
}
