package cron

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// listed returns the dates of a calendar in some years, without the century.
func listed(c Calendar, from, to int) string {
	var all []string
	for d := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() <= to; d = d.AddDate(0, 0, 1) {
		if c.Has(d.Date()) {
			all = append(all, d.Format("060102"))
		}
	}
	return strings.Join(all, " ")
}

func ics(lines ...string) []byte {
	return []byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nSUMMARY:x\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n")
}

// TestICS checks those examples of RFC 5545, section 3.8.5.3, that are about days.
func TestICS(t *testing.T) {
	const ny = "DTSTART;TZID=America/New_York:"
	for _, c := range []struct {
		name     string
		lines    []string
		from, to int
		want     string
	}{
		{"one day", []string{"DTSTART;VALUE=DATE:20271224"}, 2027, 2028, "271224"},
		{"three days, the end excluded", []string{"DTSTART;VALUE=DATE:20271224", "DTEND;VALUE=DATE:20271227"}, 2027, 2028, "271224 271225 271226"},
		{"DURATION", []string{"DTSTART;VALUE=DATE:20271224", "DURATION:P1W"}, 2027, 2027, "271224 271225 271226 271227 271228 271229 271230"},
		{"a night", []string{"DTSTART:20271224T220000", "DTEND:20271225T060000"}, 2027, 2027, "271224 271225"},
		{"until midnight", []string{"DTSTART:20271224T220000Z", "DTEND:20271225T000000Z"}, 2027, 2027, "271224"},
		{"folded", []string{"DTSTART;VAL", " UE=DATE:2027", "\t1224"}, 2027, 2027, "271224"},
		{"a quoted colon", []string{`DTSTART;X="a:b;c":20271224`}, 2027, 2027, "271224"},
		{"cancelled", []string{"DTSTART:20271224", "STATUS:CANCELLED"}, 2027, 2027, ""},
		{"RDATE and EXDATE", []string{"DTSTART:20270101", "RDATE:20270105,20270107", "EXDATE:20270105"}, 2027, 2027, "270101 270107"},
		{"daily for 3 occurrences", []string{ny + "19970902T090000", "RRULE:FREQ=DAILY;COUNT=3"}, 1997, 1997, "970902 970903 970904"},
		{"every 10 days, 5 occurrences", []string{ny + "19970902T090000", "RRULE:FREQ=DAILY;INTERVAL=10;COUNT=5"}, 1997, 1997, "970902 970912 970922 971002 971012"},
		{"daily in January", []string{ny + "19980130T090000", "RRULE:FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1"}, 1998, 1998, "980130 980131"},
		{"weekly until 24 December", []string{ny + "19971125T090000", "RRULE:FREQ=WEEKLY;UNTIL=19971224T000000Z"}, 1997, 1998, "971125 971202 971209 971216 971223"},
		{"every other week on MO, WE and FR", []string{ny + "19970901T090000", "RRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=6;WKST=SU;BYDAY=MO,WE,FR"}, 1997, 1997, "970901 970903 970905 970915 970917 970919"},
		{"WKST=MO", []string{ny + "19970805T090000", "RRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO"}, 1997, 1997, "970805 970810 970819 970824"},
		{"WKST=SU", []string{ny + "19970805T090000", "RRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU"}, 1997, 1997, "970805 970817 970819 970831"},
		{"first Friday of the month", []string{ny + "19970905T090000", "RRULE:FREQ=MONTHLY;COUNT=4;BYDAY=1FR"}, 1997, 1998, "970905 971003 971107 971205"},
		{"first and last Sunday, every other month", []string{ny + "19970907T090000", "RRULE:FREQ=MONTHLY;INTERVAL=2;COUNT=4;BYDAY=1SU,-1SU"}, 1997, 1998, "970907 970928 971102 971130"},
		{"second-to-last Monday", []string{ny + "19970922T090000", "RRULE:FREQ=MONTHLY;COUNT=3;BYDAY=-2MO"}, 1997, 1998, "970922 971020 971117"},
		{"third-to-last day", []string{ny + "19970928T090000", "RRULE:FREQ=MONTHLY;COUNT=4;BYMONTHDAY=-3"}, 1997, 1998, "970928 971029 971128 971229"},
		{"2nd and 15th", []string{ny + "19970902T090000", "RRULE:FREQ=MONTHLY;COUNT=4;BYMONTHDAY=2,15"}, 1997, 1997, "970902 970915 971002 971015"},
		{"10th to 12th, every 18 months", []string{ny + "19970910T090000", "RRULE:FREQ=MONTHLY;INTERVAL=18;COUNT=5;BYMONTHDAY=10,11,12"}, 1997, 1999, "970910 970911 970912 990310 990311"},
		{"Friday the 13th", []string{ny + "19980213T090000", "RRULE:FREQ=MONTHLY;COUNT=4;BYDAY=FR;BYMONTHDAY=13"}, 1997, 1999, "980213 980313 981113 990813"},
		{"the 31st where there is one", []string{"DTSTART:20270131", "RRULE:FREQ=MONTHLY;COUNT=4"}, 2027, 2027, "270131 270331 270531 270731"},
		{"yearly in June and July", []string{ny + "19970610T090000", "RRULE:FREQ=YEARLY;COUNT=4;BYMONTH=6,7"}, 1997, 1998, "970610 970710 980610 980710"},
		{"every third year", []string{"DTSTART:20200101", "RRULE:FREQ=YEARLY;INTERVAL=3;UNTIL=20300101"}, 2019, 2030, "200101 230101 260101 290101"},
		{"20th Monday of the year", []string{ny + "19970519T090000", "RRULE:FREQ=YEARLY;COUNT=3;BYDAY=20MO"}, 1997, 1999, "970519 980518 990517"},
		{"Thursdays in March", []string{ny + "19970313T090000", "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=TH;UNTIL=19980312"}, 1997, 1998, "970313 970320 970327 980305 980312"},
		{"United States presidential election day", []string{ny + "19961105T090000", "RRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8"}, 1996, 2004, "961105 001107 041102"},
		{"Thanksgiving", []string{"DTSTART:20251127", "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"}, 2025, 2028, "251127 261126 271125 281123"},
		{"29 February", []string{"DTSTART:20240229", "RRULE:FREQ=YEARLY;COUNT=3"}, 2024, 2040, "240229 280229 320229"},
		{"time zones have rules of their own", []string{"DTSTART:20270101", "END:VEVENT", "BEGIN:VTIMEZONE", "BEGIN:STANDARD", "DTSTART:16010101T030000",
			"RRULE:FREQ=YEARLY;BYSETPOS=1", "END:STANDARD", "END:VTIMEZONE", "BEGIN:VEVENT", "DTSTART:20270102"}, 2027, 2027, "270101 270102"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cal, err := ParseICS(ics(c.lines...))
			if err != nil {
				t.Fatal(err)
			}
			if got := listed(cal, c.from, c.to); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestICSRefused(t *testing.T) {
	for _, c := range []struct{ data, says string }{
		{"", "not a complete"},
		{"BEGIN:VCALENDAR\n", "not a complete"},
		{"hello", "not a line of an iCalendar file"},
		{"BEGIN:VEVENT\n", "outside of a VCALENDAR"},
		{"BEGIN:VCALENDAR\nEND:VEVENT\n", "closes a component that is not open"},
		{"BEGIN:VCALENDAR\nBEGIN:VEVENT\nBEGIN:VEVENT\n", "inside another event"},
		{string(ics("SUMMARY:y")), "DTSTART: line 6: the event has none"},
		{string(ics("DTSTART:2027")), "line 5"},
		{string(ics("DTSTART:20270230")), "not a date"},
		{string(ics("DTSTART:20270101T2500")), "not a date"},
		{string(ics("DTSTART:20270102", "DTEND:20270101")), "before DTSTART"},
		{string(ics("DTSTART:20270102", "DTEND:20270103T000000")), "another form"},
		{string(ics("DTSTART:20270102", "DURATION:P1Y")), "not supported"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=HOURLY")), "FREQ=HOURLY is not supported"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=YEARLY;BYWEEKNO=20")), "BYWEEKNO is not supported"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=YEARLY;BYSETPOS=-1")), "BYSETPOS is not supported"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=YEARLY;BYYEARDAY=1")), "BYYEARDAY is not supported"},
		{string(ics("DTSTART:20270102", "RRULE:INTERVAL=2")), "FREQ is missing"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=DAILY;INTERVAL=0")), "INTERVAL=0 is out of range"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=DAILY;COUNT=1;UNTIL=20280101")), "exclude each other"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=WEEKLY;BYDAY=1MO")), "numbered BYDAY"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=WEEKLY;BYMONTHDAY=1")), "no meaning with FREQ=WEEKLY"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=DAILY;FREQ=DAILY")), "once"},
		{string(ics("DTSTART:20270102", "RRULE:FREQ=DAILY", "RRULE:FREQ=DAILY")), "has two"},
		{string(ics("DTSTART:20270102", "EXRULE:FREQ=DAILY")), "EXRULE"},
		{string(ics("DTSTART:20270102", "RDATE;VALUE=PERIOD:20270101T000000Z/P1D")), "periods"},
		{string(ics("DTSTART:20270102", "RECURRENCE-ID:20270101")), "changed occurrence"},
		{strings.Repeat("x", CalendarMax+1), "at most 1 MiB"},
		{"BEGIN:VCALENDAR\n" + strings.Repeat("BEGIN:VEVENT\nDTSTART:19700101\nRRULE:FREQ=DAILY\nEND:VEVENT\n", 100) + "END:VCALENDAR\n", "too many days"},
	} {
		if _, err := ParseICS([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.300q\ngot  %v\nwant %s", c.data, err, c.says)
		}
	}
}

