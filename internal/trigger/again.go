package trigger

import (
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// A trigger of kind again keeps a workflow running: the end of one run starts the next run. A person or
// another trigger starts the first run. If a person stops a run, the chain ends, because that person does not
// expect another run at once. The next start of a run resumes the chain. The end of a failed or skipped run
// also starts the next run. max_per_hour limits the starts if runs fail at once. A paused trigger starts
// nothing.

// started returns the times of the starts within the hour before now, in rising order.
func (m *memory) started(t *store.Trigger, now dag.Micros) ([]dag.Micros, error) {
	if len(m.Starts) == 0 {
		return nil, nil
	}
	all, err := dag.UnpackInstants(m.Starts, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("trigger %s: its stored memory is damaged: %w", t.Name, err)
	}
	return slices.DeleteFunc(all, func(at dag.Micros) bool { return at <= now-hour }), nil
}

// allowed returns the time from which the next run may start. A time in the past means that it may start at
// once.
func (d *declared) allowed(started []dag.Micros, now dag.Micros) dag.Micros {
	limit := int(d.Again.MaxPerHour)
	if limit == 0 || len(started) < limit {
		return now
	}
	return started[len(started)-limit] + hour
}

// noted adds a start. The time of the start is rounded up to the second, which keeps the limit and makes the
// list short.
func (m *memory) noted(started []dag.Micros, now dag.Micros, limit int32) {
	started = append(started, (now+second-1)/second*second)
	slices.Sort(started) // the clock may have been set back
	if len(started) > int(limit) {
		started = started[len(started)-int(limit):]
	}
	m.Starts = dag.PackInstants(started)
}

func (d *declared) heardAgain(t *store.Trigger, run *engine.Ended, now dag.Micros) (engine.Plan, error) {
	if out, over, err := d.outside(run.Finished); out || err != nil {
		return quiet(t, over), err
	}
	if run.Workflow != d.Again.Workflow {
		return unchanged(t), nil
	}
	m, err := remembered(t)
	if err != nil {
		return engine.Plan{}, err
	}
	p := unchanged(t)
	if run.State == dag.RunStopped {
		if m.Waiting != "" {
			p.Lines = []store.Fire{d.event(now, m.Waiting, store.Because("again_stopped", run.Run.String()))}
			m.Waiting, p.Next = "", 0
			p.Data = m.pack()
		}
		return p, nil
	}
	if m.Waiting != "" {
		if m.Waiting != run.Run.String() {
			p.Lines = []store.Fire{d.event(now, run.Run.String(), store.Because("again_waiting", clock(t.Next)))}
		}
		return p, nil
	}
	started, err := m.started(t, now)
	if err != nil {
		return engine.Plan{}, err
	}
	if at := d.allowed(started, now); at > now {
		m.Waiting, p.Next = run.Run.String(), at
		p.Data = m.pack()
		return p, nil
	}
	p.Starts = []engine.Start{d.starting(run.Finished, run.Run.String(), store.Because("again", run.Run.String(), run.State.String()), nil)}
	m.noted(started, now, d.Again.MaxPerHour)
	p.Data = m.pack()
	return p, nil
}

// event returns a ledger line for an event that starts nothing.
func (d *declared) event(at dag.Micros, key string, reason store.Reason) store.Fire {
	return store.Fire{At: at, Key: key, Last: at, Count: 1, Outcome: store.OutcomeSkipped, Reason: reason}
}

// planAgain starts the run that had to wait because of max_per_hour.
func (d *declared) planAgain(t *store.Trigger, now dag.Micros) (engine.Plan, error) {
	m, err := remembered(t)
	if err != nil {
		return engine.Plan{}, err
	}
	p := unchanged(t)
	p.Decided = max(now, t.Decided)
	if t.Next == 0 || t.Next > now || m.Waiting == "" {
		return p, nil
	}
	if out, over, err := d.outside(now); out || err != nil {
		return quiet(t, over), err
	}
	started, err := m.started(t, now)
	if err != nil {
		return engine.Plan{}, err
	}
	s := d.starting(t.Next, m.Waiting, store.Because("again_waited", m.Waiting, store.Number(int64(d.Again.MaxPerHour))), nil)
	if late := now - t.Next; late > lateAfter {
		s.Late, s.Reason = true, store.Because("late", span(late))
	}
	p.Starts, p.Next = []engine.Start{s}, 0
	m.Waiting = ""
	m.noted(started, now, d.Again.MaxPerHour)
	p.Data = m.pack()
	return p, nil
}

// passedAgain keeps a start that was waiting when the trigger was paused, because the start follows the end
// of a run and not an instant of a schedule.
func (d *declared) passedAgain(t *store.Trigger, now dag.Micros) (engine.Plan, error) {
	m, err := remembered(t)
	if err != nil {
		return engine.Plan{}, err
	}
	p := engine.Plan{Decided: max(now, t.Decided)}
	if m.Waiting == "" {
		return p, nil
	}
	started, err := m.started(t, now)
	if err != nil {
		return engine.Plan{}, err
	}
	p.Next = max(d.allowed(started, now), now+1)
	return p, nil
}

// beginAgain takes over the memory in the row of the earlier declaration. So an edit neither resets the count
// of starts nor ends the chain of runs.
func (d *declared) beginAgain(t *store.Trigger, now dag.Micros) {
	m, err := remembered(t)
	if err != nil {
		t.Data = nil // the memory only serves the limit, so an edited limit is the only change
		return
	}
	started, err := m.started(t, now)
	if err != nil {
		t.Data = nil
		return
	}
	if m.Waiting != "" && t.State == store.TriggerActive {
		t.Next = max(d.allowed(started, now), now+1)
	}
	if m = (memory{Starts: m.Starts, Waiting: m.Waiting}); len(m.Starts) == 0 && m.Waiting == "" {
		t.Data = nil
		return
	}
	t.Data = m.pack()
}
