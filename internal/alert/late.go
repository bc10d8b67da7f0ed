package alert

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Deadline says which point a run must reach by what time. A deadline is for an instant of a trigger, or for
// a run without a trigger.
type Deadline struct {
	After    dag.Micros `json:"after,omitempty"`    // the time after From; 0 if By is used instead
	From     string     `json:"from,omitempty"`     // trigger (default) | queued | started
	By       string     `json:"by,omitempty"`       // HH:MM, at its first occurrence after the instant; only for triggers
	Timezone string     `json:"timezone,omitempty"` // time zone of By
	For      string     `json:"for,omitempty"`      // success (default) | end | start
	clock    *clock     // parsed form of By
}

// The points from which a deadline counts, and the points that a run must reach by the deadline.
const (
	FromTrigger = "trigger"
	FromQueued  = "queued"
	FromStarted = "started"

	ForSuccess = "success"
	ForEnd     = "end"
	ForStart   = "start"
)

// clock is a time of day.
type clock struct {
	zone         *time.Location
	hour, minute int
}

// Than is the duration from which a run takes too long.
type Than struct {
	Fixed      dag.Micros `json:"fixed,omitempty"`      // 0 if Times counts
	Times      float64    `json:"times,omitempty"`      // the factor of the percentile
	Percentile int        `json:"percentile,omitempty"` // the percentile of the durations of the last successful runs
}

// UsualOf and UsualLeast bound a Usual. It knows the durations of at most the last UsualOf successful runs,
// and returns a percentile only if it knows at least UsualLeast of them.
const UsualOf, UsualLeast = 50, 5

// Usual returns a percentile of the durations of a workflow's runs. ok is false while fewer than UsualLeast
// runs have succeeded.
type Usual func(percentile int) (d dag.Micros, ok bool)

// Course is the progress of a run, or of an instant without a run.
type Course struct {
	Instant dag.Micros // the instant of its trigger; 0 if there is none
	Created dag.Micros
	Started dag.Micros // 0 if not yet
	// Recovered is the time at which a recovery of the run began, from which its deadlines count, or 0 if it
	// was not recovered.
	Recovered dag.Micros
}

// CourseOf returns the course of a run. A recovered run that waits counts as not started, although its row
// has a time.
func CourseOf(r *dag.Header, s dag.RunState, started dag.Micros, generation int32) Course {
	c := Course{Created: r.Created, Started: started}
	if generation > 1 {
		c.Recovered = started
	}
	if s == dag.RunWaiting {
		c.Started = 0
	}
	if r.Fire != nil && r.Fire.Key == "" {
		c.Instant = r.Fire.Instant
	}
	return c
}

// Timed reports whether the rule watches the times of runs and not events.
func (r *Rule) Timed() bool { return r.Deadline != nil || r.Than != nil }

// Event returns the event of a rule that watches the times of runs.
func (r *Rule) Event() Event {
	if r.Than != nil {
		return Slow
	}
	return Late
}

// Goal returns the point that a run must reach by the deadline.
func (r *Rule) Goal() string {
	switch {
	case r.Than != nil:
		return ForEnd
	case r.Deadline.For == "":
		return ForSuccess
	}
	return r.Deadline.For
}

// Due returns the deadline of a run or of an instant, or 0 if there is none. ahead is true if the deadline
// counts from the start of the run and the run has not started.
func (r *Rule) Due(c *Course, usual Usual) (due dag.Micros, ahead bool) {
	d := r.Deadline
	switch {
	case r.fromStart() && c.Started == 0:
		return 0, true
	case d == nil:
		length, ok := r.Than.Fixed, true
		if length == 0 {
			length, ok = usual(r.Than.Percentile)
			length = dag.Micros(float64(length) * r.Than.Times)
		}
		if !ok {
			return 0, false
		}
		return c.Started + length, false
	case d.By != "":
		if c.Instant == 0 || d.clock == nil {
			return 0, false
		}
		return d.clock.after(max(c.Instant, c.Recovered)), false
	case d.From == FromStarted:
		return c.Started + d.After, false
	case d.From == FromQueued || c.Instant == 0:
		return max(c.Created, c.Recovered) + d.After, false
	}
	return max(c.Instant, c.Recovered) + d.After, false
}

// fromStart reports whether the rule's deadlines count from the start of a run.
func (r *Rule) fromStart() bool { return r.Deadline == nil || r.Deadline.From == FromStarted }

// Starts reports whether the rule watches the start of runs.
func (r *Rule) Starts() bool { return r.Timed() && r.Goal() == ForStart }

// Any returns true. It selects every rule.
func (r *Rule) Any() bool { return true }

// Met reports whether a run that has not ended has already reached the goal of a rule.
func (r *Rule) Met(c *Course) bool { return r.Goal() == ForStart && c.Started != 0 }

// after returns the first instant after at that has this time of day. If a clock change skips the time of
// day, it uses the offset before the change. If a clock change repeats the time of day, it returns one of the
// two instants.
func (c *clock) after(at dag.Micros) dag.Micros {
	local := at.Time().In(c.zone)
	for day := range 3 {
		t := time.Date(local.Year(), local.Month(), local.Day()+day, c.hour, c.minute, 0, 0, c.zone)
		if t.After(local) {
			return dag.Micros(t.UnixMicro())
		}
	}
	return at + dag.Micros((24 * time.Hour).Microseconds()) // no clock change lasts for days
}

