package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

func (s *Server) queueRoutes(queues tag) {
	route(s, queues.get("/queues", "list-queues", "List the named queues that all namespaces share, and those of namespaces"), s.listQueues)
	route(s, queues.get("/queues/{name}", "get-queue", "Read a named queue"), s.getQueue)
	put := queues.put("/queues/{name}", "set-queue", "Make a named queue, or change its definition; it applies to waiting runs at once")
	route(s, answers(put, map[int]string{http.StatusOK: "There was one, or there is now."}), s.setQueue)
	route(s, queues.delete("/queues/{name}", "delete-queue", "Remove a named queue that no run uses"), s.deleteQueue)
	route(s, queues.verb("/queues/{name}:pause", "pause-queue", "Pause a queue: it grants no slots until it is resumed, and new runs wait"), s.queueVerb(store.QueuePaused))
	route(s, queues.verb("/queues/{name}:drain", "drain-queue", "Drain a queue: it admits queued runs and refuses new ones"), s.queueVerb(store.QueueDraining))
	route(s, queues.verb("/queues/{name}:resume", "resume-queue", "Resume a queue after a pause or a drain"), s.queueVerb(store.QueueActive))
	ownQueueRoutes(s, queues)
	route(s, queues.get("/locks", "list-locks", "List the named locks that runs hold"), s.listLocks)
}

// ownQueueRoutes are the routes of the queues of one namespace.
func ownQueueRoutes(s *Server, queues tag) {
	const path = "/queues/{ns}/{name}"
	route(s, queues.get(path, "get-own-queue", "Read a queue of a namespace"), func(ctx context.Context, in *OwnPath) (*queueOut, error) {
		return s.queue(ctx, in.stored())
	})
	put := queues.put(path, "set-own-queue", "Make a queue of a namespace, or change its definition; its workflows then use it in place of a shared one")
	route(s, answers(put, map[int]string{http.StatusOK: "There was one, or there is now."}), func(ctx context.Context, in *setOwnQueueIn) (*queueOut, error) {
		if !namespaceOK.MatchString(in.Namespace) {
			return nil, invalid("%.63q cannot be the name of a namespace", in.Namespace)
		}
		return putQueue(ctx, s, in.stored(), &in.Conditional, &in.Body)
	})
	route(s, queues.delete(path, "delete-own-queue", "Remove a queue of a namespace that no run uses"), func(ctx context.Context, in *deleteOwnQueueIn) (*struct{}, error) {
		return nil, dropQueue(ctx, s, in.stored(), &in.Conditional)
	})
	for _, v := range []struct{ verb, summary, state string }{
		{"pause", "Stop a queue of a namespace from granting slots until it is resumed", store.QueuePaused},
		{"drain", "Admit the queued runs of a queue of a namespace, and reject new ones", store.QueueDraining},
		{"resume", "End a pause or a drain of a queue of a namespace", store.QueueActive},
	} {
		route(s, queues.verb(path+":"+v.verb, v.verb+"-own-queue", v.summary), func(ctx context.Context, in *ownQueueVerbIn) (*queueOut, error) {
			return moveQueue(ctx, s, in.stored(), v.state, in.Body)
		})
	}
}

type queueOut struct {
	ETag string `header:"ETag" doc:"The revision."`
	Body api.Queue
}

// QueuePath names a queue that all namespaces share.
type QueuePath struct {
	Name string `path:"name" maxLength:"100"`
}

// shared returns the stored name. It returns an error for a name that could be one of a namespace.
func (p *QueuePath) shared() (string, error) {
	if namespace, _ := dag.CutName(p.Name); namespace != "" {
		return "", notFound("there is no shared queue %.60q", p.Name)
	}
	return p.Name, nil
}

// OwnPath names an object of a namespace.
type OwnPath struct {
	Namespace string `path:"ns" maxLength:"63"`
	Name      string `path:"name" maxLength:"100"`
}

func (p *OwnPath) stored() string { return dag.OwnName(p.Namespace, p.Name) }

type setOwnQueueIn struct {
	OwnPath
	Conditional
	Body api.QueueRequest
}

type deleteOwnQueueIn struct {
	OwnPath
	Conditional
}

type ownQueueVerbIn struct {
	OwnPath
	Body *api.QueueStateRequest `required:"false"`
}

// seesName reports whether the caller has a verb in the namespace of an object. Each caller with the verb in
// some namespace sees shared objects.
func seesName(ctx context.Context, v access.Verb, stored string) bool {
	namespace, _ := dag.CutName(stored)
	p, now := auth.Rights(ctx)
	return namespace == "" || access.Decide(p, v, namespace, now)
}

// hiddenRead is the number of queues that one read gets after a page whose queues the caller may not all see.
const hiddenRead = 200

