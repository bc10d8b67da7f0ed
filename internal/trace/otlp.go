package trace

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// The messages of OTLP (ExportTraceServiceRequest) in their JSON form, with the fields that the exporter
// uses. Ids are hexadecimal, 64-bit numbers are texts, and enumerations are numbers.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		ParentID   string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Events     []event     `json:"events,omitempty"`
		Links      []link      `json:"links,omitempty"`
		Status     status      `json:"status"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		Text   *string `json:"stringValue,omitempty"`
		Number *string `json:"intValue,omitempty"`
	}
	event struct {
		At   string `json:"timeUnixNano"`
		Name string `json:"name"`
	}
	link struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	// exportResponse is the answer of a collector that accepted the request.
	exportResponse struct {
		Partial struct {
			Rejected json.Number `json:"rejectedSpans"` // a text or a number
			Error    string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
)

// The enumerations of OTLP.
const (
	kindInternal = 1
	kindServer   = 2 // the span has a caller in another program
	statusOK     = 1
	statusError  = 2
)

// textMax bounds a text of a span, in bytes.
const textMax = 1024

// bounded returns a text as UTF-8 of at most textMax bytes.
func bounded(s string) string {
	if len(s) > textMax {
		s = s[:textMax]
	}
	return strings.ToValidUTF8(s, "")
}

// set adds an attribute with a text. An empty text adds nothing.
func set(all *[]attribute, key, text string) {
	if text != "" {
		text = bounded(text)
		*all = append(*all, attribute{key, value{Text: &text}})
	}
}

// setNumber adds an attribute with a number.
func setNumber(all *[]attribute, key string, n int64) {
	text := strconv.FormatInt(n, 10)
	*all = append(*all, attribute{key, value{Number: &text}})
}

func nanos(at dag.Micros) string { return strconv.FormatInt(int64(max(at, 0))*1000, 10) }

func (id traceID) String() string { return hex.EncodeToString(id[:]) }
func (id spanID) String() string  { return hex.EncodeToString(id[:]) }

// between sets the times of a span. If the clock was set back, the duration becomes 0 instead of negative.
func (s *span) between(start, end dag.Micros) {
	s.Start, s.End = nanos(start), nanos(max(start, end))
}

// at adds an event, unless the time is 0.
func (s *span) at(at dag.Micros, name string) {
	if at > 0 {
		s.Events = append(s.Events, event{nanos(at), name})
	}
}
