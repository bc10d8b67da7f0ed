package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// Bounds of the input of a simulation.
const (
	measuredRunsMax      = 50   // bound on the measured runs of one workflow
	measuredWorkflowsMax = 1000 // the durations of runs of further workflows are unknown
)

type simulateIn struct{ Body api.SimulateRequest }

func (s *Server) simulate(ctx context.Context, in *simulateIn) (*jsonOut[api.Simulation], error) {
	leave, err := s.heavy.enter(ctx, heavyWhole)
	if err != nil {
		return nil, err
	}
	defer leave()
	req := &in.Body
	if err := narrowSimulation(ctx, req); err != nil {
		return nil, err
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return nil, err
	}
	what := trigger.SimulateInput{From: now, To: dag.Micros(req.To.UnixMicro())}
	what.Slots, _ = s.engine.Slots()
	if req.From != nil {
		what.From, what.FromToo = dag.Micros(req.From.UnixMicro()), true
	}
	p := planning{s: s}
	if what.Planned, err = p.planned(ctx, &TriggerFilter{Namespace: req.Namespace, Workflow: req.Workflow}); err != nil {
		return nil, err
	}
	if req.With != nil {
		if what.Edit, err = p.edit(ctx, req.With); err != nil {
			return nil, err
		}
	}
	report, err := trigger.Simulate(&what)
	if err != nil {
		return nil, err
	}
	if p.unmeasured > 0 {
		report.Notes = append(report.Notes, fmt.Sprintf("the simulation leaves out the durations of %d workflows, because there are too many", p.unmeasured))
	}
	return &jsonOut[api.Simulation]{Body: simulationOf(report)}, nil
}

// narrowSimulation allows a simulation of one namespace in which the caller may read triggers. If the request
// names no namespace and there is exactly one such namespace, it limits the simulation to that one.
func narrowSimulation(ctx context.Context, req *api.SimulateRequest) error {
	if wide(ctx, access.ScheduleRead) {
		return nil
	}
	seen, one := access.Visible(caller(ctx, access.ScheduleRead)), req.Namespace
	if req.Workflow != "" {
		one, _ = cutName(req.Workflow)
	}
	if one == "" && len(seen.Names()) == 1 {
		one = seen.Names()[0]
		req.Namespace = one
	}
	if one == "" || !seen.Has(one) {
		return refused(access.ScheduleRead, one, seen, "namespace")
	}
	return nil
}

// planning collects the input of a simulation.
type planning struct {
	s                    *Server
	measured, unmeasured int
}

// planned returns the existing triggers that match the filter.
func (p *planning) planned(ctx context.Context, f *TriggerFilter) ([]trigger.PlannedWorkflow, error) {
	var all []trigger.PlannedWorkflow
	at := map[dag.WorkflowID]int{}
	more, err := p.s.scan(ctx, f, store.TriggerQuery{Limit: scanPage}, func(w *store.Workflow, t *store.Trigger) (bool, error) {
		i, known := at[w.ID]
		if !known {
			i = len(all)
			at[w.ID] = i
			one := trigger.PlannedWorkflow{Name: w.Namespace + "/" + w.Name, MaxRuns: w.MaxRuns}
			if err := p.measure(ctx, w, &one); err != nil {
				return true, err
			}
			all = append(all, one)
		}
		decl, err := workflow.DecodeTrigger(t.Spec)
		if err != nil {
			return true, fmt.Errorf("trigger %s of %s: %w", t.Name, all[i].Name, err)
		}
		pauses, err := trigger.Pauses(t)
		if err != nil {
			return true, err
		}
		all[i].Triggers = append(all[i].Triggers, trigger.PlannedTrigger{Trigger: decl, Fired: t.Fired, Pauses: pauses,
			Paused: t.State != store.TriggerActive || w.State != store.WorkflowActive})
		return false, nil
	})
	if err == nil && more != nil {
		err = invalid("there are more than %d triggers: name a workflow", triggersLookedAt)
	}
	return all, err
}

// measure computes how long recent runs of a workflow took.
func (p *planning) measure(ctx context.Context, w *store.Workflow, one *trigger.PlannedWorkflow) error {
	if p.measured == measuredWorkflowsMax {
		p.unmeasured++
		return nil
	}
	p.measured++
	var runs []dag.RunRow
	for _, state := range []dag.RunState{dag.RunSucceeded, dag.RunFailed} {
		page, err := p.s.engine.Runs(ctx, store.RunQuery{Workflow: w.ID, States: []string{state.String()}, Limit: measuredRunsMax})
		if err != nil {
			return err
		}
		for i := range page.Runs {
			if r := &page.Runs[i].RunRow; r.StartedAt != 0 && r.FinishedAt >= r.StartedAt {
				runs = append(runs, *r)
			}
		}
	}
	sort.Slice(runs, func(i, j int) bool { return bytes.Compare(runs[i].ID[:], runs[j].ID[:]) > 0 })
	var took []time.Duration
	for i := range runs[:min(len(runs), measuredRunsMax)] {
		took = append(took, time.Duration(runs[i].FinishedAt-runs[i].StartedAt)*time.Microsecond)
	}
	if one.Measured = len(took); one.Measured > 0 {
		slices.Sort(took)
		one.Median, one.P95 = took[(len(took)-1)/2], took[(len(took)*95+99)/100-1]
	}
	return nil
}

