package inspect

import "skein.dev/skein/internal/dag"

// moments returns for each task of a run the time since which the task has its state. The time follows from
// the attempts of the task or, without attempts, from the tasks that it needs.
func moments(g *dag.Graph, row *dag.RunRow, attempts []dag.AttemptRow, states []dag.TaskView) []dag.Micros {
	at, own, spread := make([]dag.Micros, g.Len()), make([]bool, g.Len()), map[dag.TaskID]dag.Micros{}
	for i := range attempts {
		a := &attempts[i]
		if a.Task == dag.LeaderTask {
			continue
		}
		own[a.Task], at[a.Task] = true, max(at[a.Task], a.Assigned, a.Started, a.Finished)
		if g.Kind(a.Task) == dag.Foreach {
			spread[a.Task] = max(spread[a.Task], a.Started)
		}
	}
	for _, t := range g.Order() {
		if own[t] {
			continue
		}
		switch state := states[t].State; {
		case state == dag.Stopped:
			at[t] = row.FinishedAt
		case state == dag.UpstreamFailed:
			at[t] = firstFailure(g, t, at, states)
		case state != dag.Pending:
			for _, n := range g.Needs(t) {
				at[t] = max(at[t], at[n])
			}
		}
		at[t] = max(at[t], row.SplitAt)
	}
	for t := range at {
		if of, instance := g.InstanceOf(dag.TaskID(t)); instance && !own[t] {
			at[t] = max(spread[of], row.SplitAt)
		}
	}
	return at
}

// firstFailure returns the time at which the first failed need of a task failed.
func firstFailure(g *dag.Graph, t dag.TaskID, at []dag.Micros, states []dag.TaskView) (first dag.Micros) {
	for _, n := range g.Needs(t) {
		if s := states[n].State; s != dag.Failed && s != dag.UpstreamFailed && s != dag.Stopped {
			continue
		}
		if first == 0 || at[n] < first {
			first = at[n]
		}
	}
	return first
}
