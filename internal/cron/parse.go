package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Options holds the settings that a cron text cannot express.
type Options struct {
	Zone string // IANA name; "" means the zone in the text, or else UTC
	// Location, if not nil, is the loaded zone, and Zone is ignored. A caller that has a loaded zone saves
	// the read of its file, which costs more than everything else.
	Location *time.Location
	Gap      Gap
	Repeat   Repeat
	Seed     string // the text from which H is hashed: namespace, workflow and trigger
}

// place returns the time zone that the options name.
func (o *Options) place() (*time.Location, error) {
	switch o.Location {
	case nil:
		return LoadZone(o.Zone)
	case time.Local:
		return LoadZone("Local") // is refused; with the variable TZ, time.Local has the name of a zone
	}
	return o.Location, nil
}

// ExprMax bounds the text of one schedule, in bytes.
const ExprMax = 1_000

// Parse reads a cron text by the grammar in the documentation of the package. Every error is an [*Error]. Its
// kind is [ErrImpossible] for a text that can never fire, [ErrReboot] for @reboot, and [ErrBad] for all
// others.
func Parse(expr string, o Options) (*Schedule, error) {
	p := &parser{expr: clip(expr), seed: o.Seed}
	if o.Location != nil {
		o.Zone = o.Location.String()
	}
	if len(expr) > ExprMax {
		return nil, p.fail(bad("", "", fmt.Sprintf("the text has %d bytes", len(expr)), "use at most 1,000"), 0)
	}
	p.expr = expr
	words := cut(expr)
	zoneName, prefixed := "", false
	if len(words) > 0 {
		zoneName, prefixed = strings.CutPrefix(words[0].text, "CRON_TZ=")
		if !prefixed {
			zoneName, prefixed = strings.CutPrefix(words[0].text, "TZ=")
		}
	}
	if prefixed {
		if zoneName == "" {
			return nil, p.fail(bad("zone", "", "the zone is empty", "write a name such as CRON_TZ=Europe/Berlin"), words[0].pos)
		}
		if o.Zone != "" && o.Zone != zoneName {
			return nil, p.fail(bad("zone", "", "the expression has the zone "+quote(clip(zoneName))+", but timezone is "+quote(clip(o.Zone)),
				"name the zone in one of the two places"), words[0].pos)
		}
		o.Zone = zoneName
		words = words[1:]
	}
	loc, err := o.place()
	if err != nil {
		return nil, p.fail(err, 0)
	}
	if len(words) == 0 {
		return nil, p.fail(bad("", "", "there is no expression", `write five fields, such as "15 2 * * *"`), 0)
	}
	if words[0].text[0] == '@' {
		return p.descriptor(words, loc, o)
	}
	return p.fieldsOf(words, loc, o)
}

// word is a part of the text without blanks, with its position.
type word struct {
	text string
	pos  int
}

