package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Awaited is an event of the events API that a task waits for.
type Awaited struct {
	EventSource
	Filter string   `json:"filter,omitempty"` // CEL over event and all that conditions of a wait can read; "" accepts every event
	Within Duration `json:"within,omitempty"` // the longest time before the wait at which the event may have come
}

// awaitedOutputs are the outputs of every task that waits for an event.
var awaitedOutputs = []Output{{Name: "id", Type: String}, {Name: "type", Type: String}, {Name: "source", Type: String},
	{Name: "time", Type: String}, {Name: "data", Type: JSON}}

// awaitedShape returns the shape of the key event of a wait.
func awaitedShape() *shape {
	one, keys := sentKeys()
	return forms(`a type or a mapping such as {type: "order.*"}`, one, object(`a mapping such as {type: "order.*", source: shop}`, append(keys,
		key{name: "filter", doc: "CEL expression over event, params, trigger.time, run and the tasks that it needs, that must hold.", shape: text(`an expression such as event.data.id == params.order`)},
		key{name: "within", doc: "An event also counts if it came at most this long before the task began to wait; default: no such event.", shape: duration(false)})...))
}

// waitEvent reads the key event of a wait.
func (r *reader) waitEvent(t *Task, wait, n *node, at string) {
	for _, k := range wait.keys {
		if k.text != "event" {
			r.failNode(k, join(at, k.text), "a wait for an event has no "+k.text, "keep one of them; an event is noticed within about a second")
		}
	}
	if n.kind != scalarNode && n.kind != mapNode {
		t.Wait = nil // another check has reported the fault
		return
	}
	ev := &Awaited{EventSource: sentOf(n)}
	if n.kind == mapNode {
		ev.Filter, ev.Within = conditionText(n.get("filter").str()), durationOf(n.get("within"))
	}
	t.Wait.Event, t.Outputs = ev, awaitedOutputs
}

// checkWaitEvent checks the filter of a wait for an event.
func (c *readCheck) checkWaitEvent(n *node, at string, read func(n *node, at string, refs []ref)) {
	if n == nil || n.kind != mapNode {
		return
	}
	v := n.get("filter")
	if v == nil || !v.isText() {
		return
	}
	at = join(at, "filter")
	text := conditionText(v.text)
	from := len([]rune(v.text[:max(strings.Index(v.text, text), 0)]))
	got := c.compile(text, inWaitEvent)
	c.complain(v, at, from, got.faults)
	read(v, at, got.refs)
}

// Passes evaluates the filter of a wait for an event.
func (w *Workflow) Passes(task int, in Inputs, event json.RawMessage) (bool, error) {
	filter := w.Tasks[task].Wait.Event.Filter
	if filter == "" {
		return true, nil
	}
	from := w.valuesOf(&in)
	from.event = event
	holds, err := w.truth(filter, inWaitEvent, &from)
	if err != nil {
		return false, fmt.Errorf("the filter%w", err)
	}
	return holds, nil
}

// Words describes for people the events that are accepted.
func (a *Awaited) Words(since time.Time) string {
	words := "for " + a.describe() + " that comes after " + since.UTC().Format(time.RFC3339)
	if a.Filter != "" {
		words += ", for which " + a.Filter + " holds"
	}
	return words
}

// Example returns the type and options of such an event, as a command takes them.
func (a *Awaited) Example() string {
	words := "TYPE"
	if len(a.Types) > 0 && !strings.Contains(a.Types[0], "*") {
		words = a.Types[0]
	}
	if a.Source != "" && !strings.Contains(a.Source, "*") {
		words += " --source " + a.Source
	}
	return words
}
