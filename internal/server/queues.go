package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

func (s *Server) queueRoutes(queues tag) {
	route(s, queues.get("/queues", "list-queues", "List the named queues"), s.listQueues)
	route(s, queues.get("/queues/{name}", "get-queue", "Read a named queue"), s.getQueue)
	put := queues.put("/queues/{name}", "set-queue", "Make a named queue, or change its definition; it applies to waiting runs at once")
	route(s, answers(put, map[int]string{http.StatusOK: "There was one, or there is now."}), s.setQueue)
	route(s, queues.delete("/queues/{name}", "delete-queue", "Remove a named queue that no run uses"), s.deleteQueue)
	route(s, queues.verb("/queues/{name}:pause", "pause-queue", "Pause a queue: it grants no slots until it is resumed, and new runs wait"), s.queueVerb(store.QueuePaused))
	route(s, queues.verb("/queues/{name}:drain", "drain-queue", "Drain a queue: it admits queued runs and refuses new ones"), s.queueVerb(store.QueueDraining))
	route(s, queues.verb("/queues/{name}:resume", "resume-queue", "Resume a queue after a pause or a drain"), s.queueVerb(store.QueueActive))
	route(s, queues.get("/locks", "list-locks", "List the named locks that runs hold"), s.listLocks)
}

type queueOut struct {
	ETag string `header:"ETag" doc:"The revision."`
	Body api.Queue
}

type QueuePath struct {
	Name string `path:"name" maxLength:"100"`
}

func (s *Server) listQueues(ctx context.Context, in *Page) (*jsonOut[api.List[api.Queue]], error) {
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	all, err := s.engine.Queues(ctx, after, in.Limit+1)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(all) > in.Limit {
		all = all[:in.Limit]
		next = all[len(all)-1].Name
	}
	items := make([]api.Queue, len(all))
	for i := range all {
		items[i] = seenQueue(ctx, &all[i])
	}
	return list(items, next), nil
}

func (s *Server) queue(ctx context.Context, name string) (*queueOut, error) {
	q, err := s.engine.QueueOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return &queueOut{ETag: strconv.Quote(strconv.FormatInt(q.Revision, 10)), Body: seenQueue(ctx, &q)}, nil
}

func (s *Server) getQueue(ctx context.Context, in *QueuePath) (*queueOut, error) {
	return s.queue(ctx, in.Name)
}

type setQueueIn struct {
	QueuePath
	Conditional
	Body api.QueueRequest
}

func (s *Server) setQueue(ctx context.Context, in *setQueueIn) (*queueOut, error) {
	revision, err := in.revision()
	if err != nil {
		return nil, err
	}
	q := store.Queue{Name: in.Name, Limit: in.Body.Limit, PerKey: strings.TrimSpace(in.Body.PerKey),
		Order: or(in.Body.Order, store.QueueFIFO), Overflow: or(in.Body.Overflow, store.OverflowWait)}
	if q.Rate, q.Each, err = rateOf(in.Body.Rate); err != nil {
		return nil, err
	}
	if _, err := s.engine.SetQueue(ctx, q, revision); err != nil {
		return nil, err
	}
	return s.queue(ctx, in.Name)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// periods are the periods of a rate, by their letters.
var periods = map[string]dag.Micros{"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}

// rateOf reads N/s, N/m, N/h. The text "" means no rate.
func rateOf(text string) (n int32, each dag.Micros, err error) {
	if text == "" {
		return 0, 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	v, err := strconv.ParseInt(number, 10, 32)
	if each = periods[unit]; err != nil || each == 0 || v < 1 {
		return 0, 0, fmt.Errorf("%w: the rate %.20q; write N/s, N/m or N/h, such as 10/s", errkind.ErrInvalid, text)
	}
	return int32(v), each, nil
}

func rateText(n int32, each dag.Micros) *string {
	for unit, period := range periods {
		if n > 0 && period == each {
			text := fmt.Sprintf("%d/%s", n, unit)
			return &text
		}
	}
	return nil
}

type deleteQueueIn struct {
	QueuePath
	Conditional
}

func (s *Server) deleteQueue(ctx context.Context, in *deleteQueueIn) (*struct{}, error) {
	revision, err := in.revision()
	if err != nil {
		return nil, err
	}
	return nil, s.engine.DropQueue(ctx, in.Name, revision)
}

type queueVerbIn struct {
	QueuePath
	Body *api.QueueStateRequest `required:"false"`
}

func (s *Server) queueVerb(state string) func(context.Context, *queueVerbIn) (*queueOut, error) {
	return func(ctx context.Context, in *queueVerbIn) (*queueOut, error) {
		to := engine.QueueState{State: state, Actor: userOf(ctx)}
		if in.Body != nil {
			to.Reason = in.Body.Reason
			if in.Body.Until != nil {
				to.Until = dag.Micro(in.Body.Until.Time)
			}
		}
		if _, err := s.engine.SetQueueState(ctx, in.Name, to); err != nil {
			return nil, err
		}
		return s.queue(ctx, in.Name)
	}
}

// seenQueue returns a queue. It leaves out the runs that use the queue if the caller does not have the verb
// in all namespaces. A queue belongs to no namespace, and its runs may be of any.
func seenQueue(ctx context.Context, q *inspect.QueueView) api.Queue {
	out := queueOf(q)
	if !wide(ctx, access.QueueRead) {
		out.Tasks.Runs = []api.QueueTasksOf{}
	}
	return out
}

func queueOf(q *inspect.QueueView) api.Queue {
	out := api.Queue{Name: q.Name, PerKey: textOrNull(q.PerKey), Order: q.Order, Overflow: q.Overflow, Rate: rateText(q.Rate, q.Each),
		State: q.State, User: textOrNull(q.Actor), Reason: textOrNull(q.Reason), Until: instantOrNull(q.Until), Held: q.Held,
		Waiting: q.Waiting, Keys: q.Keys, Revision: q.Revision, CreatedAt: instant(q.Created), ModifiedAt: instant(q.Modified)}
	if q.Limit > 0 {
		out.Limit = &q.Limit
	}
	out.Tasks = api.QueueTasks{Held: q.TasksHeld, Waiting: q.TasksWaiting, Runs: make([]api.QueueTasksOf, len(q.Crews))}
	for i := range q.Crews {
		c := &q.Crews[i]
		out.Tasks.Runs[i] = api.QueueTasksOf{Run: c.Run.String(), Key: textOrNull(c.Key), Held: c.Held, Waiting: c.Waiting,
			Since: instantOrNull(c.Since), Running: append([]string{}, c.Running...), Ready: append([]string{}, c.Ready...)}
	}
	return out
}

func (s *Server) listLocks(ctx context.Context, _ *struct{}) (*jsonOut[api.List[api.Lock]], error) {
	all, err := s.engine.Locks(ctx)
	if err != nil {
		return nil, err
	}
	items := make([]api.Lock, 0, len(all))
	for _, l := range all {
		if !wide(ctx, access.QueueRead) && mayRun(ctx, s, access.QueueRead, l.Run.String()) != nil {
			continue // the lock is held by a run of a namespace that the caller cannot see
		}
		items = append(items, api.Lock{Name: l.Name, Run: l.Run.String(), Token: l.Token, Since: instant(l.Since)})
	}
	return list(items, ""), nil
}
