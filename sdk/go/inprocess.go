package skein

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// handlerTransport answers requests with a handler in this process. Streams work as over a socket: the client
// reads each part when the handler writes it.
type handlerTransport struct{ h http.Handler }

func (t handlerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.Host = req.Host
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	in.RemoteAddr = "127.0.0.1:0"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	r, w := io.Pipe()
	rec := &pipeWriter{header: http.Header{}, begun: make(chan struct{}), done: make(chan struct{}), pipe: w}
	go rec.serve(t.h, in)
	select {
	case <-rec.begun:
	case <-req.Context().Done():
		cancel()
		r.Close()
		<-rec.done
		return nil, req.Context().Err()
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", rec.status, http.StatusText(rec.status)), StatusCode: rec.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: rec.sent, Body: &pipeBody{PipeReader: r, cancel: cancel, ctx: req.Context(), done: rec.done}, ContentLength: -1, Request: req,
	}, nil
}

// pipeWriter is the ResponseWriter of one request.
type pipeWriter struct {
	header http.Header
	sent   http.Header // headers at the time of the first byte
	status int
	once   sync.Once
	begun  chan struct{} // closed when status and sent are set
	done   chan struct{} // closed when the handler has returned
	pipe   *io.PipeWriter
}

func (w *pipeWriter) serve(h http.Handler, req *http.Request) {
	defer close(w.done)
	defer req.Body.Close()
	defer func() {
		p := recover()
		w.WriteHeader(http.StatusInternalServerError) // has no effect if the handler has already written
		if p != nil {
			w.pipe.CloseWithError(fmt.Errorf("the task function panicked: %v", p))
			return
		}
		w.pipe.Close()
	}()
	h.ServeHTTP(w, req)
	w.WriteHeader(http.StatusOK)
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(b)
}

// Flush sends the header. Bytes of the body are never delayed.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

// pipeBody ends the handler when it is closed.
type pipeBody struct {
	*io.PipeReader
	cancel context.CancelFunc
	ctx    context.Context
	done   <-chan struct{}
}

func (b *pipeBody) Read(p []byte) (int, error) {
	n, err := b.PipeReader.Read(p)
	if err == io.EOF && b.ctx.Err() != nil {
		err = b.ctx.Err() // the handler returned because the caller gave up, so the stream is not complete
	}
	return n, err
}

func (b *pipeBody) Close() error {
	b.cancel()
	err := b.PipeReader.Close()
	<-b.done
	return err
}
