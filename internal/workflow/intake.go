package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The values of Intake.From and Intake.Lost.
const (
	FromNow       = "now"
	FromBeginning = "beginning"
	LostPause     = "pause"
	LostSkip      = "skip"
)

// batchWaitMax bounds the time for which events are collected for one run.
const batchWaitMax = Duration(3600e9)

// Intake says how the events of a source with a cursor are taken. All such sources have it.
type Intake struct {
	Filter string `json:"filter,omitempty"` // CEL over event, without ${{ }}; "" accepts every event
	From   string `json:"from"`             // now | beginning: where a source without a cursor begins to read
	Lost   string `json:"lost"`             // pause | skip: what happens if events are gone before they were read
	// BatchMax is the largest number of events for which one run is started. If it is 0, each event starts
	// its own run. The run is started when BatchMax events have come, or BatchWait after the first of them.
	BatchMax  int32    `json:"batch_max,omitempty"`
	BatchWait Duration `json:"batch_wait,omitempty"`
}

// Filtering compiles the filter. The function passes reports whether an event is accepted. It returns an
// error if the filter cannot be evaluated for the event.
func (i *Intake) Filtering() (passes func(event json.RawMessage) (bool, error), err error) {
	return compileFilter(i.Filter, inEvent)
}

// EventSource selects events that were sent to the events API.
type EventSource struct {
	// Types are patterns of the attribute type, in which * matches any text. An empty list means all types.
	Types []string `json:"types,omitempty"`
	// Source is a pattern for the attribute source, in the same form; "" means any.
	Source string `json:"source,omitempty"`
}

// Takes reports whether the source selects an event with a type and a source.
func (e *EventSource) Takes(kind, source string) bool {
	return (len(e.Types) == 0 || slices.ContainsFunc(e.Types, func(p string) bool { return starMatch(p, kind) })) &&
		(e.Source == "" || starMatch(e.Source, source))
}

// starMatch reports whether a text matches a pattern in which * matches any text. For each star, the time is
// linear in the length of both.
func starMatch(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return len(text) >= len(last) && strings.HasSuffix(text, last)
}

func (e *EventSource) describe() string {
	words := "an event"
	if len(e.Types) > 0 {
		words += " of type " + strings.Join(e.Types, " or ")
	}
	if e.Source != "" {
		words += " from " + e.Source
	}
	return words
}

// describe says in words when events start runs. of names the events.
func (i *Intake) describe(of string) string {
	words := "when " + of + " comes"
	if i.Filter != "" {
		words += " for which " + i.Filter
	}
	if i.BatchMax > 0 {
		words += fmt.Sprintf(", one run for up to %d events in %s", i.BatchMax, i.BatchWait)
	}
	return words
}

// intakeKeys returns the keys that every source of events has.
func intakeKeys(over string) []key {
	return []key{
		{name: "filter", doc: "CEL expression over " + over + " that must hold.", shape: text(`an expression such as event.data.amount > 10`)},
		{name: "from", doc: "Where it begins when it is declared: now (default) or beginning, the oldest event that there is.", shape: oneOf(FromNow, FromBeginning)},
		{name: "lost", doc: "If events are gone before they were read: pause (default) the trigger, or skip them. The ledger has a line with their number.",
			shape: oneOf(LostPause, LostSkip)},
		{name: "batch", doc: "One run for many events: trigger.event.items is their list.", shape: object("a mapping such as {max: 100, wait: 10s}",
			key{name: "max", must: true, doc: "Most events of a run.", shape: integer(1, batchMax)},
			key{name: "wait", doc: "Longest wait after the first event; then the run starts with fewer events. Default: 10s, at most 1h.", shape: duration(true)})},
	}
}

// batchMax is the largest number of events that an engine takes in one transaction.
const batchMax = 500

// batchWaitDefault is batch.wait if it is not given.
const batchWaitDefault = Duration(10e9)

// intake reads the keys that every source of events has.
func (r *triggerReader) intake(n *node, at string) {
	in := &Intake{Filter: conditionText(n.get("filter").str()), From: firstText(n.get("from").str(), FromNow), Lost: firstText(n.get("lost").str(), LostPause)}
	r.t.Intake = in
	r.filter(n.get("filter"), join(at, "filter"), inEvent)
	b := n.get("batch")
	if b == nil {
		return
	}
	in.BatchMax, in.BatchWait = int32(intOf(b.get("max"), batchMax)), batchWaitDefault
	if w := b.get("wait"); w != nil {
		if in.BatchWait = durationOf(w); in.BatchWait > batchWaitMax {
			r.failNode(w, join(at, "batch.wait"), "wait is at most 1h, not "+quoteShort(w.text), "start the run later by a schedule")
		}
	}
}

// event reads the key event.
func (r *triggerReader) event(n *node, at string) {
	e := sentOf(n)
	r.t.Event = &e
	r.intake(n, at)
}

// sentOf reads which events are selected.
func sentOf(n *node) (e EventSource) {
	which := n
	if n.kind == mapNode {
		which = n.get("type")
		e.Source = n.get("source").str()
	}
	if which != nil {
		e.Types = sortedSet(texts(which))
	}
	return e
}

// eventShape returns the shape of the key event.
func eventShape() *shape {
	one, keys := sentKeys()
	long := object(`a mapping such as {type: "order.*", source: shop}`, append(keys, intakeKeys("event, an event of CloudEvents")...)...)
	return forms(`a type or a mapping such as {type: "order.*"}`, one, long)
}

// sentKeys returns the shape of a type of events, and the keys that select events.
func sentKeys() (one *shape, keys []key) {
	one = pattern("a type such as order.created, or a pattern such as order.*", eventPattern)
	types := key{name: "type", doc: "Type of the events, or a list of types; * stands for any text; default: all types.",
		shape: oneOrMore(one, "a type or a list of them", "a list of types")}
	source := key{name: "source", doc: "Source of the events; * stands for any text; default: any.", shape: pattern("a source such as shop, or a pattern", eventPattern)}
	return one, []key{types, source}
}

// eventPattern is a type or a source, or a pattern of it.
const eventPattern = `^[^\x00-\x20\x7f]{1,256}$`
