package crontab

import (
	"fmt"
	"strings"
)

// startHour is the hour at which anacron begins without START_HOURS_RANGE. Debian starts it at 7:30.
const startHour = 7

// parseAnacron parses a line of an anacrontab: the period in days or as @word, the delay in minutes, the name
// of the job, and the command.
func parseAnacron(l *line) (*entry, *fault) {
	const form = "a line of an anacrontab is: period in days, delay in minutes, name of the job, command"
	e := &entry{line: l, user: "root"} // anacron runs every job as root
	var words [3]field
	i := l.begin()
	for n := range words {
		end := wordEnd(l.text, i)
		if end == i {
			return nil, &fault{i, "the line has only " + plural(n, "field"), form}
		}
		words[n] = field{l.text[i:end], i}
		i = skip(l.text, end)
	}
	e.period, e.id = words[0].text, words[2].text
	if word, ok := strings.CutPrefix(e.period, "@"); ok {
		if !contains([]string{"daily", "weekly", "monthly", "yearly", "annually"}, word) {
			return nil, &fault{words[0].at, quote(e.period) + " is not a period", "write a number of days, @daily, @weekly, @monthly or @yearly"}
		}
	} else if n, ok := number(e.period); !ok || n == 0 {
		return nil, &fault{words[0].at, quote(e.period) + " is not a period", form}
	}
	delay, ok := number(words[1].text)
	if !ok {
		return nil, &fault{words[1].at, quote(words[1].text) + " is not a delay", form}
	}
	e.delay = delay
	if e.begin, e.command = i, l.text[i:]; strings.TrimSpace(e.command) == "" {
		return nil, &fault{i, "the line has no command", form}
	}
	return e, nil
}

// anacron converts a line of an anacrontab to a trigger. Anacron runs a job once in each period, and makes up
// for a period in which the machine was off. A trigger with catchup does the same.
func (c *converter) anacron(d *draft) *fault {
	e := d.entry
	from := startHour
	if v := c.vars.get("START_HOURS_RANGE"); v != nil {
		low, _, _ := strings.Cut(v.value, "-")
		if n, ok := number(strings.TrimSpace(low)); ok && n < 24 {
			from = n
		}
	}
	at := min(from*60+min(e.delay, 24*60), 24*60-1)
	clock := fmt.Sprintf("%d %d", at%60, at/60)
	d.when.catchup = "latest"
	switch e.period {
	case "1", "@daily":
		d.when.expr = clock + " * * *"
	case "7", "@weekly":
		d.when.expr = clock + " * * 0"
	case "30", "31", "@monthly":
		d.when.expr = clock + " 1 * *"
	case "365", "366", "@yearly", "@annually":
		d.when.expr = clock + " 1 1 *"
	default:
		n, _ := number(e.period)
		if n > 3650 {
			return &fault{e.line.begin(), "the period is longer than ten years", "write the workflow by hand"}
		}
		d.when.every = n
		d.approximate(fmt.Sprintf("the job runs every %d days by the count of Skein, which does not begin at the last run; a missed run is made up for", n))
		return nil
	}
	d.approximate(fmt.Sprintf("the job runs at %02d:%02d, or later if no node ran then; anacron starts the job %d minutes after its own start", at/60, at%60, e.delay))
	return c.possible(d)
}
