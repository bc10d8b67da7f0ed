package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// heartbeat keeps proxies from closing a quiet stream, and finds clients that are gone.
const heartbeat = 15 * time.Second

// topicsMax bounds the runs and workflows that one stream names.
const topicsMax = 1000

type watchIn struct {
	Runs      []string `query:"run,explode" doc:"Only of these runs."`
	Workflows []string `query:"workflow,explode" doc:"And those of these workflows, NAME or NAMESPACE/NAME."`
	Topics    []string `query:"topics" doc:"The same in one: run:ID,workflow:NAME."`
	System    bool     `query:"system" doc:"Include the program's own runs (namespace system). A stream leaves them out, unless you name them or their workflow."`
	Here      bool     `header:"X-Skein-Here" hidden:"true"` // set if another node requests only the commits of this node
	LastID    string   `header:"Last-Event-ID" doc:"Opaque: the id of the last event seen. What a single run did since is sent again; any other stream begins with reset."`
}

// topics selects the events of a stream. Without topics, the stream has the events of all runs, but those of
// built-in runs only if system is set.
type topics struct {
	runs      map[dag.RunID]bool
	workflows map[string]bool // by NAMESPACE/NAME, as in the frames of other nodes
	system    bool
}

func (t *topics) all() bool { return len(t.runs)+len(t.workflows) == 0 }

func (t *topics) want(fr *change) bool {
	if t.all() {
		return t.system || !builtIn(fr.workflow)
	}
	return t.runs[fr.run] || t.workflows[fr.workflow]
}

// one returns the run of a stream that watches a single run.
func (t *topics) one() dag.RunID {
	if len(t.runs) == 1 && len(t.workflows) == 0 {
		for id := range t.runs {
			return id
		}
	}
	return dag.RunID{}
}

func (s *Server) topics(ctx context.Context, in *watchIn) (*topics, error) {
	t := &topics{runs: map[dag.RunID]bool{}, workflows: map[string]bool{}, system: in.System}
	runs, workflows := in.Runs, in.Workflows
	for _, topic := range in.Topics {
		switch kind, name, _ := strings.Cut(topic, ":"); kind {
		case "run":
			runs = append(runs, name)
		case "workflow":
			workflows = append(workflows, name)
		default:
			return nil, invalid("topics: use run:ID or workflow:NAME, not %q", topic)
		}
	}
	if len(runs)+len(workflows) > topicsMax {
		return nil, invalid("at most %d runs and workflows can be named", topicsMax)
	}
	for _, r := range runs {
		id, err := (&RunPath{ID: r}).run()
		if err != nil {
			return nil, err
		}
		if !wide(ctx, access.Events) {
			if err := mayRun(ctx, s, access.Events, r); err != nil {
				return nil, err
			}
		}
		if _, err := s.runName(ctx, id); err != nil {
			return nil, err
		}
		t.runs[id] = true
	}
	for _, name := range workflows {
		if err := mayName(ctx, access.Events, name); err != nil {
			return nil, err
		}
		w, err := s.findWorkflow(ctx, name)
		if err != nil {
			return nil, err
		}
		t.workflows[fullName(w.Namespace, w.Name)] = true
	}
	return t, nil
}

// runAndWorkflow reads a run and its workflow.
func runAndWorkflow(ctx context.Context, s *Server, id dag.RunID) (row dag.RunRow, w store.Workflow, err error) {
	if row, err = s.engine.RunRow(ctx, id); err == nil {
		w, err = s.engine.WorkflowByID(ctx, row.Workflow)
	}
	return row, w, err
}

// runName returns the fields of a run that never change.
func (s *Server) runName(ctx context.Context, id dag.RunID) (*runName, error) {
	if n := s.runs.get(id); n != nil {
		return n, nil
	}
	row, w, err := runAndWorkflow(ctx, s, id)
	if err != nil {
		return nil, err
	}
	n := &runName{workflow: fullName(w.Namespace, w.Name)}
	n.row.ID, n.row.Workflow, n.row.Version = id, row.Workflow, row.Version
	s.runs.put(id, n)
	return n, nil
}

type streamOut struct{ Body func(huma.Context) }

