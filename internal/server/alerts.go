package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// Notifier sends test messages.
type Notifier interface {
	Test(ctx context.Context, row *store.AlertChannel, by string) error
}

// alerting are the routes of alerts and channels.
type alerting struct{ s *Server }

func alertRoutes(s *Server, alerts tag) {
	a := alerting{s}
	route(s, alerts.get("/alerts", "list-alerts", "List the alerts that are open or acknowledged, newest first"), a.list)
	route(s, alerts.get("/alerts/{id}", "get-alert", "Read an alert and its messages"), a.get)
	route(s, alerts.verb("/alerts/{id}:ack", "ack-alert", "Acknowledge an alert, so that it is not escalated"), a.changes(false))
	route(s, alerts.verb("/alerts/{id}:resolve", "resolve-alert", "Resolve an alert by hand, and notify its channels"), a.changes(true))
	route(s, alerts.get("/cluster-alerts", "get-cluster-alerts", "Read the alert rules about the cluster"), a.clusterAlerts)
	route(s, alerts.put("/cluster-alerts", "set-cluster-alerts", "Replace the alert rules about the cluster"), a.setClusterAlerts)
	route(s, alerts.get("/silences", "list-silences", "List the active and future silences, newest first"), a.silences)
	route(s, alerts.verb("/silences/{ns}", "add-silence", "Silence new alerts of a namespace for a time; * means all namespaces"), a.addSilence)
	route(s, alerts.verb("/silences/{ns}/{id}:end", "end-silence", "End a silence early; channels are notified of open alerts within a minute"), a.endSilence)
	route(s, alerts.get("/channels", "list-channels", "List the channels by namespace and name"), a.channels)
	route(s, alerts.put("/channels/{ns}/{name}", "set-channel", "Make a channel, or change it; waiting messages are sent with the new configuration"), a.setChannel)
	route(s, alerts.delete("/channels/{ns}/{name}", "delete-channel", "Remove a channel; its waiting messages expire unless the channel is created again"), a.deleteChannel)
	route(s, alerts.verb("/channels/{ns}/{name}:test", "test-channel", "Send a test message through a channel, once"), a.test)
}

func (a alerting) store() (store.Alerts, error) {
	if a.s.cfg.Alerts == nil {
		return nil, notFound("this process has no alerts; ask a node")
	}
	return a.s.cfg.Alerts, nil
}

type listAlertsIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only alerts of this namespace."`
	Workflow  string `query:"workflow" maxLength:"200" doc:"Only alerts of this workflow: NAME or NAMESPACE/NAME."`
	State     string `query:"state" enum:"open,acknowledged,resolved" doc:"Only alerts in this state."`
	All       bool   `query:"all" doc:"Also alerts that are resolved."`
}

func (a alerting) list(ctx context.Context, in *listAlertsIn) (*jsonOut[api.List[api.Alert]], error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	text, err := in.after()
	if err != nil {
		return nil, err
	}
	q := store.IncidentQuery{State: in.State, Over: in.All || in.State == store.IncidentResolved, Limit: in.Limit + 1}
	if text != "" {
		at, id, _ := strings.Cut(text, "/")
		n, failed := strconv.ParseInt(at, 10, 64)
		q.Before = dag.Micros(n)
		if q.BeforeID, err = uuid.Parse(id); err != nil || failed != nil {
			return nil, badCursor()
		}
	}
	if in.Namespace != "" {
		q.Namespaces = []string{in.Namespace}
	}
	if in.Workflow != "" {
		ns, name := cutName(in.Workflow)
		w, err := a.s.engine.Workflow(ctx, ns, name)
		if err != nil {
			return nil, err
		}
		q.Workflow = w.ID
	}
	rows, err := st.Incidents(ctx, q)
	if err != nil {
		return nil, unread(err)
	}
	next := ""
	if len(rows) > in.Limit {
		rows = rows[:in.Limit]
		last := &rows[len(rows)-1]
		next = fmt.Sprintf("%d/%s", last.Created, last.ID)
	}
	items := make([]api.Alert, len(rows))
	for i := range rows {
		items[i] = alertOf(&rows[i])
	}
	return list(items, next), nil
}

