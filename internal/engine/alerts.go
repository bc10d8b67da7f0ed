package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// alerts owns the incidents of the owned shards. It writes incidents and notices in the transaction of their
// cause. Package alert has the rules; package notify sends the notices. Invariant: if loaded is set, open
// holds the unresolved incidents of the owned shards, as the transaction being made leaves them. open is a
// cache of rows, so forget is allowed when the writer drops its transaction.
type alerts struct {
	open   map[dag.WorkflowID]map[string]*alert.Incident // workflow → rule → open incident
	loaded bool
	rules  map[versionOf][]alert.Rule
	// watching holds the workflows of the owned shards that have rules, as the transaction being made leaves
	// them. It is nil if they are not loaded. changed says that a transaction that has not committed has
	// changed watching. undo lists the changes of open by the transaction being made, in their order. flown
	// lists those by the transaction in flight.
	watching  map[dag.WorkflowID]*current
	unlisted  bool // watching is incomplete, because some of its rows cannot be read
	changed   bool
	undo      []noted
	flown     []noted
	expecting bool // times is loaded
	times     lateness
	// overseen is the last observation of the cluster.
	overseen overseen
	// quiet has the silences, as they were last read.
	quiet     []store.Silence
	quietRead time.Time

	read  func(def []byte) ([]alert.Rule, error) // nil if there are no alerts
	defs  *definitions
	store store.Store
	newID func() uuid.UUID
	log   *slog.Logger
	clock func() dag.Micros
	mono  func() time.Time
	alertsCore
}

// alertsCore is the part of the writer that alerts uses.
type alertsCore interface {
	txn() *transaction
	held(dag.ShardID) *store.Fence
	shards() []dag.ShardID
	here(dag.ShardID) error
	inMemory() map[dag.RunID]*dag.Run
	broken(error)
}

type versionOf struct {
	workflow dag.WorkflowID
	version  int32
}

// incidentsPage is the number of incidents per read when they are loaded.
const incidentsPage = 1000

func newAlerts(e *Engine, w *writer) alerts {
	clock := func() dag.Micros { return max(w.clock.now().Wall, w.schedule.due.clock()) }
	return alerts{read: e.cfg.Rules, defs: &w.defs, store: e.store, newID: e.host.ID, log: e.log, clock: clock, mono: e.host.Now, alertsCore: w}
}

// forget drops the cache. The next transaction loads it again.
func (a *alerts) forget() {
	a.open, a.rules, a.loaded, a.watching, a.expecting = nil, nil, false, nil, false
	a.settled()
	a.overseen = overseen{}
	a.times.forget()
}

// load reads the unresolved incidents, unless they are loaded.
func (a *alerts) load(ctx context.Context) error {
	switch {
	case a.read == nil:
		return nil
	case a.loaded && a.expecting:
		return nil
	case a.loaded:
		return a.loadTimes()
	}
	if _, err := a.current(0); err != nil {
		return err
	}
	a.open = map[dag.WorkflowID]map[string]*alert.Incident{}
	for _, s := range a.shards() {
		for after := (uuid.UUID{}); ; {
			page, err := a.store.OpenIncidents(ctx, s, after, incidentsPage)
			if err != nil {
				return errkind.FromStore("load incidents", err)
			}
			for i := range page {
				after = page[i].ID
				n, err := alert.Read(page[i])
				if err != nil { // the damaged incident stays open, so that a person can examine it
					a.log.Error("an incident cannot be read, and its rule opens no other one; resolve it with skein alert resolve", "code", "incident_unread", "incident", page[i].ID.String(), "err", err)
					n = &alert.Incident{Incident: page[i]}
				}
				a.note(n)
			}
			if len(page) < incidentsPage {
				break
			}
		}
	}
	a.loaded = true
	return a.loadTimes()
}

// note updates the cache with an incident, or removes the incident from it if it is resolved.
func (a *alerts) note(n *alert.Incident) {
	of := a.open[n.Workflow]
	switch {
	case n.Ended == 0 && of == nil:
		a.open[n.Workflow] = map[string]*alert.Incident{n.Rule: n}
	case n.Ended == 0:
		of[n.Rule] = n
	case of[n.Rule] != nil && of[n.Rule].ID == n.ID:
		if delete(of, n.Rule); len(of) == 0 {
			delete(a.open, n.Workflow)
		}
	}
}

