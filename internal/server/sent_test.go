package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/monitor"
	api "skein.dev/skein/sdk/api/v1"
)

// sends posts events with a media type.
func sends(b *bed, query, kind, body string, headers ...string) answer {
	b.t.Helper()
	return b.post("/api/v1/events"+query, body, append([]string{"Content-Type", kind}, headers...)...)
}

const shopEvent = `{"specversion":"1.0","id":"%s","source":"/shop","type":"order.created","data":{"n":1}}`

// TestSendEvents: the three forms are accepted, and an event that is sent again keeps its first position.
func TestSendEvents(t *testing.T) {
	b := newBed(t, true)
	got := want[api.EventsSent](t, sends(b, "", "application/cloudevents+json", fmt.Sprintf(shopEvent, "1")), 200)
	if len(got.Events) != 1 || got.Namespace != "default" || got.Events[0].Existing || got.Events[0].Position != 1 {
		t.Errorf("%+v", got)
	}
	first := got.Events[0]
	got = want[api.EventsSent](t, sends(b, "", "application/cloudevents-batch+json", "["+fmt.Sprintf(shopEvent, "2")+","+fmt.Sprintf(shopEvent, "1")+","+fmt.Sprintf(shopEvent, "2")+"]"), 200)
	if e := got.Events; len(e) != 3 || e[0].Position != 2 || e[0].Existing || e[1].Position != 1 || !e[1].Existing || e[1].ReceivedAt != first.ReceivedAt ||
		e[2].Position != 2 || !e[2].Existing {
		t.Errorf("%+v", e)
	}
	got = want[api.EventsSent](t, sends(b, "?namespace=shop", "application/json", `{"n":1}`, "Ce-Id", "1", "Ce-Source", "/shop", "Ce-Type", "t", "Ce-Specversion", "1.0"), 200)
	if got.Events[0].Position != 3 || got.Events[0].Existing || got.Namespace != "shop" {
		t.Errorf("in another namespace: %+v", got)
	}
	want[api.Problem](t, sends(b, "", "text/plain", "x"), 415)
	want[api.Problem](t, sends(b, "", "application/cloudevents+json", `{"specversion":"1.0"}`), 422)
	want[api.Problem](t, sends(b, "?namespace=a/b", "application/cloudevents+json", fmt.Sprintf(shopEvent, "1")), 422)
	want[api.Problem](t, sends(b, "", "application/cloudevents+json", `{"data":"`+strings.Repeat("x", 1<<20)+`"}`), 413)
}

const polled = `
name: polled
triggers:
  - {name: shop, poll: {url: "http://shop.example/orders"}}
tasks: {a: {run: "true"}}
`

// TestSourceIsAway: the list of triggers says since when a source is away, and why, also for
// one that another node runs.
func TestSourceIsAway(t *testing.T) {
	since := dag.Micro(time.Date(2027, 1, 1, 6, 0, 0, 0, time.UTC))
	b := newBed(t, true)
	b.put("polled", polled)
	shown := func(b *bed) *api.ScheduleSource {
		all := want[api.List[api.Schedule]](t, b.get("/api/v1/schedules?kind=poll"), 200).Items
		if len(all) != 1 || all[0].Source == nil {
			t.Fatalf("%+v", all)
		}
		return all[0].Source
	}
	if is := shown(b); is.AwayAt != nil || is.Why != nil || is.Lag != nil {
		t.Errorf("of a source that nobody knows: %+v", is)
	}
	b.away = since
	if is := shown(b); is.AwayAt == nil || dag.Micro(is.AwayAt.Time) != since || *is.Why != "no route" || *is.Lag != 7 {
		t.Errorf("of this node: %+v", is)
	}
	b, f := newTown(t)
	b.put("polled", polled)
	f.says["node-2"] = monitor.Report{Node: "node-2", Ready: true, Sources: []monitor.Away{
		{Trigger: "other/polled/shop", Since: time.Now(), Why: "another one"}, {Trigger: "default/polled/shop", Since: since.Time(), Why: "refused"}},
		Lags: map[string]int64{"other/polled/shop": 3, "default/polled/shop": 9}}
	f.watch.Round(t.Context())
	if is := shown(b); is.AwayAt == nil || dag.Micro(is.AwayAt.Time) != since || *is.Why != "refused" || *is.Lag != 9 {
		t.Errorf("of another node: %+v", is)
	}
	f.says["node-2"] = monitor.Report{Node: "node-2", Ready: true, Lags: map[string]int64{"default/polled/shop": 4}}
	f.watch.Round(t.Context())
	if is := shown(b); is.AwayAt != nil || *is.Lag != 4 {
		t.Errorf("of another node that reaches the other system: %+v", is)
	}
	delete(f.says, "node-2")
	f.watch.Round(t.Context())
	if is := shown(b); is.AwayAt != nil {
		t.Errorf("of a node that answers no more: %+v", is)
	}
}

// TestSeekBeyondLog: a position after the end of the log of events is refused, because the trigger would miss
// the events up to it.
func TestSeekBeyondLog(t *testing.T) {
	b := newBed(t, true)
	b.put("orders", "name: orders\ntriggers: [{name: e, event: order.created}]\ntasks: {a: {run: \"true\"}}\n")
	want[api.EventsSent](t, sends(b, "", "application/cloudevents+json", fmt.Sprintf(shopEvent, "1")), 200)
	seek := func(to string) answer {
		return b.post("/api/v1/schedules/default/orders/e:seek", fmt.Sprintf(`{"to":%q}`, to), "Content-Type", "application/json")
	}
	want[api.Problem](t, seek("2"), 422)
	want[api.Schedule](t, seek("1"), 200)
}