// alertOf shows an incident. If its content cannot be read, alertOf shows the columns of its row.
func alertOf(row *store.Incident) api.Alert {
	out := api.Alert{ID: row.ID.String(), Namespace: row.Namespace, Rule: row.Rule, State: row.State, Channels: []string{}, CreatedAt: instant(row.Created), ModifiedAt: instant(row.Modified)}
	n, err := alert.Read(*row)
	if err != nil {
		reason := err.Error()
		out.Reason = &reason
		return out
	}
	d := &n.Detail
	if d.Of != "" {
		out.Rule, out.Subject = d.Of, textOrNull(d.Last.Subject)
	}
	out.Workflow, out.Severity, out.Count, out.Event = d.Name, d.Severity, d.Count, string(d.Last.Event)
	out.Channels = append(out.Channels, d.To...)
	out.Run, out.Task, out.Trigger, out.Reason, out.Message = textOrNull(d.Last.Run), textOrNull(d.Last.Task), textOrNull(d.Last.Trigger), textOrNull(d.Last.Message), textOrNull(d.Message)
	out.DueAt, out.Escalations, out.EscalatesAt = instantOrNull(d.Last.Due), len(d.Escalated), instantOrNull(n.Climbs())
	if q := d.Silenced; q != nil {
		out.Silence = &api.AlertSilence{ID: q.ID, User: q.By, Reason: textOrNull(q.Reason), Until: instant(q.Until), Told: d.Seq > 0}
	}
	out.OpenedAt, out.Acknowledged, out.Resolved = instantOrNull(d.OpenedAt), wordOf(d.Acknowledged), wordOf(d.Resolved)
	return out
}

func wordOf(w *alert.Word) *api.AlertWord {
	if w == nil {
		return nil
	}
	return &api.AlertWord{User: textOrNull(w.By), Run: textOrNull(w.Run), Reason: textOrNull(w.Reason), At: instant(w.At)}
}

type AlertPath struct {
	ID string `path:"id" maxLength:"36"`
}

// incident reads the incident of a path.
func (a alerting) incident(ctx context.Context, text string) (store.Incident, error) {
	st, err := a.store()
	if err != nil {
		return store.Incident{}, err
	}
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return store.Incident{}, notFound("there is no alert %q", text)
	}
	row, err := st.Incident(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return row, notFound("there is no alert %q", text)
	}
	return row, unread(err)
}

// mayAlert returns a refusal for a call about an alert if the caller does not have a verb in the alert's
// namespace.
func mayAlert(ctx context.Context, s *Server, v access.Verb, text string) error {
	row, err := alerting{s}.incident(ctx, text)
	if err != nil {
		return err
	}
	return mayOf(ctx, v, row.Namespace, func() error { return notFound("there is no alert %q", text) })
}

// callFailed replaces the error of a call to a channel, for readers who may not see channels.
const callFailed = "the channel did not take the message; the reason is shown to those with the verb alert.channel"

