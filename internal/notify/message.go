package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Message is the content of a notice that a receiver gets.
type Message struct {
	// Type is incident.opened, .escalated, .resolved, .event or .message, or test.
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"`
	Data      MessageData `json:"data"`
	bundle    []string    // the lines of a bundle; only channels for people get bundles
}

// MessageData is the content of a message. If a value does not apply, a text is "" and a time is null.
type MessageData struct {
	ID         string     `json:"id"` // equal in each repetition of the message
	Incident   string     `json:"incident"`
	Seq        int32      `json:"seq"`
	Namespace  string     `json:"namespace"`
	Workflow   string     `json:"workflow"`
	Rule       string     `json:"rule"`
	Severity   string     `json:"severity"`
	Text       string     `json:"text"`
	Message    string     `json:"message"` // message of the rule
	Event      string     `json:"event"`   // the newest event: failed, task_failed, missed, late and so on
	Subject    string     `json:"subject"` // object of an alert about the cluster, or the group of a rule with group_by
	Run        string     `json:"run"`
	Task       string     `json:"task"` // the task of an event about a task
	Trigger    string     `json:"trigger"`
	Instant    *time.Time `json:"instant"`
	Cause      string     `json:"cause"`
	Reason     string     `json:"reason"`
	DueAt      *time.Time `json:"due_at"` // the deadline that has passed; only of the events late and slow
	Count      int64      `json:"count"`
	OpenedAt   *time.Time `json:"opened_at"`
	ResolvedBy string     `json:"resolved_by"` // a person
	ResolvedAt *time.Time `json:"resolved_at"`
}

// messageOf makes the message for a notice.
func messageOf(n *store.Notice) (*Message, error) {
	var body alert.Notice
	if err := json.Unmarshal(n.Data, &body); err != nil {
		return nil, permanent("the notice cannot be read: %v", err)
	}
	m := &Message{Type: "incident." + body.Kind, Timestamp: body.At.Time().UTC(), Data: MessageData{
		ID: noticeID(body.Incident, body.Seq), Incident: body.Incident, Seq: body.Seq, Namespace: body.Namespace, Workflow: body.Workflow, Rule: body.Rule,
		Severity: body.Severity, Text: body.Text, Message: body.Message, Event: string(body.Event.Event), Subject: body.Event.Subject, Run: body.Event.Run, Task: body.Event.Task, Trigger: body.Event.Trigger,
		Instant: timeOf(body.Event.Instant), Cause: body.Event.Cause, Reason: body.Event.Message, DueAt: timeOf(body.Event.Due), Count: body.Count, OpenedAt: timeOf(body.OpenedAt)}}
	if w := body.ResolvedBy; w != nil {
		m.Data.ResolvedBy, m.Data.ResolvedAt = w.By, timeOf(w.At)
	}
	return m, nil
}

// testMessage returns the message that skein alert test sends.
func testMessage(namespace, channel, by string, id string, now time.Time) *Message {
	return &Message{Type: alert.KindTest, Timestamp: now.UTC(), Data: MessageData{ID: noticeID(id, 1), Incident: id, Seq: 1, Namespace: namespace, Severity: "info",
		Text: fmt.Sprintf("%s tests the channel %s/%s", by, namespace, channel)}}
}

// noticeID returns an id without full stops, because the signature of a webhook separates its parts by full
// stops.
func noticeID(incident string, seq int32) string {
	return fmt.Sprintf("msg_%s_%d", strings.ReplaceAll(incident, "-", ""), seq)
}

func timeOf(at dag.Micros) *time.Time {
	if at == 0 {
		return nil
	}
	t := at.Time().UTC()
	return &t
}

// resolved reports whether the message announces the end of an incident.
func (m *Message) resolved() bool { return m.Type == "incident."+alert.KindResolved }

// source returns the subject of the message.
func (d *MessageData) source() string {
	if d.Workflow == "" {
		return d.Namespace
	}
	return d.Namespace + "/" + d.Workflow
}

// subject returns the first line for people.
func (m *Message) subject() string {
	switch m.Type {
	case "incident." + alert.KindResolved:
		return "[resolved] " + m.Data.Text
	default:
		return "[" + m.Data.Severity + "] " + m.Data.Text
	}
}

// lines returns the details for people.
func (m *Message) lines() []string {
	d := &m.Data
	if m.Type == typeBundle {
		return m.bundle
	}
	message := m.Type == "incident."+alert.KindMessage
	var all []string
	add := func(name, value string) {
		if value != "" {
			all = append(all, name+": "+value)
		}
	}
	if d.Message != "" && (!message || strings.Contains(d.Message, "\n")) { // otherwise, the subject contains it
		all = append(all, d.Message)
	}
	if d.Workflow != "" {
		add("Workflow", d.Namespace+"/"+d.Workflow)
		add("Group", d.Subject)
	}
	add("Run", d.Run)
	add("Task", d.Task)
	add("Trigger", d.Trigger)
	if d.Instant != nil {
		add("Instant", d.Instant.Format(time.RFC3339))
	}
	if d.DueAt != nil {
		add("Deadline", d.DueAt.Format(time.RFC3339))
	}
	add("Reason", d.Reason)
	if message {
		return all
	}
	if d.OpenedAt != nil {
		add("Since", d.OpenedAt.Format(time.RFC3339))
	}
	if d.Rule != "" {
		add("Incident", d.Incident)
		add("Rule", d.Rule)
	}
	switch {
	case m.Type != "incident."+alert.KindOpened:
	case d.Run != "":
		all = append(all, "To see why: skein explain "+d.Run, "To take care of it: skein alert ack "+d.Incident)
	case d.Workflow == "":
		all = append(all, "To see the nodes: skein node list", "To take care of it: skein alert ack "+d.Incident)
	}
	return all
}
