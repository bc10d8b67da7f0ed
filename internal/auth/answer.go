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

	api "skein.dev/skein/sdk/api/v1"
	"skein.dev/skein/sdk/shared/local"
)

// headers are the headers of every answer, unless its handler sets them itself.
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

// hstsYear makes browsers use TLS for a year after their first visit.
const hstsYear = "max-age=31536000"

// SetHeaders adds the headers of every answer. A header that the answer already has stays.
func SetHeaders(h http.Header, r *http.Request) {
	for _, one := range headers {
		if h[one[0]] == nil {
			h[one[0]] = []string{one[1]}
		}
	}
	if r.TLS != nil && h["Strict-Transport-Security"] == nil && !ofThisMachine(r.Host) {
		h["Strict-Transport-Security"] = []string{hstsYear}
	}
}

// ofThisMachine reports whether a host is the caller's own machine. Other ports of such a host belong to
// other programs.
func ofThisMachine(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return local.Loopback(host)
}

// answer wraps the response writer of a request, outside of all handlers. It adds the headers of every
// answer and reports errors of the body. It ends the connection if the server would have to wait for the
// rest of the body, or if the caller has shown no valid credential.
type answer struct {
	http.ResponseWriter
	r        *http.Request
	rc       *http.ResponseController
	conn     *conn
	body     *body
	began    bool
	admitted bool // the caller has shown a credential, or the route requires none
	refused  bool // the gate has refused the call
	replaced bool // a problem replaces the handler's answer
	taken    bool // the handler has taken over the connection
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
			_ = a.rc.SetReadDeadline(time.Now()) // the server does not wait for the rest of the body
		}
	case a.body.unread():
		_ = a.rc.SetReadDeadline(time.Now().Add(drainMax)) // the server reads the rest before it sends the answer
	}
	a.ResponseWriter.WriteHeader(status)
	if p != nil {
		p.Instance = a.r.URL.Path
		_ = json.NewEncoder(a.ResponseWriter).Encode(p) // an error means that the client has gone
	}
}

// problem returns the problem that replaces the handler's answer. If it returns nil, the handler's answer
// is sent.
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

// ends reports whether the connection ends with this answer. A stream of HTTP/2 ends without its
// connection. A connection that has shown no valid credential ends with every error.
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
	// drainBytesMax is the largest body that the server reads to its end to keep the connection.
	drainBytesMax = 64 << 10
	// drainMax bounds the time of this reading.
	drainMax = time.Second
)

// drains reports whether the server reads the rest of the body: the body is small, and its caller has shown
// a credential.
func (a *answer) drains() bool {
	stream := a.r.Method == http.MethodGet || a.r.Method == http.MethodHead // a read deadline would end a stream
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

// Unwrap lets http.ResponseController set deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError implements the flushing that http.ResponseController calls.
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

// end is called after the handler. If the handler wrote nothing, the answer is 200.
func (a *answer) end() {
	if !a.began && !a.taken {
		a.WriteHeader(http.StatusOK)
	}
}

// refuse answers with a problem. No handler is called.
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
	_ = json.NewEncoder(a).Encode(p) // an error means that the client has gone
}
