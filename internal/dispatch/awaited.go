package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	"skein.dev/skein/sdk/shared/output"
)

// Bounds of the search for the event of a waiting task.
const (
	awaitedPages  = 10                     // pages of the log that one search reads
	awaitedTries  = 100                    // evaluations of the filter in one search
	awaitedNext   = 100 * time.Millisecond // the pause before the search continues
	awaitedEvery  = time.Second            // events that arrived at other nodes are noticed after this time
	awaitedGather = 50 * time.Millisecond  // events that come within this time are read together
	awaitedSweep  = 15 * time.Second       // tasks that no longer wait are forgotten after this time
)

// AwaitedConfig holds the dependencies of an Awaited.
type AwaitedConfig struct {
	Engine func() *engine.Engine
	Events store.SentEvents
	Host   host.Host // nil is the real machine
}

// Awaited follows the log of events for the tasks that wait for an event. It reads the log once for all of
// them. It makes the engine check a task only when an event of the task's namespace, type and source has
// come. Its data about a task are a cache: for a task without data, it reads the log from the beginning of
// the task's span.
type Awaited struct {
	cfg  AwaitedConfig
	wake chan struct{} // cap 1

	mu    sync.Mutex // protects following fields
	all   map[dag.AttemptKey]*awaiting
	reset int // how often forget has removed all places
}

// awaiting is a task that waits for an event.
type awaiting struct {
	namespace string
	of        *workflow.Awaited
	group     string     // equal for tasks that want the same types and sources of one namespace
	since     dag.Micros // earlier events do not satisfy the task
	begun     bool       // since and seq are set
	seq       int64      // the place of the task in the log: no event up to this number satisfies the task
	idle      bool       // no check is due: no event that was read after seq has the task's type and source
	looks     int
	fault     string // why the filter could not be evaluated for an event
}

// Wanted is a task that waits for an event.
type Wanted struct {
	Key       dag.AttemptKey
	Namespace string
	Event     *workflow.Awaited
	Passes    func(event json.RawMessage) (bool, error) // evaluates the filter
}

// NewAwaited returns an Awaited that knows no task yet.
func NewAwaited(cfg AwaitedConfig) *Awaited {
	cfg.Host = host.Or(cfg.Host)
	return &Awaited{cfg: cfg, wake: make(chan struct{}, 1), all: map[dag.AttemptKey]*awaiting{}}
}

// Awaited returns the follower of the log of events.
func (r *Resolver) Awaited() *Awaited { return r.awaited }

// Wake makes Run read the log now.
func (w *Awaited) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// forget removes all places in the log, because the log may have lost its newest events. Run then makes the
// engine check all tasks.
func (w *Awaited) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reset++
	for _, a := range w.all {
		a.begun, a.idle = false, true
	}
}

// Look searches the log for the event of a waiting task. If the log does not have it yet, Run makes the
// engine check the task when an event comes that may match.
func (w *Awaited) Look(ctx context.Context, of *Wanted) (engine.Prepared, error) {
	is, reset := w.begin(of)
	if !is.begun {
		if err := w.start(ctx, of.Key, &is); err != nil {
			return engine.Prepared{}, err
		}
	}
	found, whole, err := w.search(ctx, &is, of.Passes)
	if err != nil {
		return engine.Prepared{}, ofStore(err)
	}
	w.end(of.Key, is, whole && found == nil, reset)
	if found != nil {
		leaves, err := eventOutputs(found)
		return engine.Prepared{Leaves: leaves}, err
	}
	why := inspect.Reason{Kind: "wait", Code: "wait_event", What: is.of.Words(is.since.Time()), Unblocks: "such an event: skein event send " + is.of.Example()}
	if is.fault != "" {
		why.What += "; " + is.fault
	}
	return engine.Prepared{Later: awaitedNext, Called: whole, Why: why}, nil
}

// begin returns the cached data about a task.
func (w *Awaited) begin(of *Wanted) (is awaiting, reset int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.all[of.Key]
	if a == nil {
		group := of.Namespace + "\x00" + of.Event.Source + "\x00" + strings.Join(of.Event.Types, "\x00")
		a = &awaiting{namespace: of.Namespace, of: of.Event, group: group}
		w.all[of.Key] = a
	}
	a.looks++
	return *a, w.reset
}

