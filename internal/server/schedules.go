package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// triggersLookedAt bounds the rows that one request for triggers reads. If a page reaches the bound, it is
// short and has a next page.
const triggersLookedAt = 10_000

// scanPage is the number of rows in one read if the request does not ask for a page. A row may be large.
const scanPage = 200

type TriggerPath struct {
	Namespace string `path:"ns" doc:"default, if the workflow names none."`
	Workflow  string `path:"workflow"`
	Trigger   string `path:"trigger" doc:"Its name in the workflow."`
}

func (p *TriggerPath) workflow() string { return p.Namespace + "/" + p.Workflow }

// trigger finds a trigger with its workflow.
func (s *Server) trigger(ctx context.Context, p *TriggerPath) (store.Workflow, store.Trigger, error) {
	w, err := s.findWorkflow(ctx, p.workflow())
	if err != nil {
		return w, store.Trigger{}, err
	}
	t, err := s.triggerOf(ctx, &w, p.Trigger)
	return w, t, err
}

func (s *Server) triggerOf(ctx context.Context, w *store.Workflow, name string) (store.Trigger, error) {
	t, err := s.engine.Trigger(ctx, store.TriggerKey{Workflow: w.ID, Name: name})
	if errors.Is(err, errkind.ErrNotFound) {
		return t, s.noTrigger(ctx, w, name)
	}
	return t, err
}

// namedMax bounds the names in a sentence.
const namedMax = 20

// noTrigger returns an error that names the existing triggers.
func (s *Server) noTrigger(ctx context.Context, w *store.Workflow, name string) error {
	ts, err := s.engine.Triggers(ctx, store.TriggerQuery{Workflow: w.ID, Limit: namedMax})
	if err != nil {
		return err
	}
	full := fullName(w.Namespace, w.Name)
	if len(ts) == 0 {
		return notFound("workflow %s has no trigger %q; it has no triggers", full, name).about("no_trigger", "workflow", full, "trigger", name)
	}
	return notFound("workflow %s has no trigger %q; it has %s", full, name, triggerNames(ts)).about("no_trigger", "workflow", full, "trigger", name)
}

func triggerNames(ts []store.Trigger) string {
	all := make([]string, len(ts))
	for i := range ts {
		all[i] = ts[i].Name
	}
	if len(ts) == namedMax {
		all = append(all, "…")
	}
	return strings.Join(all, ", ")
}

// workflowNames finds workflows by id. It reads each of them once.
type workflowNames struct {
	s     *Server
	known map[dag.WorkflowID]*store.Workflow
}

func (s *Server) workflowNames() *workflowNames {
	return &workflowNames{s: s, known: map[dag.WorkflowID]*store.Workflow{}}
}

func (n *workflowNames) get(ctx context.Context, id dag.WorkflowID) (*store.Workflow, error) {
	if w := n.known[id]; w != nil {
		return w, nil
	}
	w, err := n.s.engine.WorkflowByID(ctx, id)
	if err == nil {
		n.known[id] = &w
	}
	return &w, err
}

type TriggerFilter struct {
	SystemFilter
	Namespace string `query:"namespace" doc:"Absent: all."`
	Workflow  string `query:"workflow" doc:"NAME or NAMESPACE/NAME."`
}

// scan calls see for triggers by workflow and name, until see returns false or triggersLookedAt rows were
// read. In the second case more is the position at which to continue.
func (s *Server) scan(ctx context.Context, f *TriggerFilter, q store.TriggerQuery, see func(*store.Workflow, *store.Trigger) (bool, error)) (more *store.TriggerKey, err error) {
	if f.Workflow != "" {
		w, err := s.findWorkflow(ctx, f.Workflow)
		if err != nil {
			return nil, err
		}
		q.Workflow = w.ID
	}
	names := s.workflowNames()
	for looked := 0; looked < triggersLookedAt; {
		page, err := s.engine.Triggers(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			t := &page[i]
			q.After = store.TriggerKey{Workflow: t.Workflow, Name: t.Name}
			w, err := names.get(ctx, t.Workflow)
			if errors.Is(err, errkind.ErrNotFound) || f.Namespace != "" && w.Namespace != f.Namespace || isSystem(w) && f.hides(f.Namespace, f.Workflow) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if enough, err := see(w, t); enough || err != nil {
				return &q.After, err
			}
		}
		if looked += len(page); len(page) < q.Limit {
			return nil, nil
		}
	}
	return &q.After, nil
}

type listSchedulesIn struct {
	Page
	TriggerFilter
	State string   `query:"state" enum:"active,paused,ended"`
	Kind  []string `query:"kind" maxItems:"24" doc:"Only these kinds, with commas between them." enum:"cron,every,at,daily,weekly,monthly,annually,start,webhook,file,run_of,again,absent,event,poll,query,object,kafka,nats,redis,mqtt,amqp,sqs,source"`
}

