package trigger

import (
	"fmt"
	"time"

	"skein.dev/skein/internal/cron"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// lateAfter is the greatest age at which an instant still counts as on time. It allows for a slow tick or a
// restart of the process. An older instant was missed because no process ran.
const lateAfter = 60 * second

const (
	second = dag.Micros(time.Second / time.Microsecond)
	hour   = 3600 * second
)

// declared is a declaration with its compiled schedule. It never changes.
type declared struct {
	*workflow.Trigger
	when *cron.Schedule // nil if its fires do not follow from the clock
}

// compile reads the declaration in a row.
func compile(t *store.Trigger) (*declared, error) {
	return compileWith(t, (*workflow.Trigger).Schedule)
}

// compileWith does the same as compile, with a given function for the schedule.
func compileWith(t *store.Trigger, schedule func(*workflow.Trigger) (*cron.Schedule, error)) (*declared, error) {
	decl, err := workflow.DecodeTrigger(t.Spec)
	if err != nil {
		return nil, fmt.Errorf("trigger %s: %w", t.Name, err)
	}
	when, err := schedule(decl)
	if err != nil {
		return nil, fmt.Errorf("trigger %s: %w", t.Name, err)
	}
	return &declared{Trigger: decl, when: when}, nil
}

// timing returns the part of a declaration that determines its instants. Declarations with equal parts have
// the same instants.
func timing(t *workflow.Trigger) []byte {
	part := workflow.Trigger{Kind: t.Kind, Cron: t.Cron, Seed: t.Seed, Every: t.Every, At: t.At, Days: t.Days, Months: t.Months, Timezone: t.Timezone,
		Gap: t.Gap, Repeat: t.Repeat, Start: t.Start, End: t.End, Include: t.Include, Exclude: t.Exclude, Calendars: t.Calendars}
	if t.Absent != nil {
		part.Absent = &workflow.Absent{By: t.Absent.By}
	}
	return part.Encode()
}

// next returns the first instant after the given one, or 0 if there is none.
func (d *declared) next(after dag.Micros) dag.Micros {
	if at, ok := d.when.Next(moment(after)); ok {
		return dag.Micros(at.UnixMicro())
	}
	return 0
}

// last returns the last instant at or before the given one, or 0 if there is none.
func (d *declared) last(until dag.Micros) dag.Micros {
	if at, ok := d.when.Prev(moment(until + 1)); ok {
		return dag.Micros(at.UnixMicro())
	}
	return 0
}

// count returns the number of instants in (after, until].
func (d *declared) count(after, until dag.Micros) int64 {
	if after >= until {
		return 0
	}
	return d.when.Count(moment(after), moment(until))
}

// moment converts an instant to a time for schedules. In contrast to Micros.Time, it converts 0 to 1970 and
// not to the year 1.
func moment(m dag.Micros) time.Time { return time.UnixMicro(int64(m)).UTC() }

// micros converts a duration to the form of rows.
func micros[D time.Duration | workflow.Duration](d D) dag.Micros {
	return dag.Micros(time.Duration(d) / time.Microsecond)
}

// clock returns an instant as text for a sentence.
func clock(m dag.Micros) string { return moment(m).Format("2006-01-02T15:04:05Z07:00") }

// span returns a duration as text for a sentence, to the second.
func span(m dag.Micros) string {
	return workflow.Duration(time.Duration(m/second) * time.Second).String()
}
