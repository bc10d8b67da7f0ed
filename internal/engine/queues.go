package engine

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The periods of a rate.
const (
	perSecond dag.Micros = 1_000_000
	perMinute            = 60 * perSecond
	perHour              = 60 * perMinute
)

// Bounds of a queue.
const (
	QueueLimitMax = 1_000_000
	QueueRateMax  = 100_000
)

var queueName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// SetQueue makes a named queue, or changes the definition of one: State, Actor, Reason and
// Until stay as they are. revision, if not 0, is the one that is to be changed.
func (e *Engine) SetQueue(ctx context.Context, q store.Queue, revision int64) (store.Queue, error) {
	if err := e.checkQueue(&q); err != nil {
		return q, err
	}
	return e.changeQueue(ctx, q.Name, revision, func(w *writer, is *queue) (*store.Queue, error) {
		next := q
		next.State, next.Revision = store.QueueActive, 0
		if is != nil {
			next.State, next.Actor, next.Reason, next.Until = is.State, is.Actor, is.Reason, is.Until
			next.Paced, next.Revision, next.Created = is.Paced, is.Revision, is.Created
			if q.Rate > 0 { // a pause of a slower rate is not waited out
				next.Paced = min(next.Paced, w.tx.now.Wall+q.Each/dag.Micros(q.Rate))
			}
			next.Modified = is.Modified
		}
		return &next, nil
	})
}

func (e *Engine) checkQueue(q *store.Queue) error {
	switch {
	case !queueName.MatchString(q.Name):
		return fmt.Errorf("%w: %.60q is not the name of a queue: 1 to 100 of A-Z a-z 0-9 _ . -", ErrInvalid, q.Name)
	case q.Limit < 0 || q.Limit > QueueLimitMax:
		return fmt.Errorf("%w: a limit of %d; it is 1 to %d, or 0 for any number", ErrInvalid, q.Limit, QueueLimitMax)
	case q.Rate < 0 || q.Rate > QueueRateMax:
		return fmt.Errorf("%w: a rate of %d; it is 1 to %d, or 0 for any", ErrInvalid, q.Rate, QueueRateMax)
	case q.Rate > 0 && q.Each != perSecond && q.Each != perMinute && q.Each != perHour:
		return fmt.Errorf("%w: a rate is a number a second, a minute or an hour", ErrInvalid)
	case q.Order != store.QueueFIFO && q.Order != store.QueuePriority:
		return fmt.Errorf("%w: the order %.40q; it is fifo or priority", ErrInvalid, q.Order)
	case q.Overflow != store.OverflowWait && q.Overflow != store.OverflowSkip && q.Overflow != store.OverflowFail:
		return fmt.Errorf("%w: the overflow %.40q; it is wait, skip or fail", ErrInvalid, q.Overflow)
	case len(q.PerKey) > store.QueueExprBytesMax:
		return fmt.Errorf("%w: a per_key of %d bytes, at most %d", ErrInvalid, len(q.PerKey), store.QueueExprBytesMax)
	}
	if q.Rate == 0 {
		q.Each = 0
	}
	if q.PerKey == "" || e.cfg.Namer == nil {
		return nil
	}
	if _, err := e.cfg.Namer.KeyOf(q.PerKey); err != nil {
		return fmt.Errorf("%w: per_key: %w", ErrInvalid, err)
	}
	return nil
}

// QueueState says how a queue is to stand.
type QueueState struct {
	State  string // active, paused, draining
	Actor  string
	Reason string
	Until  dag.Micros // 0: until it is changed
}

