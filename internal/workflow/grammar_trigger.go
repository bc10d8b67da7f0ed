package workflow

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// triggerShape is one schedule or sensor.
func triggerShape() *shape {
	sh := object(`a mapping such as {cron: "15 2 * * *"}`,
		key{name: "name", doc: "Its identity across edits; default: kind and expression, such as cron-15-2-x-x-x.", shape: keyOrDash("the name of a trigger")},
		key{name: "timezone", doc: "IANA time zone, such as Europe/Berlin; default: UTC.", shape: pattern("a time zone such as Europe/Berlin", `^[A-Za-z0-9_+/-]{1,64}$`)},
		key{name: "max_concurrent_runs", doc: "Most runs of this trigger at one time; default: 1, with overlap: allow any number.", shape: integer(1, 1_000_000)},
		key{name: "overlap", doc: "What a fire does while max_concurrent_runs runs of this trigger go on: skip (default), queue, cancel_running, or allow, where it waits if there is a maximum; wait (default of event): its source stops reading.",
			shape: oneOf("skip", "queue", "cancel_running", "allow", "wait")},
		key{name: "overlap_limit", doc: "With overlap: queue, most fires that wait; default: 100. What comes then is skipped.", shape: integer(1, 100_000)},
		key{name: "catchup", doc: "What happens to fires that were missed while nothing ran: none, latest (default: one run for all of them) or all.", shape: oneOf("none", "latest", "all")},
		key{name: "catchup_limit", doc: "Most fires that catchup: all makes up for, the newest; default: 100.", shape: integer(1, 1_000_000)},
		key{name: "delay_tolerance", doc: "A run that has not started by then is skipped, its fire missed; default: whenever.", shape: duration(false)},
		key{name: "dst", doc: "What clock changes do to fixed hours.", shape: object("a mapping such as {gap: run_after, repeat: once}",
			key{name: "gap", doc: "A fire in an hour that does not exist: run_after (default), skip or run_before.", shape: oneOf("run_after", "skip", "run_before")},
			key{name: "repeat", doc: "A fire in an hour that comes twice: once (default, the first), second or both.", shape: oneOf("once", "second", "both")})},
		key{name: "if_lost", doc: "What happens to a run whose handler is gone: resubmit (default) or fail.", shape: oneOf("resubmit", "fail")},
		key{name: "calendar", doc: "Days on which it fires or does not.", shape: calendar()},
		key{name: "start", doc: "No fire before this date (of the time zone) or instant. every counts from it; default: from 1970-01-01T00:00:00Z.", shape: text("a date or an instant")},
		key{name: "end", doc: "No fire after this date (of the time zone, the day itself included) or instant.", shape: text("a date or an instant")},
		key{name: "paused", doc: "Whether it begins paused; default: false.", shape: boolean()},
		key{name: "params", doc: "Parameters of the runs it starts, over the workflow's defaults. A text may hold ${{ }} over trigger.time, trigger.event and the functions of dates.",
			shape: table("a mapping of values", keyName(), &shape{kind: anyShape})},
		key{name: "priority", doc: "Priority of the runs it starts; default: the workflow's.", shape: priorities()},
		key{name: "queue", doc: "Named queue of the runs it starts; default: the workflow's.", shape: keyOrDash("the name of a queue")},
		key{name: "count", doc: "With every: how many fires; default: -1, for ever.", shape: count()},
	)
	kinds := append(schedules(), sensors()...)
	for _, k := range kinds {
		sh.choose = append(sh.choose, k.name)
	}
	sh.keys = append(sh.keys, kinds...)
	return sh
}

func count() *shape {
	return scalar("a whole number from 1, or -1 (for ever)",
		map[string]any{"type": "integer", "anyOf": []any{map[string]any{"minimum": 1, "maximum": countMax}, map[string]any{"const": -1}}},
		func(n *node) bool {
			v, ok := n.int()
			return ok && (v == -1 || v >= 1 && v <= countMax)
		})
}

// countMax bounds the key count: the number of fires.
const countMax = 1_000_000_000