// edit returns the workflows that a file would create.
func (p *planning) edit(ctx context.Context, req *api.ApplyRequest) ([]trigger.PlannedWorkflow, error) {
	if err := checkFiles(req); err != nil {
		return nil, err
	}
	defs, faults, err := p.s.parseAll(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		return nil, invalidWorkflow(faults)
	}
	all := make([]trigger.PlannedWorkflow, len(defs))
	for i, def := range defs {
		if err := may(ctx, access.ScheduleRead, def.Namespace); err != nil {
			return nil, err
		}
		if err := p.edited(ctx, def, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// edited adds one workflow of a file. An unchanged trigger keeps the number of its fires, and a trigger that
// a person has paused stays paused.
func (p *planning) edited(ctx context.Context, def *workflow.Workflow, one *trigger.PlannedWorkflow) error {
	text, err := json.Marshal(def)
	if err != nil {
		return fmt.Errorf("encode workflow %s: %w", def.Name, err)
	}
	d, err := trigger.New(p.s.engine).Declared(def.Namespace, def.Name, text)
	if err != nil {
		return err
	}
	one.Name, one.MaxRuns = def.Namespace+"/"+def.Name, d.MaxRuns
	was, state, err := p.was(ctx, one.Name)
	if err != nil {
		return err
	}
	for i := range d.Triggers {
		t := &d.Triggers[i]
		decl, err := workflow.DecodeTrigger(t.Spec)
		if err != nil {
			return err
		}
		next := trigger.PlannedTrigger{Trigger: decl, Paused: decl.Paused}
		if is := was[t.Name]; is != nil && bytes.Equal(is.Spec, t.Spec) {
			next.Paused, next.Fired = is.State != store.TriggerActive, is.Fired
		} else if is != nil && is.State == store.TriggerPaused && is.Actor != "" {
			next.Paused = true
		}
		if is := was[t.Name]; is != nil && !decl.Sensor() {
			if next.Pauses, err = trigger.Pauses(is); err != nil {
				return err
			}
		}
		next.Paused = next.Paused || state == store.WorkflowPaused
		one.Triggers = append(one.Triggers, next)
	}
	return nil
}

// was returns the present triggers of a workflow, and its state. For a new workflow there are none.
func (p *planning) was(ctx context.Context, name string) (map[string]*store.Trigger, string, error) {
	w, err := p.s.findWorkflow(ctx, name)
	if isNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	all := map[string]*store.Trigger{}
	ts, err := p.s.engine.Triggers(ctx, store.TriggerQuery{Workflow: w.ID, Limit: pageMax})
	for i := range ts {
		all[ts[i].Name] = &ts[i]
	}
	return all, w.State, err
}

// simulationOf converts a report to the form of the API.
func simulationOf(r *trigger.Report) api.Simulation {
	out := api.Simulation{From: instant(r.From), To: instant(r.To), Fires: r.Fires, Triggers: []api.SimulatedTrigger{}, Hours: []api.SimulatedHour{},
		Limits: []api.SimulatedLimit{}, Shifts: []api.ClockChange{}, Notes: append([]string{}, r.Notes...)}
	for i := range r.Triggers {
		out.Triggers = append(out.Triggers, simulatedTrigger(&r.Triggers[i]))
	}
	for _, h := range r.Hours {
		out.Hours = append(out.Hours, api.SimulatedHour{At: instant(h.At), Fires: h.Fires, Active: h.Active, Mean: h.Mean, Long: h.Long})
	}
	for i := range r.Limits {
		out.Limits = append(out.Limits, simulatedLimit(&r.Limits[i]))
	}
	for _, c := range r.Shifts {
		ns, w := shownName(c.Workflow)
		out.Shifts = append(out.Shifts, api.ClockChange{Workflow: w, Namespace: ns, Trigger: c.Trigger, At: instant(c.At), Local: c.Local,
			From: offset(c.From), To: offset(c.To), Effect: c.Effect})
	}
	if r.Changes != nil {
		out.Changes = []api.ScheduleChange{}
	}
	for _, c := range r.Changes {
		ns, w := shownName(c.Workflow)
		out.Changes = append(out.Changes, api.ScheduleChange{Workflow: w, Namespace: ns, Trigger: c.Trigger, Change: c.Change,
			Before: textOrNull(c.Before), After: textOrNull(c.After), Fires: c.Fires, Gained: instants(c.Gained), Lost: instants(c.Lost)})
	}
	return out
}

func simulatedTrigger(t *trigger.TriggerReport) api.SimulatedTrigger {
	ns, w := shownName(t.Workflow)
	measured := t.Measured > 0
	return api.SimulatedTrigger{Workflow: w, Namespace: ns, Trigger: t.Trigger, Description: t.Description,
		Fires: t.Fires, PerHour: t.PerHour, First: instantOrNull(t.First), Last: instantOrNull(t.Last),
		Overlaps: t.Overlaps, Skipped: t.Skipped, Waiting: t.Waiting, Cancelled: t.Cancelled,
		Median: someOrNull(t.Median.Seconds(), measured), P95: someOrNull(t.P95.Seconds(), measured), Measured: t.Measured}
}

func simulatedLimit(l *trigger.LimitReport) api.SimulatedLimit {
	out := api.SimulatedLimit{Kind: l.Kind, Trigger: textOrNull(l.Trigger), Limit: l.Limit, Peak: l.Peak, Hits: l.Hits,
		First: instantOrNull(l.First), Instants: instants(l.Instants), What: l.What}
	if l.Workflow != "" {
		ns, w := shownName(l.Workflow)
		out.Workflow, out.Namespace = &w, &ns
	}
	return out
}

// shownName splits NAMESPACE/NAME into the namespace and the name that people read.
func shownName(name string) (namespace, shown string) {
	namespace, name, _ = strings.Cut(name, "/")
	return namespace, fullName(namespace, name)
}

func instants(list []dag.Micros) []api.Time {
	out := make([]api.Time, len(list))
	for i, at := range list {
		out[i] = instant(at)
	}
	return out
}