func cut(s string) []word {
	var words []word
	for i := 0; i < len(s); {
		if blank(s[i]) {
			i++
			continue
		}
		j := i
		for j < len(s) && !blank(s[j]) {
			j++
		}
		words = append(words, word{s[i:j], i})
		i = j
	}
	return words
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// parser reads one expression.
type parser struct {
	expr string
	seed string
	rule dayRule
	sets [fields]uint64 // seconds, minutes, hours
	text [fields]string // canonical
	// star is set if the field begins with * or ?. stepped is set if the field has an item * or a step.
	star, stepped [fields]bool
}

// fail records an error with its position in the text.
func (p *parser) fail(err error, pos int) error {
	if e, ok := err.(*Error); ok {
		e.Expr, e.Pos = p.expr, pos
	}
	return err
}

var descriptors = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func (p *parser) descriptor(words []word, loc *time.Location, o Options) (*Schedule, error) {
	name, rest := strings.ToLower(words[0].text), words[1:]
	if name == "@every" {
		return p.every(words, loc)
	}
	if len(rest) > 0 {
		return nil, p.fail(bad("", "", "something follows "+words[0].text, "write it alone"), rest[0].pos)
	}
	if name == "@reboot" {
		return nil, &Error{Expr: p.expr, Pos: words[0].pos, Reason: "@reboot is the start of a machine, not a time",
			Hint: "start the workflow when the node starts", kind: ErrReboot}
	}
	text, known := descriptors[name]
	if !known {
		return nil, p.fail(bad("", "", quote(clip(words[0].text))+" is unknown",
			"write @yearly, @monthly, @weekly, @daily, @hourly or @every 1h30m"), words[0].pos)
	}
	return p.fieldsOf(cut(text), loc, o)
}

func (p *parser) every(words []word, loc *time.Location) (*Schedule, error) {
	pos := words[0].pos
	if len(words) != 2 {
		return nil, p.fail(bad("every", "", "one duration must follow @every", "write @every 1h30m"), pos)
	}
	pos = words[1].pos
	d, err := time.ParseDuration(words[1].text)
	if err != nil {
		return nil, p.fail(bad("every", "", quote(clip(words[1].text))+" is not a duration",
			"write numbers with h, m or s, such as 1h30m"), pos)
	}
	s, err := Every(d, time.Unix(0, 0).In(loc))
	if err != nil {
		return nil, p.fail(err, pos)
	}
	s.text = zonePrefix(loc) + s.text
	return s, nil
}

func zonePrefix(loc *time.Location) string {
	if loc == time.UTC {
		return ""
	}
	return "CRON_TZ=" + loc.String() + " "
}

// fieldsOf makes the schedule of five to seven fields.
func (p *parser) fieldsOf(words []word, loc *time.Location, o Options) (*Schedule, error) {
	given := len(words)
	if given < 5 || given > fields {
		return nil, p.fail(bad("", "", "the expression has "+plural(given, "field"),
			"write 5 (minute, hour, day of month, month, day of week), 6 (second first) or 7 (year last)"), words[0].pos)
	}
	first := fSecond
	if given == 5 {
		first = fMinute
		p.sets[fSecond] = 1
	}
	p.rule.years = everyYear()
	for i, w := range words {
		if err := p.field(first+i, w); err != nil {
			return nil, err
		}
	}
	p.rule.either = !p.star[fDom] && !p.star[fDow]
	w := &wall{zone: zone{loc}, gap: o.Gap, repeat: o.Repeat, grain: 1, elapsed: p.stepped[fHour]}
	w.times.days = p.rule
	w.times.clocks = clocks{hours: uint32(p.sets[fHour]), minutes: p.sets[fMinute], seconds: p.sets[fSecond]}
	if given == 5 {
		w.grain = 60
	}
	s := newSchedule(w, loc)
	s.text = zonePrefix(loc) + strings.Join(p.text[first:first+given], " ")
	s.words = w.describe() + ", " + loc.String()
	if _, ok := s.first(); !ok {
		return nil, p.impossible(w, words)
	}
	return s, nil
}

// field reads one field: a list of items.
func (p *parser) field(n int, w word) error {
	f := &specs[n]
	p.star[n] = w.text[0] == '*' || w.text[0] == '?'
	if n == fYear {
		p.rule.years = years{}
	}
	pos := w.pos
	var texts []string
	for item := range strings.SplitSeq(w.text, ",") {
		text, err := p.item(n, item)
		if item == "" {
			err = f.reject("an item of the list is empty", "remove the comma that is too many")
		}
		if err == nil && item == "?" && w.text != "?" {
			err = f.reject("? cannot be part of a list", "write * or ? alone")
		}
		if err != nil {
			return p.fail(err, pos)
		}
		texts = append(texts, text)
		p.stepped[n] = p.stepped[n] || item == "*" || strings.Contains(item, "/")
		pos += len(item) + 1
	}
	p.text[n] = strings.Join(texts, ",")
	return nil
}

// item reads one item into the sets, and returns the canonical text of the item.
func (p *parser) item(n int, item string) (string, error) {
	f := &specs[n]
	if item == "?" {
		if n != fDom && n != fDow {
			return "", f.reject("? is for the two day fields only", "write *")
		}
		item = "*"
	}
	if text, done, err := p.special(n, item); done || err != nil {
		return text, err
	}
	prog, text, err := f.progression(item, hash(p.seed+"\x00"+f.name))
	if err != nil {
		return "", err
	}
	f.each(prog, func(v int) {
		switch n {
		case fDom:
			p.rule.dom |= 1 << v
		case fMonth:
			p.rule.months |= 1 << v
		case fDow:
			p.rule.dow |= 1 << v
		case fYear:
			p.rule.years.add(v)
		default:
			p.sets[n] |= 1 << v
		}
	})
	return text, nil
}

// special reads the forms that only the day fields have. done reports whether item is such a form.
func (p *parser) special(n int, item string) (text string, done bool, err error) {
	upper := strings.ToUpper(item)
	switch n {
	case fDom:
		return p.specialDom(upper)
	case fDow:
		return p.specialDow(upper)
	}
	if upper == "L" || strings.HasSuffix(upper, "W") && len(upper) < 4 || strings.Contains(upper, "#") {
		f := &specs[n]
		return "", false, f.reject(quote(item)+" has a meaning for days only", "write "+f.span())
	}
	return "", false, nil
}

func (p *parser) specialDom(item string) (string, bool, error) {
	f := &specs[fDom]
	if item == "L" {
		p.rule.beforeLast |= 1
		return item, true, nil
	}
	if item == "LW" || item == "WL" {
		p.rule.lastWorkday = true
		return "LW", true, nil
	}
	if back, ok := strings.CutPrefix(item, "L-"); ok {
		k, ok := number(back)
		if !ok || k < 1 || k > 30 {
			return "", false, f.reject(quote(item)+" is not a day", "write L-1 (the last but one) to L-30")
		}
		p.rule.beforeLast |= 1 << k
		return "L-" + strconv.Itoa(k), true, nil
	}
	if day, ok := strings.CutSuffix(item, "W"); ok {
		v, err := f.value(day)
		if err != nil {
			return "", false, err
		}
		p.rule.nearest |= 1 << v
		return strconv.Itoa(v) + "W", true, nil
	}
	if strings.Contains(item, "#") {
		return "", false, f.reject("# belongs to the day of the week", "write 5#3 there for the third Friday")
	}
	return "", false, nil
}

func (p *parser) specialDow(item string) (string, bool, error) {
	f := &specs[fDow]
	if item == "L" {
		return "", false, f.reject("L alone is unclear", "write 6 for Saturday, or 6L for the last Saturday of the month")
	}
	if day, nth, ok := strings.Cut(item, "#"); ok {
		v, err := f.value(day)
		if err != nil {
			return "", false, err
		}
		k, ok := number(nth)
		if !ok || k < 1 || k > 5 {
			return "", false, f.reject(quote(item)+" is not a day", "write #1 to #5, such as 5#3 for the third Friday")
		}
		p.rule.nth[v] |= 1 << k
		return fmt.Sprintf("%d#%d", v, k), true, nil
	}
	if day, ok := strings.CutSuffix(item, "L"); ok {
		v, err := f.value(day)
		if err != nil {
			return "", false, err
		}
		p.rule.lastDow |= 1 << v
		return strconv.Itoa(v) + "L", true, nil
	}
	return "", false, nil
}

// impossible returns the reason why a schedule never fires.
func (p *parser) impossible(w *wall, words []word) error {
	e := &Error{Expr: p.expr, Field: specs[fDom].name, Hint: "change the day, the month or the year", kind: ErrImpossible}
	if len(words) == fields {
		e.Pos = words[3].pos
	} else {
		e.Pos = words[len(words)-3].pos
	}
	if _, ok := w.times.first(0, secondMax); ok {
		e.Field, e.Pos = "", words[0].pos
		e.Reason = "every time it names is left out by a clock change"
		e.Hint = "set gap to run_after or run_before"
		return e
	}
	e.Reason = "no day is " + strings.TrimPrefix(w.times.days.describe(), "on ") + w.times.days.years.describe()
	if lowest, months := lowestDay(w.times.days.dom), w.times.days.months; lowest > 0 && w.times.days.beforeLast|w.times.days.nearest == 0 && !w.times.days.lastWorkday {
		if lowest > longest(months) {
			never := " never have a "
			if months&(months-1) == 0 {
				never = " never has a "
			}
			e.Reason = monthList(months) + never + ordinal(lowest)
		}
	}
	return e
}

// lowestDay returns the smallest day of a set. It returns 0 if the set is empty.
func lowestDay(set uint32) int {
	for d := 1; d <= 31; d++ {
		if set>>d&1 != 0 {
			return d
		}
	}
	return 0
}

// longest returns the greatest length of the months in any year.
func longest(months uint16) int {
	n := 0
	for m := 1; m <= 12; m++ {
		if months>>m&1 != 0 {
			n = max(n, daysIn(2000, m))
		}
	}
	return n
}
