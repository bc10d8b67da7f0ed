package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// nameBytesMax is the length that the pattern of a trigger's name allows.
const nameBytesMax = 100

// cronSigns are the replacements of the signs of a cron expression in a name, so that different expressions
// have different names.
var cronSigns = strings.NewReplacer(" ", "-", "*", "x", "?", "x", "/", "_", ",", ".", "-", "..", "#", "no", "@", "", "(", "_", ")", "_")

// fileSigns are the replacements of the signs of a path and a glob in a name.
var fileSigns = strings.NewReplacer("*", "x", "/", ".")

// defaultName returns a name made of the kind and the expression. It has only characters that a name may
// have: cron-15-2-x-x-x, every-3h, weekly-mon-fri-06.00, run_of-shop.orders.
func (t *Trigger) defaultName() string {
	words := []string{t.Kind}
	add := func(text string) { words = append(words, text) }
	switch {
	case t.Kind == KindCron:
		add(cronSigns.Replace(strings.ToLower(t.Cron)))
	case t.Kind == KindEvery:
		add(t.Every.String())
	case t.Kind == KindAt && len(t.At) == 1:
		add(strings.NewReplacer("-", "", ":", "").Replace(t.At[0]))
	case t.RunOf != nil:
		t.RunOf.nameWords(add)
	case t.Event != nil:
		t.Event.nameWords(add)
	case t.File != nil:
		t.File.nameWords(add)
	case t.Absent != nil:
		if t.Absent.RunOf != nil {
			t.Absent.RunOf.nameWords(add)
		} else if t.Absent.File != nil {
			t.Absent.File.nameWords(add)
		}
		add(strings.ReplaceAll(t.Absent.By, ":", "."))
	case t.Source():
		t.sourceWords(add)
	default:
		for _, m := range t.Months {
			add(months[m-1][:3])
		}
		for _, d := range t.Days {
			add(t.dayName(d))
		}
		for _, at := range t.At {
			add(strings.ReplaceAll(at, ":", "."))
		}
	}
	return safeName(strings.Join(words, "-"))
}

func (t *Trigger) dayName(d int) string {
	switch {
	case t.Kind == KindWeekly:
		return weekdays[d][:3]
	case d == -1:
		return "last"
	case d < 0:
		return "last" + strconv.Itoa(-d)
	}
	return strconv.Itoa(d)
}

func (o *RunOf) nameWords(add func(string)) {
	for _, name := range o.Workflows {
		add(strings.ReplaceAll(name, "/", "."))
	}
	if o.Require != "succeeded" {
		add(o.Require)
	}
}

func (e *EventSource) nameWords(add func(string)) {
	for _, name := range e.Types {
		add(fileSigns.Replace(name))
	}
	if e.Source != "" {
		add(fileSigns.Replace(e.Source))
	}
}

func (f *FileWatch) nameWords(add func(string)) {
	if folder := strings.Trim(f.Path, "/."); folder != "" {
		add(fileSigns.Replace(folder))
	}
	add(fileSigns.Replace(f.Pattern))
}

// safeName reduces a name to valid characters and to the valid length. If it has to change or cut a part, it
// adds a hash of the whole name.
func safeName(text string) string {
	safe := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '_' || r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '.'
	}, text)
	if safe == text && len(text) <= nameBytesMax {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return safe[:min(len(safe), nameBytesMax-9)] + "-" + hex.EncodeToString(sum[:4])
}

// Describe describes the trigger in words for people.
func (t *Trigger) Describe() string {
	switch t.Kind {
	case KindStart:
		return "at each start of the scheduler"
	case KindWebhook:
		if t.Webhook.Filter != "" {
			return "when a signed call comes for which " + t.Webhook.Filter
		}
		return "when a signed call comes"
	case KindFile:
		return "when " + t.File.describe() + " arrives"
	case KindRunOf:
		return "when " + t.RunOf.describe()
	case KindAgain:
		return fmt.Sprintf("when its last run has ended, at most %d times an hour", t.Again.MaxPerHour)
	case KindAbsent:
		return t.Absent.describe(t.Timezone)
	case KindEvent:
		return t.Intake.describe(t.Event.describe())
	}
	if t.Source() {
		return t.Intake.describe(t.describeSource())
	}
	s, err := t.Schedule()
	if err != nil {
		return t.Kind + ": " + err.Error()
	}
	words := s.Describe()
	if t.Count > 0 {
		words += fmt.Sprintf(", %d times", t.Count)
	}
	return words
}

func (f *FileWatch) describe() string { return "a file " + f.Pattern + " in " + f.Path }

func (o *RunOf) describe() string {
	runs := "a run of " + strings.Join(o.Workflows, " or ")
	verb := " has "
	if o.All {
		runs, verb = "runs of "+strings.Join(o.Workflows, " and "), " have "
	}
	words := runs + verb + o.Require
	switch o.Within {
	case "":
	case "hour", "day", "week", "month":
		words += " in the same " + o.Within
	default:
		words += " within " + o.Within
	}
	return words
}

func (a *Absent) describe(zone string) string {
	what := ""
	switch {
	case a.RunOf != nil:
		what = a.RunOf.describe()
	case a.File != nil:
		what = a.File.describe() + " has arrived"
	}
	switch {
	case a.After() > 0:
		return a.By + " after the last time that " + what
	case len(a.By) <= len("06:00:00"):
		return "at " + a.By + " every day, " + zone + ", unless since the day before " + what
	}
	return "at " + a.By + ", unless until then " + what
}
