package kafka

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/secret"
)

// TestCursor checks that a cursor is read back as it was written, and that invalid ones are refused.
func TestCursor(t *testing.T) {
	c := cursorAt("topic", []int64{5, 0})
	c.Next[1] = [2]int64{9, 3}
	raw, err := json.Marshal(&c)
	if err != nil || string(raw) != `{"id":"topic","next":[[5,-1],[9,3]]}` {
		t.Errorf("%s, %v", raw, err)
	}
	if is, err := readCursor(raw); err != nil || is.ID != "topic" || len(is.Next) != 2 || is.Next[1] != [2]int64{9, 3} {
		t.Errorf("%+v, %v", is, err)
	}
	for _, bad := range []string{`7`, `{}`, `{"id":""}`, `{"id":"t","next":[[-1,0]]}`, `{"id":"t","next":[` + strings.Repeat("[0,0],", partitionsMax) + `[0,0]]}`} {
		if is, err := readCursor([]byte(bad)); err == nil {
			t.Errorf("%.40s is read as %+v", bad, is)
		}
	}
}

// TestRecord checks the event that a record becomes.
func TestRecord(t *testing.T) {
	r := kgo.Record{Topic: "orders", Partition: 2, Offset: 7, LeaderEpoch: 4, Timestamp: time.UnixMilli(1_700_000_000_000), Key: []byte{0xff},
		Headers: []kgo.RecordHeader{{Key: "h\xff", Value: []byte("v")}}, Value: []byte(`{"n":1}`)}
	e := eventOf(&r, "AAAABBBBCCCC", broker.ValueJSON)
	const want = `{"topic":"orders","partition":2,"offset":7,"timestamp":"2023-11-14T22:13:20Z","key":"/w==","headers":{"h` + "\uFFFD" + `":"v"},"value":{"n":1}}`
	if e.Key != "orders/2/7 AAAABBBB.4" || string(e.Value) != want || !e.Time.Equal(r.Timestamp) {
		t.Errorf("%+v\n%s", e, e.Value)
	}
	tombstone := kgo.Record{Topic: "orders", Timestamp: time.UnixMilli(-1 << 50)}
	if e := eventOf(&tombstone, "A", broker.ValueJSON); !strings.Contains(string(e.Value), `"key":null,"headers":{},"value":null`) || !e.Time.IsZero() {
		t.Errorf("%s at %s", e.Value, e.Time)
	}
	r.Value = []byte("{")
	if e := eventOf(&r, "A", broker.ValueJSON); e.Value != nil || e.Reason != "record orders/2/7 cannot be used: its value is not JSON; to read such values, set value: text or value: base64" {
		t.Errorf("%+v", e)
	}
}

// TestMechanism checks that each known SASL mechanism has a client.
func TestMechanism(t *testing.T) {
	for _, name := range broker.KafkaMechanisms {
		m, err := mechanism(&broker.KafkaSASL{Mechanism: name, User: "u", Password: &secret.Text{Plain: "p"}})
		if err != nil || !strings.EqualFold(m.Name(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := mechanism(&broker.KafkaSASL{Mechanism: "oauthbearer", Password: &secret.Text{}}); err == nil {
		t.Error("an unknown mechanism is used")
	}
}