func calendar() *shape {
	days := forms("a calendar file, date or weekday, or a list of them", text("a calendar file, date or weekday"),
		&shape{kind: listShape, is: "a list of calendar files, dates or weekdays", item: text("a calendar file, date or weekday"), least: 1})
	return object("a mapping such as {exclude: holidays.ics}",
		key{name: "exclude", doc: "Days without fires: dates, weekdays, calendar files (iCalendar, or a list of dates) beside the workflow file.", shape: days},
		key{name: "include", doc: "Only on these days: dates, weekdays, calendar files beside the workflow file.", shape: days})
}

// oneOrMore returns the shape of a value, or of a list with at least one value.
func oneOrMore(one *shape, is, isList string) *shape {
	return forms(is, one, &shape{kind: listShape, is: isList, item: one, least: 1})
}

const clockPattern = `^([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$`

func schedules() []key {
	clock := pattern(`a time of day such as "06:00"`, clockPattern)
	at := key{name: "at", must: true, doc: "Time of day, or a list of them.", shape: oneOrMore(clock, "a time of day or a list of them", "a list of times")}
	times := func(is string, long *shape) *shape { // the clock and the list are short forms; long is a mapping
		return forms("a time of day, a list of them, or "+is, clock, &shape{kind: listShape, is: "a list of times", item: clock, least: 1}, long)
	}
	weekday := named("a weekday such as mon, or 0 to 7", weekdays, 0, 7)
	day := oneOrMore(monthDay(), "a day of the month or a list of them", "a list of days")
	month := oneOrMore(named("a month such as jan, or 1 to 12", months, 1, 12),
		"a month or a list of them", "a list of months")
	return []key{
		{name: "cron", doc: "Cron expression of 5, 6 (second first) or 7 (year last) fields, @daily and friends, Quartz ? L W #, H; @reboot: at each start of the scheduler.",
			shape: text(`a cron expression such as "15 2 * * *"`)},
		{name: "every", doc: "Interval of at least 1s, counted from start.", shape: duration(false)},
		{name: "at", doc: "Once, at this instant (a local time is one of timezone); or start: at each start of the scheduler.", shape: text("an instant such as 2027-01-01T06:00:00Z, or start")},
		{name: "daily", doc: "Each day; a time of day alone is its at.", shape: times(`a mapping such as {at: "06:00"}`, object(`a mapping such as {at: "06:00"}`, at))},
		{name: "weekly", doc: "On days of the week.", shape: object(`a mapping such as {on: mon, at: "06:00"}`, at,
			key{name: "on", must: true, doc: "Weekday, or a list of them.", shape: oneOrMore(weekday, "a weekday or a list of them", "a list of weekdays")})},
		{name: "monthly", doc: "On days of the month; a month that is too short for one has none of it. A time of day alone is at, on the first.", shape: times(`a mapping such as {day: 1, at: "06:00"}`, object(`a mapping such as {day: 1, at: "06:00"}`, at,
			key{name: "day", doc: "Day of the month, or a list of them; -1 is the last; default: 1.", shape: day}))},
		{name: "annually", doc: "On days of the year. A time of day alone is at, on the first of January.", shape: times(`a mapping such as {month: jan, day: 1, at: "06:00"}`, object(`a mapping such as {month: jan, day: 1, at: "06:00"}`, at,
			key{name: "month", doc: "Month, or a list of them; default: jan.", shape: month},
			key{name: "day", doc: "Day of the month, or a list of them; -1 is the last; default: 1.", shape: day}))},
	}
}

var (
	weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
	months   = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
)

// named returns the shape of a weekday or a month, by its name or its number.
func named(is string, names []string, least, most int) *shape {
	re := "^(" + anyCase(names) + "|[0-9]{1,2})$"
	compiled := regexp.MustCompile(re)
	schema := map[string]any{"anyOf": []any{map[string]any{"type": "string", "pattern": re},
		map[string]any{"type": "integer", "minimum": least, "maximum": most}}}
	return scalar(is, schema, func(n *node) bool {
		if number, err := strconv.Atoi(n.text); err == nil && (number < least || number > most) {
			return false
		}
		return n.isText() && compiled.MatchString(n.text)
	})
}

