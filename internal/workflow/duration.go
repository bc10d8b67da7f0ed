package workflow

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time in the form in which people write it: 10s, 1h30m, 90d.
type Duration time.Duration

var durationUnits = []struct {
	name string
	size time.Duration
}{
	{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute},
	{"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond},
}

// durationMax is small enough that sums with instants never overflow.
const durationMax = 100 * 365 * 24 * time.Hour

// ParseDuration reads whole numbers with units, the larger unit first: 250ms, 10s, 5m,
// 1h30m, 90d, 2w. A bare 0 is zero.
func ParseDuration(s string) (Duration, error) {
	bad := fmt.Errorf("%q is not a duration", s)
	if s == "0" {
		return 0, nil
	}
	var sum time.Duration
	next := 0 // the index of the next unit that may follow
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, bad
		}
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit := next
		for unit < len(durationUnits) && durationUnits[unit].name != rest[:letters] {
			unit++
		}
		if unit == len(durationUnits) {
			return 0, bad
		}
		size := durationUnits[unit].size
		if n > int64(durationMax/size) || sum+time.Duration(n)*size > durationMax {
			return 0, fmt.Errorf("%q is longer than 100 years", s)
		}
		sum += time.Duration(n) * size
		next, rest = unit+1, rest[letters:]
	}
	if s == "" {
		return 0, bad
	}
	return Duration(sum), nil
}

// String returns the shortest text from which ParseDuration reads the same duration: 90d, 1h30m, 0s.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	left := time.Duration(d)
	for _, u := range durationUnits[1:] { // weeks can be read, but are never written
		if n := left / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			left -= n * u.size
		}
	}
	return b.String()
}

// MarshalText writes the form of [Duration.String].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the form that [ParseDuration] reads.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	*d = v
	return err
}
