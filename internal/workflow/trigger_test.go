package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"skein.dev/skein/internal/cron"

	"pgregory.net/rapid"
)

// trigger parses a workflow with one trigger, given as flow YAML.
func trigger(t testing.TB, entry string) *Trigger {
	t.Helper()
	w := must(t, "name: w\nnamespace: shop\nparams: {a: {required: false}, n: {type: int, default: 1}, j: {type: json, default: {}}}\ntriggers:\n  - "+entry+"\ntasks: {a: {run: x}}\n")
	return &w.Triggers[0]
}

// TestTriggers compares every valid form with testdata/triggers.txt: its name, its words and its stored form.
func TestTriggers(t *testing.T) {
	src, err := os.ReadFile("testdata/triggers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := must(t, string(src))
	var got strings.Builder
	for i := range w.Triggers {
		tr := &w.Triggers[i]
		fmt.Fprintf(&got, "%s: %s\n%s\n\n", tr.Name, tr.Describe(), tr.Encode())
		firesOrListens(t, tr)
	}
	roundTrip(t, w)
	const file = "testdata/triggers.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got.String() {
		t.Errorf("%v\n%s", err, got.String())
	}
}

// firesOrListens checks that a trigger that Parse accepted can fire or listen. Its calendar files were not
// read.
func firesOrListens(t interface{ Fatalf(string, ...any) }, tr *Trigger) {
	again, err := DecodeTrigger(tr.Encode())
	if err != nil || !reflect.DeepEqual(tr, again) {
		t.Fatalf("%+v is decoded as %+v %v", tr, again, err)
	}
	if len(tr.Name) > nameBytesMax || !keyOrDash("").takes(&node{text: tr.Name}) || tr.Describe() == "" {
		t.Fatalf("the name %s: %s", tr.Name, tr.Describe())
	}
	s, err := again.Schedule()
	if len(tr.missingCalendars()) > 0 {
		return
	}
	if err != nil || (s != nil) != tr.timed() {
		t.Fatalf("%s has the schedule %v %v", tr.Encode(), s, err)
	}
	if s != nil {
		if _, ok := s.Next(time.Time{}); !ok {
			t.Fatalf("%s never fires", tr.Encode())
		}
	}
}

// TestTriggerForms: every form that the grammar allows is accepted by the schema, is stored and read back
// unchanged, and has a name of its own.
func TestTriggerForms(t *testing.T) {
	schema := schemaFor(t)
	rapid.Check(t, func(rt *rapid.T) {
		entry := drawTrigger(rt)
		src := "name: w\nparams: {s: {required: false}, n: {type: int, default: 1}}\ntriggers:\n  - {" + entry + "}\ntasks: {a: {run: x}}\n"
		all, errs := Parse([]byte(src), Options{File: "f.yaml"})
		if len(errs) > 0 {
			rt.Fatalf("%s", errs.Error())
		}
		roundTrip(rt, all[0])
		firesOrListens(rt, &all[0].Triggers[0])
		if err := schema.Validate(plain(t, []byte(src))); err != nil {
			rt.Fatalf("the schema refuses\n%s\n%v", src, err)
		}
	})
}

