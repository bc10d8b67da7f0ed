package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/cloudevent"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// EventLog stores events that were sent.
type EventLog interface {
	AddEvents(ctx context.Context, events []store.SentEvent) ([]store.EventAdded, error)
	EventsUntil(ctx context.Context, at dag.Micros) (int64, error)
	EventLog(ctx context.Context) (first, last int64, err error)
}

// eventing are the routes of the events API.
type eventing struct{ s *Server }

func eventRoutes(s *Server, schedules tag) {
	e := eventing{s}
	send := schedules.verb("/events", "send-events", "Send events in the format CloudEvents 1.0; when the answer comes, they are durable")
	send.Description, send.MaxBodyBytes, send.RequestBody = sendDoc, cloudevent.BytesMax+1, &huma.RequestBody{}
	route(s, send, e.send)
	route(s, schedules.verb("/schedules/{ns}/{workflow}/{trigger}:seek", "seek-schedule", "Move the cursor of a trigger"), e.seek)
}

const sendDoc = "The body is one event (application/cloudevents+json), a list of up to 500 events (application/cloudevents-batch+json), or the data of an event whose attributes are in headers (ce-id, …). " +
	"All events of a request are taken, or none. An event whose source and id came before is not taken again: the answer then has its earlier position. " +
	"Each trigger of the namespace with the key event that wants an event starts a run for it after the answer."

type sendIn struct {
	Namespace string `query:"namespace" maxLength:"63" doc:"Whose workflows get the events; absent: default."`
	RawBody   []byte `contentType:"application/cloudevents+json"`
	header    http.Header
}

// Resolve reads the headers, because they may be attributes of the event.
func (in *sendIn) Resolve(ctx huma.Context) []error {
	in.header = http.Header{}
	ctx.EachHeader(in.header.Add)
	return nil
}

