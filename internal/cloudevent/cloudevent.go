// Package cloudevent reads events of CloudEvents 1.0 as HTTP carries them: one event in the structured or the
// binary form, or a batch.
package cloudevent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of events.
const (
	BytesMax    = 1 << 20 // bytes of a request
	EventsMax   = 500     // events of a request
	sourceMax   = 1024
	idMax       = 512
	typeMax     = 256
	nameMax     = 64 // characters of an extension's name
	specVersion = "1.0"
)

// The media types of events.
const (
	TypeEvent = "application/cloudevents+json"
	TypeBatch = "application/cloudevents-batch+json"
)

// Event is an event with the attributes that Skein uses.
type Event struct {
	Source, ID, Type string
	JSON             json.RawMessage // the whole event in the structured form, with all attributes
}

// Error describes a fault of a request. Index is the index of the event in a batch, from 0.
type Error struct {
	Index int
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("event %d: %v", e.Index, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// ErrMediaType says that a request has none of the forms of events.
var ErrMediaType = errors.New("the Content-Type is not that of an event: send one event as " + TypeEvent + ", several as " + TypeBatch +
	", or the attributes in the headers ce-id, ce-source, ce-type and ce-specversion")

// Read reads the events of a request. header returns a header by its name in small letters. names lists the
// names of all headers in small letters.
func Read(header func(name string) string, names []string, body []byte) ([]Event, error) {
	if len(body) > BytesMax {
		return nil, fmt.Errorf("the request has more than %d bytes", BytesMax)
	}
	text := header("content-type")
	kind, params, err := mime.ParseMediaType(text)
	if text != "" && err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMediaType, err)
	}
	if set := params["charset"]; set != "" && !strings.EqualFold(set, "utf-8") && strings.HasPrefix(kind, "application/cloudevents") {
		return nil, fmt.Errorf("%w: the charset is %.20q, and JSON is UTF-8", ErrMediaType, set)
	}
	switch {
	case kind == TypeBatch:
		return batch(body)
	case kind == TypeEvent:
	case header("ce-specversion") != "" || header("ce-id") != "":
		ev, err := binary(header, names, kind, body)
		return one(ev, err)
	case kind == "application/json" && bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")):
		return batch(body)
	case kind != "application/json":
		return nil, ErrMediaType
	}
	return one(structured(body))
}

func one(ev Event, err error) ([]Event, error) {
	if err != nil {
		return nil, &Error{Err: err}
	}
	return []Event{ev}, nil
}

func batch(body []byte) ([]Event, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, fmt.Errorf("the batch is not a list in JSON: %w", err)
	}
	if len(all) > EventsMax {
		return nil, fmt.Errorf("the batch has %d events; at most %d are accepted at once", len(all), EventsMax)
	}
	events := make([]Event, 0, len(all))
	for i, raw := range all {
		ev, err := structured(raw)
		if err != nil {
			return nil, &Error{i, err}
		}
		events = append(events, ev)
	}
	return events, nil
}

// structured reads an event whose attributes are members of a JSON object.
func structured(raw []byte) (Event, error) {
	var m map[string]json.RawMessage
	if !utf8.Valid(raw) {
		return Event{}, errors.New("the event is not UTF-8")
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return Event{}, fmt.Errorf("the event is not a JSON object: %w", err)
	}
	if m == nil {
		return Event{}, errors.New("the event is null")
	}
	attributes := map[string]string{}
	for name, v := range m {
		var s any
		switch name {
		case "data":
			continue
		case "data_base64":
			var b []byte
			if err := json.Unmarshal(v, &b); err != nil {
				return Event{}, errors.New("data_base64 is not a text in base64")
			}
			continue
		}
		if err := attributeName(name); err != nil {
			return Event{}, err
		}
		if err := json.Unmarshal(v, &s); err != nil {
			return Event{}, fmt.Errorf("the attribute %s: %w", name, err)
		}
		switch s := s.(type) {
		case string:
			attributes[name] = s
		case nil: // as if it were left out
			delete(m, name)
		case bool, float64:
			if required(name) || name == "time" {
				return Event{}, fmt.Errorf("the attribute %s is not a text", name)
			}
		default:
			return Event{}, fmt.Errorf("the attribute %s is neither a text nor a number nor true or false", name)
		}
	}
	if m["data"] != nil && m["data_base64"] != nil {
		return Event{}, errors.New("the event has both data and data_base64")
	}
	return made(attributes, m)
}