func (s *Server) listSchedules(ctx context.Context, in *listSchedulesIn) (*jsonOut[api.List[api.Schedule]], error) {
	q := store.TriggerQuery{State: in.State, Limit: in.Limit}
	var err error
	if q.After, err = in.afterTrigger(); err != nil {
		return nil, err
	}
	var items []api.Schedule
	bytes := 0
	more, err := s.scan(ctx, &in.TriggerFilter, q, func(w *store.Workflow, t *store.Trigger) (bool, error) {
		if len(in.Kind) > 0 && !slices.Contains(in.Kind, t.Kind) {
			return false, nil
		}
		item, err := s.scheduleOf(ctx, w, t)
		items, bytes = append(items, item), bytes+sizeOf(&item)
		return len(items) == in.Limit || bytes > answerRoom/2, err
	})
	if err != nil {
		return nil, err
	}
	next := ""
	if more != nil {
		next = fmt.Sprintf("%d/%s", more.Workflow, more.Name)
	}
	return list(items, next), nil
}

func (p *Page) afterTrigger() (k store.TriggerKey, err error) {
	text, err := p.after()
	if err != nil || text == "" {
		return k, err
	}
	id, name, ok := strings.Cut(text, "/")
	n, err := strconv.ParseInt(id, 10, 64)
	if !ok || err != nil || n < 1 {
		return k, badCursor()
	}
	return store.TriggerKey{Workflow: dag.WorkflowID(n), Name: name}, nil
}

type scheduleIn struct{ TriggerPath }

func (s *Server) getSchedule(ctx context.Context, in *scheduleIn) (*jsonOut[api.Schedule], error) {
	return s.readSchedule(ctx, &in.TriggerPath)
}

func (s *Server) readSchedule(ctx context.Context, p *TriggerPath) (*jsonOut[api.Schedule], error) {
	w, t, err := s.trigger(ctx, p)
	if err != nil {
		return nil, err
	}
	out, err := s.scheduleOf(ctx, &w, &t)
	return &jsonOut[api.Schedule]{Body: out}, err
}

// scheduleOf returns a trigger with the newest line of its ledger.
func (s *Server) scheduleOf(ctx context.Context, w *store.Workflow, t *store.Trigger) (api.Schedule, error) {
	out := api.Schedule{
		Workflow: fullName(w.Namespace, w.Name), Namespace: w.Namespace, Name: t.Name, Kind: t.Kind, State: t.State,
		Reason: textOrNull(t.Reason), PausedBy: textOrNull(t.Actor), Next: instantOrNull(t.Next), Decided: instant(t.Decided),
		Fired: t.Fired, MaxConcurrentRuns: intOrNull(t.MaxRuns, t.MaxRuns != 0), Version: t.Version,
		Since: instant(t.Since), CreatedAt: instant(t.Created), ModifiedAt: instant(t.Modified),
	}
	if err := withPauses(ctx, s, t, &out); err != nil {
		return out, err
	}
	decl, err := workflow.DecodeTrigger(t.Spec)
	if err != nil {
		return out, fmt.Errorf("trigger %s of %s: %w", t.Name, out.Workflow, err)
	}
	out.Expression, out.Timezone, out.Description = expression(decl), decl.Timezone, decl.Describe()
	out.Overlap, out.Catchup, out.Sensor = decl.Overlap, textOrNull(decl.Catchup), decl.Sensor()
	out.CatchupLimit = intOrNull(decl.CatchupLimit, decl.Catchup == "all")
	if decl.DelayTolerance != 0 {
		out.DelayTolerance = textOrNull(decl.DelayTolerance.String())
	}
	if decl.Intake != nil {
		is, err := eventing{s}.sourceOf(ctx, w, t, decl.Intake)
		if err != nil {
			return out, err
		}
		out.Source = is
	}
	last, err := s.engine.LastFire(ctx, store.TriggerKey{Workflow: t.Workflow, Name: t.Name})
	switch {
	case errors.Is(err, errkind.ErrNotFound):
		return out, nil
	case err != nil:
		return out, err
	}
	f := fireOf(w, &last)
	out.LastFire = &f
	return out, nil
}