func drawTrigger(t *rapid.T) string {
	one := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	number := func(label string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, label) }
	clock := fmt.Sprintf(`"%d:%02d"`, number("hour", 0, 23), number("minute", 0, 59))
	kinds := []string{
		fmt.Sprintf("cron: %s", one("cron", `"*/5 * * * *"`, `"0 9 * * mon-fri"`, `"@hourly"`, `"H 3 L * ?"`, `"0 0 12 15W 1-3 ? 2030/2"`, `"@every 90s"`)),
		fmt.Sprintf("every: %ds, count: %s", number("every", 1, 1e6), one("count", "-1", "7")),
		fmt.Sprintf("at: 20%02d-01-02T03:04:05Z", number("year", 0, 99)),
		"daily: {at: " + clock + "}",
		fmt.Sprintf("weekly: {on: [%s, %d], at: [%s]}", one("on", "mon", "Sunday", "WED"), number("dow", 0, 7), clock),
		fmt.Sprintf("monthly: {day: %s, at: %s}", one("day", "1", "31", "-1", "[-31, 5]"), clock),
		fmt.Sprintf("annually: {month: %s, at: %s}", one("month", "feb", "12", "[July, 1]"), clock),
		"webhook: {secret: s, filter: \"event.body.a == 1\"}", "file: {path: /in, pattern: \"*.csv\", settle: 0}",
		fmt.Sprintf("run_of: {workflow: [a, b/c], require: %s, within: %s}", one("require", "ended", "any", "all failed", "succeeded any"), one("within", "day", "90m")),
		fmt.Sprintf("again: {max_per_hour: %d}", number("rate", 1, 3600)),
		fmt.Sprintf("absent: {run_of: b/c, by: %s}", one("by", `"06:00"`, "2027-01-01T00:00:00Z")), "absent: {file: /in/a.csv, by: 2h}",
		"event: a.b", "event: {type: [a, \"b.*\"], source: shop, filter: event.data.a == 1, from: beginning, lost: skip, batch: {max: 10}}",
	}
	entry := kinds[number("kind", 0, len(kinds)-1)]
	for _, more := range []string{
		"timezone: " + one("zone", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"), "max_concurrent_runs: 3", "delay_tolerance: 5m", "if_lost: fail",
		"overlap: " + one("overlap", "skip", "cancel_running", "allow", "queue, overlap_limit: 7"), "paused: true", "priority: low", "start: 2000-01-01",
		"end: \"2199-12-31T00:00:00Z\"", "params: {s: \"at ${{ date(trigger.time) }} <\", n: 5}", "name: N_1.x-" + one("name", "a", "b"),
	} {
		if rapid.Bool().Draw(t, more) {
			entry += ", " + more
		}
	}
	return entry
}

// The stored form of a trigger does not depend on the rest of the file, on the order of keys and lists, or on
// the notation of a value.
func TestTriggerEncode(t *testing.T) {
	for _, same := range [][2]string{
		{`{cron: "0 9 * * 1-5", timezone: Europe/Berlin}`, `{overlap: skip, catchup: latest, max_concurrent_runs: 1, timezone: Europe/Berlin, cron: " 0 9  * * 1-5", dst: {repeat: once}}`},
		{`{cron: "CRON_TZ=Europe/Berlin 0 9 * * 1-5"}`, `{cron: "0 9 * * 1-5", timezone: Europe/Berlin}`},
		{`{every: 90m}`, `{every: 1h30m, count: -1, timezone: UTC, paused: false}`},
		{`{weekly: {on: [fri, Monday], at: ["18:00", "6:00"]}}`, `{weekly: {at: [06:00, "18:00", 18:00], on: [1, 5, mon]}}`},
		{`{weekly: {on: 7, at: "06:00"}}`, `{weekly: {on: sun, at: "06:00"}}`},
		{`{at: 2027-01-01T06:00:00+01:00}`, `{at: "2027-01-01 05:00"}`},
		{`{every: 1h, params: {n: 2, a: "<&>", j: {b: 1, a: 2}}}`, `{params: {j: {a: 2, b: 1}, a: "<&>", n: 0x2}, every: 1h}`},
		{`{every: 1h, params: {a: null}}`, `{every: 1h}`},
		{`{run_of: a}`, `{run_of: {workflow: [shop/a], require: all}}`},
		{`{run_of: {workflow: [b, a], within: 60m}}`, `{run_of: {workflow: [a, b], require: all succeeded, within: 1h}}`},
		{`{daily: {at: "06:00"}, calendar: {exclude: [sun, Sat]}}`, `{daily: {at: "06:00"}, calendar: {exclude: [sat, sun, sat]}}`},
	} {
		one, two := trigger(t, same[0]), trigger(t, same[1])
		if !bytes.Equal(one.Encode(), two.Encode()) {
			t.Errorf("differ:\n%s\n%s", one.Encode(), two.Encode())
		}
	}
	w := must(t, "name: w\nparams: {a: {enum: [\"<\", b], default: \"<\"}}\ntriggers:\n  - {every: 1h, params: {a: \"<\"}}\ntasks: {a: {run: x}}\n")
	def, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := Decode(def)
	if err != nil || !bytes.Equal(stored.Triggers[0].Encode(), w.Triggers[0].Encode()) {
		t.Errorf("stored as %s %v", stored.Triggers[0].Encode(), err)
	}
	if got, err := stored.StartParams(stored.Triggers[0].Params, time.Time{}, nil); err != nil || string(got) != `{"a":"<"}` {
		t.Errorf("%s %v", got, err)
	}
	if _, err := DecodeTrigger([]byte("{")); err == nil {
		t.Error("half a trigger is decoded")
	}
}

