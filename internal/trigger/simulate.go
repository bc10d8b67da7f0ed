package trigger

import (
	"container/heap"
	"fmt"
	"slices"
	"sort"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

// Bounds of a simulation.
const (
	simulateSpanMax     = 366 * 24 * hour
	simulateFiresMax    = 1_000_000 // fires that are simulated one by one
	simulateTriggersMax = 10_000
	simulateShiftsMax   = 1000
	examplesMax         = 20      // instants that are named
	compareStepsMax     = 200_000 // bounds the comparison of two schedules of one trigger
)

// SimulateInput is the input of a simulation.
type SimulateInput struct {
	From, To dag.Micros // instants in (From, To]
	FromToo  bool       // the span includes From, as a day includes its midnight
	Planned  []PlannedWorkflow
	// Edit, if not nil, replaces the workflows of the same names.
	Edit  []PlannedWorkflow
	Slots int // attempts that run at the same time; 0 if unknown
}

// PlannedWorkflow is a workflow with its triggers and the durations of its runs.
type PlannedWorkflow struct {
	Name        string // namespace/name
	MaxRuns     int32  // the largest number of active runs; 0 means any number
	Triggers    []PlannedTrigger
	Median, P95 time.Duration // duration of its runs
	Measured    int           // number of measured runs; 0 if the duration is unknown
}

// PlannedTrigger is a trigger in its present state.
type PlannedTrigger struct {
	*workflow.Trigger
	Paused bool  // the trigger is paused or ended, so it does not fire
	Fired  int64 // fires so far, for the key count
	Pauses []engine.PlannedPause
}

// Report is a forecast for a span of time. It assumes that runs take as long as they did recently. It
// excludes sensors, whose events cannot be predicted, and also catch-up and backfills.
type Report struct {
	From     dag.Micros       `json:"from"`
	To       dag.Micros       `json:"to"`
	Fires    int64            `json:"fires"`
	Triggers []TriggerReport  `json:"triggers"`
	Hours    []HourReport     `json:"hours"` // only hours with fires or active runs
	Limits   []LimitReport    `json:"limits"`
	Shifts   []ShiftReport    `json:"shifts"`
	Changes  []ScheduleChange `json:"changes"` // nil if there is no edit
	Notes    []string         `json:"notes"`   // facts that are unknown or were left out
}

// TriggerReport lists the simulated fires of one trigger.
type TriggerReport struct {
	Workflow    string     `json:"workflow"`
	Trigger     string     `json:"trigger"`
	Description string     `json:"description"`
	Fires       int64      `json:"fires"`
	PerHour     float64    `json:"per_hour"` // the average number of fires per hour of the span
	First       dag.Micros `json:"first"`    // 0 if there is none
	Last        dag.Micros `json:"last"`
	Overlaps    int64      `json:"overlaps"` // fires at which the limit of active runs was reached
	// Skipped is the number of fires among the Overlaps that are skipped, because of overlap: skip or a full
	// queue.
	Skipped   int64         `json:"skipped"`
	Waiting   int64         `json:"waiting"`   // fires among the Overlaps whose runs wait
	Cancelled int64         `json:"cancelled"` // runs that a newer run stops
	Median    time.Duration `json:"median"`
	P95       time.Duration `json:"p95"`
	Measured  int           `json:"measured"`
}

// HourReport is one hour of UTC.
type HourReport struct {
	At    dag.Micros `json:"at"`
	Fires int64      `json:"fires"`
	// Active is the largest number of active runs, and Mean the average, if each run takes the median time.
	// Long is the largest number if each takes the 95th percentile.
	Active int64   `json:"active"`
	Mean   float64 `json:"mean"`
	Long   int64   `json:"active_p95"`
}

// Kinds of limits.
const (
	LimitTrigger  = "trigger"
	LimitWorkflow = "workflow"
	LimitSlots    = "slots"
)

// LimitReport is a limit that the simulated runs reach.
type LimitReport struct {
	Kind     string       `json:"kind"`
	Workflow string       `json:"workflow"`
	Trigger  string       `json:"trigger"`
	Limit    int64        `json:"limit"`
	Peak     int64        `json:"peak"` // largest number of active runs if there were no limits
	Hits     int64        `json:"hits"` // runs that reach the limit
	First    dag.Micros   `json:"first"`
	Instants []dag.Micros `json:"instants"` // the first instants at which runs reach the limit
	What     string       `json:"what"`
}

// ShiftReport is a clock change that affects a schedule.
type ShiftReport struct {
	Workflow string        `json:"workflow"`
	Trigger  string        `json:"trigger"`
	At       dag.Micros    `json:"at"`
	Local    string        `json:"local"`
	From     time.Duration `json:"from"` // offsets from UTC
	To       time.Duration `json:"to"`
	Effect   string        `json:"effect"`
}

// planned is a trigger in the simulation.
type planned struct {
	open
	workflow int // index in the list
	name     string
	until    dag.Micros // the trigger fires in (From, until]
	fires    int64
}

// simulation is the state of a simulation.
type simulation struct {
	in        *SimulateInput
	workflows []PlannedWorkflow
	triggers  []planned
	report    Report
}

// Simulate computes the forecast of a span of time. It is a pure function.
func Simulate(in *SimulateInput) (*Report, error) {
	switch {
	case in.To <= in.From:
		return nil, invalid("the span ends (%s) before it begins (%s)", clock(in.To), clock(in.From))
	case in.To-in.From > simulateSpanMax:
		return nil, invalid("the span has %d days; a simulation has at most %d", (in.To-in.From)/(24*hour), simulateSpanMax/(24*hour))
	}
	s := simulation{in: in, workflows: edited(in.Planned, in.Edit)}
	s.report = Report{From: in.From, To: in.To, Triggers: []TriggerReport{}, Hours: []HourReport{}, Limits: []LimitReport{}, Shifts: []ShiftReport{}, Notes: []string{}}
	if err := s.plan(); err != nil {
		return nil, err
	}
	s.shifts()
	s.run()
	if in.Edit != nil {
		if err := s.changes(); err != nil {
			return nil, err
		}
	}
	return &s.report, nil
}

// edited returns the workflows after an edit, by name.
func edited(is, edit []PlannedWorkflow) []PlannedWorkflow {
	all := slices.Clone(is)
	for _, w := range edit {
		i := slices.IndexFunc(all, func(o PlannedWorkflow) bool { return o.Name == w.Name })
		if i < 0 {
			all = append(all, w)
			continue
		}
		if w.Measured == 0 { // the edited workflow has no runs yet, so the replaced workflow gives the best estimate
			w.Median, w.P95, w.Measured = all[i].Median, all[i].P95, all[i].Measured
		}
		all[i] = w
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

func (s *simulation) note(format string, args ...any) {
	s.report.Notes = append(s.report.Notes, fmt.Sprintf(format, args...))
}

// before returns the instant before the first instant of the span.
func (s *simulation) before() dag.Micros {
	if s.in.FromToo {
		return s.in.From - 1
	}
	return s.in.From
}

// plan compiles the schedules and counts their fires.
func (s *simulation) plan() error {
	sensors, left, paused, unknown := 0, 0, 0, 0
	for i := range s.workflows {
		w := &s.workflows[i]
		fires := int64(0)
		for _, t := range w.Triggers {
			p, err := s.planned(i, t)
			switch {
			case err != nil:
				return err
			case p.when == nil:
				sensors++
				continue
			case len(s.triggers) == simulateTriggersMax:
				left++
				continue
			}
			if t.Paused {
				paused++
			}
			fires += p.fires
			s.triggers = append(s.triggers, p)
			s.describe(w, &p)
		}
		if fires > 0 && w.Measured == 0 {
			unknown++
		}
		s.report.Fires += fires
	}
	for _, n := range []struct {
		count     int
		one, many string
	}{
		{sensors, "1 sensor is left out: its events cannot be foreseen", "%d sensors are left out: their events cannot be foreseen"},
		{left, "1 trigger is left out: there are too many", "%d triggers are left out: there are too many"},
		{paused, "1 trigger is paused or ended and fires nothing", "%d triggers are paused or ended and fire nothing"},
		{unknown, "of 1 workflow no run has ended yet: its runs are taken to last no time", "of %d workflows no run has ended yet: their runs are taken to last no time"},
	} {
		switch n.count {
		case 0:
		case 1:
			s.note("%s", n.one)
		default:
			s.note(n.many, n.count)
		}
	}
	return nil
}

func (s *simulation) planned(i int, t PlannedTrigger) (planned, error) {
	when, err := t.Schedule()
	if err != nil {
		return planned{}, invalid("trigger %s of %s: %v", t.Name, s.workflows[i].Name, err)
	}
	p := planned{open: open{&declared{Trigger: t.Trigger, when: when}, t.Pauses}, workflow: i, name: s.workflows[i].Name, until: s.in.To}
	if when == nil || t.Paused {
		return p, nil
	}
	p.fires = p.count(s.before(), s.in.To)
	if left := max(t.Count-t.Fired, 0); t.Count > 0 && p.fires > left {
		p.fires, p.until = left, p.nth(s.before(), s.in.To, left)
	}
	return p, nil
}

// nth returns the last of the first n instants after from. The caller must ensure that there are more.
func (o *open) nth(from, to dag.Micros, n int64) dag.Micros {
	lo, hi := from, to // invariant: at most n instants up to lo, more than n up to hi
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; o.count(from, mid) > n {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

func (s *simulation) describe(w *PlannedWorkflow, p *planned) {
	r := TriggerReport{Workflow: w.Name, Trigger: p.Name, Description: p.when.Describe(), Fires: p.fires,
		PerHour: float64(p.fires) / (float64(s.in.To-s.in.From) / float64(hour)), Median: w.Median, P95: w.P95, Measured: w.Measured}
	if p.fires > 0 {
		r.First, r.Last = p.next(s.before()), p.last(p.until)
	}
	s.report.Triggers = append(s.report.Triggers, r)
}

func (s *simulation) shifts() {
	for i := range s.triggers {
		p := &s.triggers[i]
		if p.fires == 0 {
			continue
		}
		for _, c := range p.when.Shifts(moment(s.in.From), moment(s.in.To)) {
			if len(s.report.Shifts) == simulateShiftsMax {
				s.note("more than %d clock changes touch schedules, the others are left out", simulateShiftsMax)
				return
			}
			s.report.Shifts = append(s.report.Shifts, ShiftReport{Workflow: p.name, Trigger: p.Name, At: dag.Micro(c.At),
				Local: c.At.Format(time.RFC3339), From: c.From, To: c.To, Effect: c.Effect})
		}
	}
}

// fire is an instant of a trigger.
type fire struct {
	at      dag.Micros
	trigger int32
}

// upcoming is a heap of the next instant of each trigger.
type upcoming []fire

func (u upcoming) Len() int { return len(u) }
func (u upcoming) Less(i, j int) bool {
	return u[i].at < u[j].at || u[i].at == u[j].at && u[i].trigger < u[j].trigger
}
func (u upcoming) Swap(i, j int) { u[i], u[j] = u[j], u[i] }
func (u *upcoming) Push(x any)   { *u = append(*u, x.(fire)) }
func (u *upcoming) Pop() any {
	old := *u
	last := old[len(old)-1]
	*u = old[:len(old)-1]
	return last
}

// fires returns the fires in the order of time, and the end of the list.
func (s *simulation) fires() ([]fire, dag.Micros) {
	var next upcoming
	for i := range s.triggers {
		p := &s.triggers[i]
		if at := p.next(s.before()); p.fires > 0 && at != 0 {
			next = append(next, fire{at, int32(i)})
		}
	}
	heap.Init(&next)
	all := make([]fire, 0, min(s.report.Fires, simulateFiresMax))
	for len(next) > 0 {
		f := next[0]
		if len(all) == simulateFiresMax {
			s.note("there are %d fires: overlaps, hours and limits are those of the first %d, up to %s", s.report.Fires, simulateFiresMax, clock(f.at))
			return all, f.at
		}
		all = append(all, f)
		p := &s.triggers[f.trigger]
		if at := p.next(f.at); at != 0 && at <= p.until {
			next[0].at = at
			heap.Fix(&next, 0)
		} else {
			heap.Pop(&next)
		}
	}
	return all, s.in.To
}
