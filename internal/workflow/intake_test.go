package workflow

import (
	"strings"
	"testing"
)

func TestEventSourceTakes(t *testing.T) {
	for _, c := range []struct {
		types  []string
		source string
		kind   string
		from   string
		takes  bool
	}{
		{nil, "", "a", "b", true},
		{[]string{"order.*"}, "", "order.created", "b", true},
		{[]string{"order.*"}, "", "order", "b", false},
		{[]string{"a", "b"}, "shop", "b", "shop", true},
		{[]string{"a", "b"}, "shop", "b", "shop2", false},
		{[]string{"*.created"}, "*", "order.created", "", true},
		{[]string{"a*b*c"}, "", "a1b2c", "", true},
		{[]string{"a*b*b"}, "", "ab", "", false},
		{[]string{"a*a"}, "", "a", "", false},
		{[]string{"**"}, "", "x", "", true},
	} {
		if got := (&EventSource{Types: c.types, Source: c.source}).Takes(c.kind, c.from); got != c.takes {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A filter of a source can read only the event. overlap: wait is allowed only for sources.
func TestIntakeFaults(t *testing.T) {
	for entry, want := range map[string]string{
		`{event: {type: a, filter: "params.a == 'b'"}}`:            "a filter cannot see params: it sees the event only",
		`{event: {type: a, filter: "trigger.time == event.time"}}`: "a filter cannot see the trigger: it sees the event only",
		`{event: {type: a, filter: "1 + 1"}}`:                      "a filter must be true or false",
		`{event: {type: a, batch: {max: 501}}}`:                    "500",
		`{event: {type: a, batch: {max: 5, wait: 2h}}}`:            "wait is at most 1h",
		`{event: "a b"}`:             "a type such as order.created",
		`{every: 1h, overlap: wait}`: "overlap: wait is for sources that can wait",
		`{event: a, catchup: all}`:   "catchup is for schedules",
	} {
		_, errs := Parse([]byte("name: w\nparams: {a: {default: b}}\ntriggers:\n  - "+entry+"\ntasks: {a: {run: x}}\n"), Options{File: "f.yaml"})
		if len(errs) == 0 || !strings.Contains(errs.Error(), want) {
			t.Errorf("%s: %v", entry, errs)
		}
	}
}

// TestBrokerTriggers: triggers of brokers name what they read, an edit of the form of the value keeps the
// position, and those of queues have no positions.
func TestBrokerTriggers(t *testing.T) {
	parse := func(entry string) (*Trigger, Errors) {
		is, errs := Parse([]byte("name: w\ntriggers:\n  - "+entry+"\ntasks: {a: {run: x}}\n"), Options{File: "f.yaml"})
		if len(errs) > 0 {
			return nil, errs
		}
		return &is[0].Triggers[0], nil
	}
	for entry, place := range map[string]string{
		`{kafka: {connection: c, topic: orders, value: text}}`:                           "c orders",
		`{nats: {connection: c, stream: ORDERS, subject: "orders.*", value: text}}`:      "c orders.*",
		`{redis: {connection: c, stream: orders, value: text, field: f}}`:                "c orders",
		`{mqtt: {connection: c, topic: a/+/b, value: text, id: event.properties.x-1}}`:   "c a/+/b",
		`{amqp: {connection: c, queue: jobs, value: text, prefetch: 7}}`:                 "c jobs",
		`{amqp: {connection: c, queue: /queues/jobs, version: "1.0", value: text}}`:      "c /queues/jobs",
		`{amqp: {connection: c, queue: jobs, version: 1.0, value: text}}`:                "c jobs",
		`{sqs: {connection: c, queue: jobs.fifo, value: text, account: "123456789012"}}`: "c jobs.fifo",
	} {
		is, errs := parse(entry)
		if errs != nil {
			t.Errorf("%s: %v", entry, errs)
			continue
		}
		other, errs := parse(strings.Replace(entry, "value: text", "value: base64", 1))
		if errs != nil || is.Outside.Place() != place || string(is.Outside.Read().With) != string(other.Outside.Read().With) || string(is.Outside.With) == string(other.Outside.With) {
			t.Errorf("%s: %s, %s, %v", entry, is.Outside.Place(), is.Outside.With, errs)
		}
		if !IsBroker(is.Kind) || IsQueue(is.Kind) != (is.Kind == KindMQTT || is.Kind == KindAMQP || is.Kind == KindSQS) {
			t.Errorf("%s is of kind %s", entry, is.Kind)
		}
	}
	for _, entry := range []string{`{mqtt: {connection: c, topic: a, from: beginning}}`, `{amqp: {connection: c, queue: a, lost: skip}}`, `{amqp: {connection: c, queue: a, id: value.id}}`,
		`{redis: {stream: a}}`, `{nats: {connection: c, stream: "a.b"}}`, `{amqp: {connection: c, queue: a, prefetch: 1001}}`, `{amqp: {connection: c, queue: a, version: "1.1"}}`, `{sqs: {connection: c, queue: "https://x/a"}}`,
		`{kafka: {connection: c, topic: a, by: offsets, filter: event.offsets > 1}}`, `{kafka: {connection: c, topic: a, by: offsets, batch: {max: 2}}}`,
		`{kafka: {connection: c, topic: a, by: offsets, value: text}}`, `{kafka: {connection: c, topic: a, by: offsets, every: 10ms}}`,
		`{kafka: {connection: c, topic: a, every: 10s}}`, `{kafka: {connection: c, topic: a, by: records, max_offsets: 5}}`} {
		if _, errs := parse(entry); errs == nil {
			t.Errorf("%s is taken", entry)
		}
	}
	is, errs := parse(`{kafka: {connection: c, topic: a, by: offsets, every: 90s}}`)
	const want = `{"topic":"a","value":"json","isolation":"read_committed","by":"offsets","every_ms":90000,"max_offsets":1000000}`
	if errs != nil || string(is.Outside.With) != want {
		t.Errorf("%v, %+v", errs, is)
	}
}
