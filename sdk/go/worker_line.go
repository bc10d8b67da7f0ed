package skein

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
	"skein.dev/skein/sdk/shared/line"
	"skein.dev/skein/sdk/shared/local"
)

// lines are the kept connections over which a worker sends reports while reports are frequent. The session's
// mutex protects them.
type lines struct {
	via    *http.Transport // nil: the transport of this worker makes no lines
	home   string          // whose they are
	idle   []*line.Line
	n      int       // the number of lines that are idle, in use, or requested
	before time.Time // the report before
	pause  time.Time // the time until which no line is requested
}

const (
	// lineWithin is the time between two reports within which a line is requested. A worker that reports less
	// often does not need one.
	lineWithin = time.Second
	// lineAgain is when a home that serves no lines is asked again: it may be of a newer version by then.
	lineAgain = time.Minute
)

// newLines prepares lines over a transport. They begin as requests of HTTP/1.1.
func newLines(t http.RoundTripper) (l lines) {
	if own, is := t.(*http.Transport); is {
		l.via = own.Clone()
		l.via.Protocols = new(http.Protocols)
		l.via.Protocols.SetHTTP1(true)
		l.via.ForceAttemptHTTP2 = false
	}
	return l
}

// report sends results to the home, over a line if there is one.
func (s *session) report(ctx context.Context, home string, in *workerv1.ReportRequest) (*workerv1.ReportResponse, error) {
	if l := s.takeLine(home); l != nil {
		out, err := overLine(ctx, l, in)
		var refused *line.Refused
		switch {
		case errors.As(err, &refused):
			err = connect.NewError(connect.Code(refused.Code), errors.New(refused.Text))
		case err != nil:
			s.dropLine(l)
			return nil, err
		}
		s.giveLine(home, l)
		return out, err
	}
	out, err := s.client(home).Report(ctx, in)
	if err == nil {
		s.wantLine(home)
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

// takeLine returns an unused line, or nil if there is none.
func (s *session) takeLine(home string) *line.Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.lines.idle); n > 0; n-- {
		l := s.lines.idle[n-1]
		s.lines.idle = s.lines.idle[:n-1]
		if s.lines.home == home && l.Fresh() {
			return l
		}
		s.lines.n--
		_ = l.Close()
	}
	return nil
}

func (s *session) giveLine(home string, l *line.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines.home == home {
		s.lines.idle = append(s.lines.idle, l)
		return
	}
	s.lines.n--
	_ = l.Close()
}

func (s *session) dropLine(l *line.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines.n--
	_ = l.Close()
}

// wantLine requests a line in another goroutine, if reports come often and there are not enough lines.
func (s *session) wantLine(home string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, now := &s.lines, time.Now()
	often := now.Sub(o.before) < lineWithin
	o.before = now
	if o.home != home {
		o.home, o.pause = home, time.Time{}
	}
	if !often || o.via == nil || o.n >= reportsMax || now.Before(o.pause) {
		return
	}
	o.n++
	s.asks.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, registerMax)
		defer cancel()
		header := http.Header{}
		token, at := s.w.o.Token, strings.TrimSuffix(home, "/")
		if token == "" {
			token, at = local.Shown(at)
		}
		if token != "" {
			header.Set("Authorization", "Bearer "+token)
		}
		l, err := line.Open(ctx, o.via, at+"/"+workerv1connect.WorkersName+"/"+line.Path, header)
		if err == nil {
			s.giveLine(home, l)
			return
		}
		s.log.Debug("no line to the home", "err", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		o.n--
		if o.pause = time.Now().Add(pauseMax); errors.Is(err, line.ErrNone) {
			o.pause = time.Now().Add(lineAgain)
		}
	})
}

// endLines closes the lines. None may be in use.
func (s *session) endLines() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines.idle {
		_ = l.Close()
	}
	s.lines.idle = nil
	if s.lines.via != nil {
		s.lines.via.CloseIdleConnections()
	}
}