// write adds the change of an incident to the transaction being made. Several changes in one transaction
// share one row.
func (a *alerts) write(c alert.Change) {
	c.Silence(a.silences(), a.txn().now.Wall)
	to := &a.txn().batch.AlertChanges
	if at, here := a.txn().incidents[c.Incident.ID]; here {
		c.Incident.Revision = to.Incidents[at].Revision
		to.Incidents[at] = c.Incident.Incident
	} else {
		a.txn().incidents[c.Incident.ID] = len(to.Incidents)
		to.Incidents = append(to.Incidents, c.Incident.Incident)
	}
	to.Notices = append(to.Notices, c.Notices...)
	a.txn().timed = a.txn().timed || c.Incident.Detail.Late != nil
	a.remember(c.Incident)
	a.note(c.Incident)
	a.await(c.Incident)
}

// of returns the rules of the version that new runs of a workflow use.
func (a *alerts) of(wf *store.Workflow) ([]alert.Rule, error) {
	switch c, err := a.current(wf.ID); {
	case err != nil || c == nil:
		return nil, err
	case c.version == wf.Version:
		return c.rules, nil
	}
	return a.ofVersion(wf)
}

// ofVersion reads the rules of the version of a workflow.
func (a *alerts) ofVersion(wf *store.Workflow) ([]alert.Rule, error) {
	k := versionOf{wf.ID, wf.Version}
	if rules, known := a.rules[k]; known {
		return rules, nil
	}
	v, err := a.defs.version(wf.ID, wf.Version)
	switch {
	case err == nil:
		return a.learn(k, v.Def), nil
	case errors.Is(err, errkind.ErrNotFound): // retention deleted the version while a rollback to it was under way
		return a.keep(k, nil), nil
	case errors.Is(err, errkind.ErrUnavailable):
		return nil, err
	}
	a.unread(k, err)
	if errors.Is(err, errkind.ErrDamaged) {
		a.keep(k, nil)
	}
	return nil, nil
}

// unread logs that the rules of a version cannot be read. The runs of that version still end, without rules.
func (a *alerts) unread(k versionOf, err error) {
	a.log.Error("the alert rules of a version cannot be read, so it opens no incidents; apply the workflow again", "code", "alerts_unread", "workflow", int64(k.workflow), "version", k.version, "err", err)
}

// learn reads the rules of a version and keeps them.
func (a *alerts) learn(k versionOf, def []byte) []alert.Rule {
	rules, err := a.read(def)
	if err != nil {
		a.unread(k, err)
		rules = nil
	}
	return a.keep(k, rules)
}

// keep puts the rules of a version into the cache.
func (a *alerts) keep(k versionOf, rules []alert.Rule) []alert.Rule {
	if a.rules == nil || len(a.rules) >= definitionsMax {
		a.rules = map[versionOf][]alert.Rule{}
	}
	a.rules[k] = rules
	return rules
}

// workflowGone is the reason for which an incident of a deleted workflow ends.
const workflowGone = "the workflow was deleted"

// happen applies the rules of a workflow to an event.
func (a *alerts) happen(wf *store.Workflow, h *alert.Happening, about func(*alert.Rule) bool) (all []alert.Change, err error) {
	if wf.State == store.WorkflowDeleted { // the runs continue, but no later run could resolve an incident that one of them opens
		for _, name := range slices.Sorted(maps.Keys(a.open[wf.ID])) {
			all = append(all, alert.Close(a.open[wf.ID][name], alert.Word{Reason: workflowGone, At: h.At}))
		}
		return all, nil
	}
	rules, err := a.of(wf)
	open := a.open[wf.ID]
	if err != nil || len(rules) == 0 && len(open) == 0 {
		return nil, err
	}
	if h.Run == "" {
		h.Tags = wf.Tags
	}
	h.Of = alert.Subject{Shard: wf.Shard, Workflow: wf.ID, Namespace: wf.Namespace, Name: wf.Name}
	for i := range rules {
		if !about(&rules[i]) {
			continue
		}
		if rules[i].Timed() && h.Aside() {
			continue
		}
		h.ID = a.newID()
		if !rules[i].Timed() {
			all = append(all, alert.Steps(&rules[i], open, h)...)
			continue
		}
		c, err := a.timed(&rules[i], open[rules[i].Name], h)
		if err != nil {
			return nil, err
		}
		if c.Incident != nil {
			all = append(all, c)
		}
	}
	return all, nil
}

// happened applies the rules of a workflow to an event, and writes the changed incidents in the transaction
// being made.
func (a *alerts) happened(id dag.WorkflowID, h *alert.Happening) error {
	return a.happenedTo(id, h, (*alert.Rule).Any)
}

