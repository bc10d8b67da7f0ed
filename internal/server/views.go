package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// This file converts the engine's views to the types of the API.

func instant(m dag.Micros) api.Time { return api.Time{Time: m.Time()} }

func instantOrNull(m dag.Micros) *api.Time {
	if m == 0 {
		return nil
	}
	t := instant(m)
	return &t
}

func textOrNull[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	t := string(s)
	return &t
}

func intOrNull[T ~int32](n T, applies bool) *int32 { return someOrNull(int32(n), applies) }

func someOrNull[T any](v T, applies bool) *T {
	if !applies {
		return nil
	}
	return &v
}

// fullName returns NAME in the default namespace, and NAMESPACE/NAME in any other.
func fullName(namespace, name string) string {
	if namespace == api.NamespaceDefault {
		return name
	}
	return namespace + "/" + name
}

var taskStates = dag.TaskStates()

// noCounts are the counts of a run without tasks. They must not be changed.
var noCounts = map[string]int{}

// noParams are the parameters of a run that has none. They must not be changed.
var noParams = api.Params{}

// shared holds values that several runs of one page share. Runs with equal counts share the map of counts, so
// no map may be changed later.
type shared struct {
	uuid, public string // the uuid of the last leader, and its public form
	counts       []sharedCounts
	times        slab[api.Time]
	texts        slab[string]
	spans        slab[float64]
	flow         store.Workflow // the last workflow
	flowName     string         // full name of the workflow
}

// slab allocates values whose addresses are needed, many at a time.
type slab[T any] []T

const slabMax = 128

func (s *slab[T]) put(v T) *T {
	if len(*s) == cap(*s) { // the array must not grow, because callers have pointers into it
		*s = make([]T, 0, min(max(2*cap(*s), 4), slabMax))
	}
	*s = append(*s, v)
	return &(*s)[len(*s)-1]
}

func (p *shared) instantOrNull(m dag.Micros) *api.Time {
	if m == 0 {
		return nil
	}
	return p.times.put(instant(m))
}

func (p *shared) textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return p.texts.put(s)
}

type sharedCounts struct {
	of map[dag.TaskState]int
	is map[string]int
}

// sharedCountsMax bounds the maps that are compared with the counts of a run.
const sharedCountsMax = 16

func (p *shared) publicID(uuid string) string {
	if p.uuid != uuid {
		p.uuid, p.public = uuid, store.PublicID(uuid)
	}
	return p.public
}

// nameOf returns the full name of a workflow.
func (p *shared) nameOf(w *store.Workflow) string {
	if p.flow.Namespace != w.Namespace || p.flow.Name != w.Name || p.flowName == "" {
		p.flow, p.flowName = *w, fullName(w.Namespace, w.Name)
	}
	return p.flowName
}

// countsOf returns the counts of all states, including zeros, so that a reader need not check whether a state
// is present.
func (p *shared) countsOf(of map[dag.TaskState]int) map[string]int {
	for i := range p.counts {
		if maps.Equal(p.counts[i].of, of) {
			return p.counts[i].is
		}
	}
	is := make(map[string]int, len(taskStates)) // a map that grew to this size would be allocated twice
	for _, s := range taskStates {
		is[s.String()] = of[s]
	}
	if len(p.counts) < sharedCountsMax {
		p.counts = append(p.counts, sharedCounts{of, is})
	}
	return is
}

// lastStart caches the parts of the last started run that the next one may share.
type lastStart struct{ is atomic.Pointer[shared] }

// run returns the API form of a run just started, and reuses parts of the previous start's answer.
func (l *lastStart) run(v *inspect.RunView) (api.Run, error) {
	was, page := l.is.Load(), shared{}
	if was != nil {
		page.uuid, page.public, page.counts = was.uuid, was.public, was.counts[:len(was.counts):len(was.counts)]
	}
	r, err := runAmong(v, &page)
	if was == nil || was.uuid != page.uuid || len(was.counts) < len(page.counts) {
		l.is.Store(&shared{uuid: page.uuid, public: page.public, counts: page.counts})
	}
	return r, err
}

