package api_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

func TestTimeIsUTCWithSixDigits(t *testing.T) {
	at := time.Date(2026, 3, 1, 1, 2, 3, 4_000_999, time.FixedZone("", 3600))
	for _, v := range []any{api.Time{Time: at}, &api.Time{Time: at}} {
		b, err := json.Marshal(v)
		if err != nil || string(b) != `"2026-03-01T00:02:03.004000Z"` {
			t.Errorf("%s %v", b, err)
		}
	}
	var null *api.Time
	if b, err := json.Marshal(null); err != nil || string(b) != "null" {
		t.Errorf("%s %v", b, err)
	}
	b, err := json.Marshal(map[api.Time]int{{Time: at}: 1})
	if err != nil || string(b) != `{"2026-03-01T00:02:03.004000Z":1}` {
		t.Errorf("%s %v", b, err)
	}
}

func TestTimeReadsWhatItWrites(t *testing.T) {
	for text, wanted := range map[string]string{
		`"2026-03-01T00:02:03.004000Z"`: "2026-03-01T00:02:03.004000Z",
		`"2026-03-01T01:02:03+01:00"`:   "2026-03-01T00:02:03.000000Z",
	} {
		var v api.Time
		if err := json.Unmarshal([]byte(text), &v); err != nil || v.String() != wanted {
			t.Errorf("%s: %s %v", text, v, err)
		}
	}
	for _, text := range []string{`5`, `"yesterday"`, `"`, `{}`} {
		var v api.Time
		if err := json.Unmarshal([]byte(text), &v); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	v := struct{ At *api.Time }{}
	if err := json.Unmarshal([]byte(`{"At":null}`), &v); err != nil || v.At != nil {
		t.Errorf("%v %v", v.At, err)
	}
}

func TestParamsKeepLargeNumbers(t *testing.T) {
	var p api.Params
	err := json.Unmarshal([]byte(`{"big":9007199254740993,"f":1.5,"huge":1e300,"deep":[{"n":9007199254740993}],"s":"1","z":null}`), &p)
	if err != nil {
		t.Fatal(err)
	}
	const big = int64(9007199254740993)
	if p["big"] != big || p["f"] != 1.5 || p["huge"] != 1e300 || p["s"] != "1" || p["z"] != nil || p["deep"].([]any)[0].(map[string]any)["n"] != big {
		t.Errorf("%#v", p)
	}
	if err := json.Unmarshal([]byte(`[1]`), &p); err == nil {
		t.Error("a list is no object")
	}
	if err := json.Unmarshal([]byte(`{"inf":1e999}`), &p); err == nil && p["inf"] != math.Inf(1) {
		t.Errorf("%#v", p)
	}
}

func TestEveryFieldOfARunIsPresent(t *testing.T) {
	b, err := json.Marshal(api.Run{Tasks: []api.Task{{Attempts: []api.Attempt{{}}, Outputs: json.RawMessage(`{}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	var run struct {
		Leader map[string]any
		Tasks  []map[string]any
	}
	var top map[string]any
	if json.Unmarshal(b, &run) != nil || json.Unmarshal(b, &top) != nil {
		t.Fatal(string(b))
	}
	attempt := run.Tasks[0]["attempts"].([]any)[0].(map[string]any)
	for _, c := range []struct {
		in   map[string]any
		keys []string
	}{
		{top, []string{"id", "workflow", "version", "state", "generation", "created_at", "started_at", "finished_at", "user", "split_at", "modified_at", "leader", "counts", "tasks"}},
		{run.Leader, []string{"handler", "node", "assigned_at"}},
		{run.Tasks[0], []string{"id", "name", "state", "cause", "created_at", "modified_at", "attempts", "outputs"}},
		{attempt, []string{"number", "token", "handler", "node", "state", "exit_code", "assigned_at", "started_at", "finished_at"}},
	} {
		for _, k := range c.keys {
			if _, ok := c.in[k]; !ok {
				t.Errorf("no %s in %v", k, c.in)
			}
		}
	}
}
