package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// samplesMax bounds the instants that a dry run shows.
const samplesMax = 10

// backfillWeight is the weight of a backfill whose instants are only listed, because their number is not
// known before. It is the memory of dag.InstantsMax instants.
const backfillWeight = 1 << 20

type backfillOut struct {
	Status   int
	Location string `header:"Location"`
	Body     api.Backfill
}

type startBackfillIn struct {
	Idempotent
	Body api.BackfillRequest
}

func (s *Server) startBackfill(ctx context.Context, in *startBackfillIn) (*backfillOut, error) {
	req := &in.Body
	if err := mayName(ctx, access.BackfillWrite, req.Workflow); err != nil {
		return nil, err
	}
	w, err := s.findWorkflow(ctx, req.Workflow)
	if err != nil {
		return nil, err
	}
	scope, hash := fmt.Sprintf("POST /backfills %d", w.ID), []byte(nil)
	if in.Key != "" && !req.DryRun {
		if hash, err = hashJSON(req); err != nil {
			return nil, err
		}
		if b, err := s.keptBackfill(ctx, &w, store.Request{Scope: scope, Key: in.Key, Hash: hash}); b != nil || err != nil {
			return backfillAnswer(http.StatusOK, b), err
		}
	}
	b, err := s.expand(ctx, &w, req)
	if err != nil {
		return nil, err
	}
	if req.DryRun {
		out, err := plannedBackfill(&w, &b)
		return &backfillOut{Status: http.StatusOK, Body: out}, err
	}
	b.User = userOf(ctx)
	var once *store.Request
	if hash != nil {
		answer, err := json.Marshal(keptAnswer{Status: http.StatusAccepted, Backfill: fingerprint(&b)})
		if err != nil {
			return nil, fmt.Errorf("the answer under an idempotency key: %w", err)
		}
		once = &store.Request{Scope: scope, Key: in.Key, Hash: hash, Answer: answer}
	}
	noteAudit(ctx, w.Namespace, "backfill of "+w.Name+", trigger "+b.Trigger)
	b, err = s.engine.StartBackfill(ctx, b, once)
	// two requests with the same key arrived at the same time
	if once != nil && (errors.Is(err, errkind.ErrConflict) || err == nil && b.Created == 0) {
		if b, other := s.keptBackfill(ctx, &w, *once); b != nil || other != nil {
			return backfillAnswer(http.StatusOK, b), other
		}
	}
	if err != nil {
		return nil, err
	}
	out, err := backfillOf(&w, &b)
	return backfillAnswer(http.StatusAccepted, &out), err
}

func backfillAnswer(status int, b *api.Backfill) *backfillOut {
	if b == nil {
		return nil
	}
	return &backfillOut{Status: status, Location: api.Prefix + "/backfills/" + strconv.FormatInt(b.ID, 10), Body: *b}
}

// keptAnswer is the answer that is stored under an idempotency key. The id of a backfill is chosen when its
// row is made. So the answer must identify the backfill by its content.
type keptAnswer struct {
	Status   int    `json:"status"`
	Backfill string `json:"backfill"`
}

func fingerprint(b *store.Backfill) string {
	h := sha256.New()
	_, _ = h.Write(b.Spec) // a hash returns no error
	_, _ = h.Write(b.Instants)
	return hex.EncodeToString(h.Sum(nil))
}

// keptBackfill finds the backfill that a key made. It returns nil if the key made none.
func (s *Server) keptBackfill(ctx context.Context, w *store.Workflow, asked store.Request) (*api.Backfill, error) {
	r, err := s.engine.Request(ctx, asked.Scope, asked.Key)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		err = sameRequest(r.Hash, asked.Hash)
	}
	var kept keptAnswer
	if err == nil {
		err = json.Unmarshal(r.Answer, &kept)
	}
	if err != nil {
		return nil, err
	}
	before := int64(0)
	for {
		page, err := s.engine.Backfills(ctx, w.ID, "", before, pageDefault)
		if err != nil {
			return nil, err
		}
		for i := range page {
			b := &page[i]
			if before = b.ID; b.Created == r.Created && fingerprint(b) == kept.Backfill {
				out, err := backfillOf(w, b)
				return &out, err
			}
		}
		if len(page) < pageDefault {
			return nil, notFound("the backfill that this idempotency key made is no longer kept")
		}
	}
}