func (e eventing) send(ctx context.Context, in *sendIn) (*jsonOut[api.EventsSent], error) {
	namespace := cmp.Or(in.Namespace, "default")
	if !namespaceOK.MatchString(namespace) {
		return nil, invalid("%.63q cannot be the name of a namespace", namespace)
	}
	if err := may(ctx, access.EventSend, namespace); err != nil {
		return nil, err
	}
	if e.s.cfg.Events == nil {
		return nil, notFound("this process only reads the database, so it cannot take events; send the call to a node")
	}
	if err := e.s.hooks.enter("calls to webhooks and of events are being taken"); err != nil {
		return nil, err
	}
	defer e.s.hooks.leave()
	var names []string
	for name := range in.header {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	events, err := cloudevent.Read(in.header.Get, names, in.RawBody)
	switch {
	case errors.Is(err, cloudevent.ErrMediaType):
		return nil, fail(http.StatusUnsupportedMediaType, api.ProblemMediaType, "%s", err.Error())
	case err != nil:
		return nil, invalid("%s", err.Error())
	}
	return e.add(ctx, namespace, events)
}

// add stores events. An event that is twice in a request is added once.
func (e eventing) add(ctx context.Context, namespace string, events []cloudevent.Event) (*jsonOut[api.EventsSent], error) {
	rows := make([]store.SentEvent, 0, len(events))
	place := map[string]int{}
	for i := range events {
		ev := &events[i]
		if _, twice := place[ev.Key()]; !twice {
			place[ev.Key()] = len(rows)
			rows = append(rows, store.SentEvent{Namespace: namespace, Source: ev.Source, ID: ev.ID, Type: ev.Type, Data: ev.JSON})
		}
	}
	added, err := e.s.cfg.Events.AddEvents(ctx, rows)
	if err != nil {
		return nil, errkind.FromStore("keep the events", err)
	}
	out := &jsonOut[api.EventsSent]{Body: api.EventsSent{Namespace: namespace, Events: []api.EventSent{}}}
	for i := range events {
		a := &added[place[events[i].Key()]]
		out.Body.Events = append(out.Body.Events, api.EventSent{Source: events[i].Source, ID: events[i].ID, Position: a.Seq,
			ReceivedAt: instant(a.Received), Existing: a.Existing})
		a.Existing = true
	}
	return out, nil
}

type seekIn struct {
	TriggerPath
	Idempotent
	Body api.SeekRequest
}

func (e eventing) seek(ctx context.Context, in *seekIn) (*jsonOut[api.Schedule], error) {
	s := e.s
	_, t, err := s.trigger(ctx, &in.TriggerPath)
	if err != nil {
		return nil, err
	}
	to, err := e.target(ctx, &t, in.Body.To)
	if err != nil {
		return nil, err
	}
	scope := fmt.Sprintf("POST /schedules/%d/%s:seek", t.Workflow, t.Name)
	err = s.keep(ctx, &in.Idempotent, scope, in.Body, func(once *store.Request) error {
		_, err := engine.IntakeOf(s.engine).Seek(ctx, store.TriggerKey{Workflow: t.Workflow, Name: t.Name}, to, once)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.readSchedule(ctx, &in.TriggerPath)
}

// target reads the position to seek. In the log of events, a position is a number; an instant is converted to
// one.
func (e eventing) target(ctx context.Context, t *store.Trigger, to string) (engine.Seek, error) {
	if workflow.IsQueue(t.Kind) {
		return engine.Seek{}, invalid("trigger %s of kind %s reads a queue, which has no positions: send the messages again", t.Name, t.Kind)
	}
	if to == workflow.FromBeginning || to == workflow.FromNow && t.Kind != workflow.KindEvent {
		return engine.Seek{From: to}, nil
	}
	is := engine.Seek{Cursor: []byte(to), From: workflow.FromNow}
	if workflow.IsOutside(t.Kind) {
		return is, jsonCursor(&is, to)
	}
	if t.Kind != workflow.KindEvent {
		return is, nil
	}
	if e.s.cfg.Events == nil {
		return is, notFound("this process only reads the database, so it cannot seek in the log of events; send the call to a node")
	}
	var seq int64
	var err error
	at, notTime := time.Parse(time.RFC3339, to)
	switch n, notNumber := strconv.ParseInt(to, 10, 64); {
	case to == workflow.FromNow:
		_, seq, err = e.s.cfg.Events.EventLog(ctx)
	case notNumber == nil && n >= 0:
		if _, seq, err = e.s.cfg.Events.EventLog(ctx); err == nil && n > seq {
			return is, invalid("to is %d, and the log of events ends at %d: the trigger would miss the events in between; write now for the end", n, seq)
		}
		seq = n
	case notTime == nil:
		seq, err = e.s.cfg.Events.EventsUntil(ctx, dag.Micro(at)-1)
	default:
		return is, invalid("to is %.60q: use beginning, now, an instant such as 2027-01-01T06:00:00Z, or the position of an event", to)
	}
	is.Cursor = strconv.AppendInt(nil, seq, 10)
	return is, errkind.FromStore("read the log of events", err)
}

// jsonCursor makes the cursor of a source that is a process: a JSON value, or an instant as a JSON string.
func jsonCursor(to *engine.Seek, text string) error {
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		to.Cursor = strconv.AppendQuote(nil, text)
		return nil
	}
	if !json.Valid([]byte(text)) || text == "null" {
		return invalid("to is %.60q: use beginning, now, an instant such as 2027-01-01T06:00:00Z, or a cursor as skein schedule get shows it", text)
	}
	return nil
}

// sourceOf returns the position of the source of a trigger, and its state.
func (e eventing) sourceOf(ctx context.Context, w *store.Workflow, t *store.Trigger, in *workflow.Intake) (*api.ScheduleSource, error) {
	pos, err := trigger.Position(t, in)
	if err != nil {
		return nil, err
	}
	out := &api.ScheduleSource{From: pos.From, TakenAt: instantOrNull(pos.Taken), Filtered: pos.Filtered, Lost: pos.Lost}
	if pos.Cursor != nil {
		out.Cursor = textOrNull(strings.ToValidUTF8(string(pos.Cursor), "\uFFFD"))
	}
	if t.Kind == workflow.KindEvent && e.s.cfg.Events != nil {
		if out.Lag, err = e.lag(ctx, &pos); err != nil {
			return nil, err
		}
	}
	if lag, away, why, known := e.stateOf(w, t); known {
		out.AwayAt, out.Why = instantOrNull(away), textOrNull(why)
		if lag >= 0 {
			out.Lag = &lag
		}
	}
	return out, nil
}

// SourceState returns the state of a source of this node. here is false if this node does not run the source.
// lag is -1 if it is unknown. away is the time since which the other system cannot be reached, or 0 if it can
// be reached. why says why it cannot.
type SourceState func(store.TriggerKey) (lag int64, away dag.Micros, why string, here bool)

// stateOf returns the state of a source. Nodes report to each other only sources whose external system cannot
// be reached, and those with a lag, and of many only some. So the state of another node's source may be
// unknown.
func (e eventing) stateOf(w *store.Workflow, t *store.Trigger) (lag int64, away dag.Micros, why string, known bool) {
	if e.s.cfg.Source != nil {
		if lag, away, why, known = e.s.cfg.Source(store.TriggerKey{Workflow: t.Workflow, Name: t.Name}); known {
			return lag, away, why, true
		}
	}
	if e.s.cfg.Monitor == nil || t.State != store.TriggerActive || t.Kind == workflow.KindEvent {
		return 0, 0, "", false
	}
	sights := e.s.cfg.Monitor.Sights()
	name := w.Namespace + "/" + w.Name + "/" + t.Name
	for i := range sights {
		if !sights[i].Reached {
			continue
		}
		lag, waits := sights[i].Report.Lags[name]
		if !waits {
			lag = -1
		}
		for _, is := range sights[i].Report.Sources {
			if is.Trigger == name {
				return lag, dag.Micro(is.Since), is.Why, true
			}
		}
		if waits {
			return lag, 0, "", true
		}
	}
	return 0, 0, "", false
}

// lag counts the events of the log that a trigger has not read yet.
func (e eventing) lag(ctx context.Context, pos *engine.Position) (*int64, error) {
	first, last, err := e.s.cfg.Events.EventLog(ctx)
	if err != nil {
		return nil, errkind.FromStore("read the log of events", err)
	}
	read := first - 1
	switch {
	case pos.Cursor != nil:
		n, err := strconv.ParseInt(string(pos.Cursor), 10, 64)
		if err != nil {
			return nil, nil
		}
		read = max(read, n)
	case pos.From == workflow.FromNow:
		if read, err = e.s.cfg.Events.EventsUntil(ctx, pos.Since); err != nil {
			return nil, errkind.FromStore("read the log of events", err)
		}
	}
	return new(max(last-read, 0)), nil
}
