package auth

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	api "skein.dev/skein/api/v1"
)

// headers are those of every answer, unless its handler says something else.
var headers = [...][2]string{
	{"X-Content-Type-Options", "nosniff"},
	{"Referrer-Policy", "no-referrer"},
	{"X-Frame-Options", "DENY"},
	{"Cache-Control", "no-store"},
	{"Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), midi=(), payment=(), serial=(), usb=()"},
}

// hstsYear has browsers use TLS for a year once they have met it.
const hstsYear = "max-age=31536000"

// SetHeaders gives an answer the headers that every answer has, where it has none of that name.
func SetHeaders(h http.Header, r *http.Request) {
	for _, one := range headers {
		if h[one[0]] == nil {
			h[one[0]] = []string{one[1]}
		}
	}
	if r.TLS != nil && h["Strict-Transport-Security"] == nil && !local(r.Host) {
		h["Strict-Transport-Security"] = []string{hstsYear}
	}
}

// local reports whether a host is this machine for whoever calls it: other programs there use other ports of
// it.
func local(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// answer is the answer to a request, past all handlers. It puts the headers that every answer has, says what
// was wrong with the body, and ends the connection where the rest of a body would be waited for, or nobody is
// known to have the right to keep it open.
type answer struct {
	http.ResponseWriter
	r        *http.Request
	rc       *http.ResponseController
	conn     *conn
	body     *body
	began    bool
	admitted bool // the caller has shown a credential, where one is required
	refused  bool // by the gate
	replaced bool // what the handler says is not sent
	taken    bool // the connection is the handler's
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.began || status < 200 && status != http.StatusSwitchingProtocols {
		if !a.began {
			a.ResponseWriter.WriteHeader(status)
		}
		return
	}
	a.began = true
	p := a.problem(status)
	if p != nil {
		a.replaced, status = true, p.Status
		for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Location", "Retry-After"} {
			a.Header().Del(name)
		}
		a.Header().Set("Content-Type", "application/problem+json")
		if status == http.StatusServiceUnavailable {
			a.Header().Set("Retry-After", "1")
		}
	}
	SetHeaders(a.Header(), a.r)
	switch {
	case a.ends(status):
		a.Header().Set("Connection", "close")
		if a.body.unread() {
			_ = a.rc.SetReadDeadline(time.Now()) // nobody waits for the rest
		}
	case a.body.unread():
		_ = a.rc.SetReadDeadline(time.Now().Add(drainMax)) // the server reads the rest before the answer
	}
	a.ResponseWriter.WriteHeader(status)
	if p != nil {
		p.Instance = a.r.URL.Path
		_ = json.NewEncoder(a.ResponseWriter).Encode(p) // the client has gone
	}
}

// problem is what is answered in place of what the handler says; nil: that stands.
func (a *answer) problem(status int) *api.Problem {
	if status < 400 {
		return nil
	}
	if a.body != nil && a.body.problem != nil {
		return a.body.problem
	}
	if err := context.Cause(a.r.Context()); errors.Is(err, errRefused) {
		p := api.NewProblem(api.ProblemUnauthenticated, http.StatusUnauthorized, err.Error())
		return &p
	}
	return nil
}

// ends reports whether the connection ends with this answer. Streams of HTTP/2 end by themselves; only that
// of a caller without a credential takes its connection with it.
func (a *answer) ends(status int) bool {
	switch {
	case a.r.ProtoMajor < 2 && (a.refused || a.body.unread() && !a.drains()):
		return true
	case a.conn == nil:
		return false
	}
	return status >= 400 && !a.conn.trusted.Load()
}

const (
	// drainBytesMax is how large a body may be whose rest is read so that its connection can be used again.
	drainBytesMax = 64 << 10
	// drainMax is how long that may take.
	drainMax = time.Second
)

// drains reports whether the rest of a body is read: it is small, and its caller has shown a credential.
func (a *answer) drains() bool {
	stream := a.r.Method == http.MethodGet || a.r.Method == http.MethodHead // the deadline would end it
	return a.admitted && !stream && a.r.ContentLength > 0 && a.r.ContentLength <= drainBytesMax
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	if !a.began {
		a.WriteHeader(http.StatusOK)
	}
	if a.replaced {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error {
	if !a.began {
		a.WriteHeader(http.StatusOK)
	}
	return a.rc.Flush()
}

// Hijack implements http.Hijacker.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := a.rc.Hijack()
	a.taken = err == nil
	return c, buf, err
}

// end is after the handler: an answer of which it has said nothing is 200.
func (a *answer) end() {
	if !a.began && !a.taken {
		a.WriteHeader(http.StatusOK)
	}
}

// refuse answers with a problem in place of all handlers.
func (a *answer) refuse(status int, problem, detail string) {
	a.refused = true
	h := a.Header()
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="skein"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", "1")
	}
	h.Set("Content-Type", "application/problem+json")
	a.WriteHeader(status)
	p := api.NewProblem(problem, status, detail)
	p.Instance = a.r.URL.Path
	_ = json.NewEncoder(a).Encode(p) // the client has gone
}
