package workflow

import (
	"encoding/json"
	"strings"

	"skein.dev/skein/internal/broker"
)

// Kinds of triggers whose source is a separate process.
const (
	KindKafka  = "kafka"
	KindSource = "source" // a source of an extension
)

// Outside is a source that runs as a process: of an extension, or of skein-plus.
type Outside struct {
	Source     string `json:"source"`               // its name, for example kafka
	Connection string `json:"connection,omitempty"` // "": none
	// With is the input of the source: a JSON object.
	With json.RawMessage `json:"with"`
}

// outsideKeys returns the keys of triggers whose source is a process.
func outsideKeys() []key {
	return []key{
		{name: KindKafka, doc: "Records of a topic of Kafka.", shape: fedObject("a mapping such as {connection: k1, topic: orders}", "event.topic, event.partition, event.offset, event.timestamp, event.key, event.headers and event.value",
			key{name: "connection", must: true, doc: "Name of a connection of type kafka.", shape: connectionName()},
			key{name: "topic", must: true, doc: "Name of the topic.", shape: pattern("the name of a topic", `^[A-Za-z0-9._-]{1,249}$`)},
			key{name: "value", doc: "What event.value is: json (default), text or base64.", shape: oneOf(broker.ValueJSON, broker.ValueText, broker.ValueBase64)},
			key{name: "isolation", doc: "Which records of transactions are read: read_committed (default) or read_uncommitted.", shape: oneOf(broker.ReadCommitted, broker.ReadUncommitted)})},
		{name: KindSource, doc: "Events of a source of an extension.", shape: fedObject("a mapping such as {kind: mailbox, with: {folder: INBOX}}", "event",
			key{name: "kind", must: true, doc: "Name of the source, or NAME@VERSION.", shape: pattern("the name of a source such as mailbox", `^[A-Za-z0-9_.-]{1,100}(@[0-9][A-Za-z0-9_.-]{0,31})?$`)},
			key{name: "connection", doc: "Name of a connection, if the source uses one.", shape: connectionName()},
			key{name: "with", doc: "Input of the source.", shape: table("a mapping of values", text("a name"), &shape{kind: anyShape})})},
	}
}

// outsideOf reads a trigger of one of outsideKeys.
func (r *triggerReader) outsideOf(v *node, at string) {
	o := &Outside{Connection: v.get("connection").str()}
	var with any
	switch r.t.Kind {
	case KindKafka:
		o.Source = KindKafka
		with = broker.KafkaInput{Topic: v.get("topic").str(), Value: firstText(v.get("value").str(), broker.ValueJSON),
			Isolation: firstText(v.get("isolation").str(), broker.ReadCommitted)}
	default:
		o.Source = v.get("kind").str()
		all := map[string]json.RawMessage{}
		for _, g := range given(v.get("with")) {
			all[g.Name] = g.Value
		}
		with = all
	}
	raw, err := marshal(with)
	if err != nil { // this cannot happen, because the value consists of JSON
		r.failNode(v, at, "the input cannot be written: "+err.Error(), "")
		return
	}
	if n := v.get("with"); len(raw) > inputBytesMax {
		r.failNode(n, join(at, "with"), "with is larger than "+sizeText(inputBytesMax), "refer to large values by their place")
	} else if n != nil && strings.Contains(string(raw), "${{") {
		r.failNode(n, join(at, "with"), "with cannot hold ${{ }}: a source has no run yet", "write the value itself, and secrets into a connection")
	}
	o.With = raw
	r.t.Outside = o
}

// describe describes the events in words.
func (o *Outside) describe() string {
	if o.Source == KindKafka {
		return "a record of topic " + o.topic() + " over the connection " + o.Connection
	}
	return "an event of the source " + o.Source
}

// topic returns the topic of Kafka.
func (o *Outside) topic() string {
	var k broker.KafkaInput
	_ = json.Unmarshal(o.With, &k) // outsideOf has written this, so it can be decoded
	return k.Topic
}

// Place names for people what the source reads.
func (o *Outside) Place() string {
	if o.Source == KindKafka {
		return o.Connection + " " + o.topic()
	}
	return strings.TrimSpace(o.Source + " " + o.Connection)
}

func (o *Outside) nameWords(add func(string)) {
	if o.Source == KindKafka {
		add(o.Connection)
		add(o.topic())
		return
	}
	add(o.Source)
}

// Read returns the part that determines what the source reads. If an edit changes it, the stored cursor no
// longer has a meaning.
func (o *Outside) Read() *Outside {
	is := *o
	if o.Source == KindKafka {
		is.With, _ = marshal(broker.KafkaInput{Topic: o.topic()}) // texts cannot fail
	}
	return &is
}
