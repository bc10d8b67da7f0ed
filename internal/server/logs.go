package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// logPoll is the interval at which a growing log is read: files give no notice of their growth.
const logPoll = 200 * time.Millisecond

// logLook is the interval at which a node of a cluster checks whether an attempt has ended, because a node
// gets notices only about the runs that it owns.
const logLook = time.Second

const (
	// logLate is how long, after the end of an attempt, the log from another machine must stay the same
	// before it counts as complete. No row contains its length, so only the time can tell.
	logLate = time.Second
	// logOld is the time after the end of an attempt after which its log counts as complete in any case.
	logOld = 15 * time.Second
)

const logType = "text/plain; charset=utf-8"

type logIn struct {
	TaskPath
	Attempt int64  `query:"attempt" minimum:"1" doc:"Its token or its number. Absent: the newest."`
	Offset  int64  `query:"offset" doc:"First byte; negative: from the end."`
	Line    int64  `query:"line" minimum:"1" doc:"Begin with this line, counted from 1, in place of an offset."`
	Time    string `query:"time" doc:"RFC 3339: begin with the block of 64 KiB that was written at this time, in place of an offset."`
	Limit   int64  `query:"limit" minimum:"1" doc:"Bytes at most."`
	Follow  bool   `query:"follow" doc:"Continue until the attempt ends. If it has not started, wait for its start."`
	// Here is set by package peer if no other node can answer.
	Here bool `header:"X-Skein-Here" hidden:"true"`
}

// logOf is the log of one attempt, for one reader.
type logOf struct {
	s       *Server
	ref     LogRef
	task    dag.TaskID
	ended   bool       // the attempt has ended, so the file no longer grows
	settled bool       // the attempt has never run, and will never run
	end     dag.Micros // the end of the attempt
	reader  LogReader
}

func (s *Server) getLog(ctx context.Context, in *logIn) (*streamOut, error) {
	l, err := s.findLog(ctx, in)
	if err != nil {
		return nil, err
	}
	if in.Line > 0 || in.Time != "" {
		if in.Offset, err = l.place(ctx, in); err != nil {
			l.close()
			return nil, err
		}
	}
	if in.Follow {
		if err := openStream(ctx); err != nil {
			l.close()
			return nil, err
		}
	}
	return &streamOut{Body: func(hc huma.Context) {
		defer l.close()
		r, w := humago.Unwrap(hc)
		w.Header().Set(api.HeaderAttempt, strconv.Itoa(int(l.ref.Attempt)))
		w.Header().Set("Content-Type", logType)
		if !in.Follow {
			l.arrive(r.Context())
		}
		if l.ended && !in.Follow && in.Offset == 0 && in.Limit == 0 && l.first(0) == 0 {
			l.whole(w, r)
			return
		}
		if err := l.send(r.Context(), w, in); err != nil {
			s.log.Debug("log stream", "run", in.ID, "task", in.Task, "err", err)
			panic(http.ErrAbortHandler) // closing the connection shows the client that the log is incomplete
		}
	}}, nil
}

// findLog finds the attempt whose log is requested, and opens the log if it exists.
func (s *Server) findLog(ctx context.Context, in *logIn) (*logOf, error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	row, w, err := runAndWorkflow(ctx, s, id)
	if err != nil {
		return nil, err
	}
	g, err := s.engine.RunGraph(&row)
	if err != nil {
		return nil, err
	}
	task, known := g.Find(in.Task)
	if !known {
		return nil, notFound("run %s has no task %q; skein run get %s lists its tasks", in.ID, in.Task, in.ID)
	}
	l := &logOf{s: s, task: task, ref: LogRef{Namespace: w.Namespace, Workflow: w.Name, Run: id, Task: in.Task, Index: task, Attempt: dag.Token(in.Attempt)}}
	there, err := l.look(ctx)
	switch {
	case err != nil:
		return nil, err
	case there:
		if !in.Here {
			if err := s.here(ctx, l.ref.Handler); err != nil {
				return nil, err
			}
		}
		if in.Follow {
			ctx = store.Within(ctx, 0) // the log is read as long as the attempt runs
		}
		return l, l.open(ctx)
	case in.Follow && !l.settled:
		l.ref.Attempt = max(l.ref.Attempt, 1)
		return l, nil
	case in.Attempt != 0:
		return nil, notFound("task %s of run %s has no attempt %d", in.Task, in.ID, in.Attempt)
	}
	return nil, notFound("task %s of run %s has not been started", in.Task, in.ID)
}

