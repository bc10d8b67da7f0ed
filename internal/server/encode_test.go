package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// texts are strings with different forms in JSON.
var texts = []string{"", "a", "nightly-orders", `"quoted"`, `back\slash`, "<b>&amp;</b>", "line\nand\ttab", "\x00\x1f\x7f", "größe", "\u2028\u2029", "\xff\xfe", "🧶"}

// anything sets a value of any type at random. It fails the test at a type that it does not know.
func anything(t *testing.T, rnd *rand.Rand, v reflect.Value) {
	switch v.Interface().(type) {
	case api.Time:
		at := time.UnixMicro(rnd.Int64N(4e15) - 1e15)
		switch rnd.IntN(8) {
		case 0:
			at = time.Time{}
		case 1:
			at = at.AddDate(9000, 0, 0)
		case 2:
			at = at.In(time.FixedZone("east", 5*3600+1800))
		}
		v.Set(reflect.ValueOf(api.Time{Time: at}))
		return
	case api.Params:
		if rnd.IntN(3) > 0 {
			v.Set(reflect.ValueOf(api.Params{"z": 1.5, "a": []any{"<", nil}, "m": map[string]any{}}))
		}
		return
	case api.Tags:
		if rnd.IntN(3) > 0 {
			v.Set(reflect.ValueOf(api.Tags{"team": "a<b", "größe": texts[rnd.IntN(len(texts))]}))
		}
		return
	case map[string]int:
		for _, s := range dag.TaskStates() {
			if rnd.IntN(2) == 0 {
				if v.IsNil() {
					v.Set(reflect.ValueOf(map[string]int{}))
				}
				v.SetMapIndex(reflect.ValueOf(s.String()), reflect.ValueOf(rnd.IntN(1e6)))
			}
		}
		if rnd.IntN(8) == 0 && !v.IsNil() {
			v.SetMapIndex(reflect.ValueOf("of another version"), reflect.ValueOf(1))
		}
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"n": 1}`)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[rnd.IntN(len(texts))])
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(int32(rnd.Uint32())))
	case reflect.Float64:
		v.SetFloat([]float64{0, math.Copysign(0, -1), 1, 0.1, 1e-6, 9.9e-7, 1e20, 1e21, -12.000001, 1 / 3.0}[rnd.IntN(10)])
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 0)
	case reflect.Pointer:
		if rnd.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			anything(t, rnd, v.Elem())
		}
	case reflect.Slice:
		if n := rnd.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
			for i := range n - 1 {
				anything(t, rnd, v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			anything(t, rnd, v.Field(i))
		}
	default:
		t.Fatalf("a field of type %s", v.Type())
	}
}

// TestRunsAreEncodedAlike compares runs and lists of runs with any content in any field, also in fields
// that are added later, with the usual encoder.
func TestRunsAreEncodedAlike(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	alike := func(v any) {
		var got, want bytes.Buffer
		if err := marshal(&got, v); err != nil {
			t.Fatal(err)
		}
		if err := huma.DefaultJSONFormat.Marshal(&want, v); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("got\n%s\nwant\n%s", got.Bytes(), want.Bytes())
		}
	}
	for range 2000 {
		var r api.Run
		anything(t, rnd, reflect.ValueOf(&r).Elem())
		alike(r)
		var l api.List[api.Run]
		anything(t, rnd, reflect.ValueOf(&l).Elem())
		for i := range l.Items { // as on a page, the runs share their counts
			l.Items[i].Counts = l.Items[rnd.IntN(i+1)].Counts
		}
		alike(l)
	}
	alike(api.List[api.Run]{})
	nan := math.NaN()
	if err := marshal(new(bytes.Buffer), api.Run{Duration: &nan}); err == nil {
		t.Error("not a number was encoded")
	}
}

// TestRunsOfAPage: although the runs of a page share data, each run is encoded with its own values.
func TestRunsOfAPage(t *testing.T) {
	page, got, want := new(shared), []api.Run{}, []api.Run{}
	for i := range 2 * slabMax {
		at := dag.Micros(1764000000123456 + i)
		v := inspect.RunView{RunRow: dag.RunRow{Header: dag.Header{Created: at}, StartedAt: at, FinishedAt: at + dag.Micros(i), SplitAt: at, Message: fmt.Sprint("message ", i)},
			Workflow: store.Workflow{Namespace: fmt.Sprint("ns", i/4%3), Name: fmt.Sprint("w", i/2%3)},
			Leader:   store.Handler{UUID: fmt.Sprint("uuid ", i/2%3)}, Counts: map[dag.TaskState]int{dag.Succeeded: i % (2 * sharedCountsMax)}}
		if i%3 == 0 {
			v.Params = []byte(fmt.Sprintf(`{"p%d":%d}`, i, i))
		}
		among, err := runAmong(&v, page)
		alone, err2 := runAmong(&v, new(shared))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		got, want = append(got, among), append(want, alone)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func BenchmarkEncodeRuns(b *testing.B) {
	at, key, node := api.Time{Time: time.UnixMicro(1764000000123456)}, "key", "n1"
	r := api.Run{ID: "0199f0c0-0000-7000-8000-000000000000", Workflow: "bench", Namespace: "default", State: "succeeded", CreatedAt: at, StartedAt: &at, FinishedAt: &at,
		SplitAt: &at, Key: &key, Leader: api.Leader{Handler: &key, Node: &node, AssignedAt: &at}, Counts: map[string]int{}, FailedTasks: []string{}}
	for _, s := range namesInOrder {
		r.Counts[s] = 0
	}
	l := api.List[api.Run]{}
	for range 50 {
		l.Items = append(l.Items, r)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"usual": func(w *bytes.Buffer) error { return huma.DefaultJSONFormat.Marshal(w, l) },
		"here":  func(w *bytes.Buffer) error { return marshal(w, l) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var w bytes.Buffer
			for b.Loop() {
				w.Reset()
				if err := write(&w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRunOf makes the answer for an ended run, as lists do fifty times.
func BenchmarkRunOf(b *testing.B) {
	v := inspect.RunView{RunRow: dag.RunRow{Header: dag.Header{Created: 1764000000123456}, State: dag.RunSucceeded, StartedAt: 1764000000123457,
		FinishedAt: 1764000000123458, SplitAt: 1764000000123456}, Counts: map[dag.TaskState]int{dag.Succeeded: 1}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := runAmong(&v, new(shared)); err != nil {
			b.Fatal(err)
		}
	}
}
