package cloudevent

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func read(headers map[string]string, body string) ([]Event, error) {
	var names []string
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	return Read(func(name string) string { return headers[name] }, names, []byte(body))
}

const minimal = `"specversion":"1.0","id":"1","source":"/shop","type":"order.created"`

func TestStructured(t *testing.T) {
	got, err := read(map[string]string{"content-type": "application/cloudevents+json; charset=UTF-8"},
		`{`+minimal+`,"time":"2027-01-01T06:00:00+01:00","subject":null,"shard":7,"data":{"a":1}}`)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	ev := got[0]
	if ev.Source != "/shop" || ev.ID != "1" || ev.Type != "order.created" || ev.Key() != "/shop 1" {
		t.Errorf("%+v", ev)
	}
	want := `{"data":{"a":1},"id":"1","shard":7,"source":"/shop","specversion":"1.0","time":"2027-01-01T06:00:00+01:00","type":"order.created"}`
	if string(ev.JSON) != want {
		t.Errorf("%s", ev.JSON)
	}
}

func TestBatch(t *testing.T) {
	for _, kind := range []string{TypeBatch, "application/json"} {
		got, err := read(map[string]string{"content-type": kind}, `[{`+minimal+`},{`+strings.Replace(minimal, `"1"`, `"2"`, 1)+`}]`)
		if err != nil || len(got) != 2 || got[1].ID != "2" {
			t.Errorf("%s: %+v %v", kind, got, err)
		}
	}
	_, err := read(map[string]string{"content-type": TypeBatch}, `[{`+minimal+`},{}]`)
	var at *Error
	if !errors.As(err, &at) || at.Index != 1 {
		t.Errorf("%v", err)
	}
	if got, err := read(map[string]string{"content-type": TypeBatch}, `[]`); err != nil || len(got) != 0 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestBinary(t *testing.T) {
	for _, c := range []struct{ kind, body, data string }{
		{"application/json", `{"a":1}`, `"data":{"a":1},"datacontenttype":"application/json"`},
		{"", ``, ``},
		{"text/plain", "a\nb", `"data":"a\nb","datacontenttype":"text/plain"`},
		{"application/octet-stream", "\xff", `"data_base64":"/w==","datacontenttype":"application/octet-stream"`},
	} {
		got, err := read(map[string]string{"content-type": c.kind, "ce-id": "1", "ce-source": "/shop", "ce-type": "t", "ce-specversion": "1.0", "ce-subject": "a%20b", "host": "x"}, c.body)
		want := `{` + c.data
		if c.data != "" {
			want += ","
		}
		want += `"id":"1","source":"/shop","specversion":"1.0","subject":"a b","type":"t"}`
		if err != nil || string(got[0].JSON) != want {
			t.Errorf("%s: %s %v", c.kind, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, body := range []string{
		`{"id":"1"}`,
		`{` + minimal,
		`null`,
		`[{` + minimal,
		`{` + minimal + `,"Time":"x"}`,
		`{` + minimal + `,"time":"yesterday"}`,
		`{` + minimal + `,"time":5}`,
		`{` + minimal + `,"x":{}}`,
		`{` + minimal + `,"data":1,"data_base64":"AA=="}`,
		`{` + minimal + `,"data_base64":"%"}`,
		strings.Replace(`{`+minimal+`}`, "1.0", "0.3", 1),
		strings.Replace(`{`+minimal+`}`, "/shop", "a shop", 1),
		strings.Replace(`{`+minimal+`}`, `"1"`, `"\u0001"`, 1),
		strings.Replace(`{`+minimal+`}`, `"1"`, `""`, 1),
		`{` + minimal + `,"y":"` + "\xff" + `"}`,
		"[" + strings.Repeat("{"+minimal+"},", 500) + "{" + minimal + "}]",
	} {
		if got, err := read(map[string]string{"content-type": "application/json"}, body); err == nil {
			t.Errorf("%.80s: %+v", body, got)
		}
	}
	for _, kind := range []string{"text/plain", "", "application/cloudevents+json; charset=latin1", ";"} {
		if _, err := read(map[string]string{"content-type": kind}, `{`+minimal+`}`); !errors.Is(err, ErrMediaType) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := read(map[string]string{"content-type": TypeEvent}, `{`+minimal+`,"data":"`+strings.Repeat("x", BytesMax)+`"}`); err == nil {
		t.Error("a large event is taken")
	}
}
