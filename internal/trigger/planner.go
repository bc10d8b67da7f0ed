package trigger

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/cron"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/lru"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Bounds of the cache of decoded declarations, so that memory does not grow with the number of triggers. A
// declaration that is not in the cache costs a few microseconds.
const (
	keptMax            = 4096
	keptZonesMax       = 1024     // about 600 zones exist
	keptSpecBytesMax   = 32 << 20 // bounds the kept declarations, by the size of their text
	keptParamsBytesMax = 32 << 20 // bounds the kept definitions, and separately the kept parameters
)

// Definitions reads the definitions of versions. A store implements it.
type Definitions interface {
	Version(ctx context.Context, w dag.WorkflowID, version int32) (store.Version, error)
}

// Planner computes the decisions of triggers. It implements the engine's Planner. Any goroutine may call its
// methods.
type Planner struct {
	defs      Definitions
	declared  *lru.Cache[digest, *declared]
	schedules *lru.Cache[digest, *cron.Schedule] // many triggers have the same instants
	zones     *lru.Cache[string, *time.Location]
	starters  *lru.Cache[versionKey, *workflow.Workflow]
	params    *lru.Cache[paramsKey, []byte]
}

var _ engine.Planner = (*Planner)(nil)

type digest = [sha256.Size]byte

type versionKey struct {
	workflow dag.WorkflowID
	version  int32
}

type paramsKey struct {
	versionKey
	given   digest
	literal bool
}

// New makes a planner that reads definitions from defs.
func New(defs Definitions) *Planner {
	return &Planner{
		defs:      defs,
		declared:  lru.New[digest, *declared](keptMax, keptSpecBytesMax),
		schedules: lru.New[digest, *cron.Schedule](keptMax, keptSpecBytesMax),
		zones:     lru.New[string, *time.Location](keptZonesMax, keptZonesMax),
		starters:  lru.New[versionKey, *workflow.Workflow](keptMax, keptParamsBytesMax),
		params:    lru.New[paramsKey, []byte](keptMax, keptParamsBytesMax),
	}
}

// Forget empties the cache of definitions. The caller calls it when the database has lost its newest
// transactions, because another version may get the number of a lost one.
func (p *Planner) Forget() {
	p.starters.Clear()
	p.params.Clear()
}

// Declared reads the triggers of a definition. Values that a trigger takes from its workflow, such as the
// priority, become part of its declaration, so the row needs no other data.
func (p *Planner) Declared(namespace, name string, def []byte) (engine.Declaration, error) {
	w, err := workflow.Decode(def)
	if err != nil {
		return engine.Declaration{}, fmt.Errorf("triggers of %s/%s: %w", namespace, name, err)
	}
	d := engine.Declaration{MaxRuns: w.MaxRuns, Tags: w.TagLines(), Triggers: make([]store.Trigger, 0, len(w.Triggers))}
	for i := range w.Triggers {
		t := w.Triggers[i]
		if t.Priority == "" {
			t.Priority = w.Priority
		}
		d.Triggers = append(d.Triggers, store.Trigger{Name: t.Name, Kind: t.Kind, Spec: t.Encode(), MaxRuns: t.MaxConcurrent, On: t.On()})
	}
	return d, nil
}

// compiled returns the compiled declaration of a row.
func (p *Planner) compiled(t *store.Trigger) (*declared, error) {
	key := sha256.Sum256(t.Spec)
	if d, ok := p.declared.Get(key); ok {
		return d, nil
	}
	d, err := compileWith(t, p.schedule)
	if err != nil {
		return nil, err
	}
	p.declared.Put(key, d, len(t.Spec))
	return d, nil
}

// schedule compiles the instants of a declaration, or returns the cached ones of an equal declaration.
func (p *Planner) schedule(t *workflow.Trigger) (*cron.Schedule, error) {
	if t.Sensor() && t.Kind != workflow.KindAbsent {
		return nil, nil
	}
	text := timing(t)
	key := sha256.Sum256(text)
	if when, ok := p.schedules.Get(key); ok {
		return when, nil
	}
	when, err := t.ScheduleWith(p.zone)
	if err != nil {
		return nil, err
	}
	p.schedules.Put(key, when, len(text))
	return when, nil
}