// binary reads an event whose attributes are headers.
func binary(header func(string) string, names []string, kind string, body []byte) (Event, error) {
	attributes, m := map[string]string{}, map[string]json.RawMessage{}
	for _, name := range names {
		attribute, ok := strings.CutPrefix(name, "ce-")
		if !ok {
			continue
		}
		if err := attributeName(attribute); err != nil {
			return Event{}, err
		}
		if slices.Contains([]string{"data", "datacontenttype"}, attribute) {
			return Event{}, fmt.Errorf("the header %s is not an attribute; the body is data, and Content-Type is datacontenttype", name)
		}
		value := header(name)
		if plain, err := url.PathUnescape(value); err == nil && utf8.ValidString(plain) {
			value = plain
		}
		if !utf8.ValidString(value) {
			return Event{}, fmt.Errorf("the header %s is not UTF-8", name)
		}
		attributes[attribute], m[attribute] = value, text(value)
	}
	if is := header("content-type"); is != "" {
		m["datacontenttype"] = text(is)
	}
	isJSON := kind == "" || kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
	switch {
	case len(body) == 0:
	case isJSON && json.Valid(body) && utf8.Valid(body):
		m["data"] = body
	case isJSON && kind != "":
		return Event{}, errors.New("the body is not JSON, as its Content-Type says")
	case strings.HasPrefix(kind, "text/") && utf8.Valid(body):
		m["data"] = text(string(body))
	default:
		m["data_base64"] = text(base64.StdEncoding.EncodeToString(body))
	}
	return made(attributes, m)
}

func text(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a text is always JSON
	return b
}

// attributeName refuses names that CloudEvents does not allow.
func attributeName(name string) error {
	ok := name != "" && len(name) <= nameMax && !strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	if !ok {
		return fmt.Errorf("%.70q cannot be an attribute: names have 1 to %d of a-z and 0-9", name, nameMax)
	}
	return nil
}

func required(name string) bool {
	return name == "id" || name == "source" || name == "type" || name == "specversion"
}

// made checks the attributes.
func made(attributes map[string]string, m map[string]json.RawMessage) (Event, error) {
	ev := Event{Source: attributes["source"], ID: attributes["id"], Type: attributes["type"]}
	for _, a := range []struct {
		name string
		max  int
	}{{"specversion", 8}, {"id", idMax}, {"source", sourceMax}, {"type", typeMax}} {
		value := attributes[a.name]
		switch {
		case value == "":
			return ev, fmt.Errorf("the event has no attribute %s", a.name)
		case len(value) > a.max:
			return ev, fmt.Errorf("the attribute %s has %d bytes; at most %d are accepted", a.name, len(value), a.max)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return ev, fmt.Errorf("the attribute %s has a control character", a.name)
		}
	}
	if v := attributes["specversion"]; v != specVersion {
		return ev, fmt.Errorf("the specversion is %.10q, and only %s is known", v, specVersion)
	}
	if _, err := url.Parse(ev.Source); err != nil || strings.Contains(ev.Source, " ") {
		return ev, fmt.Errorf("the source %.100q is not a URI reference; write a space as %%20", ev.Source)
	}
	if at := attributes["time"]; at != "" {
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			return ev, fmt.Errorf("the time %.40q is not an instant such as 2027-01-01T06:00:00Z", at)
		}
	}
	var err error
	if ev.JSON, err = json.Marshal(m); err != nil {
		return ev, err
	}
	if len(ev.JSON) > BytesMax {
		return ev, fmt.Errorf("the event has more than %d bytes", BytesMax)
	}
	return ev, nil
}

// Key returns the identity of an event within a namespace. A source has no spaces, so it is unambiguous.
func (e *Event) Key() string { return e.Source + " " + e.ID }