// runAmong makes a run of a page.
func runAmong(v *inspect.RunView, page *shared) (api.Run, error) {
	r := api.Run{
		ID: v.ID.String(), Workflow: page.nameOf(&v.Workflow), Namespace: v.Workflow.Namespace,
		Version: v.Version, State: v.State.String(), Intent: v.Intent.String(), Cause: page.textOrNull(string(v.Cause)), Message: page.textOrNull(v.Message),
		Generation: v.Generation, CreatedAt: instant(v.Created), StartedAt: page.instantOrNull(v.StartedAt), FinishedAt: page.instantOrNull(v.FinishedAt),
		User: v.User, ClaimedBy: page.textOrNull(claimOfRun(&v.Header)), Origin: string(v.Origin), Priority: v.Priority.String(), Key: page.textOrNull(v.Key), Params: noParams,
		SplitAt: page.instantOrNull(v.SplitAt), ModifiedAt: instant(v.Modified), Counts: noCounts,
		FailedTasks: append([]string{}, v.Failed...),
		Leader:      api.Leader{Handler: page.textOrNull(page.publicID(v.Leader.UUID)), Node: page.textOrNull(v.Leader.Node), AssignedAt: page.instantOrNull(v.LeaderAt)},
	}
	if v.StartedAt != 0 && v.FinishedAt >= v.StartedAt {
		r.Duration = page.spans.put(float64(v.FinishedAt-v.StartedAt) / 1e6)
	}
	if p := v.Place; p != nil {
		r.Position = &api.Position{Line: lineShown(v.Claim), Number: someOrNull(p.Number, p.Number > 0), Of: p.Of, More: p.More}
	}
	if r.Instant = instant(v.Instant()); v.Fire != nil {
		if p := v.Parent(); p != nil {
			r.Parent, r.ParentTask = page.textOrNull(p.Up().Run.String()), page.textOrNull(v.ParentTask)
		}
		r.Trigger, r.Backfill = page.textOrNull(v.Fire.Trigger), someOrNull(v.Fire.Backfill, v.Fire.Backfill != 0)
		r.From, r.Tags = page.textOrNull(v.Fire.From), tagsOf(v.Fire.Tags)
		if !v.Fire.Of.IsZero() {
			r.RerunOf = page.textOrNull(v.Fire.Of.String())
		}
	}
	if v.SplitAt != 0 {
		r.Counts = page.countsOf(v.Counts)
	}
	if len(v.Params) > 0 && string(v.Params) != "{}" {
		r.Params = api.Params{}
		if err := json.Unmarshal(v.Params, &r.Params); err != nil {
			return r, fmt.Errorf("run %s: %w", v.ID, err)
		}
		hideSealed(v.Params, r.Params)
	}
	return r, nil
}

// tagsOf returns tags in the form of the API: nil if there are none.
func tagsOf(t dag.Tags) api.Tags {
	if t == "" {
		return nil
	}
	return t.Map()
}

// hideSealed removes sealed texts from parameters. A sealed text is of no use to a reader. But a caller could
// pass it to another start, and that run would get the secret value.
func hideSealed(raw []byte, params api.Params) {
	if !bytes.Contains(raw, []byte(`"`+workflow.SealedPrefix)) {
		return
	}
	for name, v := range params {
		if text, is := v.(string); is && strings.HasPrefix(text, workflow.SealedPrefix) {
			params[name] = workflow.SecretShown
		}
	}
}

func tasksOf(views []inspect.TaskView) []api.Task {
	tasks := make([]api.Task, len(views))
	for i := range views {
		tasks[i] = taskOf(&views[i])
	}
	return tasks
}