func (s *Server) watchEvents(ctx context.Context, in *watchIn) (*streamOut, error) {
	t, err := s.topics(ctx, in)
	if err == nil {
		err = mayWatch(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	if err := openStream(ctx); err != nil {
		return nil, err
	}
	return &streamOut{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		s.metrics.streams.Inc()
		defer s.metrics.streams.Dec()
		st := &stream{s: s, topics: t, out: newStreamWriter(w)}
		if err := st.run(r.Context(), in.Here, in.LastID); err != nil {
			s.log.Debug("event stream", "err", err)
		}
	}}, nil
}

// openStream counts a stream of the caller while its call lasts.
func openStream(ctx context.Context) error {
	if err := auth.OpenStream(ctx); err != nil {
		return fail(http.StatusTooManyRequests, api.ProblemBusy, "%s", err)
	}
	return nil
}

// stream is one subscriber.
type stream struct {
	s      *Server
	topics *topics
	out    *streamWriter
	seen   int64 // the number of the last transaction that was sent from the store
}

var errEnded = errors.New("the node stops")

func (st *stream) run(ctx context.Context, here bool, lastID string) error {
	one := st.topics.one()
	f, next := st.s.fans.join(fanKey{run: one, here: here && one.IsZero()})
	defer st.s.fans.leave(f)
	select {
	case <-f.begun:
	case <-ctx.Done():
		return ctx.Err()
	}
	st.out.header("text/event-stream")
	// From now on the stream gets all changes. So a client that reads the state now misses nothing.
	if err := st.out.write([]byte(": skein\n\n")); err != nil {
		return err
	}
	if lastID != "" {
		if err := st.since(ctx, one, lastID); err != nil {
			return err
		}
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		b, after, wake, err := f.take(next)
		if err != nil {
			return err
		}
		next = after
		if b != nil {
			if text := b.of(st.topics, st.seen); len(text) > 0 {
				err = st.out.write(text)
			}
			if err != nil {
				return err
			}
			continue
		}
		select {
		case <-wake:
		case <-beat.C:
			if err := st.out.write([]byte(": \n\n")); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// since sends the events that a client has missed. Only the history of a run is stored. For all other objects
// the client must read the state again.
func (st *stream) since(ctx context.Context, run dag.RunID, lastID string) error {
	after, err := strconv.ParseInt(lastID, 10, 64)
	if err != nil || after < 0 || run.IsZero() {
		return st.reset()
	}
	name, err := st.s.runName(ctx, run)
	if err != nil {
		return err
	}
	for {
		views, err := st.s.engine.Events(ctx, run, after, pageMax+seqRowsMax)
		if err != nil {
			return err
		}
		views, more := wholeTransactions(views, pageMax)
		for i := range views {
			if err := st.change(name, views[i].Seq, views[i].At, views[i].Records); err != nil {
				return err
			}
			after = views[i].Seq
		}
		st.seen = after
		if !more {
			return nil
		}
	}
}

func (st *stream) change(n *runName, seq int64, at dag.Micros, records []inspect.RecordView) error {
	data, err := encodeChange(n, seq, at, eventsOf(n.row.ID, seq, at, records))
	if err != nil {
		return err
	}
	return st.out.write(data)
}

func (st *stream) reset() error { return st.out.write(resetFrame) }

// streamWriter flushes every write, and sets a deadline for each write. So a client that does not read blocks
// its sender for at most this time.
type streamWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func newStreamWriter(w http.ResponseWriter) *streamWriter {
	return &streamWriter{w: w, rc: http.NewResponseController(w)}
}

func (o *streamWriter) header(contentType string) {
	o.w.Header().Set("Content-Type", contentType)
	o.w.Header().Set("X-Accel-Buffering", "no")
	o.w.WriteHeader(http.StatusOK)
}

func (o *streamWriter) write(b []byte) error {
	_ = o.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // a connection within this process has no deadline
	if _, err := o.w.Write(b); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := o.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

var _ io.Writer = writerFunc(nil)

type writerFunc func([]byte) error

func (f writerFunc) Write(b []byte) (int, error) {
	if err := f(b); err != nil {
		return 0, err
	}
	return len(b), nil
}