// zone loads a time zone, or returns a loaded one.
func (p *Planner) zone(name string) (*time.Location, error) {
	if loc, ok := p.zones.Get(name); ok {
		return loc, nil
	}
	loc, err := cron.LoadZone(name)
	if err == nil {
		p.zones.Put(name, loc, 1)
	}
	return loc, err
}

// Begin completes the row of a trigger that is declared or edited at the instant now. The row becomes active,
// or paused if the declaration says so. The engine keeps a person's pause when the declaration is edited.
// Since and Data may come from the row of the earlier declaration, so that an edit of another field loses no
// event that a sensor has counted or waits for.
func (p *Planner) Begin(t *store.Trigger, now dag.Micros) error {
	d, err := p.compiled(t)
	if err != nil {
		return err
	}
	since := t.Since
	t.Next, t.Decided, t.Since = 0, now, now
	t.State, t.Actor, t.Reason = store.TriggerActive, "", ""
	if d.Paused {
		t.State, t.Reason = store.TriggerPaused, engine.DeclaredPaused
	}
	switch {
	case d.Kind == workflow.KindAgain:
		d.beginAgain(t, now)
		return d.beginSensor(t, now)
	case d.Kind == workflow.KindAbsent:
		return d.beginAbsent(t, now)
	}
	if d.Intake != nil {
		d.beginIntake(t, now)
		return d.beginSensor(t, now)
	}
	if d.when == nil {
		d.beginHearing(t, since)
		return d.beginSensor(t, now)
	}
	d.keepPauses(t, now)
	d.beginSchedule(t, now)
	return nil
}

// Plan computes the decisions of an active trigger up to now. Decided in the plan is now, unless too many
// runs are due for one plan. In that case Next is already due.
func (p *Planner) Plan(t *store.Trigger, now dag.Micros) (engine.Plan, error) {
	d, err := p.compiled(t)
	switch {
	case err != nil:
		return engine.Plan{}, err
	case d.Kind == workflow.KindAgain:
		return d.planAgain(t, now)
	case d.Kind == workflow.KindAbsent:
		return d.planAbsent(t, now)
	case d.when == nil:
		return d.waiting(t, now), nil
	}
	return d.planSchedule(t, now)
}

// waiting returns the plan of a sensor whose fires do not depend on the clock.
func (d *declared) waiting(t *store.Trigger, now dag.Micros) engine.Plan {
	return engine.Plan{Decided: max(now, t.Decided)}
}

// Passed decides the instants in (t.Decided, now], during which a trigger was paused.
func (p *Planner) Passed(t *store.Trigger, now dag.Micros, reason store.Reason) (engine.Plan, error) {
	d, err := p.compiled(t)
	switch {
	case err != nil:
		return engine.Plan{}, err
	case d.Kind == workflow.KindAgain:
		return d.passedAgain(t, now)
	case d.Kind == workflow.KindAbsent:
		return d.passedAbsent(t, now, reason)
	case d.when == nil:
		return d.passedSensor(t, now, reason), nil
	}
	return d.passedSchedule(t, now, reason), nil
}

// Heard computes the reaction of a trigger to the end of a run. For absent.file, it also takes arrivals of
// files. An arrival is an Ended without a workflow, whose Finished is the time at which the file was found.
func (p *Planner) Heard(t *store.Trigger, run *engine.Ended, now dag.Micros) (engine.Plan, error) {
	d, err := p.compiled(t)
	switch {
	case err != nil:
		return engine.Plan{}, err
	case run.Start != "" && d.Kind != workflow.KindStart:
		return unchanged(t), nil
	case d.Kind == workflow.KindStart:
		return d.heardStart(t, run)
	case d.Kind == workflow.KindRunOf:
		return d.heardRunOf(t, run)
	case d.Kind == workflow.KindAgain:
		return d.heardAgain(t, run, now)
	case d.Kind == workflow.KindAbsent:
		return d.heardAbsent(t, run)
	}
	return unchanged(t), nil
}