// expand computes the instants of a request.
func (s *Server) expand(ctx context.Context, w *store.Workflow, req *api.BackfillRequest) (store.Backfill, error) {
	none := store.Backfill{}
	weight := backfillWeight
	if req.DryRun || req.Only != "" && req.Only != "all" { // in these cases each instant is shown, or its runs are read
		weight = heavyWhole
	}
	leave, err := s.heavy.enter(ctx, weight)
	if err != nil {
		return none, err
	}
	defer leave()
	t, err := s.backfilled(ctx, w, req)
	if err != nil {
		return none, err
	}
	spec := trigger.BackfillSpec{Descending: req.Order == "descending", Parallel: req.Parallel, Priority: req.Priority, Only: req.Only}
	var decl *workflow.Trigger
	if t != nil {
		spec.Trigger = t.Name
		if decl, err = workflow.DecodeTrigger(t.Spec); err != nil {
			return none, fmt.Errorf("trigger %s: %w", t.Name, err)
		}
	}
	if req.From != nil {
		spec.From = req.From.Time
	}
	if req.To != nil {
		spec.To = req.To.Time
	}
	for _, at := range req.Instants {
		spec.Instants = append(spec.Instants, dag.Micros(at.UnixMicro()))
	}
	if len(req.Params) > 0 {
		if spec.Params, err = json.Marshal(req.Params); err != nil {
			return none, invalid("params: %s", err)
		}
	}
	def, err := s.definition(ctx, w, w.Version)
	if err != nil {
		return none, err
	}
	if spec.Priority == "" && (decl == nil || decl.Priority == "") {
		spec.Priority = def.Level().String()
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return none, err
	}
	look := standings{s: s, workflow: w.ID, trigger: spec.Trigger}
	b, err := trigger.Expand(ctx, spec, decl, now, look.of)
	if err != nil {
		return none, err
	}
	b.Workflow = w.ID
	return b, checkBackfillParams(def, &b)
}

// checkBackfillParams returns an error for parameters with which no run can be made. It checks them for the
// first run.
func checkBackfillParams(def *workflow.Workflow, b *store.Backfill) error {
	spec, err := trigger.DecodeBackfill(b.Spec)
	if err != nil {
		return err
	}
	at, err := dag.UnpackInstants(b.Instants, 0, 1)
	if err != nil {
		return err
	}
	if _, err := def.StartParams(spec.Params, at[0].Time(), nil); err != nil {
		return invalidParams(err)
	}
	return nil
}

// backfilled returns the trigger that gives the instants. It returns nil if the request gives a list and the
// workflow does not have exactly one schedule.
func (s *Server) backfilled(ctx context.Context, w *store.Workflow, req *api.BackfillRequest) (*store.Trigger, error) {
	if req.Trigger != "" {
		t, err := s.triggerOf(ctx, w, req.Trigger)
		return &t, err
	}
	all, err := s.engine.Triggers(ctx, store.TriggerQuery{Workflow: w.ID, Limit: pageMax})
	if err != nil {
		return nil, err
	}
	schedules := slices.DeleteFunc(all, func(t store.Trigger) bool { return !isSchedule(&t) })
	switch {
	case len(schedules) == 1:
		return &schedules[0], nil
	case len(req.Instants) > 0:
		return nil, nil
	case len(schedules) == 0:
		return nil, invalid("workflow %s has no schedule with instants in a range; give instants", fullName(w.Namespace, w.Name))
	}
	return nil, invalid("workflow %s has several schedules; name one of them as trigger: %s", fullName(w.Namespace, w.Name),
		triggerNames(schedules[:min(len(schedules), namedMax)]))
}

// isSchedule reports whether the instants of a trigger are computed from the clock.
func isSchedule(t *store.Trigger) bool {
	return slices.Contains([]string{workflow.KindCron, workflow.KindEvery, workflow.KindAt, workflow.KindDaily, workflow.KindWeekly,
		workflow.KindMonthly, workflow.KindAnnually}, t.Kind)
}

// standings finds out, for instants of a workflow, whether they have a run and how it ended.
type standings struct {
	s        *Server
	workflow dag.WorkflowID
	trigger  string // the trigger whose ledger is searched; "" if only backfills are searched
}

func (l *standings) of(ctx context.Context, at dag.Micros) (trigger.Standing, error) {
	runs, err := l.s.engine.RunsAt(ctx, l.workflow, at)
	if err != nil {
		return 0, err
	}
	if l.trigger != "" {
		f, err := l.s.engine.FireAt(ctx, store.TriggerKey{Workflow: l.workflow, Name: l.trigger}, at)
		switch {
		case err == nil && !f.Run.IsZero():
			runs = append(runs, f.Run)
		case err != nil && !errors.Is(err, errkind.ErrNotFound):
			return 0, err
		}
	}
	if len(runs) == 0 {
		return trigger.StandingNone, nil
	}
	newest := slices.MaxFunc(runs, func(a, b dag.RunID) int { return slices.Compare(a[:], b[:]) })
	row, err := l.s.engine.RunRow(ctx, newest)
	switch {
	case errors.Is(err, errkind.ErrNotFound):
		return trigger.StandingGood, nil // the run succeeded, and was deleted since
	case err != nil:
		return 0, err
	case !row.State.Terminal():
		return trigger.StandingActive, nil
	case row.State == dag.RunSucceeded:
		return trigger.StandingGood, nil
	}
	return trigger.StandingFailed, nil
}

