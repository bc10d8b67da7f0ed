package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

type RunPath struct {
	ID string `path:"id" doc:"The run's id."`
}

func (p *RunPath) run() (dag.RunID, error) {
	id, err := dag.ParseRunID(p.ID)
	if err != nil {
		return id, notFound("there is no run %q: %s", p.ID, err)
	}
	return id, nil
}

type RunFilter struct {
	Page
	SystemFilter
	Workflow  string   `query:"workflow" doc:"NAME or NAMESPACE/NAME."`
	State     []string `query:"state,explode" maxItems:"12" enum:"active,submitted,waiting,splitting,running,suspended,paused,finalising,succeeded,failed,stopped,skipped" doc:"Runs in this state; repeat it for several. active: all that are unfinished."`
	Since     string   `query:"since" doc:"RFC 3339: only runs created at or after it."`
	Until     string   `query:"until" doc:"RFC 3339: only runs created before it."`
	Namespace string   `query:"ns" maxLength:"63" doc:"Only runs of workflows of this namespace."`
	Origin    string   `query:"origin" enum:"manual,api,schedule,sensor,backfill,parent,recovery,enqueue"`
	Trigger   string   `query:"trigger" maxLength:"255" doc:"Only runs that the trigger of this name has started."`
	Cause     string   `query:"cause" maxLength:"255" doc:"Only runs that ended for this cause."`
	Backfill  int64    `query:"backfill" minimum:"1" doc:"Only runs of this backfill."`
	Parent    string   `query:"parent" maxLength:"36" doc:"Only runs that a task of this run has called."`
	Node      string   `query:"node" maxLength:"255" doc:"Only runs whose tasks this node has made: their leader."`
	Tag       []string `query:"tag,explode" maxItems:"8" maxLength:"127" doc:"KEY=VALUE: only runs with this tag; repeat it for runs with all of several."`
	Text      string   `query:"q" maxLength:"255" doc:"Only runs with this text in their id, workflow, key, user, cause or message. Case does not matter."`
	Count     bool     `query:"count" doc:"With total: how many runs are selected."`
	Include   []string `query:"include" maxItems:"1" enum:"params" doc:"params: with their parameters, which lists leave out. A page ends early if they are large."`
}

type listRunsIn struct {
	RunFilter
	User string `query:"user" doc:"The name of a token, or the name that a program without a token claimed."`
}

func (s *Server) listRuns(ctx context.Context, in *listRunsIn) (*jsonOut[api.List[api.Run]], error) {
	return s.runPage(ctx, &in.RunFilter, in.User)
}

type userRunsIn struct {
	RunFilter
	ID string `path:"id" doc:"The name of a token, or the name that a program without a token claimed."`
}

func (s *Server) listUserRuns(ctx context.Context, in *userRunsIn) (*jsonOut[api.List[api.Run]], error) {
	return s.runPage(ctx, &in.RunFilter, in.ID)
}

func (s *Server) runPage(ctx context.Context, f *RunFilter, user string) (*jsonOut[api.List[api.Run]], error) {
	q, err := runQuery(ctx, s, f)
	if err != nil {
		return nil, err
	}
	q.User = user
	if q.Params { // the size of the parameters is known only after they are read
		leave, err := s.reads.enter(ctx, heavyWhole)
		if err != nil {
			return nil, err
		}
		whenWritten(ctx, answerBytesMax, leave)
	}
	page, err := s.runsOf(ctx, q)
	if err != nil {
		return nil, err
	}
	runs, common := make([]api.Run, len(page.Runs)), new(shared)
	for i := range page.Runs {
		if runs[i], err = runAmong(&page.Runs[i], common); err != nil {
			return nil, err
		}
		if !q.Params || may(ctx, access.RunValues, runs[i].Namespace) != nil {
			runs[i].Params = nil
		}
		maskParams(ctx, s, &page.Runs[i], &runs[i])
	}
	next := ""
	if !page.Next.IsZero() {
		next = page.Next.String()
	}
	if q.Params { // apart from its parameters, a run is small
		cut := false
		if runs, cut = fit(runs, func(r *api.Run) int { return sizeOf(r) }); cut {
			next = runs[len(runs)-1].ID
		}
	}
	out := list(runs, next)
	if q.Count {
		out.Body.Total = &api.Total{N: page.Total.N, Exact: page.Total.Exact}
	}
	return out, nil
}