// TestManyEvents: a file may have thousands of rules of the usual kind.
func TestManyEvents(t *testing.T) {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "BEGIN:VEVENT\nDTSTART:2027%02d%02d\nRRULE:FREQ=YEARLY\nEND:VEVENT\n", i%12+1, i%28+1)
	}
	b.WriteString("END:VCALENDAR\n")
	if _, err := ParseICS([]byte(b.String())); err != nil {
		t.Error(err)
	}
}

func TestDaysCalendar(t *testing.T) {
	for _, c := range []struct {
		items    []string
		from, to int
		want     string
	}{
		{[]string{"2027-12-24"}, 2026, 2028, "271224"},
		{[]string{"12-24", "--01-06"}, 2027, 2028, "270106 271224 280106 281224"},
		{[]string{"02-29"}, 2027, 2032, "280229 320229"},
		{[]string{"2027-12-30/2028-01-02"}, 2027, 2028, "271230 271231 280101 280102"},
		{[]string{"02-28/02-29"}, 2027, 2028, "270228 280228 280229"},
		{[]string{"02-29/03-01"}, 2027, 2028, "270301 280229 280301"},
		{[]string{"12-31/01-01"}, 2027, 2027, "270101 271231"},
		{nil, 2027, 2028, ""},
	} {
		cal, err := Days(c.items...)
		if err != nil {
			t.Fatal(err)
		}
		if got := listed(cal, c.from, c.to); got != c.want {
			t.Errorf("%q\ngot  %s\nwant %s", c.items, got, c.want)
		}
	}
	weekend, err := Days("Sat", "sunday")
	if err != nil {
		t.Fatal(err)
	}
	also, err := Days("sat/sun")
	if err != nil {
		t.Fatal(err)
	}
	for d := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() == 2027; d = d.AddDate(0, 0, 1) {
		want := d.Weekday() == time.Saturday || d.Weekday() == time.Sunday
		if weekend.Has(d.Date()) != want || also.Has(d.Date()) != want {
			t.Errorf("%s", d)
		}
	}
	for _, item := range []string{"", "2027-13-01", "2027-02-29", "02-30", "2027-1-1", "foo", "1", "2027-12-24/sat", "2027-12-24/2027-12-23", "1969-01-01", "2200-01-01", "mon/tue/wed"} {
		if _, err := Days(item); err == nil {
			t.Errorf("%q was taken", item)
		}
	}
}

