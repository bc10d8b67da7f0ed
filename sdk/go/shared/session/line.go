package session

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
	"skein.dev/skein/sdk/shared/line"
	"skein.dev/skein/sdk/shared/local"
)

// lines holds the kept connections over which a worker sends reports while reports are frequent.
type lines struct {
	via  *http.Transport // nil if this worker's transport cannot make lines
	asks sync.WaitGroup  // goroutines that open a line

	mu     sync.Mutex // protects following fields
	home   string     // the home that the lines lead to
	idle   []*line.Line
	n      int       // the number of lines that are idle, in use, or requested
	before time.Time // time of the previous report
	pause  time.Time // no line is requested before this time
}

const (
	// lineWithin is the time between two reports within which a line is requested. A worker that reports less
	// often does not need one.
	lineWithin = time.Second
	// lineAgain is the time after which the session again requests a line from a home without lines, because
	// the home may have a newer version by then.
	lineAgain = time.Minute
)

// newLines prepares lines over a transport. They begin as requests of HTTP/1.1.
func newLines(t http.RoundTripper) *lines {
	l := &lines{}
	if own, is := t.(*http.Transport); is {
		l.via = own.Clone()
		l.via.Protocols = new(http.Protocols)
		l.via.Protocols.SetHTTP1(true)
		l.via.ForceAttemptHTTP2 = false
	}
	return l
}

// report sends results to the home, over a line if there is one.
func (s *Session[T]) report(ctx context.Context, home string, in *workerv1.ReportRequest) (*workerv1.ReportResponse, error) {
	try, cancel := context.WithTimeout(ctx, CallMax)
	defer cancel()
	if l := s.lines.take(home); l != nil {
		out, err := overLine(try, l, in)
		var refused *line.Refused
		switch {
		case errors.As(err, &refused):
			err = connect.NewError(connect.Code(refused.Code), errors.New(refused.Text))
		case err != nil:
			s.lines.drop(l)
			return nil, err
		}
		s.lines.give(home, l)
		return out, err
	}
	out, err := s.Client(home).Report(try, in)
	if err == nil && s.lines.via != nil {
		s.lines.want(ctx, home, s.cfg.Token(), s.log)
	}
	return out, err
}

func overLine(ctx context.Context, l *line.Line, in *workerv1.ReportRequest) (*workerv1.ReportResponse, error) {
	call, err := proto.Marshal(in)
	if err != nil {
		return nil, err
	}
	reply, err := l.Call(ctx, call)
	if err != nil {
		return nil, err
	}
	out := &workerv1.ReportResponse{}
	return out, proto.Unmarshal(reply, out)
}

// take returns an unused line, or nil if there is none.
func (o *lines) take(home string) *line.Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := len(o.idle); n > 0; n-- {
		l := o.idle[n-1]
		o.idle = o.idle[:n-1]
		if o.home == home && l.Fresh() {
			return l
		}
		o.n--
		_ = l.Close()
	}
	return nil
}

func (o *lines) give(home string, l *line.Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.home == home {
		o.idle = append(o.idle, l)
		return
	}
	o.n--
	_ = l.Close()
}

func (o *lines) drop(l *line.Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n--
	_ = l.Close()
}

// want requests a line in another goroutine if reports are frequent and there are not enough lines.
func (o *lines) want(ctx context.Context, home, token string, log *slog.Logger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	often := now.Sub(o.before) < lineWithin
	o.before = now
	if o.home != home {
		o.home, o.pause = home, time.Time{}
	}
	if !often || o.n >= reportsMax || now.Before(o.pause) {
		return
	}
	o.n++
	o.asks.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, RegisterMax)
		defer cancel()
		header := http.Header{}
		at := strings.TrimSuffix(home, "/")
		if token == "" {
			token, at = local.Shown(at)
		}
		if token != "" {
			header.Set("Authorization", "Bearer "+token)
		}
		l, err := line.Open(ctx, o.via, at+"/"+workerv1connect.WorkersName+"/"+line.Path, header)
		if err == nil {
			o.give(home, l)
			return
		}
		log.Debug("the worker has no line to its home node", "err", err)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.n--
		if o.pause = time.Now().Add(PauseMax); errors.Is(err, line.ErrNone) {
			o.pause = time.Now().Add(lineAgain)
		}
	})
}

// close closes the lines. None may be in use.
func (o *lines) close() {
	o.asks.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.idle {
		_ = l.Close()
	}
	o.idle = nil
	if o.via != nil {
		o.via.CloseIdleConnections()
	}
}
