package trace

import (
	"context"
	"errors"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
)

const (
	// spansMax bounds the spans of the tasks and attempts of a run.
	spansMax = 10_000
	// linksMax bounds the links of a span.
	linksMax = 32
)

// tree makes the spans of one end of a run.
type tree struct {
	x        *Exporter
	rec      *store.RunRecord
	end      *tally.End
	graph    *dag.Graph // nil if the graph cannot be read, so only the run gets a span
	trace    traceID
	root     spanID
	workflow string
	tasks    map[dag.TaskID]bool // the tasks that have spans
	out      []span
	left     int64 // attempts without a span
}

// spans returns the spans of an end of a run. The first one is that of the run.
func (x *Exporter) spans(ctx context.Context, rec *store.RunRecord, end *tally.End) (*tree, error) {
	row := &rec.Run
	b := &tree{x: x, rec: rec, end: end, trace: traceOf(row.Root(), row.Trace()), root: runSpan(row.ID, end.Generation), tasks: map[dag.TaskID]bool{}}
	var err error
	if b.workflow, err = x.workflows.Get(row.Workflow); err != nil {
		return nil, err
	}
	if b.graph, err = x.cfg.Graphs.Of(row); err != nil {
		if err = tally.UnlessForever(err); err != nil {
			return nil, err
		}
		b.graph = nil
	}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	if b.graph != nil {
		b.attempts(ctx)
	}
	if b.left > 0 {
		setNumber(&b.out[0].Attributes, "skein.attempts_left_out", b.left)
	}
	return b, nil
}

// run makes the span of the run. The span begins when the run was accepted or, after a recovery, when it was
// recovered.
func (b *tree) run(ctx context.Context) error {
	row, end := &b.rec.Run, b.end
	s := span{TraceID: b.trace.String(), SpanID: b.root.String(), Name: b.workflow, Kind: kindInternal}
	switch {
	case end.First:
		s.between(row.Created, end.At)
		s.at(row.SplitAt, "split")
	case end.Began:
		s.between(end.At-end.Took, end.At)
	default:
		s.between(end.At, end.At)
	}
	if end.After > 0 {
		s.Links = append(s.Links, link{b.trace.String(), runSpan(row.ID, end.After).String()})
	}
	b.identify(&s)
	setNumber(&s.Attributes, "skein.workflow.version", int64(row.Version))
	set(&s.Attributes, "skein.run.origin", string(row.Origin))
	set(&s.Attributes, "skein.run.state", end.State.String())
	if end.Generation > 1 {
		setNumber(&s.Attributes, "skein.run.generation", int64(end.Generation))
	}
	if f := row.Fire; f != nil {
		set(&s.Attributes, "skein.trigger", f.Trigger)
	}
	message := ""
	if end.Generation == row.Generation && row.State.Terminal() {
		set(&s.Attributes, "skein.run.cause", string(row.Cause))
		message = row.Message
	}
	switch end.State {
	case dag.RunSucceeded:
		s.Status.Code = statusOK
	case dag.RunFailed:
		s.Status = status{statusError, bounded(message)}
	}
	if err := b.above(ctx, &s); err != nil {
		return err
	}
	b.out = append(b.out, s)
	return nil
}

// above sets the parent of the run's span: the attempt that called the run, or the span of the run's caller.
// The span of a run that repeats another run has a link to that run.
func (b *tree) above(ctx context.Context, s *span) error {
	row := &b.rec.Run
	if p := row.Parent(); p != nil {
		of, err := b.x.cfg.Store.Attempts(ctx, store.AttemptQuery{Run: p.Up().Run, Task: p.Task, One: true})
		if err != nil && !gone(err) {
			return err
		}
		for i := len(of) - 1; i >= 0; i-- {
			if of[i].Assigned <= row.Created || i == 0 {
				b.under(s, attemptSpan(of[i].Run, of[i].Task, of[i].Token), attemptTrace(of[i].Run, of[i].Task, of[i].Token))
				return nil
			}
		}
	}
	if c, ok := callerOf(row.Trace()); ok {
		s.ParentID, s.Kind = c.span.String(), kindServer
	}
	if row.Fire != nil && !row.Fire.Of.IsZero() {
		of, err := b.x.cfg.Store.Run(ctx, row.Fire.Of)
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		s.Links = append(s.Links, link{traceOf(of.Root(), of.Trace()).String(), runSpan(of.ID, of.Generation).String()})
	}
	return nil
}

// under sets the parent of the run's span to the attempt that called the run. In the mode linked, this
// attempt is in another trace.
func (b *tree) under(s *span, attempt spanID, trace traceID) {
	if b.x.cfg.Mode == ModeLinked {
		s.Links = append(s.Links, link{trace.String(), attempt.String()})
		return
	}
	s.ParentID = attempt.String()
}

func gone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt)
}

// identify adds the attributes that all spans of the run have.
func (b *tree) identify(s *span) {
	set(&s.Attributes, "skein.workflow", b.workflow)
	set(&s.Attributes, "skein.run.id", b.rec.Run.ID.String())
}

