package kafka

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

// eventOf converts a record to an event. id distinguishes topics that have had the same name.
func eventOf(r *kgo.Record, id, form string) feed.Event {
	place := fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
	value, err := stream.Content(r.Value, form)
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[stream.Name(h.Key)] = stream.Text(h.Value)
	}
	at := stream.Time(r.Timestamp)
	return stream.Event(fmt.Sprintf("%s %s.%d", place, id[:min(len(id), 8)], r.LeaderEpoch), "record "+place, at, struct {
		Topic     string            `json:"topic"`
		Partition int32             `json:"partition"`
		Offset    int64             `json:"offset"`
		Timestamp time.Time         `json:"timestamp"`
		Key       *string           `json:"key"`
		Headers   map[string]string `json:"headers"`
		Value     json.RawMessage   `json:"value"`
	}{r.Topic, r.Partition, r.Offset, at, keyOf(r.Key), headers, value}, err)
}

func keyOf(b []byte) *string {
	if b == nil {
		return nil
	}
	is := stream.Text(b)
	return &is
}
