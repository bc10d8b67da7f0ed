package peer

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// requestMax bounds a request that may be passed on, in bytes: an applied workflow with its files.
const requestMax = 33 << 20

// Gateway answers requests by next, and passes on those that next says another node has to
// answer. Everything else goes straight through, streams too.
func Gateway(next http.Handler, dir Directory, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body []byte
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Body != nil {
			var err error
			if body, err = io.ReadAll(io.LimitReader(r.Body, requestMax)); err != nil {
				http.Error(w, "the body does not arrive: "+err.Error(), http.StatusBadRequest)
				return
			}
			// What is beyond the limit is left to next, which refuses it.
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
		}
		catch := &catcher{ResponseWriter: w}
		next.ServeHTTP(catch, r)
		if catch.elsewhere == "" {
			return
		}
		to, err := destination(dir, catch.elsewhere)
		hops, _ := strconv.Atoi(r.Header.Get(HeaderHops)) // what is no number is a first hop
		switch {
		case err == nil && hops < hopsMax:
			r.Header.Set(HeaderHops, strconv.Itoa(hops+1))
			pass(w, r, body, to, log)
		default:
			if err == nil {
				err = fmt.Errorf("the request was passed on %d times: ownership is moving", hops)
			}
			unavailable(w, err)
		}
	})
}

// destination finds the node that a handler's word of elsewhere means.
func destination(dir Directory, elsewhere string) (store.Member, error) {
	kind, number, _ := strings.Cut(elsewhere, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return store.Member{}, fmt.Errorf("elsewhere %q: %w", elsewhere, err)
	}
	m, ok := store.Member{}, false
	if kind == "handler" {
		m, ok = dir.Member(dag.HandlerID(n))
	} else {
		m, ok = dir.OwnerOf(dag.ShardID(n))
	}
	switch {
	case !ok:
		return m, fmt.Errorf("no node has %s %d now", kind, n)
	case m.Handler == dir.Self().Handler:
		return m, fmt.Errorf("%s %d is on its way to this node", kind, n)
	}
	return m, nil
}

func pass(w http.ResponseWriter, r *http.Request, body []byte, to store.Member, log *slog.Logger) {
	target, err := url.Parse(to.Address)
	if err != nil {
		unavailable(w, fmt.Errorf("address of node %s: %w", to.Name, err))
		return
	}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(target) },
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			log.Warn("a request could not be passed on", "node", to.Name, "err", err)
			unavailable(w, fmt.Errorf("node %s, which has it, does not answer", to.Name))
		},
	}
	proxy.ServeHTTP(w, r)
}

func unavailable(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintf(w, `{"type":"unavailable","title":"Service Unavailable","status":503,"detail":%q}`+"\n", err.Error())
}

// catcher lets an answer through unless it says that another node has to give it.
type catcher struct {
	http.ResponseWriter
	began     bool
	elsewhere string
}

func (c *catcher) WriteHeader(status int) {
	if !c.began {
		c.began = true
		if c.elsewhere = c.Header().Get(HeaderElsewhere); c.elsewhere != "" {
			clear(c.Header())
		}
	}
	if c.elsewhere == "" {
		c.ResponseWriter.WriteHeader(status)
	}
}

func (c *catcher) Write(b []byte) (int, error) {
	if !c.began {
		c.WriteHeader(http.StatusOK)
	}
	if c.elsewhere != "" {
		return len(b), nil
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the flusher.
func (c *catcher) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Flush passes a stream on as it comes.
func (c *catcher) Flush() {
	if f, ok := c.ResponseWriter.(http.Flusher); ok && c.elsewhere == "" {
		f.Flush()
	}
}
