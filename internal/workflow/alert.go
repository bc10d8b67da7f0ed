package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Alert is a rule that decides who is notified of which events. Package alert reads its JSON.
type Alert struct {
	Name     string   `json:"name"` // unique in the workflow
	On       []string `json:"on"`
	To       []string `json:"to"` // channels
	Severity string   `json:"severity"`
	After    int64    `json:"after,omitempty"`
	Each     bool     `json:"each,omitempty"`
	Origin   []string `json:"origin,omitempty"`
	Tags     []KV     `json:"tags,omitempty"` // tags of the runs
	GroupBy  []string `json:"group_by,omitempty"`
	Tasks    []string `json:"tasks,omitempty"` // names of tasks, with * and ?
	Message  string   `json:"message,omitempty"`
	// Rules about the time of runs.
	Deadline *AlertDeadline `json:"deadline,omitempty"`
	Than     *AlertThan     `json:"than,omitempty"`
	Escalate []AlertRung    `json:"escalate,omitempty"`
}

const (
	alertsMax  = 20
	alertToMax = 10
	// alertTold bounds the channels in all rules of a workflow, because a transaction may end a thousand
	// runs, and each of them may notify all these channels.
	alertTold       = 40
	alertMessageMax = 1000 // bytes
	alertGroupMax   = 3    // keys of group_by
	alertTasksMax   = 20   // names in tasks
)

// These are the events that rules can watch, and the events that are known but cannot be watched yet.
var (
	alertEvents = []string{"failed", "stopped", "skipped", "missed", "succeeded", "recovered", "task_failed", "retrying", "lost", "poison", "quarantined", "approval",
		"late", "slow", "orphan"}
	alertEventsLater = []string{"started", "waiting"}
)

// alertTaskEvents are the events for which the key tasks selects tasks.
var alertTaskEvents = []string{"failed", "recovered", "task_failed", "retrying", "lost", "poison", "approval"}

// taskGlob is a name of a task in the key tasks.
const taskGlob = `^[A-Za-z0-9_.*?-]{1,100}$`

var alertOrigins = []string{"manual", "api", "schedule", "sensor", "backfill", "parent", "enqueue"}

func alertShape() *shape {
	event := scalar("one of "+strings.Join(alertEvents, ", "), map[string]any{"enum": alertEvents}, func(n *node) bool {
		return n.isText() && (slices.Contains(alertEvents, n.text) || slices.Contains(alertEventsLater, n.text))
	})
	listOf := func(is string, item *shape) *shape {
		return &shape{kind: listShape, is: is, item: item, least: 1}
	}
	channel := keyOrDash("the name of a channel")
	origin := oneOf(alertOrigins...)
	group := pattern("cause, trigger or tag:KEY", `^(cause|trigger|tag:[A-Za-z0-9][A-Za-z0-9._/-]{0,62})$`)
	task := pattern("the name of a task, with * and ?", taskGlob)
	anything := &shape{kind: anyShape}
	return object("a mapping such as {on: [failed], to: ops}",
		key{name: "name", doc: "Its identity across edits; default: its events.", shape: keyOrDash("a name of letters, digits, _, . and -")},
		key{name: "on", must: true, unless: isTimed, doc: "The events that open an incident: failed, stopped, skipped, missed, task_failed, retrying, lost, poison, quarantined, approval, late (with deadline), slow (with than), orphan; succeeded and recovered notify without one.",
			shape: forms("an event or a list of events", event, listOf("a list of events", event))},
		key{name: "to", must: true, doc: "The channel, or several.", shape: forms("a channel or a list of channels", channel, listOf("a list of channels", channel))},
		key{name: "severity", doc: "info, warning, error (default) or critical.", shape: oneOf("info", "warning", "error", "critical")},
		key{name: "after", doc: "The incident opens at this event in a row; default: 1.", shape: integer(1, 1000)},
		key{name: "each", doc: "true: one message for each event, and no incident that stays open.", shape: boolean()},
		key{name: "origin", doc: "The runs that it is about; default: all but backfills.", shape: forms("an origin or a list of origins", origin, listOf("a list of origins", origin))},
		key{name: "tags", doc: "Only runs that have all of these tags.", shape: tagsShape()},
		key{name: "group_by", doc: "An incident for each group of events, instead of one for all: cause, trigger, tag:KEY or a list of them.", shape: forms("a key or a list of keys", group, listOf("a list of keys", group))},
		key{name: "message", doc: "A text for the people who are notified.", shape: text("a text")},
		key{name: "tasks", doc: "Only events of these tasks, and runs in which one of them failed; * and ? stand for any characters.", shape: forms("a task or a list of tasks", task, listOf("a list of tasks", task))},
		key{name: "if", doc: "Only if a condition holds.", later: "alert_filters", shape: anything},
		key{name: "repeat", doc: "Remind while it is open.", later: "alert_repeat", shape: anything},
		key{name: "escalate", doc: "Further channels, unless it is acknowledged or over by then.", shape: forms("a step or a list of steps", rungShape(), listOf("a list of steps", rungShape()))},
		key{name: "include", doc: "What else the message holds.", later: "alert_include", shape: anything},
		key{name: "deadline", doc: "Until when a run must have come how far; the event is late.", shape: deadlineShape()},
		key{name: "than", doc: "How slow is slow: a duration, or 2x p95 of the last runs that succeeded.", shape: thanShape()})
}

