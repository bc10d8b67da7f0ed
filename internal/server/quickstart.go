package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// A start of a run is the most frequent call. For each, huma reads the body twice, inspects the types of both
// sides by reflection, and validates against the schema. That is more work than the start itself. So plain
// starts are read and answered here. A start that is not plain, or that fails, is handled by huma with the
// original body. So each text of a refusal exists only once. TestQuickStart compares the two ways.

// quickBytesMax bounds the body of a plain start.
const quickBytesMax = 4 << 10

// quickBodies are buffers for bodies. Each has room for one byte more than a plain body, so that a read sees
// the end. They are separate from the buffers of answers, because a start keeps its body while it waits, and
// buffers of answers may be large.
var quickBodies = sync.Pool{New: func() any { return new([quickBytesMax + 1]byte) }}

// quickKeyMax is the length of the longest idempotency key that the schema permits, in bytes.
const quickKeyMax = 255

// quickFailure is the key under which the context has the error of a plain start. huma's handler returns that
// error.
type quickFailure struct{}

// starts are the starts of runs, plain or not.
type starts struct{ *Server }

// before answers plain starts, and passes all other starts to next.
func (s starts) before(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !quickHeaders(r) {
			next(w, r)
			return
		}
		buf := quickBodies.Get().(*[quickBytesMax + 1]byte)
		body, in, plain := quickRead(w, r, buf[:])
		var err error
		if plain {
			err = s.answer(w, r, in)
		}
		if plain && err == nil {
			quickBodies.Put(buf)
			return
		}
		if err != nil {
			r = r.WithContext(context.WithValue(r.Context(), quickFailure{}, err))
		}
		r.Body = replayed{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		next(w, r)
	}
}

// replayed is a body of which a part was read before.
type replayed struct {
	io.Reader
	io.Closer
}

// full handles a start that comes through huma.
func (s starts) full(ctx context.Context, in *startRunIn) (*runOut, error) {
	if err, failed := ctx.Value(quickFailure{}).(error); failed {
		return nil, err
	}
	return s.startRun(ctx, in)
}

// quickHeaders reports whether a request may be a plain start, judged by its headers.
func quickHeaders(r *http.Request) bool {
	if r.ContentLength <= 0 || r.ContentLength > quickBytesMax || r.URL.RawQuery != "" {
		return false
	}
	if kind := r.Header["Content-Type"]; len(kind) != 1 || kind[0] != "application/json" {
		return false
	}
	if accept := r.Header["Accept"]; len(accept) > 1 || len(accept) == 1 && accept[0] != "application/json" && accept[0] != "*/*" {
		return false
	}
	return len(r.Header.Get(api.HeaderIdempotencyKey)) <= quickKeyMax
}

// quickRead reads the body of a request into room, which must be longer than a plain body. It returns the
// bytes that it has read and, if the start is plain, the input for the handler.
func quickRead(w http.ResponseWriter, r *http.Request, room []byte) (body []byte, in *startRunIn, plain bool) {
	if !auth.Bounded(r.Body) { // otherwise the check of the credential has set the deadlines
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Now().Add(auth.BodyTime(jsonBytesMax + 1))) // an error means that there is no connection
		defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	}
	size := int(r.ContentLength)
	room = room[:size+1]
	n, err := io.ReadFull(r.Body, room)
	if body = room[:n]; err != io.ErrUnexpectedEOF || n != size {
		return body, nil, false
	}
	in = new(startRunIn)
	if !quickRequest(body, &in.Body) {
		return body, nil, false
	}
	in.Key, in.Prefer.Prefer = r.Header.Get(api.HeaderIdempotencyKey), r.Header.Get("Prefer")
	return body, in, true
}

// answer starts a run and answers. If it returns an error, it has written nothing.
func (s starts) answer(w http.ResponseWriter, r *http.Request, in *startRunIn) error {
	out, err := s.startRun(store.Within(r.Context(), readMax), in)
	if err != nil {
		return err
	}
	h, texts := w.Header(), make([]string, 0, 5)
	set := func(name, text string) {
		if text != "" {
			texts = append(texts, text)
			h[name] = texts[len(texts)-1 : len(texts) : len(texts)]
		}
	}
	set("Location", out.Location)
	set("Preference-Applied", out.Preference)
	set("Ratelimit", out.RateLimit)
	set("Ratelimit-Policy", out.RateLimitPolicy)
	set("Content-Type", "application/json")
	s.quick.Add(1)
	w.WriteHeader(out.Status)
	if err := marshal(w, &out.Body); err != nil && r.Context().Err() == nil {
		panic(err) // like huma, because the answer has begun
	}
	return nil
}

