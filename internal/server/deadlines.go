package server

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// rulesOf returns the alert rules of the current version of a workflow. These rules apply to runs of all
// versions.
func rulesOf(ctx context.Context, s *Server, w *store.Workflow) ([]alert.Rule, error) {
	def, err := s.definition(ctx, w, w.Version)
	if err != nil || len(def.Alerts) == 0 {
		return nil, err
	}
	data, err := json.Marshal(map[string]any{"alerts": def.Alerts})
	if err != nil {
		return nil, err
	}
	return alert.Rules(data)
}

// deadlinesOf lists the deadlines of a run, one for each rule of its workflow that watches the time of runs.
func deadlinesOf(s *Server) func(context.Context, *RunPath) (*jsonOut[api.List[api.Deadline]], error) {
	return func(ctx context.Context, in *RunPath) (*jsonOut[api.List[api.Deadline]], error) {
		id, err := in.run()
		if err != nil {
			return nil, err
		}
		row, w, err := runAndWorkflow(ctx, s, id)
		if err != nil {
			return nil, err
		}
		rules, err := rulesOf(ctx, s, &w)
		if err != nil {
			return nil, err
		}
		now, err := s.engine.Clock(ctx)
		if err != nil {
			return nil, err
		}
		u := &usual{ctx: ctx, s: s, workflow: w.ID}
		items := []api.Deadline{}
		for i := range rules {
			if r := &rules[i]; r.Timed() && r.Covers(row.Origin, row.Tags()) {
				if d, has := deadlineOf(r, &row, now, u); has {
					items = append(items, d)
				}
			}
		}
		return list(items, ""), u.err
	}
}

// usual returns the durations of the last successful runs of a workflow. It reads them once, and only if a
// rule needs them.
type usual struct {
	ctx      context.Context
	s        *Server
	workflow dag.WorkflowID

	read bool
	all  []dag.Micros
	err  error
}

func (u *usual) percentile(p int) (dag.Micros, bool) {
	if !u.read {
		u.read = true
		page, err := u.s.engine.Runs(u.ctx, store.RunQuery{Workflow: u.workflow, States: []string{dag.RunSucceeded.String()}, Limit: alert.UsualOf})
		u.err = err
		for i := range page.Runs {
			if r := &page.Runs[i]; r.StartedAt != 0 {
				u.all = append(u.all, r.FinishedAt-r.StartedAt)
			}
		}
	}
	if len(u.all) < alert.UsualLeast {
		return 0, false
	}
	return alert.Percentile(append([]dag.Micros(nil), u.all...), p), true
}

// deadlineOf shows the deadline that a rule sets for a run. It returns false if there is none, for example
// because the rule has a time of day and the run has no instant.
func deadlineOf(r *alert.Rule, row *dag.RunRow, now dag.Micros, u *usual) (api.Deadline, bool) {
	c := alert.CourseOf(&row.Header, row.State, row.StartedAt, row.Generation)
	due, ahead := r.Due(&c, u.percentile)
	d := api.Deadline{Rule: r.Name, Event: string(r.Event()), Goal: r.Goal(), Channels: append([]string{}, r.To...), DueAt: instantOrNull(due)}
	switch at, met := reached(r.Goal(), row, &c); {
	case ahead && row.State.Terminal():
		return d, false // the run never began
	case ahead:
		d.State = "ahead"
	case due == 0 && r.Than != nil:
		d.State = "unknown"
	case due == 0:
		return d, false
	case met && at <= due:
		d.State = "met"
	case met || now > due:
		d.State = "passed"
	default:
		d.State = "due"
	}
	return d, true
}

// reached returns the time at which a run reached the goal of a rule. met reports whether the run has reached
// the goal.
func reached(goal string, row *dag.RunRow, c *alert.Course) (at dag.Micros, met bool) {
	switch goal {
	case alert.ForStart:
		return c.Started, c.Started != 0
	case alert.ForEnd:
		return row.FinishedAt, row.State.Terminal()
	}
	return row.FinishedAt, row.State == dag.RunSucceeded
}

// firstDue returns the first deadline for a future instant of a schedule, or nil. rules are those that apply
// to the instant. A deadline that counts from the start of a run is not known yet.
func firstDue(rules []alert.Rule, at time.Time) *api.Time {
	first := dag.Micros(0)
	c := alert.Course{Instant: dag.Micros(at.UnixMicro()), Created: dag.Micros(at.UnixMicro())}
	for i := range rules {
		r := &rules[i]
		if r.Deadline == nil {
			continue
		}
		if due, ahead := r.Due(&c, nil); !ahead && due != 0 && (first == 0 || due < first) {
			first = due
		}
	}
	return instantOrNull(first)
}

// withDeadlines adds the deadlines to the coming instants of triggers.
func withDeadlines(ctx context.Context, s *Server, all []*upcoming, items []api.Instant) error {
	known := map[string][]alert.Rule{}
	for _, u := range all {
		name := fullName(u.w.Namespace, u.w.Name)
		if _, done := known[name]; done {
			continue
		}
		rules, err := rulesOf(ctx, s, u.w)
		if err != nil {
			return err
		}
		known[name] = slices.DeleteFunc(slices.Clone(rules), func(r alert.Rule) bool { return !r.Covers(dag.OriginSchedule, u.w.Tags) })
	}
	for i := range items {
		items[i].DueAt = firstDue(known[items[i].Workflow], items[i].Time.Time)
	}
	return nil
}

// alertRules shows the alert rules of a definition.
func alertRules(def *workflow.Workflow) []api.AlertRule {
	out := make([]api.AlertRule, len(def.Alerts))
	for i := range def.Alerts {
		a := &def.Alerts[i]
		out[i] = api.AlertRule{Name: a.Name, On: a.On, Channels: a.To, Severity: a.Severity, After: max(a.After, 1), Each: a.Each, GroupBy: a.GroupBy, Tasks: a.Tasks,
			Origins: append([]string{}, a.Origin...), Message: textOrNull(a.Message), Escalation: []api.EscalationStep{}}
		for _, t := range a.Tags {
			if out[i].Tags == nil {
				out[i].Tags = api.Tags{}
			}
			out[i].Tags[t.Name] = t.Value
		}
		for _, step := range a.Escalate {
			out[i].Escalation = append(out[i].Escalation, api.EscalationStep{Seconds: seconds(step.After), Channels: step.To})
		}
		if d := a.Deadline; d != nil {
			out[i].Deadline = &api.AlertDeadline{Seconds: seconds(d.After), From: textOrNull(d.From), By: textOrNull(d.By), Timezone: textOrNull(d.Timezone), For: d.For}
			if d.For == "" {
				out[i].Deadline.For = alert.ForSuccess
			}
		}
		if t := a.Than; t != nil {
			out[i].Than = &api.AlertThan{Seconds: seconds(t.Fixed), Times: t.Times, Percentile: t.Percentile}
		}
	}
	return out
}

func seconds(micros int64) float64 { return float64(micros) / 1e6 }
