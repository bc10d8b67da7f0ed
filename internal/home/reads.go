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
	// readsMax bounds how many pieces of logs are requested from a worker at a time. A reader has at most one
	// of them, so this also bounds the memory for logs.
	readsMax = 4
	// readDefault bounds how long a reader waits for a piece. After this time the reader learns which part is
	// missing.
	readDefault = 5 * time.Second
	// readAgain is the pause between two reads of the row of a worker that is moving.
	readAgain = 100 * time.Millisecond
)

// reading is a requested piece of a log.
type reading struct {
	want *workerv1.LogRead
	seq  int64       // the number of the answer that has requested the piece; 0 if there is none yet
	got  chan []byte // capacity 1; it is closed if the worker is no longer attached here
}

// logPiece is a request for a piece of a log. The home of the worker answers it.
type logPiece struct {
	Worker dag.HandlerID
	Ref    logs.Ref
	logs.Piece
}

// pieceGiven is the answer to a logPiece.
type pieceGiven struct{ Data []byte }

// ReadLog requests a piece of the log of an attempt from the worker that ran it, through the worker's home.
// It returns no bytes if the worker does not have the piece.
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

// readByHome requests a piece from the present home of a worker. It returns no bytes for a worker that is no
// longer listed.
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

// readLog requests a piece from a worker that is attached here.
func (h *Home) readLog(ctx context.Context, p *logPiece) (out pieceGiven, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadMax) // the bound also applies if the requesting node freezes
	defer cancel()
	h.mu.Lock()
	w := h.workers[p.Worker]
	h.mu.Unlock()
	switch {
	case w == nil:
		return out, away(p.Worker)
	case !w.reader: // the worker is of an older version, or a program that has no log files
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

// asksNoMore drops a request, because its reader has the piece or is gone.
func (h *Home) asksNoMore(w *worker, x *reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(w.reads, x.want.Ticket)
}

// unasked reports whether there is a requested piece that no answer has named yet. The caller must hold h.mu.
func (w *worker) unasked() bool {
	for _, x := range w.reads {
		if x.seq == 0 {
			return true
		}
	}
	return false
}

// reread repeats the requests whose answer to the worker was lost. The caller must hold h.mu.
func (w *worker) reread(ack int64) {
	for _, x := range w.reads {
		if x.seq > ack {
			x.seq = 0
		}
	}
}

// wanted returns the requested pieces that no answer has named yet. The answer that is being made names them.
// The caller must hold h.mu.
func (w *worker) wanted() (all []*workerv1.LogRead) {
	for _, x := range w.reads {
		if x.seq == 0 {
			x.seq = w.seq
			all = append(all, x.want)
		}
	}
	return all
}

// hushed ends the requests to a worker that is no longer attached here. The caller must hold h.mu.
func (w *worker) hushed() {
	for _, x := range w.reads {
		close(x.got)
	}
	clear(w.reads)
}

// GiveLog implements the protocol. It accepts only a piece that was requested, and only once. The ticket is
// known only to the worker that was asked.
func (d *desk) GiveLog(_ context.Context, in *workerv1.GiveLogRequest) (*workerv1.GiveLogResponse, error) {
	h := d.h
	if len(in.Data) > logs.PieceMax {
		return nil, h.malformed("a piece of %d bytes is too large: send at most %d", len(in.Data), logs.PieceMax)
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
