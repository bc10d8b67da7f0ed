package trace

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store/memory"
)

// decoded reads a request in its binary form.
func decoded(data []byte) exportRequest {
	text := func(n uint64) string { return strconv.FormatUint(n, 10) }
	var attributes []attribute
	attributesOf := func(kv []byte) attribute {
		var a attribute
		fields(kv, func(n protowire.Number, _ uint64, b []byte) {
			if n == 1 {
				a.Key = string(b)
				return
			}
			fields(b, func(n protowire.Number, number uint64, b []byte) {
				s := string(b)
				if n == 3 {
					s = strconv.FormatInt(int64(number), 10)
					a.Value.Number = &s
				} else {
					a.Value.Text = &s
				}
			})
		})
		return a
	}
	spanOf := func(data []byte) (s span) {
		fields(data, func(n protowire.Number, number uint64, b []byte) {
			switch n {
			case 1:
				s.TraceID = hex.EncodeToString(b)
			case 2:
				s.SpanID = hex.EncodeToString(b)
			case 4:
				s.ParentID = hex.EncodeToString(b)
			case 5:
				s.Name = string(b)
			case 6:
				s.Kind = int(number)
			case 7:
				s.Start = text(number)
			case 8:
				s.End = text(number)
			case 9:
				s.Attributes = append(s.Attributes, attributesOf(b))
			case 11:
				var e event
				fields(b, func(n protowire.Number, number uint64, b []byte) {
					if n == 1 {
						e.At = text(number)
					} else {
						e.Name = string(b)
					}
				})
				s.Events = append(s.Events, e)
			case 13:
				var l link
				fields(b, func(n protowire.Number, _ uint64, b []byte) {
					if n == 1 {
						l.TraceID = hex.EncodeToString(b)
					} else {
						l.SpanID = hex.EncodeToString(b)
					}
				})
				s.Links = append(s.Links, l)
			case 15:
				fields(b, func(n protowire.Number, number uint64, b []byte) {
					if n == 2 {
						s.Status.Message = string(b)
					} else {
						s.Status.Code = int(number)
					}
				})
			}
		})
		return s
	}
	var ss scopeSpans
	fields(data, func(_ protowire.Number, _ uint64, rs []byte) {
		fields(rs, func(n protowire.Number, _ uint64, b []byte) {
			if n == 1 {
				fields(b, func(_ protowire.Number, _ uint64, kv []byte) { attributes = append(attributes, attributesOf(kv)) })
				return
			}
			fields(b, func(n protowire.Number, _ uint64, b []byte) {
				if n == 2 {
					ss.Spans = append(ss.Spans, spanOf(b))
					return
				}
				fields(b, func(n protowire.Number, _ uint64, b []byte) {
					if n == 1 {
						ss.Scope.Name = string(b)
					} else {
						ss.Scope.Version = string(b)
					}
				})
			})
		})
	})
	return exportRequest{[]resourceSpans{{resource{attributes}, []scopeSpans{ss}}}}
}

// TestProtobuf: over each protocol, the collector gets the same spans of a run.
func TestProtobuf(t *testing.T) {
	b := newBench(t, memory.New(memory.Options{}))
	run := b.run(nil)
	b.end(run, dag.RunFailed, 0, 1)
	b.step()
	b.has("default/w", "load", "load attempt", "check", "check attempt")
	want := maps.Clone(b.came)
	b.settings.Protocol = ProtocolProtobuf
	b.fresh()
	all := slices.Collect(maps.Values(want))
	clear(b.came)
	if refused, err := b.x.post(t.Context(), all); err != nil || refused != 0 || !reflect.DeepEqual(b.came, want) {
		t.Errorf("http/protobuf: %d, %v\n%+v\n%+v", refused, err, b.came, want)
	}

	var got map[string]span
	var answer *connect.Error
	calls := 0
	takes := 1000 // spans of one call
	mux := http.NewServeMux()
	mux.Handle(exportProcedure, connect.NewUnaryHandler(exportProcedure, func(_ context.Context, req *connect.Request[frame]) (*connect.Response[frame], error) {
		calls++
		if answer != nil {
			return nil, answer
		}
		if n := len(decoded(req.Msg.data).ResourceSpans[0].ScopeSpans[0].Spans); n > takes {
			return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("no room"))
		}
		got = map[string]span{}
		for _, s := range decoded(req.Msg.data).ResourceSpans[0].ScopeSpans[0].Spans {
			got[s.SpanID] = s
		}
		return connect.NewResponse(&frame{[]byte("\x0a\x06\x08\x02\x12\x02no")}), nil
	}, connect.WithCodec(binaryCodec{})))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	b.settings.Protocol = ProtocolGRPC
	b.url = server.URL + "/v1/traces"
	b.fresh()
	if refused, err := b.x.post(t.Context(), all); err != nil || refused != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("grpc: %d, %v\n%+v", refused, err, got)
	}
	for code, want := range map[connect.Code]error{connect.CodeInvalidArgument: errRefused, connect.CodeResourceExhausted: errTooLarge, connect.CodeInternal: errBroken} {
		answer = connect.NewError(code, errors.New("no"))
		if _, err := b.x.post(t.Context(), all); !errors.Is(err, want) {
			t.Errorf("%s: %v", code, err)
		}
	}
	var again *againError
	answer = connect.NewError(connect.CodeUnavailable, errors.New("busy"))
	if _, err := b.x.post(t.Context(), all); !errors.As(err, &again) {
		t.Errorf("unavailable: %v", err)
	}
	answer = connect.NewError(connect.CodeUnauthenticated, errors.New("no"))
	if _, err := b.x.post(t.Context(), all); err == nil || errors.Is(err, errRefused) || errors.Is(err, errBroken) {
		t.Errorf("a refused token: %v", err)
	}
	answer = nil
	many := make([]span, 500)
	for i := range many {
		many[i] = all[0]
	}
	deliver := func(most int) (took int) {
		t.Helper()
		calls, takes = 0, most
		if _, err := b.x.deliver(t.Context(), many); err != nil {
			t.Fatal(err)
		}
		return calls
	}
	sent := func() int64 { return b.x.stats.sent.Load() + b.x.stats.rejected.Load() }
	before := sent()
	// A call that is too large is sent in halves. A collector that takes nothing at all gets few calls, and
	// the next delivery gets one.
	for i, c := range []struct{ most, least, calls int }{{100, 8, 20}, {0, 10, 50}, {0, 1, 1}, {1000, 1, 1}, {100, 8, 20}} {
		if took := deliver(c.most); took < c.least || took > c.calls {
			t.Errorf("delivery %d took %d calls", i, took)
		}
	}
	if n := sent() - before; n != 5*500 {
		t.Errorf("%d spans were sent or dropped, want %d", n, 5*500)
	}
}