// quickRequest reads the body of a plain start. A plain body is JSON whose texts have no escapes and only
// ASCII characters, with each key at most once, and each value within the bounds of the schema. It returns
// false for any other body.
func quickRequest(b []byte, req *api.RunRequest) bool {
	q := quick{b: b}
	var seen [8]bool
	if !q.next('{') {
		return false
	}
	for first := true; ; first = false {
		if q.next('}') {
			break
		}
		if !first && !q.next(',') {
			return false
		}
		name, ok := q.text(len("idempotency_key"))
		if !ok || !q.next(':') {
			return false
		}
		at := -1
		switch string(name) {
		case "workflow":
			at, ok = 0, q.set(&req.Workflow, 127) && req.Workflow != ""
		case "idempotency_key":
			at, ok = 1, q.set(&req.IdempotencyKey, quickKeyMax)
		case "traceparent":
			at, ok = 2, q.set(&req.Traceparent, 512)
		case "from":
			at, ok = 3, q.set(&req.From, 300)
		case "priority":
			at, ok = 4, q.oneOf(&req.Priority, "highest", "high", "medium", "low", "lowest")
		case "origin":
			at, ok = 5, q.oneOf(&req.Origin, "manual", "api")
		case "version":
			at, ok = 6, q.number(&req.Version)
		case "params":
			at, ok = 7, q.params(&req.Params)
		}
		if at < 0 || !ok || seen[at] {
			return false
		}
		seen[at] = true
	}
	q.space()
	return len(q.b) == 0 && seen[0]
}

// quick reads plain JSON from its beginning.
type quick struct{ b []byte }

func (q *quick) space() {
	for len(q.b) > 0 && (q.b[0] == ' ' || q.b[0] == '\n' || q.b[0] == '\t' || q.b[0] == '\r') {
		q.b = q.b[1:]
	}
}

// next skips white space and the given character. It returns false if another character comes.
func (q *quick) next(c byte) bool {
	if q.space(); len(q.b) == 0 || q.b[0] != c {
		return false
	}
	q.b = q.b[1:]
	return true
}

// text reads a plain string of at most the given number of bytes.
func (q *quick) text(most int) ([]byte, bool) {
	if !q.next('"') {
		return nil, false
	}
	for i, c := range q.b {
		switch {
		case c == '"':
			is := q.b[:i]
			q.b = q.b[i+1:]
			return is, true
		case c < ' ' || c >= 0x7f || c == '\\' || i == most:
			return nil, false
		}
	}
	return nil, false
}

func (q *quick) set(to *string, most int) bool {
	is, ok := q.text(most)
	*to = string(is)
	return ok
}

func (q *quick) oneOf(to *string, all ...string) bool {
	is, ok := q.text(len("highest"))
	for _, one := range all {
		if ok && string(is) == one {
			*to = one
			return true
		}
	}
	return false
}

// number reads a whole number of at most nine digits.
func (q *quick) number(to *int32) bool {
	q.space()
	n := 0
	for n < len(q.b) && q.b[n] >= '0' && q.b[n] <= '9' {
		n++
	}
	if n == 0 || n > 9 || n > 1 && q.b[0] == '0' {
		return false
	}
	is, err := strconv.ParseInt(string(q.b[:n]), 10, 32)
	*to, q.b = int32(is), q.b[n:]
	return err == nil
}

// params reads an object in which all numbers have a form that every reader understands.
func (q *quick) params(to *api.Params) bool {
	q.space()
	n := objectEnd(q.b)
	if n < 0 || unambiguous(q.b[:n], nil) != nil || to.UnmarshalJSON(q.b[:n]) != nil {
		return false
	}
	q.b = q.b[n:]
	return *to != nil
}

// quickDigitsMax bounds the digits of a number: a longer number may not fit into a float64.
const quickDigitsMax = 300

// objectEnd returns the index after the object at the beginning of b. It returns -1 if there is no object, or
// if the object contains a number that is long or has an exponent. It only counts brackets, so the object may
// still be malformed.
func objectEnd(b []byte) int {
	if len(b) == 0 || b[0] != '{' {
		return -1
	}
	deep, digits := 0, 0
	for i := 0; i < len(b); i++ {
		was := digits
		digits = 0
		switch c := b[i]; {
		case c == '"':
			i = textEnd(b, i) - 1
		case c == '{' || c == '[':
			if deep++; deep == depthMax { // the body of the request is one more level
				return -1
			}
		case c == '}' || c == ']':
			if deep--; deep == 0 {
				return i + 1
			}
		case c >= '0' && c <= '9' || c == '.':
			if digits = was + 1; digits > quickDigitsMax {
				return -1
			}
		case was > 0 && (c == 'e' || c == 'E'):
			return -1
		}
	}
	return -1
}
