package stream

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
)

// ValueMax bounds the value of an event, so that an event and its key fit into a line.
const ValueMax = feed.BytesMax - 8<<10

// Event makes an event. place identifies the message in a few words. value becomes trigger.event. Its field
// for the content of the message holds what Content returned. If err is not nil, the event cannot be used,
// and the ledger shows err.
func Event(key, place string, at time.Time, value any, err error) feed.Event {
	e := feed.Event{Key: key, Time: Time(at), Reason: place}
	if err == nil {
		e.Value, err = json.Marshal(value)
	}
	if err == nil && len(e.Value) > ValueMax {
		err = fmt.Errorf("the event has %d bytes, the limit is %d", len(e.Value), ValueMax)
	}
	if err != nil {
		e.Value, e.Reason = nil, place+" cannot be used: "+err.Error()
	}
	return e
}

// Time returns the time of a message in UTC. It returns the zero time if the year is not one from 1970 to
// 9999.
func Time(at time.Time) time.Time {
	if y := at.Year(); y < 1970 || y > 9999 {
		return time.Time{}
	}
	return at.UTC()
}

// Content returns the content of a message in the form that the trigger wants. For nil it returns null.
func Content(b []byte, form string) (json.RawMessage, error) {
	switch {
	case b == nil:
		return json.RawMessage("null"), nil
	case len(b) > ValueMax:
		return nil, fmt.Errorf("its value has %d bytes, the limit is %d", len(b), ValueMax)
	case form == broker.ValueBase64:
		return json.Marshal(base64.StdEncoding.EncodeToString(b))
	case form == broker.ValueText && !utf8.Valid(b):
		return nil, errors.New("its value is not text in UTF-8; to read such values, set value: base64")
	case form == broker.ValueText:
		return json.Marshal(string(b))
	case !json.Valid(b):
		return nil, errors.New("its value is not JSON; to read such values, set value: text or value: base64")
	}
	return b, nil
}

// Text returns bytes as text if they are UTF-8, and otherwise in base64.
func Text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// Name replaces the invalid bytes in a text of a message, so that the text can be a name in JSON.
func Name(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
