package crontab

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/cron"
)

// moment says when a trigger fires: at a start of the node, every n days, or by an expression.
type moment struct {
	start   bool
	every   int // days between two fires
	expr    string
	zone    string
	clocks  bool // a clock change skips or repeats an instant, and does not move it
	catchup string
}

// trigger computes when the entry fires.
func (c *converter) trigger(d *draft) *fault {
	e := d.entry
	d.notes = append(d.notes, e.notes...)
	zone, f := c.zone()
	if f != nil {
		return f
	}
	d.when = moment{zone: zone, catchup: "none"}
	switch {
	case e.id != "":
		return c.anacron(d)
	case e.at == "reboot":
		d.when.start = true
		d.approximate("the command runs at each start of the Skein node; cron runs it once after each boot")
		return nil
	case e.at != "":
		d.when.expr = "@" + e.at
	default:
		if f := c.expression(d); f != nil {
			return f
		}
	}
	c.delay(d)
	return c.possible(d)
}

// zone returns the time zone of an entry: CRON_TZ, or else the zone of cron. It ignores TZ, because cron only
// passes TZ to the command.
func (c *converter) zone() (string, *fault) {
	v := c.vars.get("CRON_TZ")
	if v == nil || v.value == "" {
		return c.opt.Zone, nil
	}
	zone := strings.TrimPrefix(v.value, ":")
	if _, err := cron.LoadZone(zone); err != nil || strings.ContainsAny(zone, " ,.") {
		return "", &fault{0, fmt.Sprintf("CRON_TZ of line %d is not a time zone, so it is unclear when this line runs", v.line), "correct CRON_TZ, for example CRON_TZ=Europe/Berlin"}
	}
	return zone, nil
}

// expression translates the five fields so that they keep their meaning. For cron, the first characters of
// minute and hour decide whether a clock change moves a line. For Skein, the hour field decides. Where this
// matters in the time zone, expression lists the hours.
func (c *converter) expression(d *draft) *fault {
	e := d.entry
	all := specs()
	words := make([]string, len(all))
	steps := false // the hour is *, or has a step that does not begin at the field's lowest value
	for n := range all {
		items, f := all[n].items(e.fields[n])
		if f != nil {
			return f
		}
		words[n] = fieldText(&all[n], e.fields[n].text, items)
		for _, it := range items {
			if it.random {
				d.approximate(fmt.Sprintf("%s: cron chooses this value at random at each start of cron; here the workflow's name fixes it", all[n].name))
			}
			steps = steps || n == hour && (it.step > 1 || strings.Contains(e.fields[n].text, "*"))
		}
	}
	d.when.expr = strings.Join(words, " ")
	wild := strings.HasPrefix(words[minute], "*") || strings.HasPrefix(words[hour], "*")
	switch {
	case wild && !strings.ContainsAny(words[hour], "*/"):
		moved := variant{expr: d.when.expr}
		d.when.clocks = differ(d.when.zone, moved, variant{d.when.expr, cron.SkipGap, cron.Once}) ||
			differ(d.when.zone, moved, variant{d.when.expr, cron.RunAfter, cron.Both})
	case !wild && steps:
		hours, _ := all[hour].items(e.fields[hour])
		written := []string{words[minute], listHours(hours), words[dayOfMonth], words[month], words[dayOfWeek]}
		if fixed := strings.Join(written, " "); differ(d.when.zone, variant{expr: d.when.expr}, variant{expr: fixed}) {
			d.when.expr = fixed
			d.notes = append(d.notes, "the hours are written out, so that a change of the clock has the same effect as in cron")
		}
	}
	return nil
}

// fieldText returns the field in Skein's syntax.
func fieldText(s *spec, text string, items []item) string {
	parts := strings.Split(text, ",")
	for i, it := range items {
		if it.random {
			parts[i] = fmt.Sprintf("H(%d-%d)", it.low, min(it.high, s.high))
		}
	}
	return strings.Join(parts, ",")
}

func listHours(items []item) string {
	var on [24]bool
	for _, it := range items {
		for h := it.low; h <= it.high; h += it.step {
			on[h] = true
		}
	}
	var list []string
	for h, yes := range on {
		if yes {
			list = append(list, strconv.Itoa(h))
		}
	}
	return strings.Join(list, ",")
}

// variant is an expression with its policies for clock changes.
type variant struct {
	expr   string
	gap    cron.Gap
	repeat cron.Repeat
}

// differ reports whether two variants fire differently in a zone. It compares the fires around each clock
// change of the sample years separately, because two differences could cancel each other out.
func differ(zone string, a, b variant) bool {
	one, err := cron.Parse(a.expr, cron.Options{Zone: zone, Gap: a.gap, Repeat: a.repeat})
	if err != nil {
		return false // the expression is refused anyway
	}
	two, err := cron.Parse(b.expr, cron.Options{Zone: zone, Gap: b.gap, Repeat: b.repeat})
	if err != nil {
		return false
	}
	for _, at := range changes(zone) {
		if one.Count(at.AddDate(0, 0, -2), at.AddDate(0, 0, 2)) != two.Count(at.AddDate(0, 0, -2), at.AddDate(0, 0, 2)) {
			return true
		}
	}
	return false
}

// changes returns the clock changes of a zone in the sample years. These years begin on every day of the
// week.
func changes(zone string) []time.Time {
	loc, err := cron.LoadZone(zone)
	if err != nil {
		return nil
	}
	var all []time.Time
	end := time.Date(2034, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); ; {
		_, next := at.In(loc).ZoneBounds()
		if next.IsZero() || !next.Before(end) || !next.After(at) {
			return all
		}
		all = append(all, next)
		at = next
	}
}

// randomDelayMax is the bound of cronie, in minutes.
const randomDelayMax = 24 * 60

// delay converts cronie's RANDOM_DELAY. When cronie starts, it chooses a random number of minutes up to that
// value, and delays each line by that number. A spread over the minutes of the hour means the same if the
// range fits into the hour.
func (c *converter) delay(d *draft) {
	v := c.vars.get("RANDOM_DELAY")
	if v == nil {
		return
	}
	most, ok := number(strings.TrimSpace(v.value))
	if !ok || most == 0 || most > randomDelayMax {
		return
	}
	expr := d.when.expr
	if spelled, ok := spelledOut()[expr]; ok {
		expr = spelled
	}
	first, rest, _ := strings.Cut(expr, " ")
	m, ok := number(first)
	if !ok || m+most > 59 {
		d.approximate(fmt.Sprintf("RANDOM_DELAY of line %d is not converted: the job starts without a delay", v.line))
		return
	}
	d.when.expr = fmt.Sprintf("H(%d-%d) %s", m, m+most, rest)
	d.approximate(fmt.Sprintf("RANDOM_DELAY of line %d: the workflow's name fixes a minute from %d to %d", v.line, m, m+most))
}

func spelledOut() map[string]string {
	return map[string]string{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}
}

// possible checks the trigger with Skein's own reader.
func (c *converter) possible(d *draft) *fault {
	_, err := cron.Parse(d.when.expr, cron.Options{Zone: d.when.zone})
	if err == nil {
		return nil
	}
	at := d.entry.line.begin()
	if e, ok := err.(*cron.Error); ok {
		reason := e.Reason
		if e.Field != "" {
			reason = e.Field + ": " + reason
		}
		return &fault{at, reason, e.Hint}
	}
	return &fault{at, err.Error(), ""}
}
