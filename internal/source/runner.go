package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// whyMax bounds the bytes of the reason why a source is away.
const whyMax = 500

// laterMax bounds the delay that the other side can request.
const laterMax = time.Hour

// Pauses of give while the trigger has no room.
const (
	roomMin = 200 * time.Millisecond
	roomMax = 5 * time.Second
)

// errSilent means that a source was restarted because it did nothing for too long.
var errSilent = errors.New("the source did nothing for too long, and was started again")

// errRules means that a source was ended because the egress policy of its namespace has changed.
var errRules = errors.New("the egress of the namespace has changed")

// errCollect means that a batch is not accepted yet, because further events may join it.
var errCollect = errors.New("events are collected for a batch")

// runner runs the source of one trigger, and starts the source again after an error.
type runner struct {
	s        *Supervisor
	key      store.TriggerKey
	kind     string
	shard    dag.ShardID
	declared declaration
	end      context.CancelFunc
	ended    chan struct{}

	mu       sync.Mutex // protects following fields
	source   Source     // nil if no source was made yet
	intake   *workflow.Intake
	away     dag.Micros
	why      string
	workflow string
	waited   bool // events were collected for batch.wait, so the next batch is accepted with any size
	giving   bool // the engine is processing a batch, so the source may be silent
	restarts int64
}

func (s *Supervisor) start(ctx context.Context, t *store.Trigger) *runner {
	ctx, cancel := context.WithCancel(ctx)
	r := &runner{s: s, key: store.TriggerKey{Workflow: t.Workflow, Name: t.Name}, kind: t.Kind, shard: t.Shard, declared: s.declaredAs(t),
		end: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		defer cancel()
		r.run(ctx)
	}()
	return r
}

// run runs the source until ctx ends.
func (r *runner) run(ctx context.Context) {
	cfg := &r.s.cfg
	select {
	case r.s.room <- struct{}{}:
	default:
		r.fails(ctx, fmt.Errorf("this node runs %d sources, the largest number; this one waits until another one ends", runningMax))
		select {
		case r.s.room <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	defer func() { <-r.s.room }()
	for pause := cfg.BackoffMin; ; {
		began := time.Now()
		heard := r.heard()
		err := r.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if r.heard() > heard { // the source has worked for a while
			pause = cfg.BackoffMin
		}
		wait := pause
		var later *LaterError
		switch {
		case errors.Is(err, errCollect): // the source reads again from the stored cursor
			wait = time.Duration(r.collects().BatchWait)
		case err == nil || errors.Is(err, engine.ErrStale) || errors.Is(err, errRules):
			// The source begins again at the stored cursor. The pause limits the load of a source that does
			// so repeatedly.
			wait = max(0, cfg.BackoffMin-time.Since(began))
		case errors.Is(err, errkind.ErrConflict): // the trigger or its workflow is paused
		case errors.As(err, &later):
			wait = max(wait, min(later.After, laterMax))
			r.fails(ctx, err)
		default:
			r.fails(ctx, err)
		}
		if host.Sleep(ctx, wait) != nil {
			return
		}
		if errors.Is(err, errCollect) {
			continue
		}
		pause = min(2*pause, cfg.BackoffMax)
		r.mu.Lock()
		r.restarts++
		r.mu.Unlock()
	}
}

// heard returns the time of the source's last answer.
func (r *runner) heard() dag.Micros {
	r.mu.Lock()
	is := r.source
	r.mu.Unlock()
	if is == nil {
		return 0
	}
	return is.State().Heard
}

// fails records the reason why the source is away. It logs each new reason once.
func (r *runner) fails(ctx context.Context, err error) {
	why := inLine(err.Error(), whyMax)
	r.mu.Lock()
	told := r.away != 0 && r.why == why
	if r.away == 0 {
		r.away = dag.Micro(time.Now())
	}
	r.why = why
	r.mu.Unlock()
	if !told {
		r.s.cfg.Log.Warn("a source of events is not connected; the node tries again", "code", "source_away", "workflow", r.name(ctx), "trigger", r.key.Name, "err", why)
	}
}

// works records that the source is not away.
func (r *runner) works() {
	r.mu.Lock()
	was := r.away
	r.away, r.why = 0, ""
	name := r.workflow
	r.mu.Unlock()
	if was != 0 {
		r.s.cfg.Log.Info("a source of events is connected again", "code", "source_back", "workflow", name, "trigger", r.key.Name)
	}
}

func (r *runner) name(ctx context.Context) string {
	r.mu.Lock()
	is := r.workflow
	r.mu.Unlock()
	if is != "" {
		return is
	}
	is = r.s.cfg.Name(ctx, r.key.Workflow)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workflow = is
	return is
}

// status returns the state for people.
func (r *runner) status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := Status{Key: r.key, Workflow: r.workflow, Kind: r.kind, Restarts: r.restarts, State: State{Lag: -1}}
	if r.source != nil {
		st.State = r.source.State()
	}
	if st.Heard == 0 {
		st.Lag = -1
	}
	st.Away, st.Why = r.away, r.why
	if st.Heard > st.Away { // the source has had an answer since
		st.Away, st.Why = 0, ""
	}
	return st
}

// once runs the source from the stored cursor until it ends, or is silent for too long. A source that does
// not end when its context ends is abandoned. That is safe, because its batches are no longer accepted.
func (r *runner) once(ctx context.Context) error {
	t, err := r.s.cfg.Trigger(ctx, r.key.Workflow, r.key.Name)
	if err != nil {
		return fmt.Errorf("the trigger cannot be read: %w", err)
	}
	if t.State != store.TriggerActive || r.s.declaredAs(&t) != r.declared {
		r.s.Changed()
		return nil // the supervisor is ending this runner
	}
	decl, err := workflow.DecodeTrigger(t.Spec)
	if err != nil {
		return fmt.Errorf("its declaration is damaged: %w; apply the workflow again", err)
	}
	cursor, start, err := r.s.cfg.Cursor(&t)
	if err != nil {
		return err
	}
	namespace, _, named := strings.Cut(r.name(ctx), "/")
	if !named {
		return errors.New("the workflow of the trigger cannot be read")
	}
	policy := r.s.cfg.Egress(namespace) // before Open, which reads the policy itself, so that no change is missed
	is, err := r.s.cfg.Open(ctx, &t, decl, start)
	if err != nil {
		return err
	}
	r.s.mu.Lock()
	full := r.s.abandoned >= abandonedMax
	r.s.mu.Unlock()
	if full {
		return fmt.Errorf("%d sources of this node do not end; restart the node", abandonedMax)
	}
	r.mu.Lock()
	r.source, r.intake = is, decl.Intake
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- r.guarded(func() error {
			return is.Run(ctx, cursor, func(ctx context.Context, b Batch) error {
				if !start.Since.IsZero() {
					b.Since = dag.Micro(start.Since)
				}
				return r.give(ctx, b)
			})
		})
	}()
	return r.watch(ctx, cancel, is, done, func() bool { return r.s.cfg.Egress(namespace) == policy })
}

