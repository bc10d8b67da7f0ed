package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/cron"
)

// triggerReader makes one trigger. Its node contains only keys that the grammar has accepted.
type triggerReader struct {
	*reader
	w       *Workflow
	t       *Trigger
	n       *node // the trigger's entry in the file, without the keys that were refused
	key     *node // the key that determines the trigger's kind
	val     *node
	at      string // triggers[0]
	refused bool   // n lacks something
	zone    *time.Location
}

// triggers reads and checks the triggers. The parameters must have been read before.
func (r *reader) triggers(w *Workflow, n *node) {
	if n == nil || n.kind != listNode {
		return
	}
	sh := grammar().find("triggers").shape.item
	lines := map[string]int32{}
	for i, v := range n.vals {
		if i == triggersMax {
			r.failNode(v, "triggers", fmt.Sprintf("the workflow has %d triggers, the limit is %d", len(n.vals), triggersMax), "one cron expression can stand for many times; or split the workflow")
			return
		}
		if r.full() {
			return
		}
		at := "triggers[" + strconv.Itoa(i) + "]"
		kept, refused := wellFormed(v, sh)
		tr := triggerReader{reader: r, w: w, t: &Trigger{}, n: kept, at: at, refused: refused}
		if !tr.kindOf(v, sh.choose) || !tr.read() {
			continue
		}
		if line, dup := lines[tr.t.Name]; dup && !(refused && kept.get("name") == nil) {
			where, hint := tr.n.get("name"), "give one of them another name"
			if where == nil {
				where, hint = tr.key, "give one of them a name"
			}
			r.failNode(where, join(at, "name"), fmt.Sprintf("two triggers have the name %s; the first is in line %d", tr.t.Name, line), hint)
			continue
		}
		lines[tr.t.Name] = v.line
		w.Triggers = append(w.Triggers, *tr.t)
	}
	r.calendarSizes(w, n)
}

// wellFormed returns a mapping without the entries that its shape refuses. refused reports whether there were
// any. Their faults have been reported.
func wellFormed(n *node, sh *shape) (kept *node, refused bool) {
	kept = &node{kind: mapNode, line: n.line, col: n.col}
	for i, k := range n.keys {
		known := sh.find(k.text)
		probe := checker{source: &source{}}
		if known != nil && known.later == "" && kept.get(k.text) == nil {
			if probe.check(n.vals[i], known.shape, ""); len(probe.errs) == 0 && !n.vals[i].broken {
				kept.keys, kept.vals = append(kept.keys, k), append(kept.vals, n.vals[i])
				continue
			}
		}
		refused = true
	}
	return kept, refused
}

// kindOf finds the key that gives the kind of trigger n. It returns false if there are several such keys, or
// if the key was refused.
func (r *triggerReader) kindOf(n *node, kinds []string) bool {
	found := 0
	for _, k := range n.keys {
		if slices.Contains(kinds, k.text) {
			found++
			r.key, r.val = k, r.n.get(k.text)
		}
	}
	return found == 1 && r.val != nil
}

// read reads the trigger, and reports whether it is valid.
func (r *triggerReader) read() bool {
	before := len(r.errs)
	r.t.Kind = r.key.text
	r.timezone()
	r.kind()
	r.policies()
	r.concerns()
	r.span()
	r.calendar()
	r.params(r.n.get("params"))
	r.t.Name = r.n.get("name").str()
	switch r.t.Name {
	case "":
		r.t.Name = r.t.defaultName()
	case ".", "..": // a path with this name would be another folder
		n := r.n.get("name")
		r.failNode(n, join(r.at, "name"), "the name of the trigger cannot be "+quoteShort(n.text)+", because no URL can contain it", "use a letter or a digit, too")
	}
	if hashSign.MatchString(r.t.Cron) {
		r.t.Seed = r.w.Namespace + "/" + r.w.Name + "/" + r.t.Name
	}
	if len(r.errs) == before && r.zone != nil {
		r.schedule()
	}
	return len(r.errs) == before
}

// hashSign matches the H of a cron expression.
var hashSign = regexp.MustCompile(`(?:^|[ ,])[Hh](?:[ ,/(]|$)`)

// zonePrefix matches a time zone before a cron expression.
var zonePrefix = regexp.MustCompile(`^\s*(?:CRON_)?TZ=(\S+)\s+`)

func (r *triggerReader) timezone() {
	n := r.n.get("timezone")
	r.t.Timezone = firstText(n.str(), "UTC")
	if m := zonePrefix.FindStringSubmatch(r.val.str()); m != nil && n == nil && r.t.Kind == KindCron {
		r.t.Timezone = m[1] // the expression is checked in this time zone
	}
	zone, err := cron.LoadZone(r.t.Timezone)
	if err != nil {
		if n != nil {
			r.failCron(n, join(r.at, "timezone"), err)
		}
		return
	}
	r.zone, r.t.Timezone = zone, zone.String()
}