func TestTriggerSchedule(t *testing.T) {
	for _, c := range []struct{ entry, after, want string }{
		{`{daily: {at: "06:00"}, timezone: Europe/Berlin}`, "2027-03-27T12:00:00Z", "2027-03-28T04:00:00Z 2027-03-29T04:00:00Z"},
		{`{every: 7h}`, "1970-01-01T00:00:00Z", "1970-01-01T07:00:00Z 1970-01-01T14:00:00Z"},
		{`{every: 7h, start: 2027-01-01, timezone: Asia/Tokyo}`, "2026-01-01T00:00:00Z", "2026-12-31T15:00:00Z 2026-12-31T22:00:00Z"},
		{`{every: 7h, start: 2027-01-01T01:00:00Z}`, "2026-01-01T00:00:00Z", "2027-01-01T01:00:00Z 2027-01-01T08:00:00Z"},
		{`{daily: {at: 00:00}, start: 2027-01-01, end: 2027-01-02}`, "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z 2027-01-02T00:00:00Z end"},
		{`{daily: {at: "23:59:59"}, end: 2027-01-02}`, "2027-01-01T00:00:00Z", "2027-01-01T23:59:59Z 2027-01-02T23:59:59Z end"},
		{`{daily: {at: 00:00}, end: "2027-01-01T00:00:00Z"}`, "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z end"},
		{`{daily: {at: "06:00"}, calendar: {exclude: [sat, sun, 2027-01-04]}}`, "2027-01-01T06:00:00Z", "2027-01-05T06:00:00Z 2027-01-06T06:00:00Z"},
		{`{daily: {at: "06:00"}, calendar: {include: 12-24/12-25}}`, "2027-01-01T06:00:00Z", "2027-12-24T06:00:00Z 2027-12-25T06:00:00Z"},
		{`{at: 2027-10-31T02:30, timezone: Europe/Berlin}`, "2027-01-01T00:00:00Z", "2027-10-31T00:30:00Z end"},
		{`{absent: {run_of: a, by: "06:00"}, timezone: Europe/Berlin}`, "2027-01-01T12:00:00Z", "2027-01-02T05:00:00Z 2027-01-03T05:00:00Z"},
		{`{absent: {run_of: a, by: 2027-01-01T06:00:00Z}}`, "2026-01-01T12:00:00Z", "2027-01-01T06:00:00Z end"},
		{`{monthly: {day: -1, at: "06:00"}}`, "2027-01-31T06:00:00Z", "2027-02-28T06:00:00Z 2027-03-31T06:00:00Z"},
		{`{annually: {at: "06:00"}}`, "2027-01-31T06:00:00Z", "2028-01-01T06:00:00Z 2029-01-01T06:00:00Z"},
		{`{weekly: {on: [7], at: "06:00"}, dst: {gap: skip, repeat: both}}`, "2027-01-01T06:00:00Z", "2027-01-03T06:00:00Z 2027-01-10T06:00:00Z"},
		{`{cron: "@every 1h", start: 2027-01-01T00:30:00Z}`, "2026-01-01T00:00:00Z", "2027-01-01T01:00:00Z 2027-01-01T02:00:00Z"},
	} {
		s, err := trigger(t, c.entry).Schedule()
		if err != nil {
			t.Errorf("%s: %v", c.entry, err)
			continue
		}
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.Fields(c.want) {
			next, ok := s.Next(at)
			if !ok {
				got = append(got, "end")
				break
			}
			at = next
			got = append(got, next.UTC().Format(time.RFC3339))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s fires at %v, want %s", c.entry, got, c.want)
		}
	}
	for _, c := range []string{"{at: start}", `{cron: "@reboot"}`, "{again: {}}", "{run_of: a}", "{webhook: {secret: s}}", "{absent: {run_of: a, by: 2h}}"} {
		if s, err := trigger(t, c).Schedule(); s != nil || err != nil || !trigger(t, c).Sensor() {
			t.Errorf("%s has the schedule %v %v", c, s, err)
		}
	}
	one, two := trigger(t, `{name: a, cron: "H H * * *"}`), trigger(t, `{name: b, cron: "H H * * *"}`)
	s1, err1 := one.Schedule()
	s2, err2 := two.Schedule()
	if err1 != nil || err2 != nil || s1.Describe() == s2.Describe() {
		t.Errorf("H gives %v and %v", s1.Describe(), s2.Describe())
	}
}

