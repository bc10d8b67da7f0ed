package engine

import (
	"context"
	"fmt"
	"regexp"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Bounds of a queue.
const (
	QueueLimitMax = 1_000_000
	QueueRateMax  = 100_000
	// QueuesOwnMax bounds the queues of a namespace, because its editors make them, and the admission owner has
	// all queues in memory.
	QueuesOwnMax = 100
)

var queueName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// SetQueue creates a named queue, or changes its definition. State, Actor, Reason and Until stay as they
// are. revision, if not 0, is the revision that the caller expects.
func (e *Engine) SetQueue(ctx context.Context, q store.Queue, revision int64) (store.Queue, error) {
	if err := e.checkQueue(&q); err != nil {
		return q, err
	}
	return e.changeQueue(ctx, q.Name, revision, func(w *writer, is *store.Queue) (*store.Queue, error) {
		next := q
		next.State, next.Revision = store.QueueActive, 0
		if namespace, _ := dag.CutName(q.Name); is == nil && namespace != "" && w.limits.admission.Owned(namespace) >= QueuesOwnMax {
			return nil, fmt.Errorf("%w: namespace %s has %d queues, the limit; delete one", errkind.ErrConflict, namespace, QueuesOwnMax)
		}
		if is != nil {
			next.State, next.Actor, next.Reason, next.Until = is.State, is.Actor, is.Reason, is.Until
			next.Paced, next.Revision, next.Created = is.Paced, is.Revision, is.Created
			if q.Rate > 0 { // the next start waits no longer than the new rate requires
				next.Paced = min(next.Paced, w.tx.now.Wall+q.Each/dag.Micros(q.Rate))
			}
			next.Modified = is.Modified
		}
		return &next, nil
	})
}

func (e *Engine) checkQueue(q *store.Queue) error {
	namespace, name := dag.CutName(q.Name)
	switch {
	case !queueName.MatchString(name):
		return fmt.Errorf("%w: %.60q is not the name of a queue: 1 to 100 of A-Z a-z 0-9 _ . -", errkind.ErrInvalid, name)
	case namespace != "" && !e.store.NamesStand():
		return fmt.Errorf("%w: a node of an earlier version is a member, and knows no queues of namespaces: upgrade all nodes first", errkind.ErrConflict)
	case q.Limit < 0 || q.Limit > QueueLimitMax:
		return fmt.Errorf("%w: limit is %d; it must be 1 to %d, or 0 for any number", errkind.ErrInvalid, q.Limit, QueueLimitMax)
	case q.Rate < 0 || q.Rate > QueueRateMax:
		return fmt.Errorf("%w: rate is %d; it must be 1 to %d, or 0 for any number", errkind.ErrInvalid, q.Rate, QueueRateMax)
	case q.Rate > 0 && q.Each != admission.PerSecond && q.Each != admission.PerMinute && q.Each != admission.PerHour:
		return fmt.Errorf("%w: a rate is a number per second, minute or hour, such as 10/m", errkind.ErrInvalid)
	case q.Order != store.QueueFIFO && q.Order != store.QueuePriority:
		return fmt.Errorf("%w: order is %.40q; it must be fifo or priority", errkind.ErrInvalid, q.Order)
	case q.Overflow != store.OverflowWait && q.Overflow != store.OverflowSkip && q.Overflow != store.OverflowFail:
		return fmt.Errorf("%w: overflow is %.40q; it must be wait, skip or fail", errkind.ErrInvalid, q.Overflow)
	case len(q.PerKey) > store.QueueExprBytesMax:
		return fmt.Errorf("%w: per_key has %d bytes; it may have at most %d", errkind.ErrInvalid, len(q.PerKey), store.QueueExprBytesMax)
	}
	if q.Rate == 0 {
		q.Each = 0
	}
	if q.PerKey == "" || e.cfg.Namer == nil {
		return nil
	}
	if err := e.cfg.Namer.CheckKey(q.PerKey); err != nil {
		return fmt.Errorf("%w: per_key: %w", errkind.ErrInvalid, err)
	}
	return nil
}

// QueueState is the wanted state of a queue.
type QueueState struct {
	State  string // active, paused, draining
	Actor  string
	Reason string
	Until  dag.Micros // the end of the state; 0 means until a person changes it
}

// SetQueueState pauses, drains or resumes a queue.
func (e *Engine) SetQueueState(ctx context.Context, name string, s QueueState) (store.Queue, error) {
	if err := checkTexts("reason", s.Reason, "actor", s.Actor); err != nil {
		return store.Queue{}, err
	}
	if len(s.Reason) > store.QueueTextBytesMax {
		return store.Queue{}, fmt.Errorf("%w: the reason has %d bytes; it may have at most %d", errkind.ErrInvalid, len(s.Reason), store.QueueTextBytesMax)
	}
	return e.changeQueue(ctx, name, 0, func(w *writer, is *store.Queue) (*store.Queue, error) {
		if is == nil {
			return nil, fmt.Errorf("queue %s: %w", name, errkind.ErrNotFound)
		}
		if s.Until != 0 && s.Until <= w.tx.now.Wall {
			return nil, fmt.Errorf("%w: until %s is in the past", errkind.ErrInvalid, s.Until.Time().Format("2006-01-02T15:04:05Z07:00"))
		}
		next := *is
		next.State, next.Actor, next.Reason, next.Until = s.State, s.Actor, s.Reason, s.Until
		if s.State == store.QueueActive {
			next.Actor, next.Reason, next.Until = "", "", 0
		}
		return &next, nil
	})
}

// DropQueue removes a queue that no run uses.
func (e *Engine) DropQueue(ctx context.Context, name string, revision int64) error {
	_, err := e.changeQueue(ctx, name, revision, func(w *writer, is *store.Queue) (*store.Queue, error) {
		switch {
		case is == nil:
			return nil, fmt.Errorf("queue %s: %w", name, errkind.ErrNotFound)
		case w.limits.admission.RunsUse(name):
			return nil, fmt.Errorf("%w: queue %s is in use: runs hold slots of it, or wait for one", errkind.ErrConflict, name)
		case w.limits.admission.TasksUse(name):
			return nil, fmt.Errorf("%w: queue %s is in use: tasks hold slots of it, or wait for one", errkind.ErrConflict, name)
		}
		return nil, nil
	})
	return err
}

// changeQueue makes the admission owner apply a change. A nil row removes the queue.
func (e *Engine) changeQueue(ctx context.Context, name string, revision int64, change func(*writer, *store.Queue) (*store.Queue, error)) (store.Queue, error) {
	if err := e.Accepting(); err != nil {
		return store.Queue{}, err
	}
	var out store.Queue
	_, err := e.writer.inbox.send(ctx, item{op: func(w *writer) answer {
		if err := w.here(store.GateShard); err != nil {
			return answer{err: err}
		}
		is := w.limits.admission.Queue(name)
		if revision != 0 && (is == nil || is.Revision != revision) {
			return answer{err: fmt.Errorf("%w: queue %s was changed or deleted since you read it; read it again", errkind.ErrConflict, name)}
		}
		next, err := change(w, is)
		if err != nil {
			return answer{err: err}
		}
		w.limits.putQueue(is, next)
		if next != nil {
			out = *next
		}
		return answer{}
	}})
	if err != nil { // if ctx has ended, the writer may still use out
		return store.Queue{}, err
	}
	return out, nil
}

// putQueue writes a definition, and admits the runs that the new limit allows.
func (l *limits) putQueue(is, next *store.Queue) {
	g, c := &l.admission, &l.txn().batch.QueueChanges
	l.gateHere()
	switch {
	case next == nil:
		c.QueueDeletes = append(c.QueueDeletes, *is)
		g.DropQueue(is.Name)
		return
	case is != nil && *next == *is:
		return
	case is == nil:
		next.Revision, next.Created, next.Modified = 1, l.txn().now.Wall, l.txn().now.Wall
		c.QueueInserts = append(c.QueueInserts, *next)
		g.SetQueue(next)
		return
	}
	if next.Paced != is.Paced {
		l.shell.Paced(next.Name, next.Paced)
	}
	next.Revision, next.Modified = is.Revision+1, l.txn().now.Wall
	c.QueueUpdates = append(c.QueueUpdates, *next)
	g.SetQueue(next)
}
