package workflow

import (
	"encoding/json"
	"slices"
	"strings"

	"skein.dev/skein/internal/broker"
)

// Kinds of triggers whose source is a separate process.
const (
	KindKafka  = "kafka"
	KindNATS   = "nats"
	KindRedis  = "redis"
	KindMQTT   = "mqtt"
	KindAMQP   = "amqp"
	KindSQS    = "sqs"
	KindSource = "source" // a source of an extension
)

// Outside is a source that runs as a process: of an extension, or of skein-plus.
type Outside struct {
	Source     string `json:"source"`               // name of the source, such as kafka
	Connection string `json:"connection,omitempty"` // "" if there is none
	// With is the input of the source: a JSON object.
	With json.RawMessage `json:"with"`
}

// brokerKind is a kind of triggers whose source is in skein-plus. The connection of such a trigger has a
// type of the same name.
type brokerKind struct {
	name string
	doc  string
	is   string // an example
	over string // the fields of an event
	keys []key
	// queue says that a message is gone once it is acknowledged: there are no positions.
	queue bool
	// read makes the input of the source.
	read func(v *node) brokerInput
	// check refuses keys that do not fit together. It is nil if all keys fit together.
	check func(r *triggerReader, v *node, at string)
	// input returns a pointer to an empty input, for decoding.
	input func() brokerInput
}

// brokerInput is the input of a source of skein-plus.
type brokerInput interface {
	// Place returns the word for the place that is read, such as topic, and its name.
	Place() (word, name string)
	// Read returns the part that determines what the source reads.
	Read() any
}

// valueKey returns the key value of the triggers of brokers.
func valueKey() key {
	return key{name: "value", doc: "What event.value is: json (default), text or base64.", shape: oneOf(broker.ValueJSON, broker.ValueText, broker.ValueBase64)}
}

func valueOf(v *node) string { return firstText(v.get("value").str(), broker.ValueJSON) }

