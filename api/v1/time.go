package api

import (
	"fmt"
	"time"
)

// Time is an instant on the store's clock: RFC 3339, UTC, always six digits of fraction,
// so that texts sort as instants do.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000000Z"

// MarshalText writes the one form.
func (t Time) MarshalText() ([]byte, error) {
	return t.UTC().AppendFormat(nil, timeLayout), nil
}

// UnmarshalText reads any RFC 3339 instant.
func (t *Time) UnmarshalText(text []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("%q is not an RFC 3339 instant", text)
	}
	t.Time = v.UTC()
	return nil
}

// MarshalJSON and UnmarshalJSON are here because those of time.Time would be taken.
func (t Time) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(timeLayout)+2)
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, timeLayout)
	return append(b, '"'), nil
}

// UnmarshalJSON reads a text; null leaves t as it is.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return fmt.Errorf("%s is not an RFC 3339 instant", b)
	}
	return t.UnmarshalText(b[1 : len(b)-1])
}

// String is the form on the wire.
func (t Time) String() string { return t.UTC().Format(timeLayout) }