// ready completes a rule after it was read.
func (r *Rule) ready() error {
	d := r.Deadline
	if d == nil || d.By == "" {
		return nil
	}
	at, err := time.Parse("15:04", d.By)
	zone, failed := time.LoadLocation(d.Timezone)
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("rule %s: %w", r.Name, err)
	}
	d.clock = &clock{zone: zone, hour: at.Hour(), minute: at.Minute()}
	return nil
}

// Lateness is the content of an incident of a rule that watches the time of runs.
type Lateness struct {
	Until dag.Micros `json:"until,omitempty"` // the newest deadline that the incident has counted
	// Unmet says that an instant has passed its deadline, and no active run can still succeed for it.
	Unmet bool `json:"unmet,omitempty"`
	// Due is about instants whose deadline has not passed yet, although their run has ended without success.
	// It is the earliest of these deadlines, or 0 if there is none.
	Due dag.Micros `json:"due,omitempty"`
}

// Pass changes the incident of a rule after a run or an instant has passed its deadline, h.Due. is is the
// incident of the rule that has not ended, or nil. unmet says that the run has ended, or that there is no
// run. counted says that the incident already counted this deadline while the run was running.
func (r *Rule) Pass(is *Incident, h *Happening, unmet, counted bool) Change {
	var next *Incident
	switch {
	case is == nil:
		next = begin(r, h)
		next.Detail.Count = 1
	case is.State == store.IncidentCounting:
		copied := *is
		next = &copied
		next.Detail.To, next.Detail.Severity, next.Detail.Message = r.To, r.Severity, r.Message
		next.Detail.Count++
	case counted:
		if l := is.Detail.late(); l.Unmet && (l.Due == 0 || l.Due > h.Due) {
			return Change{}
		}
		copied := *is
		next = &copied
	default:
		copied := *is
		next = &copied
		next.Detail.Count++
	}
	l := next.Detail.late()
	l.Until, l.Unmet = max(l.Until, h.Due), l.Unmet || unmet
	if l.Due <= h.Due {
		l.Due = 0
	}
	next.Detail.Late, next.Detail.Last = &l, *h
	if is == nil || is.State == store.IncidentCounting {
		next.Detail.Last.Event = r.Event()
		return r.open(next, h)
	}
	next.Detail.Last.Event = r.Event()
	next.put(is.State, h.At)
	return Change{Incident: next}
}

// Fall changes the incident of a rule after an instant has ended without success before its deadline, h.Due.
func (r *Rule) Fall(is *Incident, h *Happening) Change {
	next := begin(r, h)
	next.Detail.Count = 0
	if is != nil {
		copied := *is
		next = &copied
	}
	l := next.Detail.late()
	if l.Unmet || l.Due != 0 && l.Due <= h.Due {
		return Change{} // an earlier deadline has not passed yet
	}
	l.Due, next.Detail.Late = h.Due, &l
	if is != nil && is.State != store.IncidentCounting {
		next.put(is.State, h.At)
		return Change{Incident: next}
	}
	next.Detail.Last = *h
	next.put(store.IncidentCounting, h.At)
	return Change{Incident: next}
}

// Finish changes the incident of a rule after the end of a run or, if the rule watches starts, after its
// start. others is the number of other late runs.
func (r *Rule) Finish(is *Incident, h *Happening, others int) Change {
	switch {
	case is == nil || r.Goal() == ForSuccess && !h.Success:
		return Change{}
	case is.State == store.IncidentCounting:
		return Close(is, Word{Run: h.Run, At: h.At})
	case others > 0:
		l := is.Detail.late()
		if !l.Unmet && l.Due == 0 {
			return Change{}
		}
		next := *is
		l.Unmet, l.Due = false, 0
		next.Detail.Late = &l
		next.put(is.State, h.At)
		return Change{Incident: &next}
	case h.Success:
		return Close(is, Word{Run: h.Run, At: h.At})
	case r.Goal() == ForStart && !h.Over:
		return Close(is, Word{Reason: fmt.Sprintf("run %s has begun", h.Run), At: h.At})
	}
	return Close(is, Word{Reason: fmt.Sprintf("run %s has ended", h.Run), At: h.At})
}

// late returns the lateness of the incident, or zero if it has none.
func (d *Detail) late() Lateness {
	if d.Late == nil {
		return Lateness{}
	}
	return *d.Late
}

// Counted reports whether an incident has counted a deadline. The incident may have ended.
func (n *Incident) Counted(due dag.Micros) bool { return n.Detail.late().Until >= due }

// Waits returns the deadline for which an incident without a run waits, or 0 if there is none.
func (n *Incident) Waits() dag.Micros { return n.Detail.late().Due }

// Percentile returns a percentile of durations. It sorts all.
func Percentile(all []dag.Micros, p int) dag.Micros {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(max((len(all)*p+99)/100, 1), len(all))-1]
}
