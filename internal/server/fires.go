package server

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

type FireFilter struct {
	Page
	Outcome string `query:"outcome" enum:"fired,late,skipped,merged,missed"`
	Unfired bool   `query:"unfired" doc:"Every outcome without a run."`
	Since   string `query:"since" doc:"RFC 3339: only lines that reach to it or later."`
	Until   string `query:"until" doc:"RFC 3339: only lines that begin at or before it."`
}

func (f *FireFilter) query() (q store.FireQuery, err error) {
	q.Outcome, q.Limit = f.Outcome, f.Limit+1
	if f.Unfired {
		if f.Outcome != "" {
			return q, invalid("unfired and outcome cannot be combined: give one of them")
		}
		q.Outcome = store.FireUnfired
	}
	if q.From, err = instantOf("since", f.Since); err != nil {
		return q, err
	}
	if q.Until, err = instantOf("until", f.Until); err != nil {
		return q, err
	}
	if f.Until != "" && q.Until < q.From {
		return q, invalid("until (%s) is before since (%s)", f.Until, f.Since)
	}
	q.Before, err = f.afterFire()
	return q, err
}

func (p *Page) afterFire() (k store.FireKey, err error) {
	text, err := p.after()
	if err != nil || text == "" {
		return k, err
	}
	if json.Unmarshal([]byte(text), &k) != nil || k.Decided == 0 || k.Workflow == 0 {
		return store.FireKey{}, badCursor()
	}
	return k, nil
}

type listFiresIn struct {
	FireFilter
	SystemFilter
	Workflow string `query:"workflow" doc:"NAME or NAMESPACE/NAME."`
	Trigger  string `query:"trigger" doc:"Only with workflow: a trigger of it, also one that is no longer declared."`
}

func (s *Server) listFires(ctx context.Context, in *listFiresIn) (*jsonOut[api.List[api.Fire]], error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	if in.Trigger != "" && in.Workflow == "" {
		return nil, invalid("trigger: give the workflow, too, because a trigger's name is unique only within its workflow")
	}
	if in.Workflow != "" {
		w, err := s.findWorkflow(ctx, in.Workflow)
		if err != nil {
			return nil, err
		}
		q.Workflow, q.Trigger = w.ID, in.Trigger
	}
	if in.hides("", in.Workflow) {
		return firePageWithout(ctx, s, q)
	}
	return s.firePage(ctx, q)
}

const (
	// fireRounds bounds the reads of the ledger for one page from which lines are left out. Because of this
	// bound, a page may have fewer lines than its limit.
	fireRounds = 10
	// fireStep is the number of lines of each read after the first.
	fireStep = pageMax
)

// firePageWithout returns a page without the lines of the built-in workflows.
func firePageWithout(ctx context.Context, s *Server, q store.FireQuery) (*jsonOut[api.List[api.Fire]], error) {
	want := q.Limit - 1
	items, next, names := make([]api.Fire, 0, want), "", s.workflowNames()
	for range fireRounds {
		lines, err := s.engine.Fires(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range lines {
			w, err := names.get(ctx, lines[i].Workflow)
			if err != nil {
				return nil, err
			}
			if !isSystem(w) {
				if len(items) == want {
					return list(items, next), nil
				}
				items = append(items, fireOf(w, &lines[i]))
			}
			if next, q.Before, err = fireCursor(&lines[i]); err != nil {
				return nil, err
			}
		}
		if len(lines) < min(q.Limit, pageMax) { // a store returns at most pageMax lines
			return list(items, ""), nil
		}
		q.Limit = fireStep
	}
	return list(items, next), nil
}

// fireCursor returns the cursor of the page that begins after a line.
func fireCursor(f *store.Fire) (string, store.FireKey, error) {
	k := store.FireKey{Decided: f.Decided, Workflow: f.Workflow, Trigger: f.Trigger, At: f.At, Key: f.Key}
	b, err := json.Marshal(k)
	return string(b), k, err
}

type triggerFiresIn struct {
	TriggerPath
	FireFilter
}

// listTriggerFires lists the ledger of a trigger, even if the trigger was removed, because its ledger stays.
func (s *Server) listTriggerFires(ctx context.Context, in *triggerFiresIn) (*jsonOut[api.List[api.Fire]], error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	w, err := s.findWorkflow(ctx, in.workflow())
	if err != nil {
		return nil, err
	}
	q.Workflow, q.Trigger = w.ID, in.Trigger
	out, err := s.firePage(ctx, q)
	if err == nil && len(out.Body.Items) == 0 {
		_, err = s.triggerOf(ctx, &w, in.Trigger)
	}
	return out, err
}

func (s *Server) firePage(ctx context.Context, q store.FireQuery) (*jsonOut[api.List[api.Fire]], error) {
	lines, err := s.engine.Fires(ctx, q)
	if err != nil {
		return nil, err
	}
	next := ""
	lines, more := cut(lines, q.Limit-1)
	if more {
		if next, _, err = fireCursor(&lines[len(lines)-1]); err != nil {
			return nil, err
		}
	}
	names, items := s.workflowNames(), make([]api.Fire, 0, len(lines))
	for i := range lines {
		w, err := names.get(ctx, lines[i].Workflow)
		if err != nil {
			return nil, err
		}
		items = append(items, fireOf(w, &lines[i]))
	}
	return list(items, next), nil
}

// fireReasons returns the codes of a reason.
func fireReasons(r store.Reason) []api.FireReason {
	out := []api.FireReason{}
	for _, part := range r.Parts() {
		out = append(out, api.FireReason{Code: part.Code, Args: part.Args})
	}
	return out
}

func fireOf(w *store.Workflow, f *store.Fire) api.Fire {
	out := api.Fire{
		Workflow: fullName(w.Namespace, w.Name), Namespace: w.Namespace, Trigger: f.Trigger, At: instant(f.At), Last: instant(f.Last),
		Count: f.Count, Outcome: f.Outcome, Reason: textOrNull(f.Reason.String()), Reasons: fireReasons(f.Reason), Key: textOrNull(f.Key), Decided: instant(f.Decided),
	}
	if !f.Run.IsZero() {
		out.Run = textOrNull(f.Run.String())
	}
	return out
}

type triggerDaysIn struct {
	TriggerPath
	Page
}

// listTriggerDays reads the counts of deleted ledger lines. The trigger may have been removed from its
// workflow.
func (s *Server) listTriggerDays(ctx context.Context, in *triggerDaysIn) (*jsonOut[api.List[api.FireDay]], error) {
	before, err := in.afterInt()
	if err != nil {
		return nil, err
	}
	w, err := s.findWorkflow(ctx, in.workflow())
	if err != nil {
		return nil, err
	}
	if before > math.MaxInt32 {
		return nil, badCursor()
	}
	days, err := s.engine.FireDays(ctx, store.TriggerKey{Workflow: w.ID, Name: in.Trigger}, int32(before), in.Limit)
	if err != nil {
		return nil, err
	}
	if len(days) == 0 {
		if _, err := s.triggerOf(ctx, &w, in.Trigger); err != nil {
			return nil, err
		}
	}
	items, next := make([]api.FireDay, len(days)), ""
	for i := range days {
		d := &days[i]
		items[i] = api.FireDay{Day: time.Unix(int64(d.Day)*24*3600, 0).UTC().Format(time.DateOnly), Fired: d.Fired, Late: d.Late,
			Skipped: d.Skipped, Merged: d.Merged, Missed: d.Missed}
	}
	if len(days) == in.Limit {
		next = strconv.Itoa(int(days[len(days)-1].Day))
	}
	return list(items, next), nil
}
