package server

import (
	"encoding/json"
	"fmt"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// From the engine's views to the wire.

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

// fullName is NAME in the default namespace and NAMESPACE/NAME elsewhere.
func fullName(namespace, name string) string {
	if namespace == api.NamespaceDefault {
		return name
	}
	return namespace + "/" + name
}

var taskStates = dag.TaskStates()

func runOf(v *engine.RunView) (api.Run, error) {
	r := api.Run{
		ID: v.ID.String(), Workflow: fullName(v.Workflow.Namespace, v.Workflow.Name), Namespace: v.Workflow.Namespace,
		Version: v.Version, State: v.State.String(), Intent: v.Intent.String(), Cause: textOrNull(v.Cause), Message: textOrNull(v.Message),
		Generation: v.Generation, CreatedAt: instant(v.Created), StartedAt: instantOrNull(v.StartedAt), FinishedAt: instantOrNull(v.FinishedAt),
		User: v.User, ClaimedBy: textOrNull(claimOf(v.User)), Origin: string(v.Origin), Priority: v.Priority.String(), Key: textOrNull(v.Key), Params: api.Params{},
		SplitAt: instantOrNull(v.SplitAt), ModifiedAt: instant(v.Modified), Counts: map[string]int{},
		FailedTasks: append([]string{}, v.Failed...),
		Leader:      api.Leader{Handler: textOrNull(store.PublicID(v.Leader.UUID)), Node: textOrNull(v.Leader.Node), AssignedAt: instantOrNull(v.LeaderAt)},
	}
	if v.StartedAt != 0 && v.FinishedAt >= v.StartedAt {
		took := float64(v.FinishedAt-v.StartedAt) / 1e6
		r.Duration = &took
	}
	if p := v.Place; p != nil {
		r.Position = &api.Position{Line: v.Claim.Line(), Number: someOrNull(p.Number, p.Number > 0), Of: p.Of, More: p.More}
	}
	if r.Instant = instant(v.Instant()); v.Fire != nil {
		if p := v.Parent(); p != nil {
			r.Parent, r.ParentTask = textOrNull(p.Up().Run.String()), textOrNull(v.ParentTask)
		}
		r.Trigger, r.Backfill = textOrNull(v.Fire.Trigger), someOrNull(v.Fire.Backfill, v.Fire.Backfill != 0)
		r.From = textOrNull(v.Fire.From)
		if !v.Fire.Of.IsZero() {
			r.RerunOf = textOrNull(v.Fire.Of.String())
		}
	}
	if v.SplitAt != 0 { // all states, so that a reader need not ask whether one is there
		r.Counts = make(map[string]int, len(taskStates)) // a map that grows to this size is made twice
		for _, s := range taskStates {
			r.Counts[s.String()] = v.Counts[s]
		}
	}
	if len(v.Params) > 0 {
		if err := json.Unmarshal(v.Params, &r.Params); err != nil {
			return r, fmt.Errorf("run %s: %w", v.ID, err)
		}
	}
	return r, nil
}

func tasksOf(views []engine.TaskView) []api.Task {
	tasks := make([]api.Task, len(views))
	for i := range views {
		tasks[i] = taskOf(&views[i])
	}
	return tasks
}

func taskOf(v *engine.TaskView) api.Task {
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
			FinishedAt: instantOrNull(a.Finished), RetryAt: instantOrNull(a.RetryAt),
		})
		t.Message = textOrNull(a.Message)
	}
	return t
}

func eventsOf(run dag.RunID, seq int64, at dag.Micros, records []engine.RecordView) []api.Event {
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
		MaxRuns: intOrNull(w.MaxRuns, w.MaxRuns != 0),
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