// brokerKinds are the kinds of triggers whose sources are in skein-plus.
var brokerKinds = []brokerKind{
	{name: KindKafka, doc: "Records of a topic of Kafka.", is: "a mapping such as {connection: k1, topic: orders}",
		over: "event.topic, event.partition, event.offset, event.timestamp, event.key, event.headers and event.value",
		keys: []key{
			{name: "topic", must: true, doc: "Name of the topic.", shape: pattern("the name of a topic", `^[A-Za-z0-9._-]{1,249}$`)},
			valueKey(),
			{name: "isolation", doc: "Which records of transactions are read: read_committed (default) or read_uncommitted.", shape: oneOf(broker.ReadCommitted, broker.ReadUncommitted)},
			{name: "by", doc: "What an event is: records (default), each record, or offsets, a range of new offsets of each partition, without the records.", shape: oneOf(broker.ByRecords, broker.ByOffsets)},
			{name: "every", doc: "With by: offsets, the time between two looks; default 10s, at least 1s.", shape: duration(false)},
			{name: "max_offsets", doc: "With by: offsets, the most offsets of an event; default 1,000,000.", shape: integer(1, offsetsMax)}},
		read:  kafkaInput,
		check: checkOffsets,
		input: func() brokerInput { return &broker.KafkaInput{} }},
	{name: KindNATS, doc: "Messages of a stream of NATS JetStream.", is: "a mapping such as {connection: n1, stream: ORDERS, subject: orders.created}",
		over: "event.stream, event.subject, event.sequence, event.timestamp, event.headers and event.value",
		keys: []key{
			{name: "stream", must: true, doc: "Name of the stream.", shape: pattern("the name of a stream", `^[^\x00-\x20\x7f.*>/\\]{1,255}$`)},
			{name: "subject", doc: "Subject of the messages, in which * and > have the meaning of NATS; default: all of the stream.", shape: pattern("a subject such as orders.*", `^[^\x00-\x20\x7f]{1,255}$`)},
			valueKey()},
		read: func(v *node) brokerInput {
			return &broker.NATSInput{Stream: v.get("stream").str(), Subject: v.get("subject").str(), Value: valueOf(v)}
		},
		input: func() brokerInput { return &broker.NATSInput{} }},
	{name: KindRedis, doc: "Entries of a stream of Redis.", is: "a mapping such as {connection: r1, stream: orders, field: data}",
		over: "event.stream, event.id, event.timestamp, event.fields and event.value",
		keys: []key{
			{name: "stream", must: true, doc: "Key of the stream.", shape: pattern("the key of a stream", `^[^\x00-\x1f\x7f]{1,255}$`)},
			{name: "field", doc: "Field of an entry that is event.value; default: none.", shape: pattern("the name of a field", `^[^\x00-\x1f\x7f]{1,255}$`)},
			valueKey()},
		read: func(v *node) brokerInput {
			return &broker.RedisInput{Stream: v.get("stream").str(), Field: v.get("field").str(), Value: valueOf(v)}
		},
		input: func() brokerInput { return &broker.RedisInput{} }},
	{name: KindMQTT, doc: "Messages of topics of MQTT.", is: "a mapping such as {connection: m1, topic: sensors/+/alarm, id: event.value.id}",
		over: "event.topic, event.retained, event.content_type, event.properties and event.value", queue: true,
		keys: []key{
			{name: "topic", must: true, doc: "Topic, or a filter of topics with + and #.", shape: pattern("a topic such as sensors/+/alarm", `^[^\x00-\x1f\x7f]{1,1000}$`)},
			valueKey(), idKey("none")},
		read: func(v *node) brokerInput {
			return &broker.MQTTInput{Topic: v.get("topic").str(), Value: valueOf(v), ID: v.get("id").str()}
		},
		input: func() brokerInput { return &broker.MQTTInput{} }},
	{name: KindAMQP, doc: "Messages of a queue of AMQP 0.9.1, such as RabbitMQ's, or of AMQP 1.0.", is: "a mapping such as {connection: a1, queue: orders}",
		over: "event.queue, event.message_id, event.correlation_id, event.content_type, event.timestamp, event.headers, event.value, and further fields of the version", queue: true,
		keys: []key{
			{name: "queue", must: true, doc: "Name of the queue; with version: 1.0, the address of the queue at the broker.", shape: pattern("the name of a queue", `^[^\x00-\x1f\x7f]{1,255}$`)},
			{name: "version", doc: "Version of the protocol: 0.9.1 (default) or 1.0.", shape: pattern("0.9.1 or 1.0", `^(0\.9\.1|1\.0)$`)},
			{name: "prefetch", doc: "Messages that the broker sends before one of them is acknowledged; default: 500, or batch.max, but at least 100.", shape: integer(1, 1000)},
			valueKey(), idKey("event.message_id, if the message has one")},
		read: func(v *node) brokerInput {
			return &broker.AMQPInput{Queue: v.get("queue").str(), Version: v.get("version").str(), Prefetch: int(intOf(v.get("prefetch"), 1000)), Value: valueOf(v), ID: v.get("id").str()}
		},
		input: func() brokerInput { return &broker.AMQPInput{} }},
	{name: KindSQS, doc: "Messages of a queue of Amazon SQS, or of a service with its interface.", is: "a mapping such as {connection: q1, queue: orders}",
		over: "event.queue, event.message_id, event.group, event.timestamp, event.attributes and event.value", queue: true,
		keys: []key{
			{name: "queue", must: true, doc: "Name of the queue.", shape: pattern("the name of a queue such as orders or orders.fifo", `^[A-Za-z0-9_-]{1,80}(\.fifo)?$`)},
			{name: "account", doc: "Number of the account that owns the queue; default: that of the access key.", shape: pattern("a number of 12 digits, in quotes", `^[0-9]{12}$`)},
			valueKey(), idKey("event.message_id")},
		read: func(v *node) brokerInput {
			return &broker.SQSInput{Queue: v.get("queue").str(), Account: v.get("account").str(), Value: valueOf(v), ID: v.get("id").str()}
		},
		input: func() brokerInput { return &broker.SQSInput{} }},
}

// Bounds of a trigger with by: offsets.
const (
	offsetsMax     = 1_000_000_000_000
	offsetsDefault = 1_000_000
	offsetsEvery   = Duration(10e9) // the default of the key every
)

func kafkaInput(v *node) brokerInput {
	in := &broker.KafkaInput{Topic: v.get("topic").str(), Value: valueOf(v), Isolation: firstText(v.get("isolation").str(), broker.ReadCommitted)}
	if v.get("by").str() != broker.ByOffsets {
		return in
	}
	every := offsetsEvery
	if n := v.get("every"); n != nil {
		every = durationOf(n)
	}
	in.By, in.Every, in.OffsetsMax = broker.ByOffsets, int64(every/Duration(1e6)), intOf(v.get("max_offsets"), offsetsDefault)
	return in
}

// checkOffsets refuses keys of records for offsets, and keys of offsets for records.
func checkOffsets(r *triggerReader, v *node, at string) {
	others, why := []string{"every", "max_offsets"}, " belongs to by: offsets"
	if v.get("by").str() == broker.ByOffsets {
		others, why = []string{"value", "filter", "batch"}, " belongs to records, and by: offsets reads none"
		r.everyOf(v, at, offsetsEvery)
	}
	for _, name := range others {
		if n := v.get(name); n != nil {
			r.failNode(n, join(at, name), name+why, "remove the key")
		}
	}
}