// backfillOf returns a backfill in the form of the API.
func backfillOf(w *store.Workflow, b *store.Backfill) (api.Backfill, error) {
	out := api.Backfill{
		ID: b.ID, Workflow: fullName(w.Namespace, w.Name), Namespace: w.Namespace, Trigger: textOrNull(b.Trigger), State: b.State,
		Total: b.Total, Started: b.Started, Ended: b.Ended, Failed: b.Failed, Active: b.Started - b.Ended,
		Parallel: b.Parallel, Order: "ascending", Only: "all", Params: api.Params{}, User: b.User,
		CreatedAt: instantOrNull(b.Created), ModifiedAt: instantOrNull(b.Modified),
	}
	spec, err := trigger.DecodeBackfill(b.Spec)
	if err != nil {
		return out, fmt.Errorf("backfill %d: %w", b.ID, err)
	}
	if spec.Descending {
		out.Order = "descending"
	}
	if spec.Only != "" {
		out.Only = spec.Only
	}
	if out.Priority = spec.Priority; spec.Priority == "" {
		out.Priority = dag.Medium.String()
	}
	if !spec.From.IsZero() {
		out.From, out.To = &api.Time{Time: spec.From}, &api.Time{Time: spec.To}
	}
	if len(spec.Params) > 0 {
		if err := json.Unmarshal(spec.Params, &out.Params); err != nil {
			return out, fmt.Errorf("backfill %d: %w", b.ID, err)
		}
	}
	at, err := dag.UnpackInstants(b.Instants, 0, 0)
	if err != nil || int64(len(at)) < b.Total || len(at) == 0 {
		return out, fmt.Errorf("backfill %d has %d readable instants, but its row says %d: %w", b.ID, len(at), b.Total, err)
	}
	out.First, out.Last = instant(at[0]), instant(at[len(at)-1])
	if over := b.State == store.BackfillDone || b.State == store.BackfillCancelled; b.Started < b.Total && !over {
		next := instant(at[b.Started])
		out.NextInstant = &next
	}
	return out, nil
}

// plannedBackfill describes the backfill that would be started.
func plannedBackfill(w *store.Workflow, b *store.Backfill) (api.Backfill, error) {
	out, err := backfillOf(w, b)
	if err != nil {
		return out, err
	}
	at, err := dag.UnpackInstants(b.Instants, 0, 0)
	if err != nil {
		return out, err
	}
	out.State, out.Samples = "planned", []api.Time{}
	n := min(len(at), samplesMax)
	for i := range n { // spread over all instants, including the first and the last
		out.Samples = append(out.Samples, instant(at[i*(len(at)-1)/max(n-1, 1)]))
	}
	return out, nil
}

type listBackfillsIn struct {
	Page
	Workflow string `query:"workflow" doc:"NAME or NAMESPACE/NAME."`
	State    string `query:"state" enum:"running,paused,cancelled,done"`
}

func (s *Server) listBackfills(ctx context.Context, in *listBackfillsIn) (*jsonOut[api.List[api.Backfill]], error) {
	before, err := in.afterInt()
	if err != nil {
		return nil, err
	}
	var of dag.WorkflowID
	if in.Workflow != "" {
		w, err := s.findWorkflow(ctx, in.Workflow)
		if err != nil {
			return nil, err
		}
		of = w.ID
	}
	names, items, bytes := s.workflowNames(), []api.Backfill{}, 0
	room := rooms{s: s, of: map[string]*string{}}
	for { // pages are small, because each backfill may have 2 MiB
		rows, err := s.engine.Backfills(ctx, of, in.State, before, min(in.Limit-len(items), backfillsStep)+1)
		if err != nil {
			return nil, err
		}
		rows, more := cut(rows, min(in.Limit-len(items), backfillsStep))
		for i := range rows {
			w, err := names.get(ctx, rows[i].Workflow)
			if err != nil {
				return nil, err
			}
			item, err := backfillOf(w, &rows[i])
			if err != nil {
				return nil, err
			}
			if err := room.note(ctx, &item); err != nil {
				return nil, err
			}
			if bytes += sizeOf(&item); bytes > answerRoom && len(items) > 0 {
				return list(items, strconv.FormatInt(before, 10)), nil
			}
			items, before = append(items, item), item.ID
		}
		if !more {
			return list(items, ""), nil
		}
		if len(items) == in.Limit {
			return list(items, strconv.FormatInt(before, 10)), nil
		}
	}
}