// SetQueueState pauses, drains or resumes a queue.
func (e *Engine) SetQueueState(ctx context.Context, name string, s QueueState) (store.Queue, error) {
	if err := checkTexts("reason", s.Reason, "actor", s.Actor); err != nil {
		return store.Queue{}, err
	}
	if len(s.Reason) > store.QueueTextBytesMax {
		return store.Queue{}, fmt.Errorf("%w: a reason of %d bytes, at most %d", ErrInvalid, len(s.Reason), store.QueueTextBytesMax)
	}
	return e.changeQueue(ctx, name, 0, func(w *writer, is *queue) (*store.Queue, error) {
		if is == nil {
			return nil, fmt.Errorf("queue %s: %w", name, ErrNotFound)
		}
		if s.Until != 0 && s.Until <= w.tx.now.Wall {
			return nil, fmt.Errorf("%w: until %s is past", ErrInvalid, s.Until.Time().Format("2006-01-02T15:04:05Z07:00"))
		}
		next := is.Queue
		next.State, next.Actor, next.Reason, next.Until = s.State, s.Actor, s.Reason, s.Until
		if s.State == store.QueueActive {
			next.Actor, next.Reason, next.Until = "", "", 0
		}
		return &next, nil
	})
}

// DropQueue removes a queue that no run uses.
func (e *Engine) DropQueue(ctx context.Context, name string, revision int64) error {
	_, err := e.changeQueue(ctx, name, revision, func(w *writer, is *queue) (*store.Queue, error) {
		switch {
		case is == nil:
			return nil, fmt.Errorf("queue %s: %w", name, ErrNotFound)
		case len(is.lines) > 0:
			return nil, fmt.Errorf("%w: queue %s is in use: runs hold places in it, or wait for one", ErrConflict, name)
		case w.commons.inUse(name):
			return nil, fmt.Errorf("%w: queue %s is in use: tasks hold places in it, or wait for one", ErrConflict, name)
		}
		return nil, nil
	})
	return err
}

// changeQueue has the owner of the gate make a change; a nil row removes the queue.
func (e *Engine) changeQueue(ctx context.Context, name string, revision int64, change func(*writer, *queue) (*store.Queue, error)) (store.Queue, error) {
	if err := e.Accepting(); err != nil {
		return store.Queue{}, err
	}
	var out store.Queue
	_, err := e.writer.inbox.send(ctx, item{op: func(w *writer) answer {
		if err := w.here(store.GateShard); err != nil {
			return answer{err: err}
		}
		is := w.commons.queues[name]
		if revision != 0 && (is == nil || is.Revision != revision) {
			return answer{err: fmt.Errorf("%w: queue %s was changed in between", ErrConflict, name)}
		}
		next, err := change(w, is)
		if err != nil {
			return answer{err: err}
		}
		w.putQueue(is, next)
		if next != nil {
			out = *next
		}
		return answer{}
	}})
	if err != nil { // also if ctx has ended: the writer may still use out
		return store.Queue{}, err
	}
	return out, nil
}

// putQueue writes a definition, and lets through whom it lets through.
func (w *writer) putQueue(is *queue, next *store.Queue) {
	g, c := &w.commons, &w.tx.batch.QueueChanges
	w.gateHere()
	switch {
	case next == nil:
		c.QueueDeletes = append(c.QueueDeletes, is.Queue)
		delete(g.queues, is.Name)
		return
	case is != nil && *next == is.Queue:
		return
	case is == nil:
		next.Revision, next.Created, next.Modified = 1, w.tx.now.Wall, w.tx.now.Wall
		c.QueueInserts = append(c.QueueInserts, *next)
		g.queues[next.Name] = &queue{Queue: *next, lines: map[string]*line{}}
		return
	}
	if next.Paced != is.Paced {
		w.paced(&queue{Queue: *next})
	}
	next.Revision, next.Modified = is.Revision+1, w.tx.now.Wall
	c.QueueUpdates = append(c.QueueUpdates, *next)
	is.Queue = *next
	for _, l := range is.lines {
		g.open[l.name] = true
	}
	g.vacate(func(q *queue) bool { return q == is })
}

// GetQueue reads a queue.
func (e *Engine) GetQueue(ctx context.Context, name string) (store.Queue, error) {
	q, err := e.store.Queue(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return q, fmt.Errorf("queue %s: %w", name, ErrNotFound)
	}
	return q, fromStore("read queue "+name, err)
}
