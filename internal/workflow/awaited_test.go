package workflow

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
)

func TestWaitEvent(t *testing.T) {
	w := must(t, `
name: w
params: {order: string}
tasks:
  a: {run: x, outputs: {n: int}}
  b: {needs: a, wait: {event: {type: [order.paid, "x.*"], source: shop, filter: "event.data.order == params.order && event.data.n > tasks.a.outputs.n", within: 1h}}, timeout: 1h}
  c: {wait: {event: order.paid}}
  d: {needs: c, run: x, env: {E: "${{ tasks.c.outputs.id + tasks.c.outputs.data.text }}"}}
`)
	again, err := Decode(mustJSON(t, w))
	if err != nil {
		t.Fatal(err)
	}
	g, err := again.Graph(0)
	if err != nil {
		t.Fatal(err)
	}
	if l := g.Logic(1); l.Kind != dag.Dependent || l.Name() != "wait" || again.Policy(1).Timeout != time.Hour {
		t.Errorf("%+v", l)
	}
	ev := again.Tasks[1].Wait.Event
	if time.Duration(ev.Within) != time.Hour || !ev.Takes("x.y", "shop") || ev.Takes("order.paid", "other") || ev.Takes("order", "shop") {
		t.Errorf("%+v", ev)
	}
	if words := ev.Words(time.Unix(0, 0)); words != "for an event of type order.paid or x.* from shop that comes after 1970-01-01T00:00:00Z, for which "+ev.Filter+" holds" {
		t.Error(words)
	}
	if ev.Example() != "order.paid --source shop" || again.Tasks[2].Wait.Event.Example() != "order.paid" {
		t.Error(ev.Example())
	}
	if reads := again.ReadsOutputs(1); len(reads) != 1 || reads[0] != "a" {
		t.Errorf("it reads %v", reads)
	}
	in := Inputs{Params: []byte(`{"order":"7"}`), Outputs: func(string) (json.RawMessage, dag.TaskState) { return []byte(`{"n":3}`), dag.Succeeded }}
	for event, want := range map[string]bool{`{"data":{"order":"7","n":4}}`: true, `{"data":{"order":"8","n":4}}`: false, `{"data":{"order":"7","n":3}}`: false} {
		if holds, err := again.Passes(1, in, json.RawMessage(event)); err != nil || holds != want {
			t.Errorf("%s: %t, %v", event, holds, err)
		}
	}
	if _, err := again.Passes(1, in, json.RawMessage(`{"data":1}`)); err == nil || !strings.HasPrefix(err.Error(), "the filter \"event.data.order") {
		t.Error(err)
	}
	if holds, err := again.Passes(2, in, json.RawMessage(`{}`)); err != nil || !holds {
		t.Errorf("without a filter: %t, %v", holds, err)
	}
}