// attempts makes the spans of the tasks and attempts that belong to the end.
func (b *tree) attempts(ctx context.Context) {
	var own []dag.AttemptRow
	for i := range b.rec.Attempts {
		a := &b.rec.Attempts[i]
		if a.Generation > b.end.Generation || a.Generation <= b.end.After || int(a.Task) >= b.graph.Len() {
			continue
		}
		if 2*len(own) >= spansMax {
			b.left++
			continue
		}
		own = append(own, *a)
		b.tasks[a.Task] = true
	}
	nodes := b.x.nodesOf(ctx, own)
	for len(own) > 0 {
		n := 1
		for n < len(own) && own[n].Task == own[0].Task {
			n++
		}
		if b.x.cfg.Mode != ModeLinked {
			b.task(own[:n])
		}
		for i := range own[:n] {
			b.attempt(&own[i], nodes[own[i].Handler])
		}
		own = own[n:]
	}
}

// finished returns the end of an attempt. An attempt that was still open at the end of the run ended with the
// run.
func (b *tree) finished(a *dag.AttemptRow) dag.Micros {
	if a.Finished > 0 {
		return a.Finished
	}
	return b.end.At
}

// task makes the span of a task, with links to the spans of the needed tasks.
func (b *tree) task(all []dag.AttemptRow) {
	last := &all[len(all)-1]
	s := span{TraceID: b.trace.String(), SpanID: b.taskSpan(last.Task).String(), ParentID: b.root.String(), Name: b.graph.Name(last.Task), Kind: kindInternal}
	start, end := all[0].Assigned, dag.Micros(0)
	for i := range all {
		start, end = min(start, all[i].Assigned), max(end, b.finished(&all[i]))
	}
	s.between(start, end)
	if of, instance := b.graph.InstanceOf(last.Task); instance && b.tasks[of] {
		s.ParentID = b.taskSpan(of).String()
	} else if last.Task != dag.LeaderTask && !instance {
		for _, n := range b.graph.Needs(last.Task) {
			if b.tasks[n] && len(s.Links) < linksMax {
				s.Links = append(s.Links, link{b.trace.String(), b.taskSpan(n).String()})
			}
		}
	}
	b.identify(&s)
	set(&s.Attributes, "skein.task", s.Name)
	setNumber(&s.Attributes, "skein.attempts", int64(len(all)))
	s.Status = statusOf(last)
	b.out = append(b.out, s)
}

func (b *tree) taskSpan(t dag.TaskID) spanID { return taskSpan(b.rec.Run.ID, b.end.Generation, t) }

// attempt makes the span of an attempt.
func (b *tree) attempt(a *dag.AttemptRow, node string) {
	s := span{TraceID: b.trace.String(), SpanID: attemptSpan(a.Run, a.Task, a.Token).String(), ParentID: b.taskSpan(a.Task).String(), Kind: kindInternal}
	name := b.graph.Name(a.Task)
	s.Name = name + " attempt"
	if b.x.cfg.Mode == ModeLinked {
		s.TraceID, s.ParentID = attemptTrace(a.Run, a.Task, a.Token).String(), ""
		s.Links = []link{{b.trace.String(), b.root.String()}}
	}
	s.between(a.Assigned, b.finished(a))
	s.at(a.Started, "started")
	b.identify(&s)
	set(&s.Attributes, "skein.task", name)
	setNumber(&s.Attributes, "skein.attempt", int64(a.Token.Number()))
	set(&s.Attributes, "skein.attempt.state", a.State.String())
	set(&s.Attributes, "skein.attempt.cause", string(a.Cause))
	set(&s.Attributes, "skein.node", node)
	if a.Exited {
		setNumber(&s.Attributes, "process.exit.code", int64(a.ExitCode))
	}
	s.Status = statusOf(a)
	b.out = append(b.out, s)
}

func statusOf(a *dag.AttemptRow) status {
	switch a.State {
	case dag.AttemptSucceeded:
		return status{Code: statusOK}
	case dag.AttemptFailed, dag.AttemptLost:
		return status{statusError, bounded(a.Message)}
	}
	return status{}
}

// nodesOf returns the names of the nodes and workers of attempts. If the names cannot be read, it returns
// none.
func (x *Exporter) nodesOf(ctx context.Context, attempts []dag.AttemptRow) map[dag.HandlerID]string {
	names, unknown := map[dag.HandlerID]string{}, []dag.HandlerID(nil)
	for i := range attempts {
		h := attempts[i].Handler
		if _, seen := names[h]; seen || h == 0 {
			continue
		}
		name, known := x.nodes.Get(h)
		if names[h] = name; !known && !slices.Contains(unknown, h) {
			unknown = append(unknown, h)
		}
	}
	if len(unknown) == 0 {
		return names
	}
	found, err := x.cfg.Store.Handlers(ctx, unknown)
	if err != nil {
		return names
	}
	for i := range found {
		names[found[i].ID] = found[i].Node
		x.nodes.Put(found[i].ID, found[i].Node, len(found[i].Node))
	}
	return names
}