// backfillsStep is the number of backfills in one read.
const backfillsStep = 20

type BackfillPath struct {
	ID int64 `path:"id" minimum:"1" doc:"The backfill's id."`
}

func (s *Server) backfill(ctx context.Context, p *BackfillPath) (store.Backfill, error) {
	b, err := s.engine.Backfill(ctx, p.ID)
	if errors.Is(err, errkind.ErrNotFound) {
		return b, notFound("there is no backfill %d", p.ID).about("no_backfill", "backfill", strconv.FormatInt(p.ID, 10))
	}
	return b, err
}

type backfillIn struct{ BackfillPath }

func (s *Server) getBackfill(ctx context.Context, in *backfillIn) (*jsonOut[api.Backfill], error) {
	return s.readBackfill(ctx, &in.BackfillPath)
}

func (s *Server) readBackfill(ctx context.Context, p *BackfillPath) (*jsonOut[api.Backfill], error) {
	b, err := s.backfill(ctx, p)
	if err != nil {
		return nil, err
	}
	w, err := s.engine.WorkflowByID(ctx, b.Workflow)
	if err != nil {
		return nil, err
	}
	out, err := backfillOf(&w, &b)
	if err == nil {
		room := rooms{s: s, of: map[string]*string{}}
		err = room.note(ctx, &out)
	}
	return &jsonOut[api.Backfill]{Body: out}, err
}

// rooms lists the quotas that are used up, by namespace. All are read for one answer.
type rooms struct {
	s  *Server
	of map[string]*string
}

// note sets in a backfill the quota for which it waits.
func (r *rooms) note(ctx context.Context, b *api.Backfill) error {
	if b.State != store.BackfillRunning || b.Started >= b.Total || b.Active >= int64(b.Parallel) {
		return nil
	}
	why, known := r.of[b.Namespace]
	if !known {
		over, err := engine.NamespacesOf(r.s.engine).Room(ctx, b.Namespace)
		if err != nil {
			return unread(err)
		}
		if over != nil {
			text := over.Error()
			why = &text
		}
		r.of[b.Namespace] = why
	}
	b.WaitsFor = why
	return nil
}

type backfillRunsIn struct {
	BackfillPath
	Page
}

func (s *Server) listBackfillRuns(ctx context.Context, in *backfillRunsIn) (*jsonOut[api.List[api.BackfillRun]], error) {
	after, err := in.afterInt()
	if err != nil {
		return nil, err
	}
	if _, err := s.backfill(ctx, &in.BackfillPath); err != nil {
		return nil, err
	}
	rows, err := s.engine.BackfillRuns(ctx, in.ID, dag.Micros(after), in.Limit+1)
	if err != nil {
		return nil, err
	}
	rows, more := cut(rows, in.Limit)
	items, next := make([]api.BackfillRun, len(rows)), ""
	for i := range rows {
		items[i] = api.BackfillRun{Instant: instant(rows[i].Instant), Run: rows[i].Run.String()}
		run, err := s.engine.RunRow(ctx, rows[i].Run)
		if errors.Is(err, errkind.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		items[i].State, items[i].Cause = textOrNull(run.State.String()), textOrNull(run.Cause)
		items[i].CreatedAt, items[i].StartedAt, items[i].FinishedAt = instantOrNull(run.Created), instantOrNull(run.StartedAt), instantOrNull(run.FinishedAt)
	}
	if more {
		next = strconv.FormatInt(int64(rows[len(rows)-1].Instant), 10)
	}
	return list(items, next), nil
}

type backfillVerbIn struct {
	BackfillPath
	Idempotent
}

func (s *Server) backfillVerb(verb, state string) func(context.Context, *backfillVerbIn) (*jsonOut[api.Backfill], error) {
	return func(ctx context.Context, in *backfillVerbIn) (*jsonOut[api.Backfill], error) {
		if _, err := s.backfill(ctx, &in.BackfillPath); err != nil {
			return nil, err
		}
		scope := fmt.Sprintf("POST /backfills/%d:%s", in.ID, verb)
		err := s.keep(ctx, &in.Idempotent, scope, nil, func(once *store.Request) error {
			_, err := s.engine.ChangeBackfill(ctx, in.ID, state, userOf(ctx), once)
			return err
		})
		if err != nil {
			return nil, err
		}
		return s.readBackfill(ctx, &in.BackfillPath)
	}
}