// Start and end of a day are right where clocks change at midnight, and where a zone has skipped a day.
func TestSpan(t *testing.T) {
	for _, c := range []struct{ entry, from, until string }{
		{`{every: 1h, start: 2026-03-29, end: 2026-03-28, timezone: Asia/Beirut}`, "2026-03-28T22:00:00Z", "2026-03-28T21:59:59.999999999Z"},
		{`{every: 1h, start: 2011-12-30, end: 2011-12-29, timezone: Pacific/Apia}`, "2011-12-30T10:00:00Z", "2011-12-30T09:59:59.999999999Z"},
		{`{every: 1h, start: 2026-10-25, end: 2026-10-25, timezone: Europe/Berlin}`, "2026-10-24T22:00:00Z", "2026-10-25T22:59:59.999999999Z"},
		{`{every: 1h, start: 2025-11-02, end: 2025-11-02, timezone: America/Havana}`, "2025-11-02T04:00:00Z", "2025-11-03T04:59:59.999999999Z"},
	} {
		// The test sets the fields itself and does not call Parse, because in some cases the end is before the start.
		tr := &Trigger{}
		for _, part := range strings.Split(strings.Trim(c.entry, "{}"), ", ") {
			k, v, _ := strings.Cut(part, ": ")
			switch k {
			case "start":
				tr.Start = v
			case "end":
				tr.End = v
			case "timezone":
				tr.Timezone = v
			}
		}
		from, until, err := tr.Span()
		if err != nil || from.UTC().Format(time.RFC3339Nano) != c.from || until.UTC().Format(time.RFC3339Nano) != c.until {
			t.Errorf("%s: %v to %v %v", c.entry, from.UTC(), until.UTC(), err)
		}
	}
	if from, until, err := (&Trigger{Timezone: "UTC"}).Span(); !from.IsZero() || !until.IsZero() || err != nil {
		t.Errorf("no span is %v to %v", from, until)
	}
}

const holidays = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART;VALUE=DATE:20270104\r\nSUMMARY:x\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

