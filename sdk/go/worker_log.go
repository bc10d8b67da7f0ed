package skein

import (
	"context"
	"sync"
	"time"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/mask"
	"skein.dev/skein/sdk/shared/session"
)

const (
	// logKeep bounds the unsent bytes of one log. Older bytes are dropped.
	logKeep = 1 << 20
	// logsEvery is the time between two calls that send logs, while task functions run.
	logsEvery = time.Second
	// logsMax bounds the bytes of one call. logsOpenMax bounds the logs of ended attempts that are kept while
	// no node accepts them.
	logsMax     = 4 << 20
	logsOpenMax = 10_000
)

// attemptLog is the part of an attempt's output that no node has received yet.
type attemptLog struct {
	to   *logs
	of   *workerv1.Job
	mask *mask.Writer // masks the attempt's secrets; nil if it has none

	mu       sync.Mutex // protects the following fields
	buf      []byte
	offset   int64 // the offset of the first byte of buf
	cut      bool  // true if bytes before offset were dropped
	listed   bool
	over     bool
	progress time.Time
}

// Write never fails.
func (l *attemptLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	shown := p
	if l.mask != nil {
		shown = l.mask.Mask(p)
	}
	l.buf = append(l.buf, shown...)
	if more := len(l.buf) - logKeep; more > 0 {
		more = max(more, logKeep/4) // drop a larger part at once, so that this does not happen for every line
		l.buf = append([]byte(nil), l.buf[more:]...)
		l.offset += int64(more)
		l.cut = true
	}
	first := !l.listed && !l.over
	l.listed = l.listed || first
	l.mu.Unlock()
	if first {
		l.to.list(l)
	}
	return len(p), nil
}

// due reports whether progress is to be logged now.
func (l *attemptLog) due(now time.Time, last bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !last && now.Sub(l.progress) < progressEvery {
		return false
	}
	l.progress = now
	return true
}

// end marks the log as complete, and returns its length.
func (l *attemptLog) end() int64 {
	l.mu.Lock()
	if l.mask != nil && !l.over {
		l.buf = append(l.buf, l.mask.End()...)
	}
	l.over = true
	listed, size := l.listed, l.offset+int64(len(l.buf))
	l.mu.Unlock()
	if listed {
		l.to.nudge()
	}
	return size
}

// chunk returns the next chunk to send, or nil if there is none. The buffer does not change in the meantime:
// Write appends to it or makes another.
func (l *attemptLog) chunk() *workerv1.LogChunk {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) == 0 {
		return nil
	}
	return &workerv1.LogChunk{Attempt: l.of.Attempt, Namespace: l.of.Namespace, Workflow: l.of.Workflow, Task: l.of.Task,
		Offset: l.offset, Cut: l.cut, Data: l.buf}
}

// took records that a node has the log up to a position. It returns true if nothing is left to send.
func (l *attemptLog) took(end int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end < 0 { // the node does not know the attempt, or keeps no logs
		end = l.offset + int64(len(l.buf))
	}
	if n := end - l.offset; n > 0 {
		l.buf = l.buf[min(n, int64(len(l.buf))):]
		l.offset, l.cut = end, false
	}
	return l.over && len(l.buf) == 0
}

// done reports whether the log has ended and was sent.
func (l *attemptLog) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over && len(l.buf) == 0
}

// logs holds the logs of a worker that have unsent bytes.
type logs struct {
	wake chan struct{} // cap 1: an attempt with a log has ended

	mu   sync.Mutex // protects the following fields
	open map[*attemptLog]bool
}

func newLogs() *logs { return &logs{wake: make(chan struct{}, 1), open: map[*attemptLog]bool{}} }

func (s *logs) list(l *attemptLog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A full list means that no node has accepted a log for long, so this log is dropped.
	if len(s.open) < logsOpenMax {
		s.open[l] = true
	}
}

func (s *logs) drop(l *attemptLog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, l)
}

func (s *logs) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sendLogs sends new output until ctx ends.
func (s *attached) sendLogs(ctx context.Context) {
	tick := time.NewTicker(logsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.logs.wake:
		}
		if err := s.flushLogs(ctx); err != nil {
			s.log.Debug("the home node does not take the logs yet", "err", err)
			session.Wait(ctx, session.PauseMax)
		}
	}
}

// flushLogs sends the present content of all logs.
func (s *attached) flushLogs(ctx context.Context) error {
	s.logs.mu.Lock()
	all := make([]*attemptLog, 0, len(s.logs.open))
	for l := range s.logs.open {
		all = append(all, l)
	}
	s.logs.mu.Unlock()
	for len(all) > 0 {
		in := &workerv1.PushLogsRequest{}
		var of []*attemptLog
		size := 0
		for len(all) > 0 && size < logsMax {
			l := all[0]
			all = all[1:]
			c := l.chunk()
			if c != nil {
				in.Chunks, of = append(in.Chunks, c), append(of, l)
				size += len(c.Data)
			} else if l.done() { // the log ended after everything had been sent
				s.logs.drop(l)
			}
		}
		if len(of) == 0 {
			continue
		}
		ends, err := s.push(ctx, in)
		if err != nil {
			return err
		}
		for i, l := range of {
			if l.took(ends[i]) {
				s.logs.drop(l)
			}
		}
	}
	return nil
}

func (s *attached) push(ctx context.Context, in *workerv1.PushLogsRequest) ([]int64, error) {
	c, err := s.s.Caller()
	if err != nil {
		return nil, err
	}
	ends := make([]int64, len(in.Chunks))
	if !c.Logs {
		for i := range ends {
			ends[i] = -1
		}
		return ends, nil
	}
	in.Handler, in.Lease, in.Uuid = c.Handler, c.Lease, c.UUID
	ctx, cancel := context.WithTimeout(ctx, session.CallMax)
	defer cancel()
	out, err := c.Home.PushLogs(ctx, in)
	if err != nil {
		return nil, err
	}
	copy(ends, out.Ends)
	return ends, nil
}
