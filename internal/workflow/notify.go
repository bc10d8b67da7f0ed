package workflow

import (
	"fmt"
	"strings"
)

// Notify sends a message over channels of the namespace, and waits until they have taken it.
type Notify struct {
	Channels []string `json:"channels"`
	Text     string   `json:"text"` // may hold ${{ }}
	Severity string   `json:"severity"`
}

const (
	notifyChannelsMax = 10
	notifyTextMax     = 4000 // bytes of the text after its expressions are evaluated
)

// notifyOutputs are the outputs of every task that sends a message.
var notifyOutputs = []Output{{Name: "incident", Type: String}}

func notifyShape() *shape {
	channel := keyOrDash("the name of a channel")
	several := list("a list of channels", channel)
	several.least = 1
	return object("a mapping such as {channel: ops, text: The report is ready}",
		key{name: "channel", must: true, doc: "The channel of the namespace, or a list of channels.", shape: forms("a channel or a list of channels", channel, several)},
		key{name: "text", must: true, doc: "The message, up to 4,000 bytes. May hold ${{ }}.", shape: text("a text")},
		key{name: "severity", doc: "info (default), warning, error or critical.", shape: oneOf("info", "warning", "error", "critical")})
}

// notify reads the message that a task sends.
func (r *reader) notify(t *Task, n *node, at string) {
	to := n.get("channel")
	t.Notify = &Notify{Channels: texts(to), Text: n.get("text").str(), Severity: firstText(n.get("severity").str(), "info")}
	t.Outputs = notifyOutputs
	r.unique(to, join(at, "channel"))
	if len(t.Notify.Channels) > notifyChannelsMax {
		r.failNode(to, join(at, "channel"), fmt.Sprintf("the message has %d channels, the limit is %d", len(t.Notify.Channels), notifyChannelsMax), "a channel can reach many people")
	}
	if !hasTemplate(t.Notify.Text) && len(t.Notify.Text) > notifyTextMax {
		r.failNode(n.get("text"), join(at, "text"), fmt.Sprintf("the text has %d bytes, the limit is %d", len(t.Notify.Text), notifyTextMax), "send a link to the details")
	}
}

// NotifyText evaluates the text of the message that a task sends.
func (w *Workflow) NotifyText(task int, in Inputs) (string, error) {
	from := w.valuesOf(&in)
	text, err := w.text(w.Tasks[task].Notify.Text, inTask, &from)
	if err != nil {
		return "", fmt.Errorf("the text of the message: %w", err)
	}
	switch text = strings.TrimSpace(text); {
	case text == "":
		return "", fmt.Errorf("the text of the message is empty after its expressions were evaluated; correct the expressions")
	case len(text) > notifyTextMax:
		return "", fmt.Errorf("the text of the message has %d bytes, the limit is %d; send a link to the details", len(text), notifyTextMax)
	}
	return text, nil
}
