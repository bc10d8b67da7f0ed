package dag

import (
	"fmt"
	"strconv"
	"strings"
)

// traceBytes is the length of a trace context: 00, 32 digits of the trace, 16 of the span, and two of flags.
const traceBytes = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// noTrace is a trace context that stands for "no trace".
const noTrace = "00-00000000000000000000000000000000-0000000000000000-00"

// traceMark separates the key of an event from the trace context of its run in the stored form of a Fire. A
// program of a release without trace contexts reads both as the key. So nodes of both releases can share a
// database.
const traceMark = "\x1f"

// traceHopsMax bounds how many runs of one trace can follow each other by run_of. Without the bound, a
// workflow that follows the runs that it calls would stay in one trace for ever. A stored trace context
// counts the runs in the bits of its flags that W3C Trace Context leaves unused. So nodes of an earlier
// release can read the context, too.
const traceHopsMax = 16

// traceSampled is the only flag that Skein uses. hopsShift is the position of the count of hops.
const (
	traceSampled = 1
	hopsShift    = 2
)

// FollowTrace returns the trace context, in its stored form, for a run that starts because another run has
// ended. It returns "" if the ended run has no trace context, or if its trace already has traceHopsMax such
// runs.
func FollowTrace(h *Header) string {
	if h.Fire == nil || len(h.Fire.Trace) != traceBytes {
		return ""
	}
	flags := flagsOf(h.Fire.Trace)
	hops := flags>>hopsShift + 1
	if hops > traceHopsMax {
		return ""
	}
	return withFlags(h.Fire.Trace, hops<<hopsShift|flags&traceSampled)
}

func flagsOf(trace string) uint64 {
	flags, _ := strconv.ParseUint(trace[traceBytes-2:], 16, 8) // isTrace has checked the digits
	return flags
}

func withFlags(trace string, flags uint64) string {
	return trace[:traceBytes-2] + fmt.Sprintf("%02x", flags)
}

// ParseTrace reads the header traceparent (W3C Trace Context). It returns the context in the form of version
// 00 with no flag except sampled, or "" if the header is not valid. A later version may have more fields
// after the flags.
func ParseTrace(header string) string {
	if len(header) < traceBytes {
		return ""
	}
	text, more := header[:traceBytes], header[traceBytes:]
	switch {
	case !isTrace("00"+text[2:]) || !isHex(text[:2]) || text[:2] == "ff":
	case more != "" && (text[:2] == "00" || more[0] != '-'):
	case text[3:35] == noTrace[3:35] || text[36:52] == noTrace[36:52]:
	default:
		sampled := "0"
		if strings.IndexByte("13579bdf", text[54]) >= 0 {
			sampled = "1"
		}
		return "00" + text[2:53] + "0" + sampled
	}
	return ""
}

// isTrace reports whether a text has the form of a trace context of version 00.
func isTrace(s string) bool {
	return len(s) == traceBytes && strings.HasPrefix(s, "00-") && s[35] == '-' && s[52] == '-' &&
		isHex(s[3:35]) && isHex(s[36:52]) && isHex(s[53:])
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// joinTrace appends a trace context to a key.
func joinTrace(key, trace string) string {
	if trace == "" {
		if _, is := cutTrace(key); is == "" {
			return key
		}
		trace = noTrace // without a trace context, the end of this key would look like one
	}
	return key + traceMark + trace
}

// cutTrace undoes joinTrace.
func cutTrace(joined string) (key, trace string) {
	at := len(joined) - traceBytes
	if at < len(traceMark) || joined[at-len(traceMark):at] != traceMark || !isTrace(joined[at:]) {
		return joined, ""
	}
	return joined[:at-len(traceMark)], joined[at:]
}
