package server_test

import (
	"fmt"
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// sends posts events with a media type.
func sends(b *bed, query, kind, body string, headers ...string) answer {
	b.t.Helper()
	return b.post("/api/v1/events"+query, body, append([]string{"Content-Type", kind}, headers...)...)
}

const shopEvent = `{"specversion":"1.0","id":"%s","source":"/shop","type":"order.created","data":{"n":1}}`

// TestSendEvents: the three forms are taken, and an event that comes again has its first position.
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
