package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	api "skein.dev/skein/sdk/api/v1"
)

type listTasksIn struct {
	RunPath
	Page
}

func (s *Server) listTasks(ctx context.Context, in *listTasksIn) (*jsonOut[api.List[api.Task]], error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	from, err := in.afterInt()
	if err != nil {
		return nil, err
	}
	if from > dag.TasksMax*10 {
		return nil, badCursor()
	}
	views, total, err := s.engine.Tasks(ctx, id, int(from), in.Limit)
	if err != nil {
		return nil, err
	}
	if err := weighOutputs(ctx, s, views); err != nil {
		return nil, err
	}
	values, err := mayValues(ctx, s, id)
	if err != nil {
		return nil, err
	}
	all := tasksOf(views)
	for i := range all {
		if !values {
			all[i].Outputs = noOutputs
		}
	}
	tasks, _ := fit(all, func(t *api.Task) int { return sizeOf(t) })
	next := ""
	if end := int(from) + len(tasks); end < total {
		next = strconv.Itoa(end)
	}
	return list(tasks, next), nil
}

type TaskPath struct {
	RunPath
	Task string `path:"task" maxLength:"300" doc:"The task's name."`
}

func (s *Server) getTask(ctx context.Context, in *TaskPath) (*jsonOut[api.Task], error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	v, err := s.engine.Task(ctx, id, in.Task)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil, s.noTask(ctx, id, in.Task)
	}
	if err != nil {
		return nil, err
	}
	out, err := shownTask(ctx, s, id, &v)
	return &jsonOut[api.Task]{Body: out}, err
}

// shownTask shows a task of a run. It leaves out the outputs if the caller does not have the verb run.values.
func shownTask(ctx context.Context, s *Server, id dag.RunID, v *inspect.TaskView) (api.Task, error) {
	values, err := mayValues(ctx, s, id)
	out := taskOf(v)
	if !values {
		out.Outputs = noOutputs
	}
	return out, err
}

// noTask returns an error that says whether the run or the task does not exist.
func (s *Server) noTask(ctx context.Context, id dag.RunID, task string) error {
	if _, err := s.engine.RunRow(ctx, id); err != nil {
		return err
	}
	return notFound("run %s has no task %q; skein run get %s lists its tasks", id, task, id)
}

func (s *Server) runGraph(ctx context.Context, in *RunPath) (*jsonOut[api.Graph], error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	row, err := s.engine.RunRow(ctx, id)
	if err != nil {
		return nil, err
	}
	g, err := s.engine.RunGraph(&row)
	if err != nil {
		return nil, err
	}
	views, _, err := s.engine.Tasks(ctx, id, 0, -1)
	if err != nil {
		return nil, err
	}
	states := make([]string, g.Len())
	for i := range states {
		states[i] = dag.Pending.String() // the run is not split yet
		if i < len(views) {
			states[i] = views[i].State.String()
		}
	}
	return &jsonOut[api.Graph]{Body: graphOf(g, states)}, nil
}

type listEventsIn struct {
	RunPath
	Page
	Kind []string `query:"kind" maxItems:"20" doc:"Only these kinds, with commas between them. A page can be empty and have a next one." enum:"submitted,split,assigned,started,ended,lost,timeout,intent,state,rejected,recovered,waiting,admitted,marked,task stop,deferred,repaired,handle,released,orphan"`
}

// only removes records whose kind was not requested.
func (in *listEventsIn) only(views []inspect.EventView) {
	if len(in.Kind) == 0 {
		return
	}
	for i := range views {
		views[i].Records = slices.DeleteFunc(views[i].Records, func(r inspect.RecordView) bool { return !slices.Contains(in.Kind, r.Kind.String()) })
	}
}

func (s *Server) listEvents(ctx context.Context, in *listEventsIn) (*jsonOut[api.List[api.Event]], error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	after, skip, err := in.afterEvent()
	if err != nil {
		return nil, err
	}
	views, err := s.engine.Events(ctx, id, after, in.Limit+seqRowsMax)
	if err != nil {
		return nil, err
	}
	next := ""
	views, more := wholeTransactions(views, in.Limit)
	if more {
		next = strconv.FormatInt(views[len(views)-1].Seq, 10)
	}
	in.only(views)
	events, first := []api.Event{}, 0 // the number of lines of the first transaction
	for i := range views {
		lines := eventsOf(id, views[i].Seq, views[i].At, views[i].Records)
		if events = append(events, lines...); views[i].Seq == views[0].Seq {
			first += len(lines)
		}
	}
	events = events[min(skip, first):]
	events, cut := fit(events, func(e *api.Event) int { return sizeOf(e) })
	if cut { // the page may end in the middle of a transaction
		next = inEvents(events, after, skip)
	}
	return list(events, next), nil
}

// seqRowsMax bounds the rows of one transaction in the history of one run. These are the row of the
// transaction, and the rows for the acceptance, the start and the end of the run.
const seqRowsMax = 4

