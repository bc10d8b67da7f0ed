package workflow

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
)

func TestSpans(t *testing.T) {
	for _, c := range []struct{ within, zone, at, want string }{
		{"hour", "", "2021-03-28T01:30:00Z", "2021-03-28T01:00:00Z 2021-03-28T02:00:00Z"},
		{"day", "", "2021-03-28T01:30:00Z", "2021-03-28T00:00:00Z 2021-03-29T00:00:00Z"},
		{"day", "Europe/Berlin", "2021-03-28T01:30:00Z", "2021-03-27T23:00:00Z 2021-03-28T22:00:00Z"}, // 23 hours
		{"week", "Europe/Berlin", "2021-03-28T22:30:00Z", "2021-03-28T22:00:00Z 2021-04-04T22:00:00Z"},
		{"month", "", "2020-02-29T23:59:59Z", "2020-02-01T00:00:00Z 2020-03-01T00:00:00Z"},
		{"90m", "", "2021-03-28T01:30:00Z", "2021-03-28T00:00:00Z 2021-03-28T03:00:00.000001Z"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		from, until, err := (&Needed{Within: c.within, Zone: c.zone}).Span(at)
		if got := from.UTC().Format(time.RFC3339Nano) + " " + until.UTC().Format(time.RFC3339Nano); err != nil || got != c.want {
			t.Errorf("%s in %q of %s is %s, %v; want %s", c.within, c.zone, c.at, got, err, c.want)
		}
	}
}

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		q    Needed
		want string
	}{
		{Needed{Require: "succeeded"}, "succeeded"},
		{Needed{Require: "ended"}, "succeeded failed stopped"},
		{Needed{Require: "ended", Task: "a"}, "succeeded failed upstream_failed stopped skipped"},
	} {
		var got []string
		for s := dag.Pending; s <= dag.Skipped; s++ {
			if c.q.Accepts(s.String()) {
				got = append(got, s.String())
			}
		}
		for _, s := range strings.Fields(c.want) {
			if !strings.Contains(" "+strings.Join(got, " ")+" ", " "+s+" ") {
				t.Errorf("%+v does not accept %s", c.q, s)
			}
		}
		if extra := len(got) - len(strings.Fields(c.want)); c.q.Task != "" && extra != 0 {
			t.Errorf("%+v accepts %v", c.q, got)
		}
	}
}

func TestWaitCondition(t *testing.T) {
	w := must(t, `
name: w
params: {from: string, j: json}
tasks:
  a: {run: x, outputs: {n: int}}
  b: {needs: a, wait: {condition: "now >= timestamp(params.from) && tasks.a.outputs.n > 2 && format(now, '%u') != '7'", every: 3s}, timeout: 1h}
  c: {wait: {condition: "params.j"}}
  d: {dependent: {workflow: shop/other, within: week}}
`)
	again, err := Decode(mustJSON(t, w))
	if err != nil {
		t.Fatal(err)
	}
	if d := again.Tasks[3].Dependent; d.Require != "succeeded" || again.TargetOf(d) != "shop/other" || again.Policy(1).Timeout != time.Hour {
		t.Errorf("%+v", d)
	}
	g, err := again.Graph(0)
	if err != nil {
		t.Fatal(err)
	}
	if g.Kind(1) != dag.Dependent || g.Kind(3) != dag.Dependent {
		t.Errorf("%s %s", g.Kind(1), g.Kind(3))
	}
	in := Inputs{Params: []byte(`{"from":"2021-01-01T06:00:00Z","j":"x"}`),
		Outputs: func(string) (json.RawMessage, dag.TaskState) { return []byte(`{"n":3}`), dag.Succeeded }}
	for at, want := range map[string]time.Duration{
		"2021-01-01T05:59:59Z": 3 * time.Second, "2021-01-01T06:00:00Z": 0, "2021-01-03T12:00:00Z": 3 * time.Second, "2021-01-04T00:00:00Z": 0,
	} {
		if in.Now, err = time.Parse(time.RFC3339, at); err != nil {
			t.Fatal(err)
		}
		if later, err := again.Holds(1, in); err != nil || later != want {
			t.Errorf("at %s it is looked at again in %s, %v; want %s", at, later, err, want)
		}
	}
	if _, err := again.Holds(2, in); err == nil || !strings.Contains(err.Error(), "neither true nor false") {
		t.Error(err)
	}
	if reads := again.ReadsOutputs(1); len(reads) != 1 || reads[0] != "a" {
		t.Errorf("it reads %v", reads)
	}
}
