package cron

import (
	"errors"
	"testing"
	"time"
)

// FuzzParse: no text causes a panic or takes long. An accepted text has an instant, and gives the same
// schedule when its canonical text is parsed again. Next, Prev and Count of the schedule agree.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"15 2 * * *", "*/5 22-2 L-3,LW,15W nov-feb fri#3,5L", "0 0 0 29 2 ? 2028-2199/4", "H(0-29)/10 H H * *",
		"@every 1h30m", "@daily", "@reboot", "CRON_TZ=Asia/Beirut 0 0 * * *", "TZ=Pacific/Apia 0 6 30 12 *", "0-7/1 * 31W 2 7", "* * 30 2 *"} {
		f.Add(s, uint8(0))
	}
	f.Fuzz(func(t *testing.T, text string, policy uint8) {
		o := Options{Seed: "seed", Gap: Gap(policy % 3), Repeat: Repeat(policy / 3 % 3)}
		s, err := Parse(text, o)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Pos < 0 || e.Pos > len(text) || e.Reason == "" || e.Error() == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		again, err := Parse(s.String(), o)
		if err != nil || again.String() != s.String() || again.Describe() != s.Describe() {
			t.Fatalf("%q → %q → %v, %v", text, s, again, err)
		}
		at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		if _, ok := s.Next(time.Time{}); !ok {
			t.Fatalf("%q never fires", text)
		}
		for range 20 {
			next, ok := s.Next(at)
			other, ok2 := again.Next(at)
			if ok != ok2 || !next.Equal(other) {
				t.Fatalf("%q: %v, but %q: %v", text, next, again, other)
			}
			if !ok {
				return
			}
			if !next.After(at) || s.Count(at, next) != 1 {
				t.Fatalf("%q: after %v comes %v, counted %d", text, at, next, s.Count(at, next))
			}
			if back, ok := s.Prev(next.Add(time.Nanosecond)); !ok || !back.Equal(next) {
				t.Fatalf("%q: Prev right after %v is %v", text, next, back)
			}
			at = next
		}
	})
}

// FuzzICS: no file causes a panic or takes long.
func FuzzICS(f *testing.F) {
	f.Add(ics("DTSTART;VALUE=DATE:20271224", "DTEND;VALUE=DATE:20271227", "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU,TH", "EXDATE:20281224"))
	f.Add(ics("DTSTART:20271224T220000Z", "DURATION:P3W", "RRULE:FREQ=WEEKLY;INTERVAL=3;WKST=SU;COUNT=9", "RDATE:20280101,20280102"))
	f.Add(ics("DTSTART:20271231", "RRULE:FREQ=MONTHLY;UNTIL=20300101;BYMONTHDAY=-1,15"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseICS(data)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Reason == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		c.Has(2027, 12, 24)
	})
}

// FuzzDays: no item, list or time of day causes a panic. The text of a time of day can be parsed again.
func FuzzDays(f *testing.F) {
	for _, s := range []string{"2027-12-24", "--12-24", "sat/sun", "2027-12-24/2027-12-31", "06:30:15"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := Days(s); err == nil {
			c.Has(2027, 1, 1)
		}
		if _, err := ParseHolidayList([]byte(s)); err == nil {
			return
		}
		if c, err := ParseClock(s); err == nil {
			if again, err := ParseClock(c.String()); err != nil || again != c {
				t.Fatalf("%q → %v → %v, %v", s, c, again, err)
			}
		}
	})
}
