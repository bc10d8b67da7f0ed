package home

import (
	"context"
	"crypto/rand"
	"time"

	"connectrpc.com/connect"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
)

const (
	// readsMax is how many pieces of logs a worker is asked for at a time. Who reads has one of them at most, so
	// it also bounds what of logs is in memory here.
	readsMax = 4
	// readDefault bounds the wait for a piece: whoever reads is then told what is missing.
	readDefault = 5 * time.Second
	// readAgain is between two looks for a worker that is not where it was.
	readAgain = 100 * time.Millisecond
)

// reading is a piece of a log that a worker is asked for.
type reading struct {
	want *workerv1.LogRead
	seq  int64       // of the answer that asked for it; 0: none has yet
	got  chan []byte // cap 1; closed: the worker is attached here no more
}

// logPiece is asked of the node that is a worker's home.
type logPiece struct {
	Worker dag.HandlerID
	Ref    logs.Ref
	Offset int64
}

// pieceGiven is its answer.
type pieceGiven struct{ Data []byte }

// ReadLog has a worker give a piece of the log of an attempt that it ran, by way of its home; none: it does
// not have it.
func (h *Home) ReadLog(ctx context.Context, worker dag.HandlerID, ref logs.Ref, offset int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadMax)
	defer cancel()
	for {
		data, err := h.readByHome(ctx, &logPiece{worker, ref, offset})
		if err == nil {
			return data, nil
		}
		select { // it may be on its way to another home
		case <-ctx.Done():
			return nil, err
		case <-time.After(readAgain):
		}
	}
}

// readByHome asks whoever is a worker's home now. A worker that is listed no more gives nothing.
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
	ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadMax) // also if another node asks, and freezes
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
		Namespace: p.Ref.Namespace, Workflow: p.Ref.Workflow, Task: p.Ref.Name, Offset: p.Offset, Limit: logs.PieceMax}}
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

// asks has the next answer to a worker's poll ask for a piece; false: it is attached here no more.
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

// asksNoMore: whoever waited has it, or has gone.
func (h *Home) asksNoMore(w *worker, x *reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(w.reads, x.want.Ticket)
}

// unasked reports whether there is a piece that no answer has asked for; h.mu is held.
func (w *worker) unasked() bool {
	for _, x := range w.reads {
		if x.seq == 0 {
			return true
		}
	}
	return false
}

// reread has asked again for what the worker did not hear: the answer was lost. h.mu is held.
func (w *worker) reread(ack int64) {
	for _, x := range w.reads {
		if x.seq > ack {
			x.seq = 0
		}
	}
}

// wanted are the pieces that no answer has asked for, which this one does; h.mu is held.
func (w *worker) wanted() (all []*workerv1.LogRead) {
	for _, x := range w.reads {
		if x.seq == 0 {
			x.seq = w.seq
			all = append(all, x.want)
		}
	}
	return all
}

// hushed: it is attached here no more, and gives nothing; h.mu is held.
func (w *worker) hushed() {
	for _, x := range w.reads {
		close(x.got)
	}
	clear(w.reads)
}

// GiveLog implements the protocol. Only what was asked for is taken, once: the ticket is known to that worker
// alone.
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