// anyCase returns a regular expression for names, in full or as their first three letters, in upper and lower
// case. It is needed because JSON Schema has no flag for that.
func anyCase(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte('|')
		}
		for j, r := range name {
			if j == 3 {
				b.WriteByte('(')
			}
			fmt.Fprintf(&b, "[%c%c]", unicode.ToUpper(r), r)
		}
		if len(name) > 3 {
			b.WriteString(")?")
		}
	}
	return b.String()
}

func monthDay() *shape {
	return scalar("a day of the month from 1 to 31, or from -1 (the last) to -31",
		map[string]any{"type": "integer", "minimum": -31, "maximum": 31, "not": map[string]any{"const": 0}},
		func(n *node) bool {
			v, ok := n.int()
			return ok && v != 0 && v >= -31 && v <= 31
		})
}

func sensors() []key {
	runOf := object("a mapping such as {workflow: NAME}",
		key{name: "workflow", must: true, doc: "The other workflow, or a list of them; without a namespace, of the same one.",
			shape: oneOrMore(workflowRef(), "a workflow or a list of them", "a list of workflows")},
		key{name: "require", doc: "What the runs must have come to: succeeded (default), failed or ended; and of a list all (default) or any, such as any ended.",
			shape: pattern("succeeded (default), failed or ended, all or any of them", requirePattern)},
		key{name: "within", doc: "The span in which all the runs must have ended: hour, day, week, month of the time zone, or a duration; default: any.", shape: within()})
	file := object("a mapping such as {path: /in, pattern: \"*.csv\"}",
		key{name: "path", must: true, doc: "Folder that is watched; a relative one lies in the workflow file's folder.", shape: text("a folder")},
		key{name: "pattern", doc: "Names of the files, as a glob; default: *.", shape: text("a glob such as *.csv")},
		key{name: "settle", doc: "So long its size has not changed when a file has arrived; default: 5s.", shape: duration(true)})
	absent := object("a mapping such as {run_of: {workflow: NAME}, by: \"06:00\"}",
		key{name: "run_of", doc: "A run that is expected.", shape: forms("a workflow or a mapping", workflowRef(), runOf)},
		key{name: "file", doc: "A file that is expected.", shape: forms("a path or a mapping", text("a path"), file)},
		key{name: "by", must: true, doc: "When it must have come: a time of day (each day, since the one before), an instant (until then), or a duration (so long after the last one, or the last fire).",
			shape: text("a time of day, an instant or a duration")})
	absent.choose = []string{"run_of", "file"}
	return append(append(sourceKeys(), outsideKeys()...), []key{
		{name: "webhook", doc: "A signed call from outside.", shape: object("a mapping, {} if it has no key",
			key{name: "secret", doc: "Name of the file with the secret that signs the calls; absent: a secret that skein schedule secret makes for this trigger alone.", shape: keyOrDash("the name of a secret")},
			key{name: "filter", doc: "CEL expression over event.body, event.headers and event.query that must hold.", shape: text("an expression such as event.body.action == \"push\"")},
			key{name: "unsigned", doc: "Headers and queries that the filter and params may see although no signature covers them: whoever sends a call once more can change them.",
				shape: list("a list such as [headers.x-github-event]", pattern("headers.NAME, in small letters, or query.NAME", `^(headers\.[a-z0-9_-]{1,100}|query\.[A-Za-z0-9_.-]{1,100})$`))})},
		{name: "file", doc: "A file that arrived and no longer grows.", shape: file},
		{name: "run_of", doc: "Another workflow's run that ended.", shape: forms("a workflow or a mapping such as {workflow: NAME}", workflowRef(), runOf)},
		{name: "again", doc: "When the last run of this workflow ended.", shape: object("a mapping such as {max_per_hour: 6}",
			key{name: "max_per_hour", doc: "Most starts in an hour; default: 60.", shape: integer(1, 3600)})},
		{name: "absent", doc: "Something expected that did not come.", shape: absent},
		{name: "event", doc: "An event that was sent to the events API. A type alone is its type.", shape: eventShape()},
	}...)
}

// requirePattern matches a state, the word all or any, or both in either order.
const requirePattern = `^(succeeded|failed|ended|all|any|(all|any) (succeeded|failed|ended)|(succeeded|failed|ended) (all|any))$`
