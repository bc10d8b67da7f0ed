package crontab

import (
	"fmt"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
)

// spec is one of the five time fields.
type spec struct {
	name      string
	low, high int
	names     []string // names of the values, in ascending order
}

// The indices of the fields.
const (
	minute = iota
	hour
	dayOfMonth
	month
	dayOfWeek
)

func specs() [5]spec {
	return [5]spec{
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of month", 1, 31, nil},
		{"month", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
		{"day of week", 0, 7, strings.Fields("sun mon tue wed thu fri sat")},
	}
}

// item is one item of a field's list: the values from low to high by step. If random is set, cron chooses
// one of them when it starts.
type item struct {
	low, high, step int
	random          bool
}

// check accepts only what cron accepts in a field. Skein's own expressions allow more (L, W, #, H, steps
// without a range), but cron never ran such a line.
func (s *spec) check(f field) *fault {
	_, err := s.items(f)
	return err
}

// items reads the list of items of a field.
func (s *spec) items(f field) ([]item, *fault) {
	var items []item
	at := f.at
	for text := range strings.SplitSeq(f.text, ",") {
		it, err := s.item(text, at)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
		at += len(text) + 1
	}
	return items, nil
}

func (s *spec) item(text string, at int) (item, *fault) {
	if text == "" {
		return item{}, s.wrong(at, "a value is missing", "remove the comma")
	}
	if a, b, ok := strings.Cut(text, "~"); ok {
		return s.random(a, b, at)
	}
	body, stepText, stepped := strings.Cut(text, "/")
	it := item{low: s.low, high: s.high, step: 1}
	if body != "*" {
		from, to, ranged := strings.Cut(body, "-")
		var err *fault
		if it.low, err = s.value(from, at); err != nil {
			return it, err
		}
		it.high = it.low
		if stepped && !ranged {
			return it, s.wrong(at, quote(text)+" has a step without a range, which no cron accepts", fmt.Sprintf("write %s-%d/%s", from, s.high, importer.Clip(stepText, 20)))
		}
		if ranged {
			if it.high, err = s.value(to, at+len(from)+1); err != nil {
				return it, err
			}
		}
		if it.low > it.high && it.high == 0 && s.name == "day of week" {
			it.high = 7 // for a range such as sat-sun
		}
		if it.low > it.high {
			return it, s.wrong(at, quote(text)+" has its values in the wrong order, so cron never runs the line", fmt.Sprintf("write %s-%d,%d-%s", from, s.high, s.low, to))
		}
	}
	if stepped {
		n, ok := number(stepText)
		if !ok || n == 0 {
			return it, s.wrong(at+len(body)+1, quote(stepText)+" is not a step", fmt.Sprintf("write a number from 1 to %d after the /", s.high))
		}
		it.step = n
	}
	return it, nil
}

// random parses a random range of cronie, such as 0~29. Either end may be missing.
func (s *spec) random(from, to string, at int) (item, *fault) {
	it := item{low: s.low, high: s.high, step: 1, random: true}
	var err *fault
	if from != "" {
		if it.low, err = s.value(from, at); err != nil {
			return it, err
		}
	}
	if to != "" {
		if it.high, err = s.value(to, at+len(from)+1); err != nil {
			return it, err
		}
	}
	if it.low > it.high {
		return it, s.wrong(at, quote(from+"~"+to)+" has its values in the wrong order", "write the smaller value first")
	}
	return it, nil
}

// value reads a number or a name.
func (s *spec) value(text string, at int) (int, *fault) {
	lower := strings.ToLower(text)
	for i, name := range s.names {
		switch {
		case lower == name:
			return s.low + i, nil
		case len(lower) > len(name) && isWord(lower) && strings.HasPrefix(longName(name), lower[:min(len(lower), len(longName(name)))]):
			return 0, s.wrong(at, quote(text)+" is not a name that cron knows", "write "+name)
		}
	}
	n, ok := number(text)
	if !ok {
		hint := fmt.Sprintf("write numbers from %d to %d with * , - and /", s.low, s.high)
		if len(s.names) > 0 {
			hint = fmt.Sprintf("write numbers from %d to %d or names such as %s, with * , - and /", s.low, s.high, s.names[1])
		}
		switch {
		case s.name == "minute" && text != "" && isWord(strings.ToLower(text[:1])):
			hint = "a line begins with the minute, such as 5, or is NAME=value"
		case text == "?":
			hint = "write *"
		case strings.HasPrefix(text, "*"):
			hint = "write * or */N"
		}
		return 0, s.wrong(at, quote(text)+" is not a value", hint)
	}
	if n < s.low || n > s.high {
		return 0, s.wrong(at, fmt.Sprintf("%s is out of range", importer.Clip(text, 20)), fmt.Sprintf("write a value from %d to %d", s.low, s.high))
	}
	return n, nil
}

// longName returns the full name for an abbreviated one.
func longName(short string) string {
	for _, long := range strings.Fields("january february march april may june july august september october november december " +
		"sunday monday tuesday wednesday thursday friday saturday") {
		if strings.HasPrefix(long, short) {
			return long
		}
	}
	return short
}

func isWord(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
}

func (s *spec) wrong(at int, reason, hint string) *fault {
	return &fault{at, s.name + ": " + reason, hint}
}

// number parses up to nine digits.
func number(s string) (int, bool) {
	if s == "" || len(s) > 9 || strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) >= 0 {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func quote(s string) string { return strconv.Quote(importer.Clip(s, 60)) }

// checkAt checks the word after @.
func checkAt(word string, at int) *fault {
	if contains(atWords(), word) {
		return nil
	}
	lower := strings.ToLower(word)
	switch {
	case contains(atWords(), lower):
		return &fault{at, "cron does not know @" + word, "write @" + lower}
	case lower == "every_minute":
		return &fault{at, "only cron of FreeBSD knows @" + word, "write * * * * *"}
	}
	return &fault{at, "cron does not know " + quote("@"+word), "write @reboot, @yearly, @monthly, @weekly, @daily or @hourly"}
}

func atWords() []string {
	return []string{"reboot", "yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"}
}