// wholeTransactions returns all rows of as many transactions as are needed for limit rows, if there are that
// many. more reports whether rows follow. The caller has read with a limit of limit + seqRowsMax.
func wholeTransactions(rows []inspect.EventView, limit int) (page []inspect.EventView, more bool) {
	for i := limit; i < len(rows); i++ {
		if rows[i].Seq != rows[limit-1].Seq {
			return rows[:i], true
		}
	}
	return rows, false
}

// afterEvent reads a cursor: SEQ, or SEQ.N, after the first N lines of the transaction that follows SEQ.
func (p *Page) afterEvent() (seq int64, lines int, err error) {
	text, err := p.after()
	if err != nil || text == "" {
		return 0, 0, err
	}
	before, rest, within := strings.Cut(text, ".")
	if seq, err = strconv.ParseInt(before, 10, 64); err == nil && within {
		lines, err = strconv.Atoi(rest)
	}
	if err != nil || seq < 0 || lines < 0 {
		return 0, 0, badCursor()
	}
	return seq, lines, nil
}

// inEvents returns the cursor after the last line of a page. after is the transaction before the page, and
// skip is the number of lines of the next transaction that the page has left out at its beginning.
func inEvents(page []api.Event, after int64, skip int) string {
	last, lines := page[len(page)-1].Seq, 0
	before := after
	for i := range page {
		if page[i].Seq == last {
			lines++
		} else {
			before = page[i].Seq
		}
	}
	if before == after { // all lines of the page are of one transaction
		lines += skip
	}
	return fmt.Sprintf("%d.%d", before, lines)
}

type explainRunIn struct {
	RunPath
	ReasonLimit
}

type explainTaskIn struct {
	TaskPath
	ReasonLimit
}

// ReasonLimit bounds an explanation.
type ReasonLimit struct {
	Limit int `query:"limit" minimum:"1" maximum:"50" default:"50" doc:"How many reasons there are at most."`
}

func (s *Server) explainRun(ctx context.Context, in *explainRunIn) (*jsonOut[api.Explanation], error) {
	return s.explain(ctx, &in.RunPath, "", in.Limit)
}

func (s *Server) explainTask(ctx context.Context, in *explainTaskIn) (*jsonOut[api.Explanation], error) {
	return s.explain(ctx, &in.RunPath, in.Task, in.Limit)
}

func (s *Server) explain(ctx context.Context, in *RunPath, task string, limit int) (*jsonOut[api.Explanation], error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	p, now := auth.Rights(ctx)
	readable := func(namespace string) bool { return access.Decide(p, access.RunRead, namespace, now) }
	x, err := s.engine.Explain(inspect.WithReadable(ctx, readable), id, task)
	if task != "" && errors.Is(err, errkind.ErrNotFound) {
		return nil, s.noTask(ctx, id, task)
	}
	if err != nil {
		return nil, err
	}
	out := api.Explanation{ID: x.ID, State: x.State, Reasons: []api.Reason{}}
	for i := range x.Reasons[:min(len(x.Reasons), limit)] {
		if err := addRefusal(ctx, s, id, &x.Reasons[i]); err != nil {
			return nil, err
		}
		out.Reasons = append(out.Reasons, reasonOf(&x.Reasons[i]))
	}
	return &jsonOut[api.Explanation]{Body: out}, nil
}

func reasonOf(r *inspect.Reason) api.Reason {
	out := api.Reason{Kind: r.Kind, What: r.What, Holder: textOrNull(r.Holder), Since: instantOrNull(r.Since),
		Unblocks: textOrNull(r.Unblocks), ExpectedAt: instantOrNull(r.Expected), Code: r.Code, Args: r.Args, Actions: []api.Action{}}
	if out.Args == nil {
		out.Args = map[string]any{}
	}
	for _, a := range r.Actions {
		about, path := "run", "/runs/"+a.Run.String()
		switch {
		case a.Task != "":
			about, path = "task "+a.Task, path+"/tasks/"+url.PathEscape(a.Task)
		case a.Queue != "":
			about, path = "queue "+a.Queue, "/queues/"+strings.Replace(url.PathEscape(a.Queue), "%2F", "/", 1) // the name may begin with a namespace
		case a.Trigger != "":
			about, path = "trigger "+a.Trigger, "/schedules/"+a.Workflow.Namespace+"/"+a.Workflow.Name+"/"+url.PathEscape(a.Trigger)
		case a.Workflow != nil:
			about, path = "workflow "+a.Workflow.Name, "/workflows/"+a.Workflow.Namespace+"/"+a.Workflow.Name
		}
		out.Actions = append(out.Actions, api.Action{
			Verb: a.Verb, Path: api.Prefix + path + ":" + a.Verb, Label: strings.ToUpper(a.Verb[:1]) + a.Verb[1:] + " " + about})
	}
	return out
}
