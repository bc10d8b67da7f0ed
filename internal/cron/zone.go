package cron

import (
	"strings"
	"time"

	"skein.dev/skein/internal/suggest"
)

// reach bounds the distance, in seconds, between an instant and its wall time: offsets from UTC are below 16
// h, and the longest skipped day has 24 h.
const reach = 2 * daySeconds

// never and always are the two ends of time. They are far enough from the limits of the type for the addition
// of an offset.
const (
	always int64 = -1 << 60
	never  int64 = 1 << 60
)

// span is a range of time, [start, end) in Unix seconds, with one offset from UTC. Adjacent spans may have
// the same offset.
type span struct{ start, end, off int64 }

// zone returns the spans of a location.
type zone struct{ loc *time.Location }

// at returns the span that contains an instant.
func (z zone) at(sec int64) span {
	if z.loc == time.UTC {
		return span{always, never, 0}
	}
	t := time.Unix(sec, 0).In(z.loc)
	_, off := t.Zone()
	start, end := t.ZoneBounds()
	s := span{always, never, int64(off)}
	if !start.IsZero() {
		s.start = start.Unix()
		if !z.same(s.start, off) {
			// After the last explicit change, package time has only the rule for later years, and returns a start
			// before that change.
			s.start = z.change(s.start, sec, off)
		}
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= sec {
		// For the years after the last explicit change, package time assumes 365 days. On 31 December of a leap
		// year, it names an end that is in the past.
		day, _ := split(sec)
		s.end = join(day+1, 0)
	}
	return s
}

func (z zone) same(sec int64, off int) bool {
	_, is := time.Unix(sec, 0).In(z.loc).Zone()
	return is == off
}

// change finds the single instant in (from, to] at which the offset becomes off.
func (z zone) change(from, to int64, off int) int64 {
	for from+1 < to {
		if mid := from + (to-from)/2; z.same(mid, off) {
			to = mid
		} else {
			from = mid
		}
	}
	return to
}

// before returns the span that ends at the start of s. after returns the span that starts at the end of s.
func (z zone) before(s span) span {
	p := z.at(s.start - 1)
	p.end = s.start
	return p
}

func (z zone) after(s span) span {
	n := z.at(s.end)
	n.start = s.end
	return n
}

// walls returns the interval of wall-clock times during a span.
func (s span) walls() interval { return interval{s.start + s.off, s.end + s.off} }

// interval is [lo, hi) in seconds.
type interval struct{ lo, hi int64 }

// minus removes a hole from every interval of a list.
func minus(from []interval, hole interval) []interval {
	kept := make([]interval, 0, len(from)+1)
	for _, iv := range from {
		if hole.hi <= iv.lo || hole.lo >= iv.hi {
			kept = append(kept, iv)
			continue
		}
		if iv.lo < hole.lo {
			kept = append(kept, interval{iv.lo, hole.lo})
		}
		if hole.hi < iv.hi {
			kept = append(kept, interval{hole.hi, iv.hi})
		}
	}
	return kept
}

// minusBefore removes the wall times that earlier spans also have. minusAfter removes the wall times that
// later spans also have. A span farther away than reach has no wall time in common with this one.
func (z zone) minusBefore(walls []interval, s span) []interval {
	for p := s; p.start > always && s.start-p.start < reach; {
		p = z.before(p)
		walls = minus(walls, p.walls())
	}
	return walls
}

func (z zone) minusAfter(walls []interval, s span) []interval {
	for n := s; n.end < never && n.end-s.end < reach; {
		n = z.after(n)
		walls = minus(walls, n.walls())
	}
	return walls
}

// missing returns the wall times that the clock skips between span a and span b.
func (z zone) missing(a, b span) []interval {
	if b.off <= a.off {
		return nil
	}
	gap := []interval{{b.start + a.off, b.start + b.off}}
	return z.minusAfter(z.minusBefore(gap, a), b)
}

// LoadZone finds a time zone by its IANA name. "" means UTC. The error suggests names.
func LoadZone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	// "Local" is the zone of the machine, and no schedule may depend on it.
	if name != "Local" && len(name) <= zoneNameMax {
		if loc, ok := readZone(name); ok {
			return loc, nil
		}
	}
	return nil, bad("zone", "", "there is no time zone "+quote(clip(name)), zoneHint(name))
}

const zoneNameMax = 64

func quote(s string) string { return `"` + s + `"` }

// zoneHint suggests a zone for a wrong name.
func zoneHint(name string) string {
	const what = "a zone is an IANA name such as Europe/Berlin or UTC"
	if name == "Local" {
		return what + "; the zone of a machine is not used, because machines differ"
	}
	if strings.HasPrefix(name, "+") || strings.HasPrefix(name, "-") || strings.Contains(name, ":") {
		return what + "; an offset does not know when clocks change (Etc/GMT-2 is two hours east of UTC)"
	}
	near := nearZones(name)
	if len(near) == 0 {
		return what
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// nearZones returns up to three known names that are similar to a given one: they have the same letters in
// another case, the same city, or a few typing errors.
func nearZones(name string) []string {
	const suggestionsMax, slipsMax, shortMax = 3, 3, 5
	if len(name) > zoneNameMax {
		return nil
	}
	want := zoneKey(name)
	var best [slipsMax][]string
	for _, known := range strings.Fields(zoneNames) {
		key := zoneKey(known)
		city := key[strings.LastIndexByte(key, '/')+1:]
		slips := slipsMax
		switch {
		case want == key:
			slips = 0
		case want == city:
			slips = 1
		case len(want) >= shortMax: // a shorter name is similar to too many names
			slips = min(slipsTo(want, key, slipsMax), slipsTo(want, city, slipsMax)+1)
		}
		if slips < slipsMax {
			best[slips] = append(best[slips], known)
		}
	}
	for _, names := range best {
		if len(names) > 0 {
			return names[:min(len(names), suggestionsMax)]
		}
	}
	return nil
}

// zoneKey returns a name without the differences that people forget: case, and a blank or hyphen instead of
// an underscore.
func zoneKey(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return '_'
		}
		return r
	}, strings.ToLower(s))
}

// slipsTo returns the number of edits between two names. It returns the bound enough if the lengths of the
// names alone differ by that much.
func slipsTo(a, b string, enough int) int {
	if len(a)-len(b) >= enough || len(b)-len(a) >= enough {
		return enough
	}
	return suggest.Distance(a, b)
}
