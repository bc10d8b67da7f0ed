package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// plainStarts are read without huma. fullStarts are passed to huma.
var (
	plainStarts = []string{
		`{"workflow":"w"}`, " {\n\t\"workflow\" : \"shop/w\" } \r\n", `{"workflow":"w","version":0}`, `{"version":12,"workflow":"w"}`,
		`{"workflow":"w","priority":"lowest","origin":"manual","from":"","idempotency_key":"","traceparent":"00-x"}`,
		`{"workflow":"w","params":{}}`, `{"workflow":"w","params":{"a":[1,-2.5,true,null,{"b":"\u00e9\ud83d\ude00 é } ]"}],"n":9007199254740993}}`,
		`{"workflow":"` + strings.Repeat("w", 127) + `"}`, `{"workflow":"w","idempotency_key":"` + strings.Repeat("k", 255) + `"}`,
		`{"workflow":"w","params":{"a":` + strings.Repeat("[", 98) + strings.Repeat("]", 98) + `}}`,
	}
	fullStarts = []string{
		``, `{}`, `null`, `[]`, `{"workflow":""}`, `{"workflow":"w"`, `{"workflow":"w"}}`, `{"workflow":"w"} x`, `{"workflow":"w",}`, `{,"workflow":"w"}`,
		`{"workflow":"w" "version":1}`, `{"workflow":null}`, `{"workflow":7}`, `{"Workflow":"w"}`, `{"workflow":"w","workflow":"w"}`,
		`{"workflow":"w","other":1}`, `{"workflow":"w","version":-1}`, `{"workflow":"w","version":01}`, `{"workflow":"w","version":1.0}`,
		`{"workflow":"w","version":1e2}`, `{"workflow":"w","version":9999999999}`, `{"workflow":"w","version":"1"}`, `{"workflow":"w","version":}`,
		`{"workflow":"w","priority":""}`, `{"workflow":"w","priority":"urgent"}`, `{"workflow":"w","origin":"schedule"}`,
		`{"workflow":"é"}`, `{"workflow":"\u0077"}`, "{\"workflow\":\"w\x01\"}", "{\"workflow\":\"w\xff\"}", `{"workflow":"` + strings.Repeat("w", 128) + `"}`,
		`{"workflow":"w","idempotency_key":"` + strings.Repeat("k", 256) + `"}`,
		`{"workflow":"w","params":null}`, `{"workflow":"w","params":[]}`, `{"workflow":"w","params":{"a":1e400}}`, `{"workflow":"w","params":{"a":1,"a":2}}`,
		`{"workflow":"w","params":{"a":"\ud800"}}`, `{"workflow":"w","params":{"a":01}}`, `{"workflow":"w","params":{"a":]}}`, `{"workflow":"w","params":{"a":[}}`,
		`{"workflow":"w","params":{"a":` + strings.Repeat("9", 400) + `}}`,
		`{"workflow":"w","params":{"a":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}}`,
	}
)

// slowly reads a body as huma does.
func slowly(b []byte) (req api.RunRequest, valid bool) {
	registry := huma.NewMapRegistry("#/", huma.DefaultSchemaNamer)
	schema := registry.Schema(reflect.TypeFor[api.RunRequest](), true, "")
	var any any
	if unambiguous(b, nil) != nil || json.Unmarshal(b, &any) != nil {
		return req, false
	}
	var res huma.ValidateResult
	huma.Validate(registry, schema, huma.NewPathBuffer([]byte{}, 0), huma.ModeWriteToServer, any, &res)
	return req, len(res.Errors) == 0 && json.Unmarshal(b, &req) == nil
}

func TestQuickRequest(t *testing.T) {
	for _, text := range plainStarts {
		if !quickRequest([]byte(text), new(api.RunRequest)) {
			t.Errorf("%s is left to huma", text)
		}
	}
	for _, text := range fullStarts {
		if quickRequest([]byte(text), new(api.RunRequest)) {
			t.Errorf("%s is read without huma", text)
		}
	}
}

func FuzzQuickRequest(f *testing.F) {
	for _, text := range append(plainStarts, fullStarts...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var req api.RunRequest
		if !quickRequest(b, &req) {
			return
		}
		if full, valid := slowly(b); !valid || !reflect.DeepEqual(req, full) {
			t.Errorf("%q: %+v, and huma reads (valid: %v) %+v", b, req, valid, full)
		}
	})
}

// TestHashPlain: the fast function computes the same hash of a start as earlier versions have stored.
func TestHashPlain(t *testing.T) {
	for _, name := range []string{"w", "nightly-orders-2", "A", "<w>", "é", ""} {
		for _, version := range []int32{0, 7, 2147483647} {
			for _, priority := range []string{"", "lowest", "a\"b"} {
				for _, params := range []api.Params{nil, {}, {"a": 1}} {
					req := api.RunRequest{Version: version, Priority: priority, Params: params}
					got, err := startHash(&store.Workflow{Namespace: "shop", Name: name}, &req, nil)
					want, err2 := hashJSON(struct {
						Workflow string
						Version  int32
						Params   api.Params
						Priority string
					}{"shop/" + name, version, params, priority})
					if err != nil || err2 != nil || !bytes.Equal(got, want) {
						t.Errorf("%q, version %d, priority %q, %v: %x (%v), want %x (%v)", name, version, priority, params, got, err, want, err2)
					}
				}
			}
		}
	}
}
