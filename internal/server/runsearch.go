package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sort"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logscan"
	api "skein.dev/skein/sdk/api/v1"
)

// progressEvery is the least time between two lines of progress of a search through a run.
const progressEvery = 500 * time.Millisecond

const runSearchDoc = "A JSON object a line: {hit: {task, attempt, line, offset, text, at, length}} for each line that fits, {progress: {logs, bytes, hits}} now and then, and {end: {logs, bytes, hits, next}}. Without an end the search was cut off. A search reads for at most 10 s, and only logs that one node has or can read: with a next, continue with after. The order is by node, task and attempt."

type runSearchIn struct {
	RunPath
	LineQuery
	Task   string `query:"task" maxLength:"1000" doc:"Only the attempts of this task."`
	Failed bool   `query:"failed" doc:"Only attempts that failed or were lost."`
	After  string `query:"after" maxLength:"100" doc:"Where to begin: the value of next in the previous answer."`
	// Here is set by package peer if no other node can answer.
	Here bool `header:"X-Skein-Here" hidden:"true"`
}

// logPlace is a place in the logs of a run. The logs are grouped by node, so that one request can read the
// logs of a node without another node. The last group has the logs that are on no present node, because every
// node can read the remaining parts of these logs.
type logPlace struct {
	node   dag.HandlerID // 0 if no present node has the file
	task   dag.TaskID
	token  dag.Token
	offset int64
}

func (p logPlace) compare(q logPlace) int {
	last := func(h dag.HandlerID) int {
		if h == 0 {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(last(p.node), last(q.node)), cmp.Compare(p.node, q.node), cmp.Compare(p.task, q.task), cmp.Compare(p.token, q.token))
}

func (p logPlace) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", p.node, p.task, p.token, p.offset)
}

// runLog is the log of an attempt of the run.
type runLog struct {
	logPlace
	attempt *dag.AttemptRow
	name    string
}

// all sends each line of a run's logs that matches, as soon as it is found.
func (f logSearch) all(ctx context.Context, in *runSearchIn) (*streamOut, error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	s := f.s
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	row, w, err := runAndWorkflow(ctx, s, id)
	if err != nil {
		return nil, err
	}
	list, err := f.logsOf(ctx, in, row.ID)
	if err != nil {
		return nil, err
	}
	here := s.engine.Handler().ID
	if len(list) > 0 && !in.Here && list[0].node != 0 && list[0].node != here {
		return nil, askThere(list[0].node)
	}
	if err := s.searches.enter("searches through logs are under way"); err != nil {
		return nil, err
	}
	x := runSearch{s: s, in: in, query: q, of: LogRef{Namespace: w.Namespace, Workflow: w.Name, Run: id}, until: time.Now().Add(searchTime)}
	x.mine = func(n dag.HandlerID) bool { return n == 0 || n == here || in.Here && n == list[0].node }
	return &streamOut{Body: func(hc huma.Context) {
		defer s.searches.leave()
		r, w := humago.Unwrap(hc)
		x.out = newStreamWriter(w)
		x.out.header(searchType)
		next, err := x.run(r.Context(), list)
		if err == nil {
			err = x.out.writeLine(api.RunLogSearch{End: &api.RunLogSearchEnd{RunLogProgress: x.so, Next: next}})
		}
		if err != nil {
			s.log.Debug("log search", "run", in.ID, "err", err)
			panic(http.ErrAbortHandler) // closing the connection shows the client that the stream is incomplete
		}
	}}, nil
}

// logsOf returns the logs to be searched, beginning at the place that the request names.
func (f logSearch) logsOf(ctx context.Context, in *runSearchIn, id dag.RunID) (list []runLog, err error) {
	var from logPlace
	if in.After != "" {
		if n, _ := fmt.Sscanf(in.After, "%d.%d.%d.%d", &from.node, &from.task, &from.token, &from.offset); n != 4 || from.offset < 0 || from.String() != in.After {
			return nil, invalid("after is %q: use the value of next in the earlier answer", in.After)
		}
	}
	c, err := f.s.engine.Course(ctx, id)
	if err != nil {
		return nil, err
	}
	nodes := map[dag.HandlerID]dag.HandlerID{}
	for i := range c.Attempts {
		a := &c.Attempts[i]
		if int(a.Task) >= c.Graph.Len() || a.Task < 0 || in.Failed && a.State != dag.AttemptFailed && a.State != dag.AttemptLost {
			continue
		}
		l := runLog{logPlace: logPlace{task: a.Task, token: a.Token}, attempt: a, name: c.Graph.Name(a.Task)}
		if in.Task != "" && l.name != in.Task {
			continue
		}
		node, known := nodes[a.Handler]
		if !known && f.s.cfg.Remote != nil {
			node, _ = f.s.cfg.Remote(ctx, a.Handler)
			nodes[a.Handler] = node
		}
		if l.node = node; in.After != "" && l.compare(from) < 0 {
			continue
		}
		if l.compare(from) == 0 {
			l.offset = from.offset
		}
		list = append(list, l)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].compare(list[j].logPlace) < 0 })
	return list, nil
}

// runSearch is a search through the logs of a run.
type runSearch struct {
	s     *Server
	in    *runSearchIn
	query logscan.Query
	of    LogRef
	mine  func(dag.HandlerID) bool // reports whether this node searches the logs that a node has
	until time.Time
	out   *streamWriter
	so    api.RunLogProgress
	told  time.Time
}

// run searches logs until a bound is reached. It returns the place at which to continue, or nil.
func (x *runSearch) run(ctx context.Context, list []runLog) (next *string, err error) {
	for i := range list {
		l := &list[i]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !x.mine(l.node) || x.so.Bytes >= searchBytes || time.Now().After(x.until) {
			at := l.String()
			return &at, nil
		}
		rest, err := x.one(ctx, l)
		if err != nil {
			return nil, err
		}
		if rest >= 0 {
			l.offset = rest
			at := l.String()
			return &at, nil
		}
		x.so.Logs++
		if time.Since(x.told) >= progressEvery {
			if err := x.progress(0); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

func (x *runSearch) progress(int64) error {
	x.told = time.Now()
	return x.out.writeLine(api.RunLogSearch{Progress: &x.so})
}

// one searches a log. It returns the offset at which to continue in this log, or -1. A log that is gone has
// no hits.
func (x *runSearch) one(ctx context.Context, of *runLog) (rest int64, err error) {
	l := logOf{s: x.s, ref: x.of, task: of.task, ended: of.attempt.State.Ended(), end: of.attempt.Finished}
	l.ref.Task, l.ref.Index, l.ref.Attempt, l.ref.Handler = of.name, of.task, of.token, of.attempt.Handler
	if err := l.open(ctx); err != nil {
		return 0, err
	}
	defer l.close()
	size, err := l.size()
	if err != nil {
		return 0, err
	}
	token := int64(of.token)
	p := partSearch{query: x.query, from: of.offset, size: size, limit: x.in.Limit - x.so.Hits, until: x.until, bytes: searchBytes - x.so.Bytes, progress: x.progress,
		hit: func(h *logscan.Hit) error {
			x.so.Hits++
			hit := hitOf(h)
			hit.Task, hit.Attempt = &of.name, &token
			return x.out.writeLine(api.RunLogSearch{Hit: hit})
		}}
	if err := l.part(ctx, &p); err != nil {
		return 0, err
	}
	x.so.Bytes += p.read
	if p.next < size {
		return p.next, nil
	}
	return -1, nil
}
