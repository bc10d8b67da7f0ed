package worker

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestPlain: whatever is in an entry comes back from its record, field by field and all at once, whoever has written it.
func TestPlain(t *testing.T) {
	all := entry{Result: &Result{}}
	fillEach(reflect.ValueOf(all.Result).Elem(), func(field string, set func()) {
		one := entry{Result: &Result{}}
		set()
		fillEach(reflect.ValueOf(one.Result).Elem(), func(f string, set func()) {
			if f == field {
				set()
			}
		})
		comesBack(t, field, &one)
		comesBack(t, "up to "+field, &all)
	})
	for _, text := range []string{"a \"b\" \\ c", "é", "\u2028", "<&>", strings.Repeat("x", 5000)} {
		comesBack(t, "message "+text[:2], &entry{Result: &Result{Message: text}})
	}
	ids := []ID{{"r", "t", 1}, {"r", "", 0}, {}, {"é", "\"", -1}}
	comesBack(t, "taken", &entry{Taken: ids[:3]})
	comesBack(t, "odd ones taken", &entry{Taken: ids})
	if _, plain := appendPlain(nil, &entry{Result: &Result{Key: Key{RunID: "r", Task: "t"}, State: Succeeded, Finished: time.Now()}}); !plain {
		t.Error("an ordinary end is not plain")
	}
}

func comesBack(t *testing.T, name string, e *entry) {
	t.Helper()
	data, err := encodeEntry([]byte("before"), e)
	if err != nil {
		t.Fatal(name, err)
	}
	var got entry
	if n, err := decodeEntry(data[len("before"):], &got); err != nil || n != len(data)-len("before") {
		t.Fatalf("%s: %d of %d bytes, %v", name, n, len(data), err)
	}
	if !reflect.DeepEqual(&got, e) {
		t.Errorf("%s: %+v came back as %+v", name, e.Result, got.Result)
	}
}

// fillEach shows each plain value in v, with what gives it another one than zero.
func fillEach(v reflect.Value, visit func(field string, set func())) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch f.Interface().(type) {
		case time.Time:
			visit(name, func() { f.Set(reflect.ValueOf(time.Date(2026, 11, 22, 1, 2, 3, 456789000, time.UTC))) })
			continue
		case json.RawMessage:
			visit(name, func() { f.SetBytes([]byte(`{"a":1}`)) })
			continue
		}
		switch f.Kind() {
		case reflect.Struct:
			fillEach(f, func(inner string, set func()) { visit(name+"."+inner, set) })
		case reflect.String:
			visit(name, func() { f.SetString("text of " + name) })
		case reflect.Int, reflect.Int64:
			visit(name, func() { f.SetInt(int64(i) + 7) })
		case reflect.Bool:
			visit(name, func() { f.SetBool(true) })
		default:
			panic("a field that this test cannot fill: " + name)
		}
	}
}