// expression returns the declaration of a trigger in a short form.
func expression(t *workflow.Trigger) string {
	switch t.Kind {
	case workflow.KindCron:
		return t.Cron
	case workflow.KindEvery:
		return t.Every.String()
	case workflow.KindStart:
		return "start"
	case workflow.KindWebhook:
		return t.Webhook.Filter
	case workflow.KindFile:
		return filePattern(t.File)
	case workflow.KindRunOf:
		return strings.Join(t.RunOf.Workflows, " ")
	case workflow.KindAgain:
		return fmt.Sprintf("%d/h", t.Again.MaxPerHour)
	case workflow.KindEvent:
		return strings.Join(t.Event.Types, " ")
	case workflow.KindAbsent:
		if t.Absent.RunOf != nil {
			return strings.Join(t.Absent.RunOf.Workflows, " ") + " by " + t.Absent.By
		}
		return filePattern(t.Absent.File) + " by " + t.Absent.By
	case workflow.KindPoll:
		return strings.TrimSpace(t.Poll.Connection + " " + t.Poll.URL)
	case workflow.KindQuery:
		return t.Query.Connection + " " + t.Query.Cursor
	case workflow.KindObject:
		return t.Object.Place()
	}
	if t.Outside != nil {
		return t.Outside.Place()
	}
	var words []string
	for _, m := range t.Months {
		words = append(words, strings.ToLower(time.Month(m).String()[:3]))
	}
	for _, d := range t.Days {
		if t.Kind == workflow.KindWeekly {
			words = append(words, strings.ToLower(time.Weekday(d).String()[:3]))
			continue
		}
		words = append(words, strconv.Itoa(d))
	}
	return strings.Join(append(words, t.At...), " ")
}

func filePattern(f *workflow.FileWatch) string {
	if f == nil {
		return ""
	}
	return strings.TrimRight(f.Path, "/") + "/" + f.Pattern
}

type scheduleVerbIn struct {
	TriggerPath
	Idempotent
	Body *api.VerbRequest
}

func (in *scheduleVerbIn) reason() string {
	if in.Body == nil {
		return ""
	}
	return in.Body.Reason
}

// keep makes a change under its idempotency key, unless the change was made before. If the change is refused,
// nothing is stored under the key.
func (s *Server) keep(ctx context.Context, in *Idempotent, scope string, body any, change func(*store.Request) error) error {
	if in.Key == "" {
		return change(nil)
	}
	hash, err := hashJSON(body)
	if err != nil {
		return err
	}
	if done, err := s.done(ctx, scope, in.Key, hash); done || err != nil {
		return err
	}
	err = change(&store.Request{Scope: scope, Key: in.Key, Hash: hash, Answer: []byte(`{"status":200}`)})
	if errors.Is(err, errkind.ErrConflict) { // there may be two concurrent requests with the same key
		if _, other := s.done(ctx, scope, in.Key, hash); other != nil {
			return other
		}
	}
	return err
}

type occurrenceOut struct {
	Status   int
	Location string `header:"Location" doc:"The run, if one was started."`
	Body     api.Occurrence
}

// fireSchedule fires a trigger by hand. The ledger stores the key.
func (s *Server) fireSchedule(ctx context.Context, in *scheduleVerbIn) (*occurrenceOut, error) {
	w, t, err := s.trigger(ctx, &in.TriggerPath)
	if err != nil {
		return nil, err
	}
	key := in.Key
	if key == "" {
		key = uuid.NewString()
	}
	o := engine.Occurrence{Key: "manual/" + key, Actor: userOf(ctx), Reason: store.Because("by_hand", userOf(ctx), in.reason()), Trace: callerTrace(ctx)}
	done, err := s.engine.Occur(ctx, store.TriggerKey{Workflow: t.Workflow, Name: t.Name}, o)
	if err != nil {
		return nil, err
	}
	if done.Existing && !done.Run.IsZero() && !isKept(done.Reason.String(), o.Reason.String()) {
		return nil, sameRequest(nil, []byte(o.Reason.String()))
	}
	return occurred(&w, &t, o.Key, done), nil
}

// isKept reports whether the ledger keeps a reason as the text kept. The ledger cuts a long reason.
func isKept(kept, reason string) bool {
	begin, cut := strings.CutSuffix(kept, "…")
	return kept == reason || cut && strings.HasPrefix(reason, begin)
}

// occurred describes the result of an event. The status is 202 if a run was just started for it.
func occurred(w *store.Workflow, t *store.Trigger, key string, done engine.Occurred) *occurrenceOut {
	out := &occurrenceOut{Status: http.StatusOK, Body: api.Occurrence{
		Workflow: fullName(w.Namespace, w.Name), Namespace: w.Namespace, Trigger: t.Name, Key: textOrNull(key),
		Outcome: done.Outcome, Reason: textOrNull(done.Reason.String()), Reasons: fireReasons(done.Reason), Existing: done.Existing,
	}}
	if !done.Run.IsZero() {
		out.Body.Run = textOrNull(done.Run.String())
		out.Location = api.Prefix + "/runs/" + done.Run.String()
		if !done.Existing {
			out.Status = http.StatusAccepted
		}
	}
	return out
}
