package tally

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// TasksMax is the number of a workflow's tasks whose attempts are counted. They are the first tasks of
	// the workflow.
	TasksMax = 200
	// GraphMax is the largest number of tasks in a version whose attempts are counted. For a larger version,
	// only the runs are counted.
	GraphMax = 2000
)

// End is one end of a run.
type End struct {
	Seq        int64 // the transaction of the shard
	At         dag.Micros
	State      dag.RunState
	Generation int32
	Began      bool // Took is valid
	Took       dag.Micros
	First      bool // the run has never ended before; in this case Wait is valid if Began is set
	Wait       dag.Micros
	After      int32 // the generation of the previous end; 0 if there was none
}

// outcomeOf returns the index of a final state.
func outcomeOf(s dag.RunState) int {
	switch s {
	case dag.RunSucceeded:
		return Succeeded
	case dag.RunFailed:
		return Failed
	case dag.RunStopped:
		return Stopped
	}
	return Skipped
}

// OutcomeNames returns the names of the results, in their order.
func OutcomeNames() [outcomes]string {
	return [outcomes]string{dag.RunSucceeded.String(), dag.RunFailed.String(), dag.RunStopped.String(), dag.RunSkipped.String()}
}

// EndOf returns the end of a run in its first generation. The row of the run has this end.
func EndOf(e *store.Ended) End {
	end := End{Seq: e.Seq, At: e.Finished, State: e.State, Generation: 1, First: true}
	if e.Split > 0 {
		end.Began, end.Took, end.Wait = true, max(e.Finished-e.Split, 0), max(e.Split-e.Created, 0)
	}
	return end
}

// Ends returns all ends of a run from its history, the oldest first. In its first generation, a run has at
// most one end, which is in its row.
func Ends(row *dag.RunRow, events []dag.EventRow) (all []End, err error) {
	at := End{Generation: 1, First: true}
	started := dag.Micros(0)
	for i := range events {
		e := &events[i]
		records, err := dag.UnpackRecords(e.Records)
		if err != nil {
			return nil, fmt.Errorf("history of run %s: %w: %w", row.ID, store.ErrCorrupt, err)
		}
		for j := range records {
			switch r := &records[j]; r.Kind {
			case dag.RecSplit:
				if at.First {
					started = e.At
				}
			case dag.RecRecovered:
				if at.Generation++; !at.First {
					started = e.At
				}
			case dag.RecAdmitted:
				if !at.First {
					started = e.At
				}
			case dag.RecState:
				state, _ := dag.ParseRunState(r.Text)
				if r.Task != dag.LeaderTask || !state.Terminal() {
					continue
				}
				end := at
				end.Seq, end.At, end.State = e.Seq, e.At, state
				if started > 0 {
					end.Began, end.Took = true, max(e.At-started, 0)
				}
				if end.First && end.Began {
					end.Wait = max(started-row.Created, 0)
				}
				all = append(all, end)
				at.First, at.After, started = false, at.Generation, 0
			}
		}
	}
	if row.Generation == 1 && len(all) > 0 {
		end := EndOf(&store.Ended{Fence: store.Fence{Seq: all[len(all)-1].Seq}, State: row.State, Created: row.Created, Split: row.SplitAt, Finished: row.FinishedAt})
		return []End{end}, nil
	}
	return all, nil
}

// Counts are new counts by key.
type Counts map[store.TallyKey]*Cell

func (c Counts) cell(w dag.WorkflowID, span store.TallySpan, at int32, task string) *Cell {
	k := store.TallyKey{Workflow: w, Span: span, At: at, Task: task}
	if c[k] == nil {
		c[k] = &Cell{}
	}
	return c[k]
}

// Run adds an end of a run to the counts.
func (c Counts) Run(w dag.WorkflowID, e *End) {
	for _, cell := range [...]*Cell{c.cell(w, store.TallyDay, store.DayOf(e.At), ""), c.cell(w, store.TallyHour, store.HourOf(e.At), "")} {
		of := outcomeOf(e.State)
		cell.Ends[of]++
		cell.Last = max(cell.Last, e.At)
		if of < Skipped && e.Began {
			cell.Took[of].Add(e.Took)
		}
		if e.First && e.Began {
			cell.Wait.Add(e.Wait)
		}
	}
}

// Tasks adds the attempts that belong to an end to the counts.
func (c Counts) Tasks(w dag.WorkflowID, e *End, g *dag.Graph, attempts []dag.AttemptRow) {
	for i := range attempts {
		a := &attempts[i]
		t := a.Task
		if of, instance := g.InstanceOf(t); instance {
			t = of
		}
		if t < 0 || t >= TasksMax || int(t) >= g.Len() || a.Generation > e.Generation || a.Generation <= e.After || !a.State.Ended() || a.Started == 0 {
			continue
		}
		cell := c.cell(w, store.TallyDay, store.DayOf(e.At), g.Name(t))
		of := Failed
		switch a.State {
		case dag.AttemptSucceeded:
			of = Succeeded
		case dag.AttemptStopped:
			of = Stopped
		}
		cell.Ends[of]++
		cell.Last = max(cell.Last, a.Finished)
		cell.Took[of].Add(a.Finished - a.Started)
		cell.Wait.Add(a.Started - a.Assigned)
	}
}
