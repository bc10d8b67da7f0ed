package amqp

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	v1 "github.com/Azure/go-amqp"

	"skein.dev/skein/internal/broker"
)

// TestContent10: each form of a body of AMQP 1.0 becomes a value, or has a reason why it cannot.
func TestContent10(t *testing.T) {
	deep := any("x")
	for range 10_000 {
		deep = []any{deep}
	}
	for want, c := range map[string]struct {
		m    v1.Message
		form string
	}{
		`{"a":1}`:              {v1.Message{Data: [][]byte{[]byte(`{"a`), []byte(`":1}`)}}, broker.ValueJSON},
		`""`:                   {v1.Message{Data: [][]byte{{}}}, broker.ValueText},
		`null`:                 {v1.Message{}, broker.ValueJSON},
		`"x"`:                  {v1.Message{Value: "x"}, broker.ValueText},
		`"/w=="`:               {v1.Message{Value: []byte{0xff}}, broker.ValueBase64},
		`{"7":["a",-1,true]}`:  {v1.Message{Value: map[any]any{uint64(7): []any{"a", int32(-1), true}}}, broker.ValueJSON},
		`[[1.5,null],["NaN"]]`: {v1.Message{Sequence: [][]any{{float32(1.5), nil}, {math.NaN()}}}, broker.ValueJSON},
		`["00000000-0000-0000-0000-000000000000","2026-01-02T03:04:05Z"]`: {v1.Message{Value: []any{v1.UUID{}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}, broker.ValueJSON},
		"is not JSON":              {v1.Message{Value: "x"}, broker.ValueJSON},
		"a structure of AMQP":      {v1.Message{Value: []any{}}, broker.ValueText},
		strings.Repeat("[", 100):   {v1.Message{Value: deep}, broker.ValueJSON},
		"the limit is":             {v1.Message{Data: [][]byte{make([]byte, 2<<20)}}, broker.ValueJSON},
		`[18446744073709551615,0]`: {v1.Message{Value: []any{uint64(math.MaxUint64), uint8(0)}}, broker.ValueJSON},
	} {
		got, err := contentOf(&c.m, c.form)
		if err != nil {
			got = json.RawMessage(err.Error())
		}
		if !strings.Contains(string(got), want) || err == nil && !json.Valid(got) {
			t.Errorf("%.80s, want %s", got, want)
		}
	}
	for want, id := range map[string]any{"": nil, "a": "a", "18446744073709551615": uint64(math.MaxUint64), "/w==": []byte{0xff}, "00000000-0000-0000-0000-000000000000": v1.UUID{}} {
		if got := textOf(id); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