// runQuery reads the selection of a list of runs.
func runQuery(ctx context.Context, s *Server, f *RunFilter) (q store.RunQuery, err error) {
	q = store.RunQuery{Namespace: f.Namespace, States: f.State, Origin: dag.Origin(f.Origin), Trigger: f.Trigger, Cause: f.Cause,
		Backfill: f.Backfill, Node: f.Node, Text: f.Text, Count: f.Count, Limit: f.Limit,
		Params: slices.Contains(f.Include, "params"), Bytes: answerBytesMax}
	if q.Tags, err = tagsAsked(f.Tag); err != nil {
		return q, err
	}
	if f.Workflow != "" {
		w, err := s.findWorkflow(ctx, f.Workflow)
		if err != nil {
			return q, err
		}
		q.Workflow = w.ID
	}
	if f.hides(f.Namespace, f.Workflow) {
		if q.Not, err = s.builtin.read(ctx, s.engine); err != nil {
			return q, err
		}
	}
	if f.Parent != "" {
		if q.Parent, err = dag.ParseRunID(f.Parent); err != nil {
			return q, invalid("parent: there is no run %q: %s", f.Parent, err)
		}
	}
	if q.Since, err = instantOf("since", f.Since); err != nil {
		return q, err
	}
	if q.Until, err = instantOf("until", f.Until); err != nil {
		return q, err
	}
	after, err := f.after()
	if err == nil && after != "" {
		if q.Before, err = dag.ParseRunID(after); err != nil {
			err = badCursor()
		}
	}
	return q, err
}

// tagsAsked reads the tags of a query.
func tagsAsked(all []string) (dag.Tags, error) {
	m := make(map[string]string, len(all))
	for _, text := range all {
		key, value, _ := strings.Cut(text, "=")
		if err := dag.CheckTag(key, value); err != nil {
			return "", invalid("tag=%s: use KEY=VALUE: %s", text, err)
		}
		if was, twice := m[key]; twice && was != value {
			return "", invalid("tag: a key has one value, so no run has both %s=%s and %s=%s; give one of them", key, was, key, value)
		}
		m[key] = value
	}
	return dag.TagsOf(m, dag.TagsGivenMax)
}

// instantOf reads an instant of a query. It returns 0 for "".
func instantOf(name, text string) (dag.Micros, error) {
	if text == "" {
		return 0, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, invalid("%s: use an RFC 3339 instant such as 2026-01-31T12:00:00Z, not %q", name, text)
	}
	return dag.Micro(t), nil
}

type Prefer struct {
	Prefer string `header:"Prefer" doc:"wait=SECONDS: answer when the run has ended, at the latest after that time (300 s at most)."`
}

