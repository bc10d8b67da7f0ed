package blobtest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault is a fault that a Proxy injects into one request.
type Fault int

// Faults of a Proxy.
const (
	None     Fault = iota
	Refuse         // 503 SlowDown; the server does not see the request
	Fail           // 500 InternalError; the server has carried out the request
	Cut            // the connection ends; the server does not see the request
	Lose           // the connection ends; the server has carried out the request
	Truncate       // the connection ends in the middle of the answer
	Delay          // the answer comes late
	Repeat         // the server gets the request twice, and the second answer is given
	faults
)

// Proxy forwards requests to a server, and injects the planned faults.
type Proxy struct {
	Address string

	plan atomic.Pointer[plan]
}

// plan chooses the fault of each request.
type plan struct {
	choose func(n int, r *http.Request) Fault // nil means nothing

	mu   sync.Mutex // held by choose; protects seen
	seen int
}

// NewProxy starts a proxy in front of a server. choose returns the fault of the nth request. If choose is
// nil, there are no faults.
func NewProxy(t testing.TB, to *Server, choose func(n int, r *http.Request) Fault) *Proxy {
	p := new(Proxy)
	p.Choose(choose)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.pass(w, r, to.Address) }))
	t.Cleanup(front.Close)
	p.Address = strings.TrimPrefix(front.URL, "http://")
	return p
}

// Choose replaces the choice of faults.
func (p *Proxy) Choose(choose func(n int, r *http.Request) Fault) {
	p.plan.Store(&plan{choose: choose})
}

// Some returns a function that chooses faults. It chooses several of each kind, but never many in a row for
// one address and method.
func Some() func(n int, r *http.Request) Fault {
	last := map[string]int{}
	next := 0
	return func(_ int, r *http.Request) Fault {
		key := r.Method + r.URL.Path
		if last[key]++; last[key]%3 == 0 { // each third request passes
			return None
		}
		next++
		return Fault(next) % faults
	}
}

func (p *plan) next(r *http.Request) Fault {
	if p.choose == nil {
		return None
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen++
	return p.choose(p.seen-1, r)
}

func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, to string) {
	f := p.plan.Load().next(r)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch f {
	case Refuse:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
		return
	case Cut:
		panic(http.ErrAbortHandler)
	case Repeat:
		if answer := forward(r, body, to); answer != nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	}
	answer := forward(r, body, to)
	if answer == nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	switch f {
	case Lose:
		panic(http.ErrAbortHandler)
	case Fail:
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>")
		return
	case Delay:
		time.Sleep(100 * time.Millisecond)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	if f == Truncate {
		_, _ = io.CopyN(w, answer.Body, answer.ContentLength/2)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = io.Copy(w, answer.Body) // the caller has gone
}

// forward sends a request to the server as it came: its signature covers the host. It returns nil if the
// server does not answer.
func forward(r *http.Request, body []byte, to string) *http.Response {
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host, out.Host = "", "http", to, r.Host
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 { // a body of unknown length would be sent in chunks
		out.Body = http.NoBody
	}
	answer, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		return nil
	}
	return answer
}