// happenedTo does the same as happened for given rules.
func (a *alerts) happenedTo(id dag.WorkflowID, h *alert.Happening, about func(*alert.Rule) bool) error {
	if unwatched, err := a.unwatched(id); unwatched || err != nil {
		return err
	}
	wf, err := a.defs.workflow(id)
	if err != nil {
		return err
	}
	all, err := a.happen(&wf, h, about)
	for i := range all {
		a.write(all[i])
	}
	return err
}

// ended applies the rules of a workflow to the end of a run.
func (a *alerts) ended(r *dag.Run) error {
	if a.read == nil {
		return nil
	}
	if unwatched, err := a.unwatched(r.Workflow); unwatched || err != nil { // most runs have no rules, so no event is made
		return err
	}
	a.lasted(r)
	delete(a.times.starting, r.ID)
	h := ending(&dag.RunRow{Header: r.Header, State: r.State, Cause: r.Cause, Message: r.Message,
		StartedAt: r.StartedAt, Generation: r.Generation}, a.txn().now.Wall)
	h.Failures = func(match func(string) bool) bool { return dag.SomeFailed(r, match) }
	return a.happened(r.Workflow, h)
}

// orphaned applies the alert rules of a workflow to an orphan: a handle whose run no longer waits for its
// release.
func (a *alerts) orphaned(o *dag.Orphan) error {
	r := a.inMemory()[o.Run]
	if a.read == nil || r == nil {
		return nil
	}
	return a.happened(r.Workflow, leaving(&r.Header, o, a.txn().now.Wall))
}

// leaving returns the event for an orphan.
func leaving(r *dag.Header, o *dag.Orphan, now dag.Micros) *alert.Happening {
	h := course(r, now)
	h.Event, h.Message = alert.Orphan, clean(fmt.Sprintf("task %s, handle %s: %s; end it by hand", o.Task, o.Handle, o.Why))
	return h
}

// unwatched reports whether a workflow has neither rules nor open incidents.
func (a *alerts) unwatched(id dag.WorkflowID) (bool, error) {
	if len(a.open[id]) > 0 {
		return false, nil
	}
	c, err := a.current(id)
	return c == nil, err
}

// ending returns the event for the end of a run.
func ending(r *dag.RunRow, now dag.Micros) *alert.Happening {
	h := course(&r.Header, now)
	h.Cause, h.Message, h.Over = string(r.Cause), clean(r.Message), true
	h.Course = alert.CourseOf(&r.Header, r.State, r.StartedAt, r.Generation)
	switch r.State {
	case dag.RunSucceeded:
		h.Event, h.Success = alert.Succeeded, true
	case dag.RunFailed:
		h.Event = alert.Failed
	case dag.RunStopped:
		h.Event = alert.Stopped
	case dag.RunSkipped:
		if h.Event = alert.Skipped; r.Cause == dag.CauseMissed {
			h.Event = alert.Missed
		}
	}
	return h
}

// missed applies the alert rules to a ledger line of instants without a run.
func (a *alerts) missed(l *store.Fire) error {
	if a.read == nil || l.Outcome != store.OutcomeMissed {
		return nil
	}
	h := &alert.Happening{Event: alert.Missed, Origin: dag.OriginSchedule, Trigger: l.Trigger, Instant: l.Last, Message: clean(l.Reason.String()), At: a.txn().now.Wall}
	if h.Course = (alert.Course{Instant: l.At, Created: l.At}); l.Key != "" {
		h.Origin, h.Course.Instant = dag.OriginSensor, 0
	}
	if l.Count > 1 {
		h.Instants = l.Count
	}
	return a.happened(l.Workflow, h)
}

// declare closes the incidents of rules that a workflow no longer has, and watches its runs by the rules of
// another version. def is the definition if the version is new, or nil.
func (a *alerts) declare(wf *store.Workflow, def []byte, other bool) error {
	if a.read == nil {
		return nil
	}
	var rules []alert.Rule
	var err error
	if def != nil {
		rules = a.learn(versionOf{wf.ID, wf.Version}, def)
	} else if other { // a rollback
		if rules, err = a.ofVersion(wf); err != nil {
			return err
		}
	}
	if other || wf.State == store.WorkflowDeleted {
		a.changes(wf, rules)
	}
	if other {
		a.expectAll(wf, rules)
	}
	if len(a.open[wf.ID]) == 0 {
		return nil
	}
	why := "its rule is no longer in the workflow"
	if wf.State == store.WorkflowDeleted {
		rules, why = nil, workflowGone
	} else if def == nil {
		if rules, err = a.of(wf); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.open[wf.ID])) {
		is := a.open[wf.ID][name]
		if !slices.ContainsFunc(rules, func(r alert.Rule) bool { return r.Has(is) }) {
			a.write(alert.Close(is, alert.Word{Reason: why, At: a.txn().now.Wall}))
		}
	}
	return nil
}