// failCron reports an error of package cron about a scalar or a mapping.
func (r *triggerReader) failCron(n *node, at string, err error) {
	line, col := int(n.line), int(n.col)
	message, hint := err.Error(), ""
	var e *cron.Error
	if errors.As(err, &e) {
		message, hint = e.Reason, e.Hint
		if e.Field != "" && n.kind == scalarNode && e.Field != "zone" && e.Field != "date" {
			message = e.Field + ": " + e.Reason
		}
		if n.kind == scalarNode && e.Pos > 0 && e.Pos <= len(n.text) {
			line, col = r.inside(n, len([]rune(n.text[:e.Pos])))
		}
	}
	r.fail(line, col, at, message, hint)
}

func (r *triggerReader) kind() {
	t, v, at := r.t, r.val, join(r.at, r.t.Kind)
	switch t.Kind {
	case KindCron:
		r.cron(v, at)
	case KindEvery:
		r.every(v, at)
	case KindAt:
		r.once(v, at)
	case KindDaily, KindWeekly, KindMonthly, KindAnnually:
		r.wallClock(v)
	case KindWebhook:
		t.Webhook = &Webhook{Secret: v.get("secret").str(), Filter: conditionText(v.get("filter").str()), Unsigned: texts(v.get("unsigned"))}
		r.unique(v.get("unsigned"), join(at, "unsigned"))
		r.filter(v.get("filter"), join(at, "filter"), inFilter)
	case KindFile:
		t.File = r.file(v, at)
	case KindRunOf:
		t.RunOf = r.runOf(v, at)
	case KindAgain:
		t.Again = &Again{Workflow: r.w.Namespace + "/" + r.w.Name, MaxPerHour: int32(intOf(v.get("max_per_hour"), MaxPerHourDefault))}
	case KindAbsent:
		r.absent(v, at)
	case KindEvent:
		r.event(v, at)
	default:
		r.sourceOf(v, at)
	}
}

func intOf(n *node, otherwise int64) int64 {
	if n == nil {
		return otherwise
	}
	v, _ := n.int()
	return v
}

func (r *triggerReader) cron(v *node, at string) {
	if strings.EqualFold(strings.TrimSpace(v.text), "@reboot") {
		r.t.Kind = KindStart
		return
	}
	r.t.Cron = strings.Join(strings.Fields(zonePrefix.ReplaceAllString(v.text, "")), " ")
	opt := cron.Options{Zone: r.n.get("timezone").str(), Seed: r.at}
	if r.zone == nil {
		opt.Zone = "" // the fault has been reported
	}
	if _, err := cron.Parse(v.text, opt); err != nil {
		r.failCron(v, at, err)
	}
}

func (r *triggerReader) every(v *node, at string) {
	if r.t.Every = durationOf(v); r.t.Every%Duration(time.Second) != 0 || r.t.Every <= 0 {
		r.failNode(v, at, "every must be whole seconds, at least 1s, not "+quoteShort(v.text), "for shorter intervals, let a task loop")
		return
	}
	if n := r.n.get("count"); n != nil {
		r.t.Count = max(intOf(n, 0), 0)
	}
}

func (r *triggerReader) once(v *node, at string) {
	if v.text == "start" {
		r.t.Kind = KindStart
		return
	}
	if instant := r.instant(v, at); instant != "" {
		r.t.At = []string{instant}
	}
}

// instant returns a text as an instant in UTC, or "" if the text is not an instant.
func (r *triggerReader) instant(v *node, at string) string {
	if r.zone == nil {
		return ""
	}
	t, err := parseInstant(v.text, r.zone)
	if err != nil {
		hint := ""
		if errors.Is(err, errNotInstant) && len(v.text) == len(time.DateOnly) {
			hint = "add the time of day"
		}
		r.failNode(v, at, quoteShort(v.text)+" "+err.Error(), hint)
		return ""
	}
	return t.Format(time.RFC3339)
}