func TestHolidayList(t *testing.T) {
	cal, err := ParseHolidayList([]byte("# Germany\n2027-03-26  # Good Friday\n\n12-25/12-26\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := listed(cal, 2027, 2027), "270326 271225 271226"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := ParseHolidayList([]byte("2027-03-26\n2027-03-99\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
	if _, err := ParseHolidayList(make([]byte, CalendarMax+1)); err == nil {
		t.Error("too large a list was taken")
	}
	if _, err := ParseHolidayList([]byte(strings.Repeat("12-24\n", 2000))); err == nil {
		t.Error("thousands of yearly rules were taken")
	}
}

// TestOnNominalDay: if a change of the clock moves an occurrence to another day, the day that the rule names
// decides.
func TestOnNominalDay(t *testing.T) {
	fridays, err := Days("fri")
	if err != nil {
		t.Fatal(err)
	}
	s := parse(t, "0 0 * * *", Options{Zone: "Africa/Cairo", Gap: RunBefore}).On(fridays, nil)
	if got, want := chain(t, s, "2026-04-20T00:00:00Z", "2026-04-29T00:00:00Z"), "04-23T21:59:00"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if s.Describe() != "at 00:00 every day, Africa/Cairo, only on days of a calendar" {
		t.Error(s.Describe())
	}
}

// TestEveryOnDays: the first and the last second of a day belong to it.
func TestEveryOnDays(t *testing.T) {
	c, err := Days("2027-03-03", "2027-03-05")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Every(time.Second, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	s := all.On(c, nil)
	if at, ok := s.Next(instant(t, "2027-03-01T00:00:00Z")); !ok || !at.Equal(instant(t, "2027-03-03T00:00:00Z")) {
		t.Errorf("first: %v", at)
	}
	if at, ok := s.Next(instant(t, "2027-03-03T23:59:59Z")); !ok || !at.Equal(instant(t, "2027-03-05T00:00:00Z")) {
		t.Errorf("next day: %v", at)
	}
	if at, ok := s.Prev(instant(t, "2027-03-05T00:00:00Z")); !ok || !at.Equal(instant(t, "2027-03-03T23:59:59Z")) {
		t.Errorf("day before: %v", at)
	}
	if n := s.Count(time.Time{}, instant(t, "2027-12-31T00:00:00Z")); n != 2*daySeconds {
		t.Errorf("%d seconds", n)
	}
}
