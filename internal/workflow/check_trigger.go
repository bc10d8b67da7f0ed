package workflow

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/cron"
)

// policies reads the keys about how runs are started, and sets the defaults of missing keys.
func (r *triggerReader) policies() {
	t, n := r.t, r.n
	t.Paused, _ = boolOf(n.get("paused"))
	t.Priority, t.Queue, t.IfLost = n.get("priority").str(), n.get("queue").str(), n.get("if_lost").str()
	t.DelayTolerance = durationOf(n.get("delay_tolerance"))
	t.Overlap = firstText(n.get("overlap").str(), "skip")
	if t.Intake != nil && n.get("overlap") == nil {
		t.Overlap = "wait"
	}
	most := int64(1)
	if t.Overlap == "allow" {
		most = 0
	}
	t.MaxConcurrent = int32(intOf(n.get("max_concurrent_runs"), most))
	if t.Overlap == "queue" {
		t.QueueMax = int32(intOf(n.get("overlap_limit"), OverlapLimitDefault))
	}
	if t.timed() {
		t.Catchup = firstText(n.get("catchup").str(), "latest")
	}
	if t.Catchup == "all" {
		t.CatchupLimit = int32(intOf(n.get("catchup_limit"), CatchupLimitDefault))
	}
	if t.fixedHours() {
		dst := n.get("dst")
		t.Gap, t.Repeat = firstText(dst.get("gap").str(), "run_after"), firstText(dst.get("repeat").str(), "once")
	}
}

func boolOf(n *node) (value, ok bool) {
	if n == nil {
		return false, false
	}
	return n.bool()
}

// timed reports whether the trigger fires at instants.
func (t *Trigger) timed() bool {
	return !t.Sensor() || t.Absent != nil && t.Absent.After() == 0
}

// fixedHours reports whether the trigger fires at hours that a clock change can shift.
func (t *Trigger) fixedHours() bool {
	switch t.Kind {
	case KindCron:
		return !strings.HasPrefix(strings.ToLower(t.Cron), "@every")
	case KindDaily, KindWeekly, KindMonthly, KindAnnually:
		return true
	case KindAbsent:
		_, err := cron.ParseClock(t.Absent.By)
		return err == nil
	}
	return false
}

// concerns reports keys that would have no effect for this trigger.
func (r *triggerReader) concerns() {
	t := r.t
	kind := t.Kind
	for _, rule := range []struct {
		key, message, hint string
		does               bool
	}{
		{"count", "count is for every only", "to end another schedule, write end: DATE", t.Kind == KindEvery},
		{"dst", "dst is for fixed hours, a trigger of kind " + kind + " has none", "remove it", t.fixedHours()},
		{"catchup", "catchup is for schedules: nothing tells what a trigger of kind " + kind + " has missed", "remove it", t.timed()},
		{"catchup_limit", "catchup_limit does nothing without catchup: all", "add catchup: all, or remove it", t.Catchup == "all"},
		{"overlap_limit", "overlap_limit does nothing without overlap: queue", "add overlap: queue, or remove it", t.Overlap == "queue"},
		{"calendar", "calendar is for schedules, a trigger of kind " + kind + " has no days", "remove it", t.timed()},
		{"overlap", "overlap: wait is for sources that can wait, a trigger of kind " + kind + " cannot", "overlap: queue keeps its fires", t.Intake != nil || t.Overlap != "wait"},
	} {
		if !rule.does && r.n.get(rule.key) != nil && !(r.refused && strings.HasSuffix(rule.key, "_limit")) {
			key := slices.IndexFunc(r.n.keys, func(k *node) bool { return k.text == rule.key })
			r.failNode(r.n.keys[key], join(r.at, rule.key), rule.message, rule.hint)
		}
	}
}

// span reads the settings start and end of a trigger.
func (r *triggerReader) span() {
	if r.zone == nil {
		return
	}
	var from, until time.Time
	r.t.Start, from = r.bound("start", false)
	r.t.End, until = r.bound("end", true)
	if r.t.Start != "" && r.t.End != "" && until.Before(from) {
		r.failNode(r.n.get("end"), join(r.at, "end"), "end is before start", "give a later date")
	}
}

// bound reads a date, which it returns as it is written, or an instant, which it converts to UTC.
func (r *triggerReader) bound(name string, end bool) (string, time.Time) {
	n := r.n.get(name)
	if n == nil {
		return "", time.Time{}
	}
	t, err := parseBound(n.text, r.zone, end)
	switch {
	case errors.Is(err, errNotInstant):
		r.failNode(n, join(r.at, name), name+" must be a date or an instant, not "+quoteShort(n.text), "write 2027-01-31, or 2027-01-31T06:00:00Z")
		return "", t
	case err != nil:
		r.failNode(n, join(r.at, name), quoteShort(n.text)+" "+err.Error(), "")
		return "", t
	}
	if _, err := time.Parse(time.DateOnly, n.text); err == nil {
		return n.text, t
	}
	return t.Format(time.RFC3339), t
}

// calendar reads the days, and the calendar files that are named among them.
func (r *triggerReader) calendar() {
	n := r.n.get("calendar")
	if n == nil || !r.t.timed() {
		return
	}
	r.t.Include = r.calendarItems(n.get("include"), join(r.at, "calendar.include"))
	r.t.Exclude = r.calendarItems(n.get("exclude"), join(r.at, "calendar.exclude"))
}

