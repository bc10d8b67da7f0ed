package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// requestMax bounds a request that may be passed on, in bytes: an applied workflow with its files.
const requestMax = 33 << 20

// While a shard moves from one node to another, no node can answer for it. A request waits at most settleMax
// before it is refused.
const (
	settleMax  = 5 * time.Second
	settlePoll = 50 * time.Millisecond
)

// Vouch adds the proof of the caller for which a node passes on a request. body is the whole body of the
// request.
type Vouch func(r *http.Request, body []byte) error

// Gateway passes each request to the handler next. If its answer says that another node has to answer,
// Gateway passes the request on with rt. It adds the token of the request and the proof of vouch. All other
// requests and answers pass unchanged, streams too.
func Gateway(next http.Handler, dir Directory, rt http.RoundTripper, vouch Vouch, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := taken(r)
		if err != nil {
			incomplete(w, err)
			return
		}
		hops, _ := strconv.Atoi(r.Header.Get(HeaderHops)) // without a number, this is the first hop
		hops = max(hops, 0)
		for began := time.Now(); ; {
			catch := &catcher{ResponseWriter: w}
			next.ServeHTTP(catch, r)
			if catch.elsewhere == "" {
				return
			}
			to, err := destination(dir, catch.elsewhere)
			if err == nil && hops < hopsMax {
				body.again(r)
				d := detour{to: to, dir: dir, next: next, rt: rt, log: log, body: body.whole(), hops: hops + 1, vouch: vouch}
				if strings.HasPrefix(catch.elsewhere, "handler ") {
					passStream(w, r, d)
				} else if !pass(w, r, d) {
					post(w, r, body, next, fmt.Errorf("the owner, node %s, does not answer; when it counts as dead, another node takes over: try again then", to.Name))
				}
				return
			}
			if err == nil {
				err = fmt.Errorf("the request was passed on %d times, because its shard keeps moving to other nodes; send it again", hops)
			}
			if time.Since(began) > settleMax || !sleep(r, settlePoll) {
				post(w, r, body, next, err)
				return
			}
			body.again(r)
		}
	})
}

func sleep(r *http.Request, d time.Duration) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-time.After(d):
		return true
	}
}

// buffered is the body of a request that may have to be sent again. It is nil if there is no body.
type buffered struct {
	data []byte
	rest io.ReadCloser
}

// taken reads the body of a request that changes something.
func taken(r *http.Request) (*buffered, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, requestMax))
	b := &buffered{data: data, rest: r.Body}
	b.again(r)
	return b, err
}

// again restores the body. The rest beyond the limit stays unread, and the handler that reads it refuses it.
func (b *buffered) again(r *http.Request) {
	switch {
	case b == nil:
	case len(b.data) < requestMax:
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b.data)), int64(len(b.data))
	default:
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(b.data), b.rest), b.rest}
	}
}

// whole holds the bytes of the body that were read before the request is passed on.
func (b *buffered) whole() []byte {
	if b == nil {
		return nil
	}
	return b.data
}

// destination finds the node that the answer of a handler names.
func destination(dir Directory, elsewhere string) (store.Member, error) {
	kind, number, _ := strings.Cut(elsewhere, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return store.Member{}, fmt.Errorf("the answer names no node, but %q: %w", elsewhere, err)
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
		return m, fmt.Errorf("%s %d is being moved to this node", kind, n)
	}
	return m, nil
}

// post handles a request that no node answers. A verb is stored for the next owner. This node answers a
// read from the rows.
func post(w http.ResponseWriter, r *http.Request, body *buffered, next http.Handler, why error) {
	if r.Method == http.MethodPost && r.Context().Err() == nil {
		body.again(r)
		catch := &catcher{ResponseWriter: w}
		next.ServeHTTP(catch, r.WithContext(engine.WithPosting(r.Context())))
		if catch.elsewhere == "" {
			return
		}
	}
	if r.Method == http.MethodGet && r.Context().Err() == nil {
		catch := &catcher{ResponseWriter: w}
		next.ServeHTTP(catch, r.WithContext(inspect.FromRows(r.Context())))
		if catch.elsewhere == "" {
			return
		}
	}
	unavailable(w, why)
}

// pass sends the request to another node. It returns false if that node does not answer, for example because
// it is frozen and then declared dead. In this case no part of an answer has been sent.
func pass(w http.ResponseWriter, r *http.Request, d detour) (answered bool) {
	target, err := url.Parse(d.to.Address)
	if err != nil {
		d.log.Warn("the address of another node is invalid", "code", "peer_address_invalid", "node", d.to.Name, "err", err)
		return false
	}
	ctx, cancel := context.WithCancel(r.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { d.untilGone(ctx, cancel) })
	answered = true
	proxy := &httputil.ReverseProxy{
		Transport:     d.rt,
		Rewrite:       d.onward(target),
		FlushInterval: -1,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			d.log.Warn("a request could not be passed on to its owner", "code", "pass_failed", "node", d.to.Name, "err", err)
			answered = false
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return answered
}

func unavailable(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	// The client has gone if this fails.
	_ = json.NewEncoder(w).Encode(api.NewProblem(api.ProblemUnavailable, http.StatusServiceUnavailable, err.Error()))
}

// incomplete refuses a request whose body ended early.
func incomplete(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(api.NewProblem(api.ProblemInvalid, http.StatusBadRequest,
		"the body of the request did not arrive whole ("+err.Error()+"); send the request again")) // the client has gone if this fails
}

// catcher passes an answer through unless it says that another node has to answer.
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

// Flush passes on the buffered part of a stream.
func (c *catcher) Flush() {
	if f, ok := c.ResponseWriter.(http.Flusher); ok && c.elsewhere == "" {
		f.Flush()
	}
}