// buried applies the alert rules to the end of a run whose rows are invalid, and to its handles, which become
// orphans. It writes the incidents in the batch that ends the run. The caller must call the returned function
// once the batch has committed.
func (a *alerts) buried(r *dag.RunRow, orphans []dag.Orphan, b *store.Batch) (then func(), err error) {
	if a.read == nil {
		return func() {}, nil
	}
	if err := a.load(context.Background()); err != nil {
		return nil, err
	}
	wf, err := a.defs.workflow(r.Workflow)
	if errors.Is(err, errkind.ErrNotFound) {
		return func() {}, nil // the incident belongs to a workflow that does not exist, so its row is invalid
	}
	if err != nil {
		return nil, err
	}
	events := []*alert.Happening{burying(r), ending(r, r.FinishedAt)}
	if n := len(orphans); n > 0 { // one event, so a run with many handles does not send many notices
		left := leaving(&r.Header, &orphans[0], r.FinishedAt)
		if n > 1 {
			left.Message = clean(fmt.Sprintf("%s (and %d more; skein task orphans lists all)", left.Message, n-1))
		}
		events = slices.Insert(events, 0, left)
	}
	all, err := inTurn(a, &wf, events)
	for i := range all {
		all[i].Silence(a.silences(), r.FinishedAt)
		putIncident(b, &all[i])
	}
	return func() {
		for i := range all {
			a.note(all[i].Incident)
			a.await(all[i].Incident)
		}
	}, err
}

// inTurn applies the rules of a workflow to events, each after the changes by the earlier ones. It leaves the
// cache as it was.
func inTurn(a *alerts, wf *store.Workflow, events []*alert.Happening) (all []alert.Change, err error) {
	was, cached := a.open[wf.ID]
	if cached {
		a.open[wf.ID] = maps.Clone(was)
	}
	for _, h := range events {
		some, failed := a.happen(wf, h, (*alert.Rule).Any)
		for i := range some {
			a.note(some[i].Incident)
		}
		all, err = append(all, some...), errors.Join(err, failed)
	}
	if delete(a.open, wf.ID); cached {
		a.open[wf.ID] = was
	}
	return all, err
}

// putIncident adds a change of an incident to a batch. Several changes of an incident share one row.
func putIncident(b *store.Batch, c *alert.Change) {
	b.Notices = append(b.Notices, c.Notices...)
	for i := range b.Incidents {
		if b.Incidents[i].ID == c.Incident.ID {
			c.Incident.Revision = b.Incidents[i].Revision
			b.Incidents[i] = c.Incident.Incident
			return
		}
	}
	b.Incidents = append(b.Incidents, c.Incident.Incident)
}

// IncidentChange is a person's change of an incident.
type IncidentChange struct {
	Resolve       bool // false means acknowledge
	Actor, Reason string
	Once          *store.Request
}

// Incidents changes the incidents of the shards of an engine.
type Incidents struct{ e *Engine }

// NewIncidents returns the Incidents of an engine.
func NewIncidents(e *Engine) Incidents { return Incidents{e} }

// Change acknowledges or resolves an incident. A second person may acknowledge an incident that is already
// acknowledged. Change returns ErrConflict if the incident is resolved.
func (n Incidents) Change(ctx context.Context, id uuid.UUID, c IncidentChange) error {
	if err := checkTexts("actor", c.Actor, "reason", c.Reason); err != nil {
		return err
	}
	row, err := n.e.store.Incident(ctx, id)
	if err != nil {
		return errkind.FromStore("read the incident", err)
	}
	return n.e.operate(ctx, c.Once, func(w *writer) answer { return answer{err: w.alerts.change(&row, &c)} })
}

func (a *alerts) change(row *store.Incident, c *IncidentChange) error {
	if err := a.here(row.Shard); err != nil {
		return err
	}
	is := a.open[row.Workflow][row.Rule]
	if is == nil || is.ID != row.ID || is.State == store.IncidentCounting {
		return fmt.Errorf("%w: incident %s is over; only one that is open or acknowledged can be changed", errkind.ErrConflict, row.ID)
	}
	word := alert.Word{By: c.Actor, Reason: clean(c.Reason), At: a.txn().now.Wall}
	if c.Resolve {
		a.write(alert.Close(is, word))
	} else {
		a.write(alert.Acknowledge(is, word))
	}
	return nil
}

// noticed wakes the sender of notices, because there may be notices to send.
func (e *Engine) noticed() {
	if e.cfg.Noticed != nil {
		e.cfg.Noticed()
	}
}