// start finds the beginning of the span whose events can satisfy the task.
func (w *Awaited) start(ctx context.Context, k dag.AttemptKey, is *awaiting) error {
	rows, err := w.cfg.Engine().Begun(ctx, k.Run, dag.TaskID(k.Task))
	if err != nil {
		return ofStore(err)
	}
	for i := range rows {
		if rows[i].Token == k.Token {
			is.since = rows[i].Assigned - dag.Micros(time.Duration(is.of.Within).Microseconds())
			is.seq, err = w.cfg.Events.EventsUntil(ctx, is.since)
			is.begun = err == nil
			return ofStore(err)
		}
	}
	return fmt.Errorf("%w: the attempt is not stored yet", errkind.ErrUnavailable)
}

// search reads the log from the place of a task. whole reports whether it has reached the end of the log.
func (w *Awaited) search(ctx context.Context, is *awaiting, passes func(json.RawMessage) (bool, error)) (found *store.SentEvent, whole bool, err error) {
	tries := 0
	for range awaitedPages {
		page, err := w.cfg.Events.EventsAfter(ctx, is.seq, engine.BatchEventsMax, engine.BatchBytesMax)
		if err != nil || len(page) == 0 {
			return nil, err == nil, err
		}
		for i := range page {
			ev := &page[i]
			if is.wants(ev) {
				if tries++; tries > awaitedTries {
					return nil, false, nil
				}
				holds, err := passes(ev.Data)
				if holds {
					return ev, false, nil
				}
				if err != nil {
					is.fault = fmt.Sprintf("event %.100s of %.100s does not count: %v", ev.ID, ev.Source, err)
				}
			}
			is.seq = ev.Seq
		}
	}
	return nil, false, nil
}

// wants reports whether an event satisfies the task if the filter is true for the event.
func (a *awaiting) wants(ev *store.SentEvent) bool {
	return ev.Namespace == a.namespace && a.of.Takes(ev.Type, ev.Source)
}

// end stores the place that a search has reached.
func (w *Awaited) end(k dag.AttemptKey, is awaiting, idle bool, reset int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.all[k]
	switch {
	case reset != w.reset:
		return
	case a == nil: // the task was removed in the meantime
		a = &is
		w.all[k] = a
	}
	if !a.begun || is.seq > a.seq {
		a.seq = is.seq
	}
	a.since, a.begun, a.fault = is.since, true, is.fault
	a.idle = a.idle || idle
	a.looks++
}

// Run reads the log until ctx ends. It makes the engine check a task when an event comes that may satisfy the
// task.
func (w *Awaited) Run(ctx context.Context) {
	h := w.cfg.Host
	swept := h.Now()
	before := map[dag.AttemptKey]int{}
	for ctx.Err() == nil {
		pause := awaitedEvery
		if more, err := w.round(ctx); err == nil && more {
			pause = 0
		}
		if h.Now().Sub(swept) > awaitedSweep {
			before, swept = w.sweep(ctx, before), h.Now()
		}
		if pause > 0 && h.Await(ctx, w.wake, pause) {
			h.Await(ctx, nil, awaitedGather)
		}
	}
}

// round reads one page of the log for all idle tasks. more reports whether the log may have more to read.
func (w *Awaited) round(ctx context.Context) (more bool, err error) {
	from, reset, due := w.least()
	if err := w.call(ctx, due); err != nil || from < 0 {
		return false, err
	}
	page, err := w.cfg.Events.EventsAfter(ctx, from, engine.BatchEventsMax, engine.BatchBytesMax)
	if err != nil || len(page) == 0 {
		return false, err
	}
	return true, w.call(ctx, w.pass(page, from, reset))
}

// least returns the smallest place in the log among the idle tasks. It returns -1 if no task is idle. due are
// the tasks whose place was removed.
func (w *Awaited) least() (from int64, reset int, due []dag.AttemptKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from = -1
	for k, a := range w.all {
		switch {
		case !a.idle:
		case !a.begun:
			a.idle = false
			due = append(due, k)
		case from < 0 || a.seq < from:
			from = a.seq
		}
	}
	return from, w.reset, inOrder(due)
}