func (a alerting) get(ctx context.Context, in *AlertPath) (*jsonOut[api.AlertDetail], error) {
	row, err := a.incident(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	told, err := a.s.cfg.Alerts.Notices(ctx, row.ID)
	if err != nil {
		return nil, unread(err)
	}
	p, now := auth.Rights(ctx)
	whole := access.Decide(p, access.AlertChannel, row.Namespace, now)
	out := api.AlertDetail{Alert: alertOf(&row), Notices: make([]api.AlertNotice, len(told))}
	for i := range told {
		n := &told[i]
		out.Notices[i] = api.AlertNotice{Seq: n.Seq, Channel: n.Channel, State: n.State, Tries: n.Tries, CreatedAt: instant(n.Created), EndedAt: instantOrNull(n.Ended), Error: textOrNull(n.Error)}
		if n.Error != "" && !whole { // the answer of a channel may contain data that this reader may not see
			out.Notices[i].Error = textOrNull(callFailed)
		}
		if n.Ended == 0 {
			out.Notices[i].NextAt = instantOrNull(n.Due)
		}
	}
	return &jsonOut[api.AlertDetail]{Body: out}, nil
}

type changeAlertIn struct {
	AlertPath
	Body *api.AlertRequest `required:"false"`
}

func (a alerting) changes(resolve bool) func(context.Context, *changeAlertIn) (*jsonOut[api.AlertDetail], error) {
	return func(ctx context.Context, in *changeAlertIn) (*jsonOut[api.AlertDetail], error) {
		row, err := a.incident(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		c := engine.IncidentChange{Resolve: resolve, Actor: userOf(ctx)}
		if in.Body != nil {
			c.Reason = in.Body.Reason
		}
		if err := engine.NewIncidents(a.s.engine).Change(ctx, row.ID, c); err != nil {
			return nil, err
		}
		return a.get(ctx, &in.AlertPath)
	}
}

type listChannelsIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only channels of this namespace."`
}

func (a alerting) channels(ctx context.Context, in *listChannelsIn) (*jsonOut[api.List[api.Channel]], error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	all, err := st.AlertChannels(ctx)
	if err != nil {
		return nil, unread(err)
	}
	items := []api.Channel{}
	for i := range all {
		name := all[i].Namespace + "/" + all[i].Name
		if in.Namespace != "" && all[i].Namespace != in.Namespace || after != "" && !behind(name, after) {
			continue
		}
		if len(items) == in.Limit {
			last := &items[len(items)-1]
			return list(items, last.Namespace+"/"+last.Name), nil
		}
		items = append(items, channelOf(&all[i]))
	}
	return list(items, ""), nil
}

// behind reports whether a full name comes after another one, by namespace and name.
func behind(name, after string) bool {
	ns, n, _ := strings.Cut(name, "/")
	of, o, _ := strings.Cut(after, "/")
	return ns > of || ns == of && n > o
}

func channelOf(c *store.AlertChannel) api.Channel {
	out := api.Channel{Namespace: c.Namespace, Name: c.Name, Config: json.RawMessage(c.Data), Version: c.Version, User: c.By, CreatedAt: instant(c.Created), ModifiedAt: instant(c.Modified)}
	if is, err := notify.Parse(c.Data); err == nil {
		out.Kind = is.Kind()
	}
	return out
}

// maySetCommands reports whether the caller may set a channel that runs a program on nodes. Such a program
// can read what the node can read, so the caller needs a verb about nodes. Of the built-in roles, only
// cluster has it.
func maySetCommands(ctx context.Context) bool {
	return wide(ctx, access.AlertChannel) && wide(ctx, access.NodeControl)
}

type ChannelPath struct {
	Namespace string `path:"ns" maxLength:"63"`
	Name      string `path:"name" maxLength:"100"`
}

type setChannelIn struct {
	ChannelPath
	Versioned
	Body api.ChannelRequest
}

var channelName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// setTries bounds how often a change is tried again because another change came first.
const setTries = 10

func (a alerting) setChannel(ctx context.Context, in *setChannelIn) (*jsonOut[api.Channel], error) {
	st, err := a.store()
	switch {
	case err != nil:
		return nil, err
	case !namespaceOK.MatchString(in.Namespace):
		return nil, invalidField("namespace", fmt.Sprintf("%.63q cannot be the name of a namespace", in.Namespace))
	case !channelName.MatchString(in.Name):
		return nil, invalidField("name", fmt.Sprintf("%.100q cannot be the name of a channel: it is 1 to 100 of A-Z a-z 0-9 _ . -", in.Name))
	}
	data, err := json.Marshal(in.Body.Config)
	if err != nil {
		return nil, err
	}
	is, err := notify.Parse(data)
	if err != nil {
		return nil, invalidConfig("channel "+fullName(in.Namespace, in.Name), is, err)
	}
	if is.Command != nil && !maySetCommands(ctx) {
		return nil, fail(http.StatusForbidden, api.ProblemForbidden, "a channel of kind command runs a program with the rights of a node: this needs the verbs %s in all namespaces, and %s",
			access.AlertChannel, access.NodeControl)
	}
	if data, err = json.Marshal(&is); err != nil { // stored in the canonical form, without unknown keys
		return nil, err
	}
	if len(data) > notify.ConfigMax { // the canonical form can be longer than the text that was sent
		return nil, invalid("channel %s/%s: the configuration has %d bytes, the limit is %d; shorten it", in.Namespace, in.Name, len(data), notify.ConfigMax)
	}
	for range setTries {
		all, err := st.AlertChannels(ctx)
		if err != nil {
			return nil, unread(err)
		}
		was, there := store.FindAlertChannel(all, in.Namespace, in.Name)
		if err := in.met(was.Version, "channel "+fullName(in.Namespace, in.Name)); err != nil {
			return nil, err
		}
		if !there && channelsIn(all, in.Namespace) >= channelsMax {
			return nil, fmt.Errorf("%w: namespace %s has %d channels, the limit; delete one", errkind.ErrConflict, in.Namespace, channelsMax)
		}
		c, err := st.PutAlertChannel(ctx, store.AlertChannel{Namespace: in.Namespace, Name: in.Name, Version: was.Version + 1, Data: data, By: userOf(ctx)})
		switch {
		case err == nil:
			return &jsonOut[api.Channel]{Body: channelOf(&c)}, nil
		case errors.Is(err, store.ErrRefused):
			return nil, fmt.Errorf("%w: there are already %d channels, the limit; delete one", errkind.ErrConflict, store.AlertChannelsMax)
		case !errors.Is(err, store.ErrFenced):
			return nil, unread(err)
		}
	}
	return nil, fmt.Errorf("%w: channel %s/%s was changed at the same time; try again", errkind.ErrConflict, in.Namespace, in.Name)
}

// channelsMax bounds the channels of a namespace, so that one namespace cannot use up the channels of the
// database. Concurrent changes may exceed the bound by a few.
const channelsMax = 100

func channelsIn(all []store.AlertChannel, namespace string) (n int) {
	for i := range all {
		if all[i].Namespace == namespace {
			n++
		}
	}
	return n
}

func (a alerting) deleteChannel(ctx context.Context, in *ChannelPath) (*struct{}, error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	err = st.DropAlertChannel(ctx, in.Namespace, in.Name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("there is no channel %s/%s", in.Namespace, in.Name)
	}
	return nil, unread(err)
}

func (a alerting) test(ctx context.Context, in *ChannelPath) (*jsonOut[api.ChannelTest], error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	if a.s.cfg.Notifier == nil {
		return nil, notFound("this process only reads the database, so it cannot send messages; send the call to a node")
	}
	all, err := st.AlertChannels(ctx)
	if err != nil {
		return nil, unread(err)
	}
	row, there := store.FindAlertChannel(all, in.Namespace, in.Name)
	if !there {
		return nil, notFound("there is no channel %s/%s", in.Namespace, in.Name)
	}
	if err := recordAudit(ctx, a.s); err != nil {
		return nil, err
	}
	if err := a.s.cfg.Notifier.Test(ctx, &row, userOf(ctx)); err != nil {
		why := err.Error()
		return &jsonOut[api.ChannelTest]{Body: api.ChannelTest{Error: &why}}, nil
	}
	return &jsonOut[api.ChannelTest]{Body: api.ChannelTest{OK: true}}, nil
}