// isTimed reports whether a rule is about the time of runs. Such a rule needs no events.
func isTimed(n *node) bool { return n.get("deadline") != nil || n.get("than") != nil }

// alerts reads and checks the alert rules.
func (r *reader) alerts(w *Workflow, n *node) {
	if n == nil || n.kind != listNode {
		return
	}
	sh := grammar().find("alerts").shape.item
	lines, told := map[string]int32{}, 0
	for i, v := range n.vals {
		if i == alertsMax {
			r.failNode(v, "alerts", fmt.Sprintf("the workflow has %d alerts, the limit is %d", len(n.vals), alertsMax), "one alert can watch several events and notify several channels")
			return
		}
		if v.kind != mapNode {
			continue
		}
		kept, refused := wellFormed(v, sh)
		a, ok := r.alert(kept, "alerts["+strconv.Itoa(i)+"]")
		if refused || !ok {
			continue
		}
		if line, dup := lines[a.Name]; dup {
			r.failNode(v, "alerts["+strconv.Itoa(i)+"].name", fmt.Sprintf("two alerts have the name %s; the first is in line %d", a.Name, line), "give one of them a name of its own")
			continue
		}
		lines[a.Name] = v.line
		w.Alerts = append(w.Alerts, a)
		told += len(a.To)
		for _, rung := range a.Escalate {
			told += len(rung.To)
		}
	}
	if told > alertTold {
		r.failNode(n, "alerts", fmt.Sprintf("the alerts of the workflow name %d channels together, the limit is %d", told, alertTold), "one alert can watch several events, and a channel can reach many people")
	}
}

// alert reads one rule. If the rule is wrong, it reports the fault, and ok is false.
func (r *reader) alert(n *node, at string) (a Alert, ok bool) {
	a = Alert{Name: n.get("name").str(), On: texts(n.get("on")), To: texts(n.get("to")), Severity: firstText(n.get("severity").str(), "error"),
		After: intOf(n.get("after"), 0), Origin: texts(n.get("origin")), GroupBy: texts(n.get("group_by")), Tasks: texts(n.get("tasks")), Message: n.get("message").str()}
	if v := n.get("each"); v != nil {
		a.Each, _ = v.bool()
	}
	ok = true
	fail := func(key, message, hint string) {
		v := n.get(key)
		if v == nil {
			v = n
		}
		r.failNode(v, join(at, key), message, hint)
		ok = false
	}
	a.Tags = r.tags(n.get("tags"), join(at, "tags"))
	r.alertTimes(n, &a, fail)
	a.Escalate = r.alertRungs(n.get("escalate"), fail)
	if len(a.Escalate) > 0 && (a.Each || len(a.On) == 1 && (a.On[0] == "succeeded" || a.On[0] == "recovered")) {
		fail("escalate", "the key escalate has no effect here, because no incident stays open", "remove it")
	}
	for _, e := range a.On {
		if slices.Contains(alertEventsLater, e) {
			fail("on", "alerts on "+e+" are not supported yet", "events that are: "+strings.Join(alertEvents, ", "))
		}
	}
	alertTasks(&a, fail)
	r.unique(n.get("group_by"), join(at, "group_by"))
	quiet := len(a.On) == 1 && (a.On[0] == "succeeded" || a.On[0] == "recovered")
	switch {
	case len(a.GroupBy) > 0 && (a.Each || isTimed(n) || slices.Contains(a.On, "succeeded")):
		fail("group_by", "the key group_by makes groups of failures that stay open: it does not go with each, deadline, than or succeeded", "remove it, or make two alerts")
	case len(a.GroupBy) > alertGroupMax:
		fail("group_by", fmt.Sprintf("the alert groups by %d keys, the limit is %d", len(a.GroupBy), alertGroupMax), "keep those that distinguish the groups")
	case a.After > 1 && a.Each:
		fail("after", "the key after has no effect together with the key each, which notifies of every event", "remove one of them")
	case a.After > 1 && quiet && a.On[0] == "succeeded":
		fail("after", "the key after counts failures in a row, but this alert does not watch failures", "remove it, or add failed to on")
	case len(a.To) > alertToMax:
		fail("to", fmt.Sprintf("the alert has %d channels, the limit is %d", len(a.To), alertToMax), "a channel can reach many people")
	case len(a.Message) > alertMessageMax:
		fail("message", fmt.Sprintf("the message has %d bytes, the limit is %d", len(a.Message), alertMessageMax), "shorten it")
	case strings.Contains(a.Message, "${{"):
		fail("message", "${{ }} in the message of an alert is not supported yet", "write a plain text; the message always contains the run, its state and the reason")
	}
	if quiet && n.get("severity") == nil {
		a.Severity = "info"
	}
	if a.Name == "" {
		a.Name = strings.Join(a.On, "+")
		if a.After > 1 {
			a.Name += " after " + strconv.FormatInt(a.After, 10)
		}
	}
	return a, ok
}