// listQueues lists a page of the queues that the caller may see. A cursor is always the name of a queue that
// the caller may see.
func (s *Server) listQueues(ctx context.Context, in *Page) (*jsonOut[api.List[api.Queue]], error) {
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	items := make([]api.Queue, 0, in.Limit)
	for n := in.Limit + 1; ; n = max(n, hiddenRead) {
		all, err := s.engine.Queues(ctx, after, n)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if !seesName(ctx, access.QueueRead, all[i].Name) {
				continue
			}
			if len(items) == in.Limit {
				return list(items, items[len(items)-1].Name), nil
			}
			items = append(items, seenQueue(ctx, &all[i]))
		}
		if len(all) < n {
			return list(items, ""), nil
		}
		after = all[len(all)-1].Name
	}
}

func (s *Server) queue(ctx context.Context, name string) (*queueOut, error) {
	q, err := s.engine.QueueOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return &queueOut{ETag: strconv.Quote(strconv.FormatInt(q.Revision, 10)), Body: seenQueue(ctx, &q)}, nil
}

func (s *Server) getQueue(ctx context.Context, in *QueuePath) (*queueOut, error) {
	name, err := in.shared()
	if err != nil {
		return nil, err
	}
	return s.queue(ctx, name)
}

type setQueueIn struct {
	QueuePath
	Conditional
	Body api.QueueRequest
}

func (s *Server) setQueue(ctx context.Context, in *setQueueIn) (*queueOut, error) {
	name, err := in.shared()
	if err != nil {
		return nil, err
	}
	return putQueue(ctx, s, name, &in.Conditional, &in.Body)
}

func putQueue(ctx context.Context, s *Server, name string, expect *Conditional, to *api.QueueRequest) (*queueOut, error) {
	revision, err := expect.revision()
	if err != nil {
		return nil, err
	}
	q := store.Queue{Name: name, Limit: to.Limit, PerKey: strings.TrimSpace(to.PerKey),
		Order: or(to.Order, store.QueueFIFO), Overflow: or(to.Overflow, store.OverflowWait)}
	if q.Rate, q.Each, err = rateOf(to.Rate); err != nil {
		return nil, err
	}
	if _, err := s.engine.SetQueue(ctx, q, revision); err != nil {
		return nil, err
	}
	return s.queue(ctx, name)
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
	name, err := in.shared()
	if err != nil {
		return nil, err
	}
	return nil, dropQueue(ctx, s, name, &in.Conditional)
}

func dropQueue(ctx context.Context, s *Server, name string, expect *Conditional) error {
	revision, err := expect.revision()
	if err != nil {
		return err
	}
	return s.engine.DropQueue(ctx, name, revision)
}

type queueVerbIn struct {
	QueuePath
	Body *api.QueueStateRequest `required:"false"`
}

func (s *Server) queueVerb(state string) func(context.Context, *queueVerbIn) (*queueOut, error) {
	return func(ctx context.Context, in *queueVerbIn) (*queueOut, error) {
		name, err := in.shared()
		if err != nil {
			return nil, err
		}
		return moveQueue(ctx, s, name, state, in.Body)
	}
}

func moveQueue(ctx context.Context, s *Server, name, state string, why *api.QueueStateRequest) (*queueOut, error) {
	to := engine.QueueState{State: state, Actor: userOf(ctx)}
	if why != nil {
		to.Reason = why.Reason
		if why.Until != nil {
			to.Until = dag.Micro(why.Until.Time)
		}
	}
	if _, err := s.engine.SetQueueState(ctx, name, to); err != nil {
		return nil, err
	}
	return s.queue(ctx, name)
}

// seenQueue returns a queue. It leaves out the runs that use a shared queue if the caller does not have the
// verb in all namespaces, because these runs may belong to any namespace.
func seenQueue(ctx context.Context, q *inspect.QueueView) api.Queue {
	out := queueOf(q)
	if out.Namespace == nil && !wide(ctx, access.QueueRead) {
		out.Tasks.Runs = []api.QueueTasksOf{}
	}
	return out
}

// lineShown names the line in which a run waits: QUEUE/KEY, or /LOCK.
func lineShown(c *dag.Claim) string {
	if c.Queue != "" {
		return c.Queue + "/" + c.Key
	}
	return "/" + dag.LockName(c.Locks[0])
}

func queueOf(q *inspect.QueueView) api.Queue {
	out := api.Queue{Name: q.Name, PerKey: textOrNull(q.PerKey), Order: q.Order, Overflow: q.Overflow, Rate: rateText(q.Rate, q.Each),
		State: q.State, User: textOrNull(q.Actor), Reason: textOrNull(q.Reason), Until: instantOrNull(q.Until), Held: q.Held,
		Waiting: q.Waiting, Keys: q.Keys, Revision: q.Revision, CreatedAt: instant(q.Created), ModifiedAt: instant(q.Modified)}
	if namespace, _ := dag.CutName(q.Name); namespace != "" {
		out.Namespace = &namespace
	}
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
		items = append(items, api.Lock{Name: l.Name, Namespace: textOrNull(l.Namespace), Run: l.Run.String(), Token: l.Token, Since: instant(l.Since)})
	}
	return list(items, ""), nil
}
