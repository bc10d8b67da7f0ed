package workflow

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// AlertDeadline says how far a run must be by what time. Package alert reads its JSON.
type AlertDeadline struct {
	After    int64  `json:"after,omitempty"` // microseconds; 0 if By is used instead
	From     string `json:"from,omitempty"`
	By       string `json:"by,omitempty"`
	Timezone string `json:"timezone,omitempty"`
	For      string `json:"for,omitempty"`
}

// AlertThan is the duration from which a run takes too long. Package alert reads its JSON.
type AlertThan struct {
	Fixed      int64   `json:"fixed,omitempty"` // microseconds; 0 if Times is used instead
	Times      float64 `json:"times,omitempty"`
	Percentile int     `json:"percentile,omitempty"`
}

// usualPattern is a multiple of a usual duration.
var usualPattern = regexp.MustCompile(`^([0-9]{1,3}(?:\.[0-9]{1,2})?)x p(50|75|90|95|99)$`)

const (
	// alertDue bounds the time between an instant and its deadline.
	alertDue = 90 * 24 * time.Hour
	// alertLeast is the shortest deadline, and the shortest duration that can count as too long.
	alertLeast = time.Second
)

func deadlineShape() *shape {
	return object("a mapping such as {after: 2h} or {by: \"07:30\", timezone: Europe/Berlin}",
		key{name: "after", doc: "The time from the point that from names.", shape: duration(false)},
		key{name: "from", doc: "trigger (default: the instant of the trigger, else the creation of the run), queued or started.", shape: oneOf("trigger", "queued", "started")},
		key{name: "by", doc: "A time of day: the first one after the instant of the trigger.", shape: pattern(`a time such as "07:30"`, `^([01][0-9]|2[0-3]):[0-5][0-9]$`)},
		key{name: "timezone", doc: "Of by; default: UTC.", shape: text("a time zone such as Europe/Berlin")},
		key{name: "for", doc: "What must have come by then: success (default), end or start.", shape: oneOf("success", "end", "start")})
}

func thanShape() *shape {
	length := duration(false)
	schema := map[string]any{"anyOf": []any{length.schema, map[string]any{"type": "string", "pattern": usualPattern.String()}}}
	return scalar("a duration such as 45m, or a multiple such as 2x p95", schema, func(n *node) bool {
		return length.takes(n) || n.isText() && usualPattern.MatchString(n.text)
	})
}

// alertTimes reads and checks the conditions of a rule about the times of runs.
func (r *reader) alertTimes(n *node, a *Alert, fail func(key, message, hint string)) {
	deadline, than := n.get("deadline"), n.get("than")
	late, slow := slices.Contains(a.On, "late"), slices.Contains(a.On, "slow")
	switch {
	case deadline != nil && than != nil:
		fail("than", "an alert has either a deadline or the key than", "write two alerts")
		return
	case deadline != nil && len(a.On) > 0 && (!late || len(a.On) > 1):
		fail("on", "the key deadline is only for the event late", "remove on, and write another alert for the other events")
		return
	case than != nil && len(a.On) > 0 && (!slow || len(a.On) > 1):
		fail("on", "the key than is only for the event slow", "remove on, and write another alert for the other events")
		return
	case deadline == nil && late:
		fail("on", "an alert on the event late needs the key deadline", "add one, such as deadline: {after: 2h}")
		return
	case than == nil && slow:
		fail("on", "an alert on the event slow needs the key than, which says how long a run may take", "add than, such as than: 45m or than: 2x p95")
		return
	case deadline == nil && than == nil:
		return
	case a.After > 1:
		fail("after", "the key after counts failures in a row, but this alert watches the time", "remove it")
	case a.Each:
		fail("each", "the key each has no effect here: an alert about the time is open while a run is late", "remove it")
	}
	if than != nil {
		a.On, a.Than = []string{"slow"}, thanOf(than.str())
		switch t := a.Than; {
		case t.Percentile == 0 && t.Fixed < alertLeast.Microseconds():
			fail("than", "the key than is at least 1s", "lengthen it")
		case t.Percentile != 0 && t.Times < 1:
			fail("than", "a multiple of a usual duration is at least 1x", "such as than: 2x p95")
		}
		return
	}
	a.On = []string{"late"}
	d := AlertDeadline{After: time.Duration(durationOf(deadline.get("after"))).Microseconds(), From: deadline.get("from").str(), By: deadline.get("by").str(),
		Timezone: deadline.get("timezone").str(), For: deadline.get("for").str()}
	a.Deadline = &d
	switch {
	case deadline.get("after") != nil && d.By == "" && d.After < alertLeast.Microseconds():
		fail("deadline", "a deadline is at least 1s after its instant", "lengthen it")
	case (d.After == 0) == (d.By == ""):
		fail("deadline", "a deadline needs either the key after or the key by", "such as deadline: {after: 2h} or deadline: {by: \"07:30\"}")
	case d.By != "" && d.From != "":
		fail("deadline", "the key from needs the key after: by is a time of day", "remove from")
	case d.By == "" && d.Timezone != "":
		fail("deadline", "the key timezone needs the key by", "remove it")
	case d.From == "started" && d.For == "start":
		fail("deadline", "a run that has started cannot be late to start", "remove from, or write for: end")
	case d.After > alertDue.Microseconds():
		fail("deadline", "the deadline is more than 90d after its instant", "shorten it")
	}
	if _, err := zoneOf(d.Timezone); err != nil {
		fail("deadline", err.Error(), "")
	}
}

// thanOf reads a duration or a multiple of a usual one.
func thanOf(text string) *AlertThan {
	if m := usualPattern.FindStringSubmatch(text); m != nil {
		times, _ := strconv.ParseFloat(m[1], 64)
		percentile, _ := strconv.Atoi(m[2])
		return &AlertThan{Times: times, Percentile: percentile}
	}
	d, _ := ParseDuration(text)
	return &AlertThan{Fixed: time.Duration(d).Microseconds()}
}

// AlertRung is a step of an escalation. Package alert reads its JSON.
type AlertRung struct {
	After int64    `json:"after"` // microseconds since the first message
	To    []string `json:"to"`
}

// rungsMax bounds the steps of an escalation.
const rungsMax = 5

func rungShape() *shape {
	channel := keyOrDash("the name of a channel")
	return object("a mapping such as {after: 30m, to: oncall}",
		key{name: "after", must: true, doc: "The time since the first message.", shape: duration(false)},
		key{name: "to", must: true, doc: "The channel, or several.", shape: forms("a channel or a list of channels", channel, list("a list of channels", channel))})
}

// alertRungs reads and checks the steps of an escalation.
func (r *reader) alertRungs(n *node, fail func(key, message, hint string)) (all []AlertRung) {
	if n == nil {
		return nil
	}
	steps := []*node{n}
	if n.kind == listNode {
		steps = n.vals
	}
	for i, v := range steps {
		rung := AlertRung{After: time.Duration(durationOf(v.get("after"))).Microseconds(), To: texts(v.get("to"))}
		switch {
		case i == rungsMax:
			fail("escalate", fmt.Sprintf("the escalation has %d steps, the limit is %d", len(steps), rungsMax), "remove some")
			return nil
		case len(rung.To) == 0 || len(rung.To) > alertToMax:
			fail("escalate", fmt.Sprintf("a step of an escalation has 1 to %d channels", alertToMax), "name a channel in to")
		case i > 0 && rung.After <= all[i-1].After:
			fail("escalate", "each step of an escalation must be later than the step before it", "sort the steps by their after, which counts from the first message")
		}
		all = append(all, rung)
	}
	return all
}