func TestCalendars(t *testing.T) {
	src := "name: w\nfiles: \"*.sh\"\ntriggers:\n  - daily: {at: \"06:00\"}\n    calendar: {exclude: [cal/holidays.ics, ./days.txt, sat]}\ntasks: {a: {run: x}}\n"
	days := []byte("# ours\n2027-01-05\n")
	dir := fstest.MapFS{"a.sh": {Data: []byte("x")}, "cal/holidays.ics": {Data: []byte(holidays)}, "days.txt": {Data: days}}
	all, errs := Parse([]byte(src), Options{File: "f.yaml", Dir: dir})
	if len(errs) > 0 {
		t.Fatal(errs.Error())
	}
	w := all[0]
	if got := w.FilesWanted(); !slices.Equal(got, []string{"*.sh", "cal/holidays.ics", "days.txt"}) {
		t.Errorf("wants %v", got)
	}
	files, err := CollectFiles(dir, w.FilesWanted())
	if err != nil || len(files) != 3 {
		t.Fatalf("%v %v", files, err)
	}
	came, errs := Parse([]byte(src), Options{File: "f.yaml", ReadFile: ReadFrom(files)})
	if len(errs) > 0 || !bytes.Equal(came[0].Triggers[0].Encode(), w.Triggers[0].Encode()) {
		t.Fatalf("%v", errs)
	}
	again, err := DecodeTrigger(w.Triggers[0].Encode())
	if err != nil {
		t.Fatal(err)
	}
	s, err := again.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	if next, _ := s.Next(time.Date(2027, 1, 3, 12, 0, 0, 0, time.UTC)); next.UTC().Format(time.DateOnly) != "2027-01-06" {
		t.Errorf("fires at %v", next)
	}
	unread, errs := Parse([]byte(src), Options{File: "f.yaml"})
	if len(errs) > 0 {
		t.Fatal(errs.Error())
	}
	if _, err := unread[0].Triggers[0].Schedule(); err == nil || !strings.Contains(err.Error(), `"cal/holidays.ics" was not sent together with the workflow`) {
		t.Errorf("said %v", err)
	}
	for want, opt := range map[string]Options{
		`5:26: there is no calendar file "cal/holidays.ics" next to the workflow file`: {ReadFile: ReadFrom(nil)},
		"did you mean day.txt?":                                                               {Dir: fstest.MapFS{"cal/holidays.ics": {Data: []byte(holidays)}, "day.txt": {}}},
		`5:26: the calendar file "cal/holidays.ics" is damaged: `:                             {ReadFile: func(string) ([]byte, error) { return []byte("rubbish"), nil }},
		`5:44: the calendar file "./days.txt" is damaged: "2027-02-30", line 2: is not a day`: {Dir: fstest.MapFS{"cal/holidays.ics": {Data: []byte(holidays)}, "days.txt": {Data: []byte("12-24\n2027-02-30\n")}}},
		`5:26: the calendar file "cal/holidays.ics" is larger than 256.0 KiB`:                 {ReadFile: func(string) ([]byte, error) { return make([]byte, calendarBytesMax+1), nil }},
		`5:26: the calendar file "cal/holidays.ics" cannot be read: broken`:                   {ReadFile: func(string) ([]byte, error) { return nil, fmt.Errorf("broken") }},
	} {
		opt.File = "f.yaml"
		_, errs := Parse([]byte(src), opt)
		if !strings.Contains(errs.Error(), want) {
			t.Errorf("not said: %s\n%s", want, errs.Error())
		}
	}
}