func (r *triggerReader) calendarItems(n *node, at string) []string {
	items := []*node{n}
	switch {
	case n == nil:
		return nil
	case n.kind == listNode:
		items = n.vals
	}
	var all []string
	for _, v := range items {
		if isCalendarFile(v.text) {
			if name, ok := r.calendarFile(v, at); ok {
				all = append(all, name)
			}
			continue
		}
		item := strings.ToLower(strings.TrimSpace(v.text))
		if _, err := cron.Days(item); err != nil {
			message, hint := err.Error(), ""
			var e *cron.Error
			if errors.As(err, &e) {
				message, hint = quoteShort(v.text)+" "+e.Reason, e.Hint+"; a calendar file ends in .ics or .txt"
			}
			r.failNode(v, at, message, hint)
			continue
		}
		all = append(all, item)
	}
	return sortedSet(all)
}

// calendarFile reads a calendar file, if files can be read.
func (r *triggerReader) calendarFile(n *node, at string) (string, bool) {
	if !isInside(n.text) || strings.ContainsAny(n.text, "*?[") {
		r.failNode(n, at, quoteShort(n.text)+" is not the name of a calendar file inside the workflow's folder", "give a path with slashes, without * ? [")
		return "", false
	}
	name := path.Clean(n.text)
	data, known, err := r.calendarText(name)
	if !known {
		return name, true
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint := "it must come with the workflow, like the files under files"
		if r.opt.Dir != nil {
			hint = r.nearFile(name)
		}
		r.failNode(n, at, "there is no calendar file "+quoteShort(n.text)+" next to the workflow file", hint)
		return "", false
	case err != nil:
		r.failNode(n, at, fmt.Sprintf("the calendar file %s cannot be read: %v", quoteShort(n.text), err), "")
		return "", false
	case len(data) > calendarBytesMax:
		r.failNode(n, at, fmt.Sprintf("the calendar file %s is larger than %s", quoteShort(n.text), sizeText(calendarBytesMax)), "keep only the years that you need")
		return "", false
	}
	if _, err := parseCalendar(name, data); err != nil {
		message, hint := err.Error(), ""
		var e *cron.Error
		if errors.As(err, &e) {
			message, hint = e.Reason, e.Hint
			if e.Expr != "" {
				message = quoteShort(e.Expr) + ", " + message
			}
		}
		r.failNode(n, at, fmt.Sprintf("the calendar file %s is damaged: %s", quoteShort(n.text), message), hint)
		return "", false
	}
	if r.t.Calendars == nil {
		r.t.Calendars = map[string]string{}
	}
	r.t.Calendars[name] = strings.ToValidUTF8(string(data), "\uFFFD")
	return name, true
}

// calendarText reads a calendar file. known is false if files cannot be read here.
func (r *reader) calendarText(name string) (data []byte, known bool, err error) {
	switch {
	case r.opt.ReadFile != nil:
		data, err = r.opt.ReadFile(name)
		return data, true, err
	case r.opt.Dir == nil:
		return nil, false, nil
	}
	f, err := readFile(r.opt.Dir, name)
	return f.Data, true, err
}

// calendarSizes bounds the calendars of all triggers.
func (r *reader) calendarSizes(w *Workflow, n *node) {
	total := 0
	for i := range w.Triggers {
		for _, text := range w.Triggers[i].Calendars {
			total += len(text)
		}
	}
	if total > calendarsBytesMax {
		r.failNode(n, "triggers", fmt.Sprintf("the calendars of the triggers are larger than %s together, counted for each trigger", sizeText(calendarsBytesMax)),
			"keep the years that matter, or let one cron expression stand for several triggers")
	}
}

// schedule reports a trigger that can never fire.
func (r *triggerReader) schedule() {
	if !r.t.timed() || len(r.t.missingCalendars()) > 0 {
		return
	}
	s, err := r.t.Schedule()
	if err != nil {
		r.failCron(r.val, join(r.at, r.key.text), err)
		return
	}
	if _, ok := s.Next(time.Time{}); !ok {
		r.failNode(r.key, r.at, "the trigger never fires: none of its instants lies between its start and end and on a day of its calendar", "change start, end or calendar")
	}
}

func (t *Trigger) missingCalendars() []string {
	var all []string
	for _, item := range append(slices.Clone(t.Include), t.Exclude...) {
		if _, ok := t.Calendars[item]; isCalendarFile(item) && !ok {
			all = append(all, item)
		}
	}
	return all
}

// FilesWanted returns the globs for [CollectFiles]: those under files, and the calendar files that triggers
// name.
func (w *Workflow) FilesWanted() []string {
	globs := slices.Clone(w.Files)
	for i := range w.Triggers {
		t := &w.Triggers[i]
		for _, item := range append(slices.Clone(t.Include), t.Exclude...) {
			if isCalendarFile(item) && !slices.Contains(globs, item) {
				globs = append(globs, item)
			}
		}
	}
	return globs
}

// ReadFrom returns Options.ReadFile for files that came with the source.
func ReadFrom(files []File) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		for i := range files {
			if files[i].Name == name {
				return files[i].Data, nil
			}
		}
		return nil, fs.ErrNotExist
	}
}
