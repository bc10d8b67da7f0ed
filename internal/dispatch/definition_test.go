package dispatch

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// TestKindOfHouse: a task with a kind of this program is shown under the key of the file, which the API knows.
func TestKindOfHouse(t *testing.T) {
	ws, faults := workflow.Parse([]byte(`name: w
tasks:
  container: {container: {image: "a:1"}}
  sql: {sql: {connection: c, query: SELECT 1}}
  ssh: {ssh: {connection: c, run: uptime}}
  kind: {kind: mail}
`), workflow.Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	w := ws[0]
	field, _ := reflect.TypeFor[api.TaskDefinition]().FieldByName("Kind")
	known := strings.Split(field.Tag.Get("enum"), ",")
	for i := range w.Tasks {
		d := described(w, i, false)
		if d.Kind != w.Tasks[i].Name || !slices.Contains(known, d.Kind) {
			t.Errorf("task %s: kind %q", w.Tasks[i].Name, d.Kind)
		}
		if want := map[string]string{"kind": "mail"}[d.Kind]; d.Function != want {
			t.Errorf("task %s: function %q, want %q", w.Tasks[i].Name, d.Function, want)
		}
	}
}