// look reads the state of the attempt. Attempt 0 becomes the newest one.
func (l *logOf) look(ctx context.Context) (there bool, err error) {
	if there, err = l.attempt(ctx); there || err != nil {
		return there, err
	}
	over, err := l.over(ctx)
	if err != nil || !over {
		return false, err
	}
	// The attempt may have begun and ended between the two reads. If the task has ended, no further attempt
	// begins.
	there, err = l.attempt(ctx)
	l.settled = err == nil && !there
	return there, err
}

// attempt reads the attempt, if it has begun.
func (l *logOf) attempt(ctx context.Context) (there bool, err error) {
	attempts, err := l.s.engine.Attempts(ctx, l.ref.Run, l.task)
	if err != nil {
		return false, err
	}
	if n := len(attempts); l.ref.Attempt == 0 && n > 0 {
		l.ref.Attempt = attempts[n-1].Token
	}
	for i := range attempts {
		if attempts[i].Token.Is(int64(l.ref.Attempt)) {
			l.ref.Attempt = attempts[i].Token
			l.ended, l.end, l.ref.Handler = attempts[i].State.Ended(), attempts[i].Finished, attempts[i].Handler
			return true, nil
		}
	}
	return false, nil
}

// over reports whether the task has ended, so that no further attempts begin.
func (l *logOf) over(ctx context.Context) (bool, error) {
	t, err := l.s.engine.Task(ctx, l.ref.Run, l.ref.Task)
	if err == nil {
		return t.State.Terminal(), nil
	}
	row, err := l.s.engine.RunRow(ctx, l.ref.Run) // a run without tasks has not been split yet
	return err == nil && row.State.Terminal(), err
}

// comes reports whether more of the log of an ended attempt may arrive from another machine.
func (l *logOf) comes() bool {
	return l.ended && l.ref.Handler != l.s.engine.Handler().ID && time.Since(l.end.Time()) < logOld
}

// arrive returns when a log is complete, or when ctx ends.
func (l *logOf) arrive(ctx context.Context) {
	var last int64
	for still := l.end.Time(); l.comes() && time.Since(still) < logLate; {
		if err := l.open(ctx); err != nil {
			return // the next read will return the same error
		}
		if size, err := l.size(); err != nil {
			return
		} else if size != last {
			last, still = size, time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(logPoll):
		}
	}
}

// open opens the log. A log that is missing is still empty.
func (l *logOf) open(ctx context.Context) error {
	if l.reader != nil {
		return nil
	}
	r, err := l.s.cfg.Logs.Open(ctx, l.ref)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	l.reader = r
	return nil
}

func (l *logOf) close() {
	if l.reader != nil {
		_ = l.reader.Close() // the file was only read, so the error does not matter
	}
}

func (l *logOf) size() (int64, error) {
	if l.reader == nil {
		return 0, nil
	}
	n, err := l.reader.Size()
	if err != nil {
		return 0, fmt.Errorf("size of the log: %w", err)
	}
	return n, nil
}

// first returns the offset of the first byte that a read from an offset can return. The mark for missing
// bytes does not count.
func (l *logOf) first(at int64) int64 {
	if l.reader == nil {
		return at
	}
	return l.reader.First(at)
}

// mark returns the text that replaces the last bytes of the missing part, so that the output after it keeps
// its offsets.
func mark(first int64) string {
	if first == 0 {
		return ""
	}
	return fmt.Sprintf("[skein: the first %d bytes of this log are not kept]\n", first)
}

// from returns the offset at which a read from an offset can begin.
func (l *logOf) from(at int64) int64 {
	if first := l.first(at); at < first {
		return max(at, first-int64(len(mark(first))))
	}
	return at
}

// whole sends a finished log, or the requested ranges of it.
func (l *logOf) whole(w http.ResponseWriter, r *http.Request) {
	size, err := l.size()
	if err != nil {
		failed(err).write(w, r)
		return
	}
	w.Header().Set(api.HeaderLogOffset, "0")
	w.Header().Set("ETag", fmt.Sprintf(`"%s-%d-%d-%d"`, l.ref.Run, l.task, l.ref.Attempt, size))
	var at io.ReaderAt = nothing{}
	if l.reader != nil {
		at = l.reader
	}
	// one hour is enough for 1 GiB over a slow connection
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour))
	http.ServeContent(&rangeWriter{ResponseWriter: w, r: r, size: size, of: "log"}, r, "", time.Time{}, io.NewSectionReader(at, 0, size))
}