func (r *triggerReader) wallClock(v *node) {
	t, at := r.t, v
	if v.kind == mapNode {
		at = v.get("at")
	}
	for _, text := range texts(at) {
		if c, err := cron.ParseClock(text); err == nil { // the grammar has checked the form
			t.At = append(t.At, c.String())
		}
	}
	t.At = sortedSet(t.At)
	switch t.Kind {
	case KindWeekly:
		for _, text := range texts(v.get("on")) {
			t.Days = append(t.Days, nameOrNumber(text, weekdays, 0)%7)
		}
	case KindMonthly, KindAnnually:
		for _, text := range texts(v.get("day")) {
			d, _ := (&node{text: text, plain: true}).int()
			t.Days = append(t.Days, int(d))
		}
		if t.Days == nil {
			t.Days = []int{1}
		}
	}
	if t.Kind == KindAnnually {
		for _, text := range texts(v.get("month")) {
			t.Months = append(t.Months, nameOrNumber(text, months, 1))
		}
		if t.Months == nil {
			t.Months = []int{1}
		}
	}
	slices.SortFunc(t.Days, func(a, b int) int { return fromFirst(a) - fromFirst(b) })
	t.Days, t.Months = slices.Compact(t.Days), sortedSet(t.Months)
}

// fromFirst returns the sort key of a day of a month. Days that are counted from the end come last.
func fromFirst(day int) int { return (day + 64) % 64 }

func sortedSet[T int | string](all []T) []T {
	slices.Sort(all)
	return slices.Compact(all)
}

// nameOrNumber reads a weekday or a month. first is the number of the first name.
func nameOrNumber(text string, names []string, first int) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	short := strings.ToLower(text[:min(3, len(text))])
	return first + slices.IndexFunc(names, func(name string) bool { return name[:3] == short })
}

func (r *triggerReader) filter(n *node, at string, in scope) {
	if n == nil {
		return
	}
	text := conditionText(n.text)
	from := len([]rune(n.text[:max(strings.Index(n.text, text), 0)]))
	x, faults := r.declared.compile(text, in)
	r.complain(n, at, from, faults)
	if x != nil && !isBoolean(x.out) {
		line, col := r.inside(n, from)
		r.fail(line, col, at, "a filter must be true or false, but this is a "+typeWord(x.out.TypeName()), "compare it with something, such as == or >")
	}
}

func (r *triggerReader) file(n *node, at string) *FileWatch {
	f := &FileWatch{Pattern: "*", Settle: SettleDefault}
	place := n
	if n.kind == mapNode {
		place = n.get("path")
		if s := n.get("settle"); s != nil {
			f.Settle = durationOf(s)
		}
	}
	f.Path = path.Clean(place.text)
	if n.kind == scalarNode { // a scalar is the path of one file
		f.Path, f.Pattern = path.Dir(f.Path), literalGlob(path.Base(f.Path))
	}
	if strings.Contains(place.text, "${{") {
		r.failNode(place, at, "the path of a trigger cannot hold ${{ }}", "watch the folder, and read trigger.event in params")
	}
	if p := n.get("pattern"); p != nil {
		f.Pattern = p.text
		_, err := path.Match(p.text, "")
		switch {
		case err != nil:
			r.failNode(p, join(at, "pattern"), quoteShort(p.text)+" is not a pattern: "+err.Error(), `write names such as *.csv; for a literal [ write \[`)
		case strings.Contains(p.text, "/"):
			r.failNode(p, join(at, "pattern"), "a pattern matches names, which have no /", "put the folder into path")
		}
	}
	return f
}

// literalGlob returns a glob that matches exactly one name.
func literalGlob(name string) string {
	return regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(name, `\$0`)
}

func (r *triggerReader) runOf(n *node, at string) *RunOf {
	out := &RunOf{Require: "succeeded"}
	which := n
	if n.kind == mapNode {
		which = n.get("workflow")
	}
	items := []*node{which}
	if which.kind == listNode {
		items = which.vals
	}
	for _, v := range items {
		name := v.text
		if !strings.Contains(name, "/") {
			name = r.w.Namespace + "/" + name
		}
		if name == r.w.Namespace+"/"+r.w.Name {
			r.failNode(v, at, "the workflow would start itself", "again: {max_per_hour: 6} starts it when its last run has ended")
		}
		if slices.Contains(out.Workflows, name) {
			r.failNode(v, at, quoteShort(v.text)+" is listed twice", "keep one of them")
		}
		out.Workflows = append(out.Workflows, name)
	}
	slices.Sort(out.Workflows)
	out.All = len(out.Workflows) > 1
	for _, word := range strings.Fields(n.get("require").str()) {
		switch word {
		case "any":
			out.All = false
		case "all":
		default:
			out.Require = word
		}
	}
	out.Within = n.get("within").str()
	if d, err := ParseDuration(out.Within); err == nil {
		out.Within = d.String()
	}
	return out
}

