package trigger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/cron"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// memory is the data that a trigger stores in its row. The declaration limits its size: one run for each
// named workflow, a few arrivals for each, and at most max_per_hour starts. The engine limits the planned
// pauses.
type memory struct {
	// Runs is for run_of with all: the newest matching run of each workflow.
	Runs map[string]heardRun `json:"runs,omitempty"`
	// Starts is for the kind again: the packed times of the starts in the last hour.
	Starts []byte `json:"starts,omitempty"`
	// Waiting is for the kind again: the ended run after which the trigger starts the next run when
	// max_per_hour allows it.
	Waiting string `json:"waiting,omitempty"`
	// Came is for the kind absent: the times of the expected arrivals by source, one for each undecided interval.
	Came map[string][]dag.Micros `json:"came,omitempty"`
	// Folder is the folder of a file sensor. An edit that changes the folder begins a new watch. Other edits
	// do not affect the watch.
	Folder string `json:"folder,omitempty"`
	// Intake is for the kinds with a source of events.
	Intake *intake `json:"intake,omitempty"`
	// Pauses is for triggers whose instants follow from the clock: the planned pauses.
	Pauses []engine.PlannedPause `json:"pauses,omitempty"`
}

type heardRun struct {
	Run  string     `json:"run"`
	At   dag.Micros `json:"at"` // when the run ended
	Time dag.Micros `json:"time,omitempty"`
	End  string     `json:"end"` // state of the run at its end
}

func remembered(t *store.Trigger) (memory, error) {
	var m memory
	if len(t.Data) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(t.Data, &m); err != nil {
		return m, fmt.Errorf("trigger %s: its stored memory is damaged: %w", t.Name, err)
	}
	return m, nil
}

func (m memory) pack() []byte { return encode(m) }

// encode returns the JSON of a value of texts and numbers. The encoding of such a value cannot fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("trigger: %T is not JSON: %v", v, err))
	}
	return b
}

// qualifies reports whether r reacts to this end of a run. A skipped run never began, so r does not react to
// its end.
func qualifies(r *workflow.RunOf, run *engine.Ended) bool {
	return asks(r, run.Workflow, run.State.String())
}

func asks(r *workflow.RunOf, name, end string) bool {
	ends := []string{r.Require}
	if r.Require == "ended" {
		ends = []string{dag.RunSucceeded.String(), dag.RunFailed.String(), dag.RunStopped.String()}
	}
	return slices.Contains(r.Workflows, name) && slices.Contains(ends, end)
}

// beginHearing takes over the memory in the row of the earlier declaration, for events to which both
// declarations react. So an edit of the priority, for example, forgets neither a run nor a file.
func (d *declared) beginHearing(t *store.Trigger, since dag.Micros) {
	was, err := remembered(t)
	t.Data = nil
	var m memory
	switch {
	case d.File != nil:
		m.Folder = d.File.Path + "\x00" + d.File.Pattern
		if err == nil && was.Folder == m.Folder && since != 0 {
			t.Since = since
		}
	case d.RunOf != nil && d.RunOf.All && err == nil:
		m.Runs = was.Runs
		maps.DeleteFunc(m.Runs, func(name string, r heardRun) bool { return !asks(d.RunOf, name, r.End) })
	}
	if m.Folder != "" || len(m.Runs) > 0 {
		t.Data = m.pack()
	}
}

// passedSensor returns one line for the time in which a sensor was paused and received no event.
func (d *declared) passedSensor(t *store.Trigger, now dag.Micros, reason store.Reason) engine.Plan {
	p := d.waiting(t, now)
	if d.Intake != nil { // the source continues at its cursor, so no event is skipped
		return p
	}
	if now > t.Decided && d.Kind != workflow.KindStart { // with KindStart each start has a line of its own
		p.Lines = []store.Fire{{At: t.Decided, Last: now, Count: 1, Outcome: store.OutcomeSkipped,
			Reason: reason.And("; ", store.Because("paused_events"))}}
	}
	return p
}

// beginSensor ends a sensor whose declared end is in the past.
func (d *declared) beginSensor(t *store.Trigger, now dag.Micros) error {
	_, over, err := d.outside(now)
	if over {
		t.State, t.Reason, t.Next = store.TriggerEnded, pastEnd, 0
	}
	return err
}

const pastEnd = "its end is past"

// outside reports whether an instant is before the start or after the end of the trigger, and whether the end
// has passed.
func (d *declared) outside(at dag.Micros) (out, over bool, err error) {
	from, until, err := d.Span()
	if err != nil {
		return false, false, fmt.Errorf("trigger %s: %w", d.Name, err)
	}
	when := moment(at)
	over = !until.IsZero() && when.After(until)
	return over || !from.IsZero() && when.Before(from), over, nil
}

// quiet returns the plan for an event before the start or after the end of the trigger.
func quiet(t *store.Trigger, over bool) engine.Plan {
	p := unchanged(t)
	if over {
		p.Next, p.State, p.Reason = 0, store.TriggerEnded, pastEnd
	}
	return p
}