// guarded converts a panic to an error.
func (r *runner) guarded(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the source panicked: %v", p)
		}
	}()
	return run()
}

// watch waits for the end of a source. It ends a source that is silent for too long, or that began by other
// rules. ruled reports whether its rules still hold.
func (r *runner) watch(ctx context.Context, cancel func(), is Source, done <-chan error, ruled func() bool) error {
	cfg := &r.s.cfg
	began := time.Now()
	tick := time.NewTicker(min(cfg.Tick, cfg.Silent/4))
	defer tick.Stop()
	var reason error
	for reason == nil {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			reason = ctx.Err()
		case <-tick.C:
			st := is.State()
			r.mu.Lock()
			giving, away := r.giving, r.away
			r.mu.Unlock()
			if away != 0 && st.Heard > away {
				r.works()
			}
			last := st.Alive
			if last.Before(began) {
				last = began
			}
			if !ruled() {
				reason = errRules
			} else if giving {
				began = time.Now()
			} else if time.Since(last) > cfg.Silent {
				reason = errSilent
			}
		}
	}
	cancel()
	timer := time.NewTimer(cfg.Leave)
	defer timer.Stop()
	select {
	case <-done:
		return reason
	case <-timer.C:
	}
	r.s.mu.Lock()
	r.s.abandoned++
	r.s.mu.Unlock()
	r.s.cfg.Log.Error("a source of events does not end; the node leaves it running and starts another one; report this bug", "code", "source_hangs", "workflow", r.name(context.WithoutCancel(ctx)), "trigger", r.key.Name)
	go func() {
		<-done
		r.s.mu.Lock()
		r.s.abandoned--
		r.s.mu.Unlock()
	}()
	return reason
}

// collects returns how the trigger collects events.
func (r *runner) collects() workflow.Intake {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.intake == nil {
		return workflow.Intake{}
	}
	return *r.intake
}

// collector is a source that itself collects events for one run.
type collector interface{ collects() }

// small reports whether a batch is not accepted yet, because the trigger waits for more events of one run.
// The trigger waits once for each batch.
func (r *runner) small(b *Batch) bool {
	most := int(r.collects().BatchMax)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, itself := r.source.(collector); itself {
		return false
	}
	if r.waited || len(b.Events) == 0 || len(b.Events) >= most {
		r.waited = r.waited && len(b.Events) == 0
		return false
	}
	r.waited = true
	return true
}

// give passes a batch to the engine. It waits while the trigger has no room for another run, and while the
// engine does not answer.
func (r *runner) give(ctx context.Context, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.small(&b) {
		return errCollect
	}
	r.mu.Lock()
	r.giving = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.giving = false
		r.mu.Unlock()
	}()
	for pause := roomMin; ; pause = min(2*pause, roomMax) {
		_, err := r.s.cfg.Hear(ctx, r.key, b)
		if err == nil {
			r.works()
			return nil
		}
		if !errors.Is(err, errkind.ErrUnavailable) || errors.Is(err, engine.ErrStale) { // engine.ErrGateFull is an ErrUnavailable, too
			return err
		}
		if err := host.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