func TestStartParams(t *testing.T) {
	w := must(t, `
name: w
params:
  day: {format: date, default: "${{ date(trigger.time) }}"}
  n: {type: int, default: 1}
  f: {type: float, required: false}
  s: {required: false}
  j: {type: json, required: false}
  b: {type: bool, default: false}
tasks: {a: {run: x}}
`)
	at := time.Date(2027, 3, 4, 23, 30, 0, 0, time.UTC)
	event := json.RawMessage(`{"body":{"n":5,"id":"a-1","list":[1,"<"],"ok":true},"headers":{"x-a":"7"},"query":{}}`)
	for _, c := range []struct{ given, want string }{
		{``, `{"day":"2027-03-04","n":1,"f":null,"s":null,"j":null,"b":false}`},
		{`{"day":"${{ date(trigger.time, 'Europe/Berlin') }}","n":"${{ trigger.event.body.n + 1 }}","s":"${{ trigger.event.body.n }}","j":"${{ trigger.event.body.list }}","b":"${{ trigger.event.body.ok }}"}`,
			`{"day":"2027-03-05","n":6,"f":null,"s":"5","j":[1,"<"],"b":true}`},
		{`{"n":"${{ trigger.event.headers['x-a'] }}","f":"${{ trigger.event.body.n }}","s":"at ${{ trigger.time }}","j":"[1]"}`,
			`{"day":"2027-03-04","n":7,"f":5.0,"s":"at 2027-03-04T23:30:00Z","j":"[1]","b":false}`},
		{`{"n":"9","b":"true","day":null,"j":{"a":1}}`, `{"day":"2027-03-04","n":9,"f":null,"s":null,"j":{"a":1},"b":true}`},
		{`{"nn":1}`, `error there is no parameter "nn"`},
		{`{"n":"${{ trigger.event.body.id }}"}`, `error parameter n must be a whole number, not "a-1"`},
		{`{"n":"${{ trigger.event.body.none }}","s":"${{ trigger.event.x }}"}`, `error parameter n cannot be evaluated`},
		{`{"n":"${{ params.s }}"}`, `error parameter n cannot be evaluated: the params of a trigger cannot see params`},
		{`[1]`, `error not a JSON object`},
	} {
		got, err := w.StartParams(json.RawMessage(c.given), at, event)
		if rest, bad := strings.CutPrefix(c.want, "error "); bad {
			if err == nil || !strings.Contains(err.Error(), rest) {
				t.Errorf("%s: said %v", c.given, err)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s %v, want %s", c.given, got, err, c.want)
		}
	}
	if _, err := w.StartParams(json.RawMessage(`{"s":"${{ trigger.event.body }}"}`), at, nil); err == nil {
		t.Error("an event that is not there has a body")
	}
	if !w.NeedsInstant(nil) || w.NeedsInstant(json.RawMessage(`{"day":"2027-01-01"}`)) || !w.NeedsInstant(json.RawMessage(`{"day":"2027-01-01","s":"${{ trigger.time }}"}`)) ||
		!w.NeedsInstant(json.RawMessage(`{"day":null}`)) {
		t.Error("what depends on the instant is not told")
	}
}

func TestFilter(t *testing.T) {
	event := json.RawMessage(`{"body":{"action":"push","n":3},"headers":{"x-a":"b"},"query":{"q":"1"}}`)
	for filter, want := range map[string]string{
		"":                                   "true",
		"event.body.action == 'push'":        "true",
		"${{ event.headers['x-a'] == 'c' }}": "false",
		"has(event.body.action) && event.query.q == '1'": "true",
		"has(event.body.nothing)":                        "false",
		"'body' in event && event.body.n > 2":            "true",
		"event.body.nothing == 1":                        "error no such key",
		"event.body.n":                                   "error neither true nor false, but a int",
	} {
		h := &Webhook{Secret: "s", Filter: conditionText(filter)}
		got, err := h.Passes(event)
		said := fmt.Sprint(got)
		if err != nil {
			said = "error " + err.Error()
		}
		if rest, bad := strings.CutPrefix(want, "error "); said != want && !(bad && err != nil && strings.Contains(said, rest)) {
			t.Errorf("%s: %s, want %s", filter, said, want)
		}
	}
}

func TestSetOrigin(t *testing.T) {
	w := must(t, "name: w\ntriggers:\n  - {file: {path: ./inbox}}\n  - {absent: {file: /x/a.csv, by: 1h}}\n  - {absent: {file: b.csv, by: 1h}}\ntasks: {a: {run: x}}\n")
	if err := w.SetOrigin(""); err == nil || !strings.Contains(err.Error(), "relative folder") {
		t.Errorf("said %v", err)
	}
	if err := w.SetOrigin("/home/me"); err != nil || w.Origin != "/home/me" {
		t.Fatal(err)
	}
	if a, b, c := w.Triggers[0].File.Path, w.Triggers[1].Absent.File.Path, w.Triggers[2].Absent.File.Path; a != "/home/me/inbox" || b != "/x" || c != "/home/me" {
		t.Errorf("watches %s, %s and %s", a, b, c)
	}
}

func TestOn(t *testing.T) {
	for entry, want := range map[string]string{
		"{run_of: {workflow: [b, other/a]}}": "other/a shop/b", "{again: {}}": "shop/w", "{absent: {run_of: b, by: 1h}}": "shop/b",
		"{every: 1h}": "", "{absent: {file: b, by: 1h}}": "",
	} {
		if got := strings.Join(trigger(t, entry).On(), " "); got != want {
			t.Errorf("%s hears of %s", entry, got)
		}
	}
}

// A thousand triggers are accepted, with any indentation; one more is refused.
func TestManyTriggers(t *testing.T) {
	for _, indent := range []string{"", "  "} {
		var b strings.Builder
		b.WriteString("name: x\nparams: {a: string}\ntriggers: # all of them\n")
		for i := range triggersMax {
			fmt.Fprintf(&b, "%s- cron: \"%d %d * * *\"\n%s  timezone: Europe/Berlin\n\n%s  params:\n%s    a: |\n%s      - text\n", indent, i%60, i/60, indent, indent, indent, indent)
		}
		tail := "tasks: {a: {run: x}}\n"
		w := must(t, b.String()+tail)
		if len(w.Triggers) != triggersMax || w.Triggers[999].Name != "cron-39-16-x-x-x" || string(w.Triggers[999].Params) != `{"a":"- text\n"}` {
			t.Errorf("%d triggers, the last %+v", len(w.Triggers), w.Triggers[len(w.Triggers)-1])
		}
		_, errs := Parse([]byte(b.String()+indent+"- every: 1h\n"+tail), Options{File: "f.yaml"})
		if len(errs) != 1 || !strings.Contains(errs.Error(), "1001 triggers, the limit is 1000") {
			t.Errorf("said %s", errs.Error())
		}
	}
}

func BenchmarkTriggerSchedule(b *testing.B) {
	tr := trigger(b, `{cron: "15 2 * * *", timezone: Europe/Berlin}`)
	spec := tr.Encode()
	for b.Loop() {
		again, err := DecodeTrigger(spec)
		if err != nil {
			b.Fatal(err)
		}
		var s *cron.Schedule
		if s, err = again.Schedule(); err != nil || s == nil {
			b.Fatal(err)
		}
	}
}

// TestScheduleLoadsOnce checks that a schedule loads its zone once, because a zone is read from a file, which
// costs more than everything else.
func TestScheduleLoadsOnce(t *testing.T) {
	for decl, want := range map[string]int{
		`{cron: "15 2 * * *", timezone: Europe/Berlin, start: 2026-01-01, end: 2026-12-31}`: 1,
		`{every: 1h, start: 2026-01-01, timezone: Europe/Berlin}`:                           1,
		`{daily: {at: "06:00"}, timezone: Europe/Berlin}`:                                   1,
		`{at: "2027-01-01T06:00", timezone: Europe/Berlin}`:                                 1,
		`{webhook: {secret: s}, timezone: Europe/Berlin}`:                                   0,
	} {
		tr, loads := trigger(t, decl), 0
		got, err := tr.ScheduleWith(func(name string) (*time.Location, error) {
			loads++
			return cron.LoadZone(name)
		})
		if err != nil || loads != want {
			t.Errorf("%s: %d zones loaded, want %d; %v", decl, loads, want, err)
		}
		if again, err := tr.Schedule(); err != nil || (again == nil) != (got == nil) || got != nil && got.String() != again.String() {
			t.Errorf("%s: %v, want %v; %v", decl, got, again, err)
		}
	}
}

// TestNamesOfPaths: no URL can address a trigger named . or ..
func TestNamesOfPaths(t *testing.T) {
	for name, bad := range map[string]bool{".": true, "..": true, "...": false, "a.": false} {
		_, errs := Parse([]byte("name: w\ntriggers: [{name: "+name+", every: 1h}]\ntasks: {a: {run: x}}\n"), Options{File: "f.yaml"})
		if bad != (len(errs) == 1 && strings.Contains(errs.Error(), "no URL can contain it")) || !bad && len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestCalendarWords: a description names the files.
func TestCalendarWords(t *testing.T) {
	tr := &Trigger{Kind: KindDaily, At: []string{"06:00"}, Timezone: "UTC", Exclude: []string{"holidays.txt", "sat"},
		Calendars: map[string]string{"holidays.txt": "2027-05-01\n"}}
	if got := tr.Describe(); got != "at 06:00 every day, UTC, except on days of holidays.txt, sat" {
		t.Error(got)
	}
	tr.Exclude, tr.Include = nil, []string{"mon", "tue", "wed", "thu", "fri", "2027-01-02"}
	if got := tr.Describe(); got != "at 06:00 every day, UTC, only on mon, tue, wed, thu, fri and 1 more" {
		t.Error(got)
	}
}