// inOrder sorts attempts, because the order of a map differs from run to run of the program.
func inOrder(all []dag.AttemptKey) []dag.AttemptKey {
	sort.Slice(all, func(i, j int) bool { return all[i].Compare(all[j]) < 0 })
	return all
}

// pass moves the places of the idle tasks over the events of a page that they do not want. The page was read
// after the place from. pass returns the tasks that may want an event of the page.
func (w *Awaited) pass(page []store.SentEvent, from int64, reset int) (due []dag.AttemptKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if reset != w.reset {
		return nil
	}
	end := page[len(page)-1].Seq
	wanted := map[string][]int64{} // group → its sequence numbers in order
	for k, a := range w.all {
		if !a.idle || !a.begun || a.seq >= end || a.seq < from { // a task with a place before from has just become idle
			continue
		}
		seqs, known := wanted[a.group]
		if !known {
			for i := range page {
				if a.wants(&page[i]) {
					seqs = append(seqs, page[i].Seq)
				}
			}
			wanted[a.group] = seqs
		}
		if i := sort.Search(len(seqs), func(i int) bool { return seqs[i] > a.seq }); i < len(seqs) {
			a.seq, a.idle = seqs[i]-1, false
			due = append(due, k)
			continue
		}
		a.seq = end
	}
	return inOrder(due)
}

// call makes the engine check tasks. If the engine cannot, the tasks stay due.
func (w *Awaited) call(ctx context.Context, due []dag.AttemptKey) error {
	if len(due) == 0 {
		return nil
	}
	err := engine.LooksOf(w.cfg.Engine()).At(ctx, due)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, k := range due {
			if a := w.all[k]; a != nil {
				a.idle = true
			}
		}
	}
	return err
}

// sweep removes the tasks that no longer wait on this node, unless the engine has checked them since the last
// sweep. The parameter before holds the numbers of checks at the last sweep.
func (w *Awaited) sweep(ctx context.Context, before map[dag.AttemptKey]int) map[dag.AttemptKey]int {
	now := map[dag.AttemptKey]int{}
	w.mu.Lock()
	var all []dag.AttemptKey
	for k, a := range w.all {
		now[k] = a.looks
		all = append(all, k)
		if n, known := before[k]; known && n == a.looks {
			a.idle = true // a check that was due did not come
		}
	}
	w.mu.Unlock()
	if len(all) == 0 {
		return now
	}
	gone, err := engine.LooksOf(w.cfg.Engine()).Gone(ctx, inOrder(all))
	if err != nil {
		return now
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range gone {
		if a := w.all[k]; a != nil && a.looks == now[k] {
			delete(w.all, k)
		}
	}
	return now
}

// eventOutputs returns the outputs that an event gives to its waiting task.
func eventOutputs(ev *store.SentEvent) (json.RawMessage, error) {
	var is struct {
		Time   string          `json:"time"`
		Data   json.RawMessage `json:"data"`
		Base64 json.RawMessage `json:"data_base64"`
	}
	if err := json.Unmarshal(ev.Data, &is); err != nil {
		return nil, fmt.Errorf("event %.100s of %.100s: %w", ev.ID, ev.Source, err)
	}
	if is.Time == "" {
		is.Time = ev.Received.Time().UTC().Format(time.RFC3339Nano)
	}
	if is.Data == nil {
		is.Data = is.Base64
	}
	if is.Data == nil {
		is.Data = json.RawMessage("null")
	}
	all := map[string]json.RawMessage{"data": is.Data}
	for name, text := range map[string]string{"id": ev.ID, "type": ev.Type, "source": ev.Source, "time": is.Time} {
		raw, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		all[name] = raw
	}
	out, err := output.Marshal(all)
	if err == nil && len(out) > output.BytesMax {
		err = fmt.Errorf("event %.100s of %.100s has %d bytes, and outputs have at most %d: send a link to the data instead",
			ev.ID, ev.Source, len(out), output.BytesMax)
	}
	return out, err
}
