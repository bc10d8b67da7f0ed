package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// The start of the scheduler is an event: triggers of kind start fire once for it.
const (
	kindStart = "start"
	kindFile  = "file"
	kindRunOf = "run_of"
)

// startPausedMax bounds the paused triggers that are processed when the scheduler starts.
const startPausedMax = 10_000

// Greet fires the triggers of kind start of the owned shards, because the scheduler has started. life names
// the start: it is the same for all nodes that start together. So a trigger that is greeted by several nodes
// fires once. A paused trigger gets a ledger line that says so. Greet tries until the store accepts the
// fires, or until ctx ends.
func (e *Engine) Greet(ctx context.Context, life string) error {
	if e.cfg.Planner == nil {
		return nil
	}
	for {
		err := e.greet(ctx, "start/"+life)
		if !errors.Is(err, errkind.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if e.host.Await(ctx, nil, ownPauseMax); ctx.Err() != nil {
			return err
		}
	}
}

func (e *Engine) greet(ctx context.Context, key string) error {
	err := e.greetEach(ctx, key, func(after store.TriggerKey) ([]store.Trigger, error) {
		return e.store.Sensors(ctx, e.owned(), []string{kindStart}, after, loadPage)
	})
	looked := 0
	paused := func(after store.TriggerKey) ([]store.Trigger, error) {
		if looked += loadPage; looked > startPausedMax {
			return nil, nil // a line for each trigger would cost more than the start
		}
		return e.store.Triggers(ctx, store.TriggerQuery{State: store.TriggerPaused, After: after, Limit: loadPage})
	}
	return errors.Join(err, e.greetEach(ctx, key, paused))
}

func (e *Engine) greetEach(ctx context.Context, key string, read func(after store.TriggerKey) ([]store.Trigger, error)) error {
	var after store.TriggerKey
	for {
		page, err := read(after)
		if err != nil {
			return errkind.FromStore("read the triggers that fire at the start", err)
		}
		var items []item
		got := make(chan error, len(page))
		for i := range page {
			after = keyOfTrigger(&page[i])
			if k := after; page[i].Kind == kindStart {
				items = append(items, item{op: func(w *writer) answer { return w.schedule.started(k, key) }, done: func(a answer) { got <- a.err }})
			}
		}
		if err := e.writer.inbox.put(items...); err != nil {
			return err
		}
		for range items {
			select {
			case err := <-got:
				if err := e.greeted(err); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if len(page) < loadPage {
			return nil
		}
	}
}

// greeted returns err if Greet must try again, and otherwise nil.
func (e *Engine) greeted(err error) error {
	var elsewhere *errkind.Elsewhere
	switch {
	case err == nil || errors.As(err, &elsewhere): // the present owner of the shard fires the trigger
		return nil
	case errors.Is(err, errkind.ErrUnavailable):
		return err
	}
	e.log.Error("a trigger of kind start cannot be fired; correct the trigger, or start its run by hand", "code", "start_trigger_failed", "err", err)
	return nil
}

// started decides how a trigger reacts to the start of the scheduler.
func (s *schedule) started(k store.TriggerKey, key string) answer {
	t, err := s.trigger(k)
	switch {
	case err != nil:
		return answer{err: err}
	case t == nil || t.State == store.TriggerEnded:
		return answer{} // the trigger was removed or has ended just now
	case s.held(t.Shard) == nil:
		return answer{err: s.here(t.Shard)}
	}
	now := s.dueNow()
	plan, err := s.planner.Heard(t, &Ended{Start: key, Finished: now}, now)
	if err != nil {
		return answer{err: fmt.Errorf("trigger %s: %w", k.Name, err)}
	}
	if t.State == store.TriggerPaused {
		err = s.startPaused(t, &plan)
	} else {
		err = s.carryOut(t, &plan)
	}
	if err != nil {
		s.broken(err)
	}
	return answer{err: err}
}

// startPaused records the starts that a paused trigger skips.
func (s *schedule) startPaused(t *store.Trigger, p *Plan) error {
	for i := range p.Starts {
		is := &p.Starts[i]
		was, err := s.firedBefore(keyOfTrigger(t), is.Key)
		if err != nil {
			return err
		}
		if was != nil {
			continue
		}
		err = s.line(store.Fire{Workflow: t.Workflow, Trigger: t.Name, At: is.Instant, Last: is.Instant, Count: 1, Key: is.Key,
			Outcome: store.OutcomeSkipped, Reason: is.Reason.And("; ", pausedReason(t))})
		if err != nil {
			return err
		}
	}
	return nil
}
