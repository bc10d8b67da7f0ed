package api

import (
	"fmt"
	"time"
)

// Time is an instant on the store's clock. Its text is RFC 3339 in UTC with exactly six digits of fraction,
// so texts sort like instants.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000000Z"

// MarshalText writes the text of the type Time.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// AppendText appends the text of the type Time. For usual years it writes the digits itself: lists of runs
// contain many instants, and interpreting the layout takes several times as long.
func (t Time) AppendText(b []byte) ([]byte, error) {
	u := t.UTC()
	year, month, day := u.Date()
	if year < 0 || year > 9999 {
		return u.AppendFormat(b, timeLayout), nil
	}
	hour, minute, second := u.Clock()
	b = append(digits2(digits2(b, year/100), year%100), '-')
	b = append(digits2(b, int(month)), '-')
	b = append(digits2(b, day), 'T')
	b = append(digits2(b, hour), ':')
	b = append(digits2(b, minute), ':')
	b = append(digits2(b, second), '.')
	micros := u.Nanosecond() / 1000
	return append(digits2(digits2(digits2(b, micros/10_000), micros/100%100), micros%100), 'Z'), nil
}

// digits2 appends a number below 100 with two digits.
func digits2(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// UnmarshalText reads any RFC 3339 instant.
func (t *Time) UnmarshalText(text []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("%q is not an RFC 3339 instant", text)
	}
	t.Time = v.UTC()
	return nil
}

// MarshalJSON and UnmarshalJSON are needed because Time would otherwise inherit those of time.Time.
func (t Time) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(timeLayout)+2)
	b, err := t.AppendText(append(b, '"'))
	return append(b, '"'), err
}

// UnmarshalJSON reads a text. For null it leaves t unchanged.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return fmt.Errorf("%s is not an RFC 3339 instant", b)
	}
	return t.UnmarshalText(b[1 : len(b)-1])
}

// String returns the text of the type Time.
func (t Time) String() string { return t.UTC().Format(timeLayout) }
