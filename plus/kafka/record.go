package kafka

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
)

// valueMax bounds the value of an event, so that an event with its key fits into a line.
const valueMax = feed.BytesMax - 8<<10

// eventOf makes the event of a record. id tells topics of one name apart.
func eventOf(r *kgo.Record, id, form string) feed.Event {
	place := fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
	e := feed.Event{Key: fmt.Sprintf("%s %s.%d", place, id[:min(len(id), 8)], r.LeaderEpoch), Time: r.Timestamp, Reason: "record " + place}
	if y := e.Time.Year(); y < 1970 || y > 9999 { // JSON has no other ones
		e.Time = time.Time{}
	}
	value, err := valueOf(r.Value, form)
	if err == nil {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[strings.ToValidUTF8(h.Key, "\uFFFD")] = text(h.Value)
		}
		e.Value, err = json.Marshal(struct {
			Topic     string            `json:"topic"`
			Partition int32             `json:"partition"`
			Offset    int64             `json:"offset"`
			Timestamp time.Time         `json:"timestamp"`
			Key       *string           `json:"key"`
			Headers   map[string]string `json:"headers"`
			Value     json.RawMessage   `json:"value"`
		}{r.Topic, r.Partition, r.Offset, e.Time.UTC(), keyOf(r.Key), headers, value})
	}
	if err == nil && len(e.Value) > valueMax {
		err = fmt.Errorf("it has %d bytes, the limit is %d", len(e.Value), valueMax)
	}
	if err != nil {
		e.Value, e.Reason = nil, e.Reason+" cannot be used: "+err.Error()
	}
	return e
}

// text returns bytes as a text, or in base64 if they are none.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}

func keyOf(b []byte) *string {
	if b == nil {
		return nil
	}
	is := text(b)
	return &is
}

// valueOf returns the value of a record; null for a record without one.
func valueOf(b []byte, form string) (json.RawMessage, error) {
	switch {
	case b == nil:
		return json.RawMessage("null"), nil
	case form == broker.ValueBase64:
		return json.Marshal(base64.StdEncoding.EncodeToString(b))
	case form == broker.ValueText && !utf8.Valid(b):
		return nil, fmt.Errorf("its value is no text in UTF-8; value: base64 reads it")
	case form == broker.ValueText:
		return json.Marshal(string(b))
	case len(b) > valueMax:
		return nil, fmt.Errorf("its value has %d bytes, the limit is %d", len(b), valueMax)
	case !json.Valid(b):
		return nil, fmt.Errorf("its value is no JSON; value: text or value: base64 reads it")
	}
	return b, nil
}
