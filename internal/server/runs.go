package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
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
	Workflow string `query:"workflow" doc:"NAME or NAMESPACE/NAME."`
	State    string `query:"state" enum:"active,submitted,waiting,splitting,running,suspended,paused,finalising,succeeded,failed,stopped,skipped" doc:"active: all that are unfinished."`
	Since    string `query:"since" doc:"RFC 3339: only runs created at or after it."`
}

type listRunsIn struct {
	RunFilter
	User string `query:"user"`
}

func (s *Server) listRuns(ctx context.Context, in *listRunsIn) (*jsonOut[api.List[api.Run]], error) {
	return s.runPage(ctx, &in.RunFilter, in.User)
}

type userRunsIn struct {
	RunFilter
	ID string `path:"id" doc:"The user's name."`
}

func (s *Server) listUserRuns(ctx context.Context, in *userRunsIn) (*jsonOut[api.List[api.Run]], error) {
	return s.runPage(ctx, &in.RunFilter, in.ID)
}

func (s *Server) runPage(ctx context.Context, f *RunFilter, user string) (*jsonOut[api.List[api.Run]], error) {
	q := store.RunQuery{State: f.State, User: user, Limit: f.Limit}
	if f.Workflow != "" {
		w, err := s.findWorkflow(ctx, f.Workflow)
		if err != nil {
			return nil, err
		}
		q.Workflow = w.ID
	}
	if f.Since != "" {
		t, err := time.Parse(time.RFC3339Nano, f.Since)
		if err != nil {
			return nil, invalid("since: want an RFC 3339 instant such as 2026-01-31T12:00:00Z, not %q", f.Since)
		}
		q.Since = dag.Micro(t)
	}
	after, err := f.after()
	if err != nil {
		return nil, err
	}
	if after != "" {
		if q.Before, err = dag.ParseRunID(after); err != nil {
			return nil, badCursor()
		}
	}
	views, next, err := s.engine.Runs(ctx, q)
	if err != nil {
		return nil, err
	}
	runs := make([]api.Run, len(views))
	for i := range views {
		if runs[i], err = runOf(&views[i]); err != nil {
			return nil, err
		}
	}
	if next.IsZero() {
		return list(runs, ""), nil
	}
	return list(runs, next.String()), nil
}

type Prefer struct {
	Prefer string `header:"Prefer" doc:"wait=SECONDS: answer when the run has ended, at the latest after that time (300 s at most)."`
}

// wait is how long the client prefers to wait; RFC 7240 has what is not understood ignored.
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

// applied is what the answer says of a wait.
func applied(wait time.Duration) string {
	if wait == 0 {
		return ""
	}
	return "wait=" + strconv.Itoa(int(wait/time.Second))
}

type getRunIn struct {
	RunPath
	Prefer
	Include string `query:"include" enum:"tasks" doc:"tasks: with its tasks, if they are at most 1,000."`
}

type runOut struct {
	Status     int
	Location   string `header:"Location"`
	Preference string `header:"Preference-Applied"`
	RetryAfter string `header:"Retry-After" hidden:"true"`
	// Of a start only: the room for submissions, in the form of the IETF draft.
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

// readsMax bounds how often a run is read until its tasks fit it.
const readsMax = 3

// readRun reads a run, with tasks that are of the same moment unless it moves very fast.
func (s *Server) readRun(ctx context.Context, id dag.RunID, tasks bool) (run api.Run, err error) {
	v, err := s.engine.GetRun(ctx, id)
	for range readsMax {
		if err != nil {
			return run, err
		}
		if run, err = runOf(&v); err != nil || !tasks {
			return run, err
		}
		views, total, err := s.engine.Tasks(ctx, id, 0, tasksInRunMax)
		if err != nil || total > tasksInRunMax {
			return run, err
		}
		run.Tasks = tasksOf(views)
		before := v
		if v, err = s.engine.GetRun(ctx, id); err == nil && before.State == v.State && before.Modified == v.Modified {
			return run, nil
		}
	}
	return run, err
}

// await returns when the run has ended, the time is up or the caller is gone.
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

// moved reports whether a notice may be about the state of its run.
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