// wait returns the time for which the client prefers to wait. As RFC 7240 says, unknown preferences are
// ignored.
func (p *Prefer) wait() time.Duration {
	for pref := range strings.FieldsFuncSeq(p.Prefer, func(c rune) bool { return c == ',' || c == ';' }) {
		name, value, _ := strings.Cut(strings.TrimSpace(pref), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
		if err == nil {
			return min(time.Duration(seconds)*time.Second, waitMax)
		}
	}
	return 0
}

// applied returns the value of the header Preference-Applied, which says how long the server waits at most.
func applied(wait time.Duration) string {
	if wait == 0 {
		return ""
	}
	return "wait=" + strconv.Itoa(int(wait/time.Second))
}

type getRunIn struct {
	RunPath
	Prefer
	Include string `query:"include" enum:"tasks" doc:"tasks: with its tasks, if they are at most 1,000 and 8 MiB."`
}

type runOut struct {
	Status     int
	Location   string `header:"Location"`
	Preference string `header:"Preference-Applied"`
	RetryAfter string `header:"Retry-After" hidden:"true"`
	// RateLimit and the following fields are the headers of a start. They contain the room for further
	// submissions, in the form of the IETF draft.
	RateLimit       string `header:"RateLimit" doc:"r: how many more submissions may wait for the writer now; past that, 429."`
	RateLimitPolicy string `header:"RateLimit-Policy" doc:"q: how many submissions may wait."`
	Body            api.Run
}

func (s *Server) getRun(ctx context.Context, in *getRunIn) (*runOut, error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	wait := in.wait()
	if err := s.await(ctx, id, wait); err != nil {
		return nil, err
	}
	run, err := s.readRun(ctx, id, in.Include == "tasks")
	if err != nil {
		return nil, err
	}
	return &runOut{Status: http.StatusOK, Preference: applied(wait), Body: run}, nil
}

// readsMax bounds how often a run is read again until the run and its tasks are of the same instant.
const readsMax = 3

// readRun reads a run, with its values if the caller has the verb run.values.
func (s *Server) readRun(ctx context.Context, id dag.RunID, tasks bool) (api.Run, error) {
	run, err := wholeRun(ctx, s, id, tasks)
	hideValues(ctx, &run)
	return run, err
}

// hideValues removes the values of a run unless the caller has the verb run.values.
func hideValues(ctx context.Context, run *api.Run) {
	if may(ctx, access.RunValues, run.Namespace) == nil {
		return
	}
	run.Params = nil
	for i := range run.Tasks {
		run.Tasks[i].Outputs = noOutputs
	}
}

// noOutputs are the outputs that a caller without the right to see values gets.
var noOutputs = json.RawMessage(`{}`)

// mayValues reports whether the caller may see the values of a run.
func mayValues(ctx context.Context, s *Server, id dag.RunID) (bool, error) {
	if wide(ctx, access.RunValues) && (s.cfg.Auditor == nil || !s.cfg.Auditor.Reads("")) {
		return true, nil
	}
	n, err := s.runName(ctx, id)
	if err != nil {
		return false, err
	}
	ns, _ := cutName(n.workflow)
	return may(ctx, access.RunValues, ns) == nil, nil
}

// wholeRun reads a run and its tasks. Both are of the same instant, unless the run changes very fast.
func wholeRun(ctx context.Context, s *Server, id dag.RunID, tasks bool) (run api.Run, err error) {
	v, err := s.engine.GetRun(ctx, id)
	for again := range readsMax {
		if err != nil {
			return run, err
		}
		if run, err = shownRun(ctx, s, &v); err != nil || !tasks {
			return run, err
		}
		views, total, err := s.engine.Tasks(ctx, id, 0, tasksInRunMax)
		if err != nil || total > len(views) {
			return run, err
		}
		if again == 0 { // a second weight would wait for the first one to end
			if err := weighOutputs(ctx, s, views); err != nil {
				return run, err
			}
		}
		tasks, cut := fit(tasksOf(views), func(t *api.Task) int { return sizeOf(t) })
		if cut {
			return run, nil
		}
		run.Tasks = tasks
		before := v
		if v, err = s.engine.GetRun(ctx, id); err == nil && before.State == v.State && before.Modified == v.Modified {
			return run, nil
		}
	}
	return run, err
}

// await returns when the run has ended, when the time has passed, or when the caller is gone.
func (s *Server) await(ctx context.Context, id dag.RunID, wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	sub := s.engine.Watch(id)
	defer sub.Close()
	row, err := s.engine.RunRow(ctx, id)
	if err != nil || row.State.Terminal() {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case n, open := <-sub.C:
			if !open {
				return nil
			}
			if !moved(&n) {
				continue
			}
			if row, err = s.engine.RunRow(ctx, id); err != nil || row.State.Terminal() {
				return err
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// moved reports whether a notice may be about a change of the run's state.
func moved(n *engine.Notice) bool {
	if n.Lost {
		return true
	}
	for i := range n.Records {
		if n.Records[i].Kind == dag.RecState {
			return true
		}
	}
	return false
}