func taskOf(v *inspect.TaskView) api.Task {
	t := api.Task{
		ID: int32(v.ID), Name: v.Name, State: v.State.String(), Cause: textOrNull(v.Cause),
		CreatedAt: instant(v.Created), ModifiedAt: instant(v.Modified), Attempts: []api.Attempt{}, Outputs: json.RawMessage(`{}`),
	}
	if len(v.Outputs) > 0 {
		t.Outputs = v.Outputs
	}
	for i := range v.Attempts {
		a := &v.Attempts[i]
		signal, child := a.Signal, ""
		if run, ok := dag.ChildOf(&a.AttemptRow); ok {
			signal, child = "", run.Run.String()
		}
		t.Attempts = append(t.Attempts, api.Attempt{
			Number: a.Token.Number(), Era: int32(a.Token.Era()), Token: int64(a.Token), Generation: a.Generation, Handler: store.PublicID(a.By.UUID), Node: a.By.Node,
			State: a.State.String(), Cause: textOrNull(a.Cause), Message: textOrNull(a.Message), ExitCode: intOrNull(a.ExitCode, a.Exited),
			Signal: textOrNull(signal), Child: textOrNull(child), AssignedAt: instant(a.Assigned), StartedAt: instantOrNull(a.Started),
			FinishedAt: instantOrNull(a.Finished), RetryAt: instantOrNull(a.RetryAt), Outside: outsideOf(a),
		})
		t.Message = textOrNull(a.Message)
	}
	return t
}

// outsideOf returns the work that an attempt has left outside of its process, or nil if there is none.
func outsideOf(a *inspect.AttemptView) *api.Outside {
	h := &a.Handle
	if h.Text == "" {
		return nil
	}
	out := &api.Outside{Handle: h.Text, State: string(h.State), Since: instantOrNull(h.Since), Why: textOrNull(h.Why)}
	if h.State != dag.HandleHeld {
		out.Errand = textOrNull(dag.ChildID(&a.AttemptRow).String())
	}
	return out
}

func eventsOf(run dag.RunID, seq int64, at dag.Micros, records []inspect.RecordView) []api.Event {
	out := make([]api.Event, 0, len(records))
	for i := range records {
		r := &records[i]
		e := api.Event{
			Seq: seq, Run: run.String(), At: instant(at), Kind: r.Kind.String(), Task: textOrNull(r.TaskName),
			Attempt: intOrNull(r.Token.Number(), r.Token != 0), Token: someOrNull(int64(r.Token), r.Token != 0), Handler: textOrNull(store.PublicID(r.By.UUID)), Node: textOrNull(r.By.Node),
			ExitCode: intOrNull(r.ExitCode, r.Exited), Tasks: intOrNull(r.Count, r.Count != 0),
			Actor: textOrNull(r.Actor), ClaimedBy: textOrNull(claimOf(r.Actor)), Text: textOrNull(r.Text), Reason: textOrNull(r.Reason),
		}
		switch r.Kind {
		case dag.RecState:
			e.State, e.Text = e.Text, nil
		case dag.RecEnded, dag.RecMarked:
			e.State = textOrNull(r.State.String())
		}
		out = append(out, e)
	}
	return out
}

func workflowOf(w *store.Workflow) api.Workflow {
	return api.Workflow{
		Workflow: fullName(w.Namespace, w.Name), Namespace: w.Namespace, Name: w.Name, State: w.State, Version: w.Version,
		Latest: w.Latest, Revision: w.Revision, CreatedAt: instant(w.Created), ModifiedAt: instant(w.Modified),
		MaxRuns: intOrNull(w.MaxRuns, w.MaxRuns != 0), Tags: tagsOf(w.Tags),
	}
}

func versionOf(w *store.Workflow, v *store.Version) api.Version {
	return api.Version{
		Workflow: fullName(w.Namespace, w.Name), Namespace: w.Namespace, Version: v.Version, Current: v.Version == w.Version,
		Digest: fmt.Sprintf("%x", v.Digest), User: v.User, CreatedAt: instant(v.Created),
	}
}

func graphOf(g *dag.Graph, states []string) api.Graph {
	out := api.Graph{Nodes: make([]api.GraphNode, g.Len()), Edges: make([]api.GraphEdge, 0, g.Edges())}
	for t := range g.Len() {
		id := dag.TaskID(t)
		out.Nodes[t] = api.GraphNode{ID: int32(id), Name: g.Name(id)}
		if states != nil {
			out.Nodes[t].State = &states[t]
		}
		for _, n := range g.Needs(id) {
			out.Edges = append(out.Edges, api.GraphEdge{From: g.Name(n), To: g.Name(id)})
		}
	}
	return out
}