// idKey returns the key id of the triggers of queues.
func idKey(otherwise string) key {
	return key{name: "id", doc: "What identifies a message that comes again; default: " + otherwise + ".",
		shape: pattern("a field of the event such as event.value.id", `^event(\.[A-Za-z_][A-Za-z0-9_-]*){1,10}$`)}
}

// IsQueue reports whether the source of a kind of triggers takes messages from a queue, which has no
// positions.
func IsQueue(kind string) bool {
	b := brokerKindOf(kind)
	return b != nil && b.queue
}

func brokerKindOf(name string) *brokerKind {
	if i := slices.IndexFunc(brokerKinds, func(b brokerKind) bool { return b.name == name }); i >= 0 {
		return &brokerKinds[i]
	}
	return nil
}

// IsBroker reports whether the source of a kind of triggers is in skein-plus.
func IsBroker(kind string) bool { return brokerKindOf(kind) != nil }

// IsOutside reports whether the source of a kind of triggers is a process.
func IsOutside(kind string) bool { return kind == KindSource || IsBroker(kind) }

// OutsideKinds returns the kinds of triggers whose source is a process.
func OutsideKinds() (all []string) {
	for _, b := range brokerKinds {
		all = append(all, b.name)
	}
	return append(all, KindSource)
}

// outsideKeys returns the keys of triggers whose source is a process.
func outsideKeys() (all []key) {
	for i := range brokerKinds {
		b := &brokerKinds[i]
		keys := append([]key{{name: "connection", must: true, doc: "Name of a connection of type " + b.name + ".", shape: connectionName()}}, b.keys...)
		is := fedObject(b.is, b.over, keys...)
		if b.queue {
			is = object(b.is, slices.DeleteFunc(append(keys, intakeKeys(b.over)...), func(k key) bool { return k.name == "from" || k.name == "lost" })...)
		}
		all = append(all, key{name: b.name, doc: b.doc, shape: is})
	}
	return append(all, key{name: KindSource, doc: "Events of a source of an extension.", shape: fedObject("a mapping such as {kind: mailbox, with: {folder: INBOX}}", "event",
		key{name: "kind", must: true, doc: "Name of the source, or NAME@VERSION.", shape: pattern("the name of a source such as mailbox", `^[A-Za-z0-9_.-]{1,100}(@[0-9][A-Za-z0-9_.-]{0,31})?$`)},
		key{name: "connection", doc: "Name of a connection, if the source uses one.", shape: connectionName()},
		key{name: "with", doc: "Input of the source.", shape: table("a mapping of values", text("a name that is not empty"), &shape{kind: anyShape})})})
}

// outsideOf reads a trigger of one of outsideKeys.
func (r *triggerReader) outsideOf(v *node, at string) {
	o := &Outside{Connection: v.get("connection").str()}
	var with any
	if b := brokerKindOf(r.t.Kind); b != nil {
		if o.Source, with = b.name, b.read(v); b.check != nil {
			b.check(r, v, at)
		}
	} else {
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

// input returns the input of a source of skein-plus, or nil if the source is one of an extension.
func (o *Outside) input() brokerInput {
	b := brokerKindOf(o.Source)
	if b == nil {
		return nil
	}
	is := b.input()
	_ = json.Unmarshal(o.With, is) // there is no error, because outsideOf has written this value
	return is
}

// describe describes the events in words.
func (o *Outside) describe() string {
	if in := o.input(); in != nil {
		word, name := in.Place()
		return "a message of " + word + " " + name + " over the connection " + o.Connection
	}
	return "an event of the source " + o.Source
}

// Place names for people what the source reads.
func (o *Outside) Place() string {
	if in := o.input(); in != nil {
		_, name := in.Place()
		return o.Connection + " " + name
	}
	return strings.TrimSpace(o.Source + " " + o.Connection)
}

func (o *Outside) nameWords(add func(string)) {
	if in := o.input(); in != nil {
		_, name := in.Place()
		add(o.Connection)
		add(name)
		return
	}
	add(o.Source)
}

// Read returns the part that determines what the source reads. If an edit changes it, the stored cursor no
// longer has a meaning.
func (o *Outside) Read() *Outside {
	is := *o
	if in := o.input(); in != nil {
		is.With, _ = marshal(in.Read()) // texts cannot fail
	}
	return &is
}
