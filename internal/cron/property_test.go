package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawField draws the text of a field, and returns its values separately.
func drawField(t *rapid.T, name string, lo, hi int, wraps bool) (string, map[int]bool) {
	values := map[int]bool{}
	var items []string
	for range rapid.IntRange(1, 3).Draw(t, name+" items") {
		a := rapid.IntRange(lo, hi).Draw(t, name+" from")
		b := rapid.IntRange(lo, hi).Draw(t, name+" to")
		step := rapid.IntRange(1, hi-lo+1).Draw(t, name+" step")
		if b < a && !wraps {
			a, b = b, a
		}
		var text string
		switch rapid.IntRange(0, 5).Draw(t, name+" form") {
		case 0:
			text, a, b, step = "*", lo, hi, 1
		case 1:
			text, a, b = "*/"+strconv.Itoa(step), lo, hi
		case 2:
			text, b = fmt.Sprintf("%d/%d", a, step), hi
		case 3:
			text, step = fmt.Sprintf("%d-%d", a, b), 1
		case 4:
			text = fmt.Sprintf("%d-%d/%d", a, b, step)
		default:
			text, b, step = strconv.Itoa(a), a, 1
		}
		for v, k := a, 0; ; v, k = v+1, k+1 {
			if v > hi {
				v = lo
			}
			if k%step == 0 {
				values[v] = true
			}
			if v == b {
				break
			}
		}
		items = append(items, text)
	}
	return strings.Join(items, ","), values
}

// drawDays draws a field of days. Usually the field is not restricted, so that expressions fire at all.
func drawDays(t *rapid.T, name string, lo, hi int, wraps bool) (string, map[int]bool) {
	if rapid.IntRange(0, 2).Draw(t, name+" restricted") > 0 {
		all := map[int]bool{}
		for v := lo; v <= hi; v++ {
			all[v] = true
		}
		return "*", all
	}
	return drawField(t, name, lo, hi, wraps)
}

// drawRule draws a random expression with its meaning. It has six fields, or five without the first one.
func drawRule(t *rapid.T, seconds bool) rule {
	secText, sec := "0", map[int]bool{0: true}
	if seconds {
		secText, sec = drawField(t, "second", 0, 59, false)
	}
	minText, minutes := drawField(t, "minute", 0, 59, false)
	hourText, hours := drawField(t, "hour", 0, 23, true)
	domText, dom := drawDays(t, "dom", 1, 31, false)
	monthText, months := drawDays(t, "month", 1, 12, true)
	dowText, dow := drawDays(t, "dow", 0, 6, true)
	text := strings.Join([]string{minText, hourText, domText, monthText, dowText}, " ")
	if seconds {
		text = secText + " " + text
	}
	both := domText[0] == '*' || dowText[0] == '*'
	return rule{
		text: text, elapsed: strings.ContainsAny(hourText, "*/"),
		match: func(s shown) bool {
			if !sec[s.s] || !minutes[s.mi] || !hours[s.h] || !months[s.mo] {
				return false
			}
			if both {
				return dom[s.d] && dow[s.wd]
			}
			return dom[s.d] || dow[s.wd]
		},
	}
}

// hardZones have clock changes that other schedulers get wrong.
var hardZones = []string{
	"Australia/Lord_Howe", "Asia/Beirut", "America/Sao_Paulo", "Africa/Cairo", "America/Havana", "Pacific/Apia",
	"America/Caracas", "Asia/Pyongyang", "Europe/Volgograd", "Europe/Dublin", "Africa/Casablanca", "Antarctica/Troll",
	"America/St_Johns", "Asia/Gaza", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Antarctica/Casey",
	"Pacific/Fakaofo", "Asia/Kolkata",
}

func drawPlace(t *rapid.T) (*time.Location, int64) {
	loc, err := LoadZone(rapid.SampledFrom(hardZones).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	at := int64(rapid.IntRange(946684800/3600, 2145916800/3600).Draw(t, "hour")) * 3600
	if all := changes(loc); len(all) > 0 && rapid.Bool().Draw(t, "at a change") {
		at = rapid.SampledFrom(all).Draw(t, "change")
	}
	return loc, at
}

func drawPolicy(t *rapid.T) [2]int { return rapid.SampledFrom(policies).Draw(t, "policies") }

// TestRandomExpressions compares random expressions with the oracle, by minutes and by seconds.
func TestRandomExpressions(t *testing.T) {
	for name, unit := range map[string]int64{"minutes": 60, "seconds": 1} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := drawRule(t, unit == 1)
				loc, at := drawPlace(t)
				p := drawPolicy(t)
				s, err := Parse(r.text, Options{Zone: loc.String(), Gap: Gap(p[0]), Repeat: Repeat(p[1])})
				if err != nil {
					t.Skip(err) // the expression names a day that no month has
				}
				lo, hi, margin := at-86400, at+86400, int64(108000)
				if unit == 1 {
					lo, hi, margin = at-1200, at+5000, 27*3600
				}
				w := newWalk(loc, lo-margin, hi+margin, unit)
				want := w.fires(w.matching(r), r.elapsed, p, lo, hi)
				if len(want) > 300 {
					hi = want[300]
					want = want[:300]
				}
				if err := compare(s, want, lo, hi); err != nil {
					t.Fatalf("%s in %s, %v: %v", r.text, loc, p, err)
				}
			})
		})
	}
}