func (r *triggerReader) absent(n *node, at string) {
	a := &Absent{}
	r.t.Absent = a
	if v := n.get("run_of"); v != nil {
		a.RunOf = r.runOf(v, join(at, "run_of"))
	}
	if v := n.get("file"); v != nil {
		a.File = r.file(v, join(at, "file"))
	}
	by := n.get("by")
	if c, err := cron.ParseClock(by.text); err == nil {
		a.By = c.String()
		return
	}
	if d, err := ParseDuration(by.text); err == nil {
		if a.By = d.String(); d < Duration(time.Second) {
			r.failNode(by, join(at, "by"), "by must be at least 1s, not "+quoteShort(by.text), "")
		}
		return
	}
	if r.zone == nil {
		return
	}
	t, err := parseInstant(by.text, r.zone)
	switch {
	case errors.Is(err, errNotInstant):
		r.failNode(by, join(at, "by"), fmt.Sprintf("by must be a time of day, an instant or a duration, not %s", quoteShort(by.text)),
			`write "06:00" (each day), 2027-01-01T06:00:00Z or 2h`)
	case err != nil:
		r.failNode(by, join(at, "by"), quoteShort(by.text)+" "+err.Error(), "")
	}
	a.By = t.Format(time.RFC3339)
}

// params reads the parameters that the trigger gives, and checks that a run can start with them.
func (r *triggerReader) params(n *node) {
	var given []member
	if n != nil {
		for i, k := range n.keys {
			if raw, ok := r.param(k, n.vals[i]); ok {
				given = append(given, member{k.text, raw})
			}
		}
	}
	if len(given) > 0 {
		sort.Slice(given, func(i, j int) bool { return given[i].name < given[j].name })
		r.t.Params = writeObject(given)
	}
	if r.refused { // the key may be among the refused ones
		return
	}
	for i := range r.w.Params {
		p := &r.w.Params[i]
		if v := n.get(p.Name); p.Required() && (v == nil || v.isNull() && p.Type != JSON) {
			r.failNode(r.key, join(r.at, "params"), fmt.Sprintf("the trigger cannot start a run: it does not give the parameter %s, which has no default", p.Name),
				fmt.Sprintf("add params: {%s: …} to the trigger, or a default to the parameter", p.Name))
		}
	}
}

// param returns one value. It returns false if the value is taken as not given.
func (r *triggerReader) param(k, v *node) (json.RawMessage, bool) {
	at := join(join(r.at, "params"), k.text)
	p := r.declared.params[k.text]
	if p == nil {
		if r.partial {
			return nil, false
		}
		hint := "declare it under params of the workflow"
		if len(r.declared.params) > 0 {
			hint = meant(k.text, r.paramNames, "parameters")
		}
		r.failNode(k, at, "there is no parameter "+quoteShort(k.text), hint)
		return nil, false
	}
	if v.isNull() && p.Type != JSON {
		return nil, false
	}
	if p.Type == Secret {
		r.failNode(v, at, "parameter "+k.text+" is a secret, and a trigger cannot give it: the value would be in the file or in a call", "use secrets.NAME where the value is needed")
		return nil, false
	}
	if v.kind != scalarNode && holdsTemplate(v) {
		r.failNode(v, at, "${{ }} is evaluated only in a text of its own, not inside a list or a mapping", `make one expression of it, such as "${{ {'day': date(trigger.time)} }}"`)
		return nil, false
	}
	if v.kind != scalarNode || !hasTemplate(v.text) {
		return r.literal(p, v, at)
	}
	t, faults := r.declared.template(v.text, inTrigger)
	r.complain(v, at, 0, faults)
	if t == nil {
		return nil, false
	}
	if word, ok := gives(t, p.Type); !ok && p.Type != String { // a parameter of type string takes any value as a text
		r.failNode(v, at, fmt.Sprintf("the value of %s has the type %s, but the parameter must be %s", at, word, p.words()), "change the type or the expression")
	}
	if !r.t.hasEvent() && slices.ContainsFunc(t.refs(), func(f ref) bool { return f.kind == triggerEventRef }) {
		line, col := r.inside(v, len([]rune(v.text[:max(strings.Index(v.text, "trigger.event"), 0)])))
		r.fail(line, col, at, "a trigger of kind "+r.t.Kind+" has no event", "it has trigger.time")
	}
	raw, err := marshal(v.text)
	return raw, err == nil
}

func (r *triggerReader) paramNames(yield func(string) bool) {
	for i := range r.w.Params {
		if !yield(r.w.Params[i].Name) {
			return
		}
	}
}

func holdsTemplate(n *node) bool {
	return n.kind == scalarNode && hasTemplate(n.text) || slices.ContainsFunc(n.vals, holdsTemplate)
}

// hasEvent reports whether fires of the trigger have an event.
func (t *Trigger) hasEvent() bool {
	return t.Webhook != nil || t.File != nil || t.RunOf != nil || t.Intake != nil
}
