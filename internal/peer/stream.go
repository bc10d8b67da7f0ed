package peer

import (
	"context"
	"errors"
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

	"skein.dev/skein/internal/store"
)

// gonePoll is the interval at which a stream checks whether its node is still a member.
const gonePoll = 500 * time.Millisecond

// detour reads a log of another node. It reads from that node as long as the node is a member. Afterwards it
// calls the handler next, which finds the copy of the log.
type detour struct {
	to   store.Member
	dir  Directory
	next http.Handler
	rt   http.RoundTripper
	log  *slog.Logger

	body  []byte // the body of the request
	hops  int    // the number of hops, including this one
	vouch Vouch
}

// onward turns the request of a caller into a request of this node. The second node does not repeat the
// checks of a browser's headers, which were checked here against the address that the browser used.
func (d *detour) onward(target *url.URL) func(*httputil.ProxyRequest) {
	return func(p *httputil.ProxyRequest) {
		for name := range p.Out.Header {
			if fromBrowser(name) || strings.HasPrefix(name, "X-Skein-") && name != headerSignature {
				p.Out.Header.Del(name)
			}
		}
		// The proxy drops parameters that it cannot read. The proof and the signature of a webhook cover the whole
		// query.
		p.Out.URL.RawQuery = p.In.URL.RawQuery
		p.Out.Header.Set(HeaderHops, strconv.Itoa(d.hops))
		if err := d.vouch(p.Out, d.body); err != nil { // the token of the caller is sent nevertheless
			d.log.Warn("a request is passed on without a proof of its caller", "code", "pass_unproved", "node", d.to.Name, "err", err)
		}
		p.SetURL(target)
	}
}

// headerSignature is the header with the signature of a webhook. The node that fires the webhook checks it.
const headerSignature = "X-Skein-Signature"

// fromBrowser reports whether a header names the page from which a browser sends a request, or holds its
// session.
func fromBrowser(name string) bool {
	return name == "Origin" || name == "Cookie" || name == "Referer" || strings.HasPrefix(name, "Sec-Fetch-")
}

// passStream passes on a request for a log.
func passStream(w http.ResponseWriter, r *http.Request, d detour) {
	target, err := url.Parse(d.to.Address)
	if err != nil {
		d.instead(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { d.untilGone(ctx, cancel) })
	proxy := &httputil.ReverseProxy{
		Transport:     d.rt,
		Rewrite:       d.onward(target),
		FlushInterval: -1,
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode >= http.StatusInternalServerError {
				return errors.New(resp.Status)
			}
			// The answer with a whole log has announced its length, so the rest from the copy must have exactly
			// the missing bytes. Otherwise the client sees that the answer is cut off. The answer with a range
			// begins at another offset.
			if at, err := strconv.ParseInt(resp.Header.Get(headerLogOffset), 10, 64); err == nil && resp.StatusCode == http.StatusOK {
				resp.Body = &resumed{ReadCloser: resp.Body, d: d, r: r, at: at}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			d.log.Info("the log of another node is read from its copy", "code", "log_read_elsewhere", "node", d.to.Name, "err", err)
			d.instead(w, r)
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// untilGone ends the stream from a node that is no longer a member, because a frozen or cut-off node does not
// end the stream itself.
func (d *detour) untilGone(ctx context.Context, cancel func()) {
	tick := time.NewTicker(gonePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !d.dir.Alive(d.to.Handler) {
				cancel()
				return
			}
		}
	}
}

// instead lets this node answer.
func (d *detour) instead(w http.ResponseWriter, r *http.Request) {
	again := r.Clone(r.Context())
	again.Header.Set(HeaderHere, "true")
	d.next.ServeHTTP(w, again)
}

// headerLogOffset is the header of api/v1 with the offset in the log at which the answer begins.
const headerLogOffset = "Skein-Log-Offset"

// resumed is the body of a log that continues here if the sending node breaks off.
type resumed struct {
	io.ReadCloser
	d    detour
	r    *http.Request
	at   int64 // offset of the next byte
	sent int64
	here bool
	end  func() // ends the answer that is made here
}

// Read implements io.Reader.
func (b *resumed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.at, b.sent = b.at+int64(n), b.sent+int64(n)
	if err == nil || err == io.EOF || b.here || b.r.Context().Err() != nil {
		return n, err
	}
	b.d.log.Info("a log continues from its copy, because the connection to its node broke", "code", "log_read_elsewhere", "node", b.d.to.Name, "err", err)
	_ = b.ReadCloser.Close()
	b.here = true
	b.ReadCloser, b.end = b.rest()
	return n, nil
}

// Close implements io.Closer.
func (b *resumed) Close() error {
	err := b.ReadCloser.Close()
	if b.end != nil {
		b.end()
	}
	return err
}

// rest returns the rest of the log that this node has.
func (b *resumed) rest() (body io.ReadCloser, end func()) {
	ctx, cancel := context.WithCancel(b.r.Context())
	again := b.r.Clone(ctx)
	q := again.URL.Query()
	q.Del("line")
	q.Del("time")
	q.Set("offset", strconv.FormatInt(b.at, 10))
	if limit, err := strconv.ParseInt(q.Get("limit"), 10, 64); err == nil {
		if limit -= b.sent; limit <= 0 {
			return http.NoBody, cancel
		}
		q.Set("limit", strconv.FormatInt(limit, 10))
	}
	again.URL.RawQuery = q.Encode()
	out, in := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		w := &pipeAnswer{header: http.Header{}, in: in}
		defer func() {
			err := w.err
			if p := recover(); p != nil { // http.ErrAbortHandler: the answer is incomplete
				err = fmt.Errorf("the rest of the log: %v", p)
			}
			_ = in.CloseWithError(err) // nil means the end
		}()
		b.d.instead(w, again)
	})
	return out, func() {
		cancel()
		running.Wait()
	}
}

// pipeAnswer is an answer whose body continues in another one.
type pipeAnswer struct {
	header http.Header
	in     *io.PipeWriter
	err    error // the reason if the answer is no log; otherwise nil
}

// Header implements http.ResponseWriter.
func (a *pipeAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *pipeAnswer) WriteHeader(status int) {
	if status != http.StatusOK {
		a.err = fmt.Errorf("the rest of the log: %s", http.StatusText(status))
	}
}

// Write implements http.ResponseWriter.
func (a *pipeAnswer) Write(p []byte) (int, error) {
	if a.err != nil {
		return len(p), nil
	}
	return a.in.Write(p)
}

// Flush implements http.Flusher: a pipe holds nothing back.
func (a *pipeAnswer) Flush() {}

// SetWriteDeadline is for http.ResponseController. It does nothing, because the reader at the other end has
// deadlines.
func (a *pipeAnswer) SetWriteDeadline(time.Time) error { return nil }
