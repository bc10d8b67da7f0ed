package skein

import (
	"context"
	"encoding/json"
	"net/http"

	api "skein.dev/skein/sdk/api/v1"
)

// Events makes the calls about events, and moves the cursors of triggers.
type Events struct{ c *Client }

// NewEvents returns the Events of a client's server.
func NewEvents(c *Client) Events { return Events{c} }

// Send sends events to the workflows of a namespace. If namespace is "", it is default. The events have the
// structured form of CloudEvents 1.0. When Send returns without an error, the events are durable. An event
// that was already sent has no further effect.
func (e Events) Send(ctx context.Context, namespace string, events ...json.RawMessage) (sent api.EventsSent, err error) {
	body, err := json.Marshal(events)
	if err != nil {
		return sent, err
	}
	k := newCall(http.MethodPost, nil, "events")
	set(k.query, "namespace", namespace)
	k.header.Set("Content-Type", "application/cloudevents-batch+json")
	k.body = rawBody(body)
	_, err = e.c.do(ctx, k, &sent)
	return sent, err
}

// Seek moves the cursor of a trigger of a workflow (NAME or NS/NAME) to beginning, now or a cursor. For a
// trigger of kind event, to may also be an instant. Options: [Key].
func (e Events) Seek(ctx context.Context, workflow, trigger, to string, opts ...CallOption) (s api.Schedule, err error) {
	k := scheduleCall(http.MethodPost, workflow, trigger, opts)
	k.verb, k.body = "seek", api.SeekRequest{To: to}
	_, err = e.c.do(ctx, k, &s)
	return s, err
}