// heardStart implements Heard for triggers of the kind start.
func (d *declared) heardStart(t *store.Trigger, run *engine.Ended) (engine.Plan, error) {
	if out, over, err := d.outside(run.Finished); out || err != nil {
		return quiet(t, over), err
	}
	p := unchanged(t)
	p.Starts = []engine.Start{d.starting(run.Finished, run.Start, store.Because("start"), nil)}
	return p, nil
}

// Policy returns the policy with which the runs of a trigger start.
func (p *Planner) Policy(t *store.Trigger) (engine.Policy, error) {
	d, err := p.compiled(t)
	if err != nil {
		return engine.Policy{}, err
	}
	priority, ok := dag.ParsePriority(d.Priority)
	if !ok {
		return engine.Policy{}, fmt.Errorf("trigger %s: there is no priority %q", t.Name, d.Priority)
	}
	waiting := d.QueueMax
	if d.Overlap == engine.OverlapAllow && waiting == 0 {
		waiting = workflow.OverlapLimitDefault
	}
	return engine.Policy{Overlap: d.Overlap, MaxRuns: d.MaxConcurrent, QueueMax: waiting, Priority: priority,
		FailLost: d.IfLost == "fail", Params: d.Params}, nil
}

// Params returns the parameters of a run. Values that depend neither on the instant nor on the event are
// computed once. The error errkind.ErrInvalid means that the given values permit no run, and
// errkind.ErrUnavailable that the definition cannot be read now.
func (p *Planner) Params(ctx context.Context, q engine.ParamsQuery) ([]byte, error) {
	version := versionKey{q.Workflow, q.Version}
	key := paramsKey{version, sha256.Sum256(q.Given), q.Literal}
	if out, ok := p.params.Get(key); ok {
		return out, nil
	}
	w, err := p.starter(ctx, version)
	if err != nil {
		return nil, err
	}
	start := w.StartParams
	if q.Literal {
		start = w.LiteralParams
	}
	out, err := start(q.Given, moment(q.Instant), q.Event)
	if err != nil {
		return w.MaskParams(q.Given), fmt.Errorf("%w: %w", errkind.ErrInvalid, err)
	}
	if !w.NeedsInstant(q.Given) {
		p.params.Put(key, out, len(out)+len(key.given))
	}
	return out, nil
}

// Offered implements engine.Planner.
func (p *Planner) Offered(ctx context.Context, id dag.WorkflowID, version int32, namespace string) (refusal string, err error) {
	w, err := p.starter(ctx, versionKey{id, version})
	switch {
	case errors.Is(err, errkind.ErrUnavailable):
		return "", err
	case err != nil:
		return "offers: " + err.Error(), nil
	}
	if offered, declared := w.OffersTo(namespace); declared && !offered {
		return "offers: " + w.NotOffered(namespace).Error(), nil
	}
	return "", nil
}

// starter returns the part of a definition that is needed for parameters and for decisions about offers. The
// cache holds only this part, without the tasks of a large workflow.
func (p *Planner) starter(ctx context.Context, key versionKey) (*workflow.Workflow, error) {
	if w, ok := p.starters.Get(key); ok {
		return w, nil
	}
	fail := func(kind, err error) (*workflow.Workflow, error) {
		return nil, fmt.Errorf("%w: definition of version %d: %w", kind, key.version, err)
	}
	v, err := p.defs.Version(ctx, key.workflow, key.version)
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt):
		return fail(errkind.ErrInvalid, err)
	case err != nil:
		return fail(errkind.ErrUnavailable, err)
	}
	var part struct {
		Namespace string          `json:"namespace"`
		Name      string          `json:"name"`
		Params    json.RawMessage `json:"params,omitempty"`
		Offers    []string        `json:"offers,omitzero"`
	}
	if err := json.Unmarshal(v.Def, &part); err != nil {
		return fail(errkind.ErrInvalid, err)
	}
	small := encode(part)
	w, err := workflow.Decode(small)
	if err != nil {
		return fail(errkind.ErrInvalid, err)
	}
	p.starters.Put(key, w, len(small))
	return w, nil
}