// heardRunOf implements Heard for run_of. The instant of the started run is the end of the observed run, and
// event.time is the instant of the observed run. A run that the trigger itself has started is ignored,
// because a workflow that names itself would start itself for ever.
func (d *declared) heardRunOf(t *store.Trigger, run *engine.Ended) (engine.Plan, error) {
	if out, over, err := d.outside(run.Finished); out || err != nil {
		return quiet(t, over), err
	}
	if run.Successor || !qualifies(d.RunOf, run) {
		return unchanged(t), nil
	}
	if run.Refused != "" {
		return d.refused(t, run), nil
	}
	now := heardRun{Run: run.Run.String(), At: run.Finished, Time: run.Instant, End: run.State.String()}
	if !d.RunOf.All || len(d.RunOf.Workflows) == 1 {
		return d.follow(t, map[string]heardRun{run.Workflow: now}), nil
	}
	m, err := remembered(t)
	if err != nil {
		return engine.Plan{}, err
	}
	if m.Runs == nil {
		m.Runs = map[string]heardRun{}
	}
	if was := m.Runs[run.Workflow]; was.Run == now.Run || was.At > now.At {
		return unchanged(t), nil
	}
	m.Runs[run.Workflow] = now
	maps.DeleteFunc(m.Runs, func(name string, _ heardRun) bool { return !slices.Contains(d.RunOf.Workflows, name) })
	if err := d.keepWithin(m.Runs); err != nil {
		return engine.Plan{}, err
	}
	if len(m.Runs) < len(d.RunOf.Workflows) {
		p := unchanged(t)
		p.Data = m.pack()
		return p, nil
	}
	p := d.follow(t, m.Runs)
	m.Runs = nil
	p.Data = m.pack()
	return p, nil
}

// refused returns the plan for the end of a run to which the trigger may not react: a ledger line with the
// reason. The line has the key of the run, so an end with an outcome gets no second one.
func (d *declared) refused(t *store.Trigger, run *engine.Ended) engine.Plan {
	p, s := unchanged(t), d.starting(run.Finished, run.Run.String(), "", nil)
	s.Refused = store.Because("offers", run.Refused)
	p.Starts = []engine.Start{s}
	return p
}

// keepWithin removes the runs that are outside of the span of the newest run.
func (d *declared) keepWithin(runs map[string]heardRun) error {
	var newest dag.Micros
	for _, r := range runs {
		newest = max(newest, r.At)
	}
	since, err := d.spanStart(newest)
	if err != nil {
		return fmt.Errorf("trigger %s: %w", d.Name, err)
	}
	maps.DeleteFunc(runs, func(_ string, r heardRun) bool { return r.At < since })
	return nil
}

// spanStart returns the beginning of the span of run_of.within that contains the instant at, or that ends at
// this instant. It returns 0 if the trigger has no span.
func (d *declared) spanStart(at dag.Micros) (dag.Micros, error) {
	if d.RunOf.Within == "" {
		return 0, nil
	}
	loc, err := cron.LoadZone(d.Timezone)
	if err != nil {
		return 0, err
	}
	local := moment(at).In(loc)
	y, mo, day := local.Date()
	switch d.RunOf.Within {
	case "hour":
		// In a zone with an offset of half an hour, spans begin at the full hour of local time.
		return at - dag.Micros(local.Minute())*60*second - dag.Micros(local.Second())*second - dag.Micros(local.Nanosecond()/1000), nil
	case "day":
	case "week":
		day -= (int(local.Weekday()) + 6) % 7 // the week begins on Monday
	case "month":
		day = 1
	default:
		length, err := workflow.ParseDuration(d.RunOf.Within)
		return at - micros(length), err
	}
	return dag.Micro(time.Date(y, mo, day, 0, 0, 0, 0, loc)), nil
}

// follow starts one run after other runs. The key of the start is the id of the other run, or a hash of
// several ids. So the same runs start only one run, even if their ends are reported twice.
func (d *declared) follow(t *store.Trigger, runs map[string]heardRun) engine.Plan {
	names := slices.Sorted(maps.Keys(runs))
	type entry struct {
		Workflow string `json:"workflow"`
		Run      string `json:"run"`
		State    string `json:"state"`
		Time     string `json:"time,omitempty"`
		Finished string `json:"finished"`
	}
	event := struct {
		entry
		Runs []entry `json:"runs"`
	}{}
	var ids []string
	var reason store.Reason
	var at dag.Micros
	for _, name := range names {
		r := runs[name]
		e := entry{Workflow: name, Run: r.Run, State: r.End, Finished: clock(r.At)}
		if r.Time != 0 {
			e.Time = clock(r.Time)
		}
		if r.At >= at {
			at, event.entry = r.At, e
		}
		event.Runs = append(event.Runs, e)
		ids = append(ids, r.Run)
		if end := store.Because("run_of", name, r.End); reason == "" {
			reason = end
		} else {
			reason = reason.And(", ", end)
		}
	}
	key := ids[0]
	if len(ids) > 1 {
		slices.Sort(ids)
		sum := sha256.Sum256([]byte(strings.Join(ids, " ")))
		key = "all/" + hex.EncodeToString(sum[:16])
	}
	p := unchanged(t)
	p.Starts = []engine.Start{d.starting(at, key, reason, encode(event))}
	return p
}

// starting returns a start for an event.
func (d *declared) starting(at dag.Micros, key string, reason store.Reason, event []byte) engine.Start {
	s := engine.Start{Instant: at, Key: key, Reason: reason, Event: event}
	if d.DelayTolerance > 0 {
		s.StartBy = at + micros(d.DelayTolerance)
	}
	return s
}