// rangeWriter sends the refusal of a range in the same form as all other refusals.
type rangeWriter struct {
	http.ResponseWriter
	r       *http.Request
	size    int64
	of      string // the name of the object from which the range was requested
	refused bool
}

// WriteHeader implements http.ResponseWriter.
func (w *rangeWriter) WriteHeader(status int) {
	if w.refused = status == http.StatusRequestedRangeNotSatisfiable; w.refused {
		fail(status, api.ProblemRange, "the %s has %d bytes", w.of, w.size).write(w.ResponseWriter, w.r)
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *rangeWriter) Write(b []byte) (int, error) {
	if w.refused {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// send writes the log from an offset on: either the present content, or all output until the attempt ends.
func (l *logOf) send(ctx context.Context, w http.ResponseWriter, in *logIn) error {
	sub := l.s.engine.Watch(l.ref.Run)
	defer sub.Close()
	size, err := l.size()
	if err != nil {
		return err
	}
	at := in.Offset
	if at < 0 {
		at = max(0, size+at)
	}
	at = l.from(at)
	left := in.Limit
	if left == 0 {
		left = math.MaxInt64
	}
	out, err := l.begin(ctx, w, at)
	if err != nil {
		return err
	}
	poll := time.NewTicker(logPoll)
	defer poll.Stop()
	var look <-chan time.Time
	if l.s.cfg.Remote != nil {
		ticker := time.NewTicker(logLook)
		defer ticker.Stop()
		look = ticker.C
	}
	stale := true       // whether the attempt's state may have changed since it was read
	still := time.Now() // the time since which neither the state nor the log has changed
	notices := sub.C
	for {
		over := !in.Follow
		if in.Follow && stale {
			was := l.ended
			if err := l.again(ctx); err != nil {
				return err
			}
			if stale = false; l.ended != was {
				still = time.Now()
			}
		}
		// if the log was settled before the last read, no bytes follow
		over = over || l.settled || l.ended && (!l.comes() || time.Since(still) >= logLate)
		was := at
		if at, left, err = l.copy(ctx, out, at, left); err != nil {
			return err
		}
		if over || left == 0 {
			return nil
		}
		if at != was {
			still = time.Now()
		}
		select {
		case n, open := <-notices:
			if !open { // the node is stopping, so only the present content is sent
				return nil
			}
			stale = stale || n.Lost || l.concerns(n.Records)
		case <-look:
			stale = true
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin sends the headers of an answer that begins at an offset.
func (l *logOf) begin(ctx context.Context, w http.ResponseWriter, at int64) (*streamWriter, error) {
	w.Header().Set(api.HeaderLogOffset, strconv.FormatInt(at, 10))
	if line := l.lineOf(ctx, at, indexSoon); line > 0 {
		w.Header().Set(api.HeaderLogLine, strconv.FormatInt(line, 10))
	}
	out := newStreamWriter(w)
	out.header(logType)
	return out, out.write(nil)
}

// again reads the present state of the attempt.
func (l *logOf) again(ctx context.Context) error {
	if l.ended {
		return nil
	}
	_, err := l.look(ctx)
	return err
}

func (l *logOf) concerns(records []dag.Record) bool {
	for i := range records {
		if records[i].Task == l.task || records[i].Task == dag.LeaderTask {
			return true
		}
	}
	return false
}

// copy sends at most left bytes of the log from an offset on, and returns where to continue. It skips bytes
// that are dropped while it reads, so each call makes progress.
func (l *logOf) copy(ctx context.Context, out *streamWriter, at, left int64) (next, rest int64, err error) {
	if err := l.open(ctx); err != nil {
		return at, left, err
	}
	size, err := l.size()
	if err != nil {
		return at, left, err
	}
	for at < size && left > 0 {
		at = l.from(at)
		if first := l.first(at); at < first {
			text := mark(first)
			text = text[len(text)-int(first-at):]
			text = text[:min(int64(len(text)), left)]
			if err := out.write([]byte(text)); err != nil {
				return at, left, err
			}
			at, left = at+int64(len(text)), left-int64(len(text))
			continue
		}
		n, err := io.Copy(writerFunc(out.write), io.NewSectionReader(l.reader, at, min(size-at, left)))
		at, left = at+n, left-n
		switch {
		case err == nil:
			return at, left, nil
		case !errors.Is(err, fs.ErrNotExist):
			return at, left, fmt.Errorf("send the log: %w", err)
		}
	}
	return at, left, nil
}