// TestOnAndBetween compares On and Between with a walk over the unrestricted instants, for schedules of every
// kind.
func TestOnAndBetween(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, at := drawPlace(t)
		from, to := time.Unix(at-20*86400, 0).In(loc), time.Unix(at+20*86400, 0).In(loc)
		s := drawSchedule(t, loc)
		include, exclude := drawCalendar(t, "include"), drawCalendar(t, "exclude")
		start := time.Unix(at-int64(rapid.IntRange(0, 30*24).Draw(t, "start"))*3600, 0)
		end := time.Unix(at+int64(rapid.IntRange(0, 30*24).Draw(t, "end"))*3600, 0)
		var want []int64
		for x, ok := s.Next(from); ok && x.Before(to); x, ok = s.Next(x) {
			y, m, d := x.Date()
			if (include == nil || include.Has(y, m, d)) && (exclude == nil || !exclude.Has(y, m, d)) && !x.Before(start) && !x.After(end) {
				want = append(want, x.Unix())
			}
		}
		cut := s.On(include, exclude).Between(start, end)
		if err := compare(cut, want, from.Unix()+1, to.Unix()); err != nil {
			t.Fatalf("%s in %s: %v", cut, loc, err)
		}
	})
}

// drawSchedule draws a schedule whose instants no clock change moves to another day. The walk of
// TestOnAndBetween could not detect such a move.
func drawSchedule(t *rapid.T, loc *time.Location) *Schedule {
	var s *Schedule
	var err error
	switch rapid.IntRange(0, 3).Draw(t, "make") {
	case 0:
		s, err = Every(time.Duration(rapid.IntRange(600, 500_000).Draw(t, "seconds"))*time.Second,
			time.Unix(int64(rapid.IntRange(0, 1<<31).Draw(t, "anchor")), 0).In(loc))
	case 1:
		var ts []time.Time
		for range rapid.IntRange(1, 50).Draw(t, "instants") {
			ts = append(ts, time.Unix(int64(rapid.IntRange(946684800, 2145916800).Draw(t, "instant")), 0).In(loc))
		}
		s, err = At(ts...)
	case 2:
		s, err = Parse("*/7 */2 * * *", Options{Zone: loc.String()})
	default:
		s, err = Daily([]Clock{{12, 0, 0}, {14, 30, 15}}, Options{Zone: loc.String(), Gap: SkipGap})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func drawCalendar(t *rapid.T, name string) Calendar {
	if rapid.Bool().Draw(t, name+" none") {
		return nil
	}
	items := rapid.SliceOfN(rapid.SampledFrom([]string{"sat", "sun/tue", "12-20/01-06", "03-28", "10-25/11-05", "2012-01-01/2030-12-31", "wed"}), 0, 3).Draw(t, name)
	c, err := Days(items...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestUnion compares a union with the sorted instants of its members.
func TestUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, at := drawPlace(t)
		lo, hi := at-86400, at+86400
		var members []*Schedule
		var want []int64
		for range rapid.IntRange(1, 4).Draw(t, "members") {
			text := rapid.SampledFrom([]string{"*/7 * * * *", "0 */2 * * *", "30 0-5 * * *", "0 0,12 * * 1-5", "5/45 */10 * * * *", "@every 17m"}).Draw(t, "text")
			p := drawPolicy(t)
			s, err := Parse(text, Options{Zone: loc.String(), Gap: Gap(p[0]), Repeat: Repeat(p[1])})
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "cut") {
				s = s.Between(time.Unix(lo+int64(rapid.IntRange(0, 86400).Draw(t, "from")), 0), time.Unix(hi, 0))
			}
			for x, ok := s.Next(time.Unix(lo-1, 0)); ok && x.Unix() < hi; x, ok = s.Next(x) {
				want = append(want, x.Unix())
			}
			members = append(members, s)
		}
		slices.Sort(want)
		want = slices.Compact(want)
		u, err := Union(members...)
		if err != nil {
			t.Fatal(err)
		}
		if err := compare(u, want, lo, hi); err != nil {
			t.Fatalf("%s in %s: %v", u, loc, err)
		}
	})
}

// TestPrevIsTheInverseOfNext: Prev is the inverse of Next, also if the next instant is years away.
func TestPrevIsTheInverseOfNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, at := drawPlace(t)
		p := drawPolicy(t)
		r := drawRule(t, rapid.Bool().Draw(t, "seconds"))
		s, err := Parse(r.text, Options{Zone: loc.String(), Gap: Gap(p[0]), Repeat: Repeat(p[1])})
		if err != nil {
			t.Skip(err)
		}
		a, ok := s.Next(time.Unix(at, 0))
		if !ok {
			return
		}
		b, ok := s.Next(a)
		if !ok {
			return
		}
		if back, ok := s.Prev(b); !ok || !back.Equal(a) {
			t.Fatalf("%s in %s, %v: Next(%s) = %s, its Prev is %s", r.text, loc, p, a, b, back)
		}
		if n := s.Count(a, b); n != 1 {
			t.Fatalf("%s: %d instants in (%s, %s]", r.text, n, a, b)
		}
	})
}
