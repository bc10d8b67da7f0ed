package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// The modes of an exporter.
const (
	ModeRun    = "run"    // one trace contains the run, its tasks and their attempts
	ModeLinked = "linked" // each attempt is a trace of its own, with a link to the span of the run
)

// Settings determine what is exported, and where. Without a URL, nothing is exported.
type Settings struct {
	URL         string
	Protocol    string // ProtocolJSON, ProtocolProtobuf or ProtocolGRPC; "" means ProtocolJSON
	HeadersFile string // file with headers of each call, one per line; "" if there is none
	Mode        string
	Sample      float64 // the share of exported runs among those without a caller's trace, from 0 to 1
}

// The protocols, by their names in OpenTelemetry.
const (
	ProtocolJSON     = "http/json"
	ProtocolProtobuf = "http/protobuf"
	ProtocolGRPC     = "grpc"
)

// ParseURL returns the address to which spans are sent.
func ParseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("the value is not the URL of a collector, such as http://collector:4318")
	case u.User != nil:
		return "", errors.New("it has a user or a password: put the header Authorization into the file traces_headers_file")
	case u.Fragment != "" || u.RawQuery != "":
		return "", errors.New("it has a query or a fragment: give scheme, host, port and path only")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// ParseSample reads the share of exported runs.
func ParseSample(text string) (float64, error) {
	part, err := strconv.ParseFloat(text, 64)
	if err != nil || !(part >= 0 && part <= 1) {
		return 0, fmt.Errorf("%q is not a number from 0 to 1", text)
	}
	return part, nil
}

type (
	traceID [16]byte
	spanID  [8]byte
)

// caller is the trace context that a run continues: the trace, the span of the caller and the sampling flag.
type caller struct {
	trace   traceID
	span    spanID
	sampled bool
}

// callerOf reads the trace context of a run. It returns false if the run has none.
func callerOf(text string) (c caller, ok bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 4 || len(parts[1]) != 2*len(c.trace) || len(parts[2]) != 2*len(c.span) {
		return c, false
	}
	_, errTrace := hex.Decode(c.trace[:], []byte(parts[1]))
	_, errSpan := hex.Decode(c.span[:], []byte(parts[2]))
	c.sampled = strings.HasSuffix(parts[3], "1")
	return c, errTrace == nil && errSpan == nil
}

// derived hashes the data from which an id is derived.
func derived(what string, run dag.RunID, numbers ...int64) [sha256.Size]byte {
	b := append([]byte(what), run[:]...)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return sha256.Sum256(b)
}

// traceOf returns the trace of a run: the trace of its caller, or else the trace that all runs of a call tree
// share.
func traceOf(root dag.RunID, context string) traceID {
	if c, ok := callerOf(context); ok {
		return c.trace
	}
	sum := sha256.Sum256([]byte(root.String())) // package worker derives the same value
	return traceID(sum[:16])
}

func runSpan(run dag.RunID, generation int32) spanID {
	sum := derived("run", run, int64(generation))
	return spanID(sum[:8])
}

func taskSpan(run dag.RunID, generation int32, t dag.TaskID) spanID {
	sum := derived("task", run, int64(generation), int64(t))
	return spanID(sum[:8])
}

func attemptSpan(run dag.RunID, t dag.TaskID, token dag.Token) spanID {
	sum := derived("attempt", run, int64(t), int64(token))
	return spanID(sum[:8])
}

// attemptTrace returns the trace of an attempt in the mode linked.
func attemptTrace(run dag.RunID, t dag.TaskID, token dag.Token) traceID {
	sum := derived("trace", run, int64(t), int64(token))
	return traceID(sum[:16])
}

// sampled reports whether a run is exported. If the caller has sent a flag, the flag decides. Otherwise the
// id of the trace decides, so that all runs of a call tree are exported, or none.
func (s *Settings) sampled(root dag.RunID, context string) bool {
	if c, ok := callerOf(context); ok {
		return c.sampled
	}
	id := traceOf(root, "")
	return float64(binary.BigEndian.Uint64(id[8:])>>11) < s.Sample*math.Exp2(53)
}

// Traceparent returns the trace context for the processes of an attempt. Their spans are children of the
// attempt's span.
func (s *Settings) Traceparent(h *dag.Header, t dag.TaskID, token dag.Token) string {
	trace, flags := traceOf(h.Root(), h.Trace()), "00"
	if s.Mode == ModeLinked {
		trace = attemptTrace(h.ID, t, token)
	}
	if s.sampled(h.Root(), h.Trace()) {
		flags = "01"
	}
	return "00-" + trace.String() + "-" + attemptSpan(h.ID, t, token).String() + "-" + flags
}
