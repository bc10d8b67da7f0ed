package store

import (
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
)

// RunQuery selects runs for people, newest first. Zero fields select everything.
type RunQuery struct {
	Workflow  dag.WorkflowID
	Not       dag.WorkflowID // only runs of other workflows
	Namespace string         // of the workflow
	States    []string       // any of these run states; StateActive stands for all that are unfinished
	User      string
	Origin    dag.Origin
	Cause     string
	Trigger   string    // the name of the trigger that started it
	Backfill  int64     // the backfill that it is part of
	Parent    dag.RunID // the run whose task called it
	Node      string    // the node that made its tasks
	// Text is part of the run's id, key, user, cause or message, or of NAMESPACE/NAME. Case does not matter.
	Text   string
	Since  dag.Micros // created at or after it
	Until  dag.Micros // created before it
	Before dag.RunID  // the cursor: only older ones
	Limit  int        // at most 1,000
	// Params brings the parameters. A page ends before theirs exceed Bytes, but not before its first run. Bytes
	// 0: no bound.
	Params bool
	Bytes  int
	// Count has the page say how many runs are selected in all.
	Count bool
}

// StateActive selects all runs that are unfinished.
const StateActive = "active"

// RunPage is one page. Next is where the following page begins; zero if this is the last.
// A page can be short and still have a next one: a query looks at a bounded number of rows.
// It is not short because of states if all of them are unfinished, or all of them are UnsuccessfulStates.
type RunPage struct {
	Runs  []dag.RunRow
	Next  dag.RunID
	Total Total
}

// Total is how many runs a query selects. If it is not exact, there are at least so many.
type Total struct {
	N     int64
	Exact bool
}

// CountMax is how many runs a query counts at most, unless the engine knows their number without looking at
// each.
const CountMax = 10_000

// ClockSlack is how far the clocks of nodes may differ. Where runs are found by the time of their ids, this
// much more is looked at on both sides.
const ClockSlack = time.Hour

// UnsuccessfulStates are the states in which runs end otherwise than well. Engines list these runs by state:
// they are few.
func UnsuccessfulStates() []string {
	return []string{dag.RunFailed.String(), dag.RunStopped.String(), dag.RunSkipped.String()}
}

// Unsuccessful reports whether engines list runs by this state.
func Unsuccessful(s dag.RunState) bool {
	return s == dag.RunFailed || s == dag.RunStopped || s == dag.RunSkipped
}

// UnsuccessfulName is Unsuccessful of the name of a state. An unknown name is of no such state.
func UnsuccessfulName(name string) bool {
	s, ok := dag.ParseRunState(name)
	return ok && Unsuccessful(s)
}

// Expanded gives the states that are selected, each by its own name; none: any. Unknown ones stay as they
// are.
func (q *RunQuery) Expanded() []string {
	var all []string
	for _, name := range q.States {
		if name != StateActive {
			all = append(all, name)
			continue
		}
		for s := dag.RunSubmitted; s <= dag.RunSkipped; s++ {
			if !s.Terminal() {
				all = append(all, s.String())
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Names are names of what runs only refer to.
type Names struct {
	Workflows map[dag.WorkflowID]string // NAMESPACE/NAME
	Nodes     map[dag.HandlerID]string
}

// Names reports which names Fits needs of runs.
func (q *RunQuery) Names() (workflows, nodes bool) {
	return q.Namespace != "" || q.Text != "", q.Node != ""
}

// Looks reports whether the query selects by what engines have no list of and no column for.
func (q *RunQuery) Looks() bool {
	workflows, nodes := q.Names()
	return workflows || nodes || q.Trigger != "" || q.Backfill != 0 || !q.Parent.IsZero()
}

// Fits reports whether the query selects a run, by its row. states are those of Expanded. The cursor does not
// count.
func (q *RunQuery) Fits(r *dag.RunRow, states []string, names *Names) bool {
	switch {
	case q.Workflow != 0 && r.Workflow != q.Workflow,
		q.Not != 0 && r.Workflow == q.Not,
		q.User != "" && r.User != q.User,
		q.Origin != "" && r.Origin != q.Origin,
		q.Cause != "" && string(r.Cause) != q.Cause,
		r.Created < q.Since,
		q.Until != 0 && r.Created >= q.Until,
		len(states) > 0 && !slices.Contains(states, r.State.String()):
		return false
	}
	return q.fitsFire(r) && q.fitsNames(r, names)
}

func (q *RunQuery) fitsFire(r *dag.RunRow) bool {
	if q.Trigger == "" && q.Backfill == 0 && q.Parent.IsZero() {
		return true
	}
	f := r.Fire
	if f == nil || q.Trigger != "" && f.Trigger != q.Trigger || q.Backfill != 0 && f.Backfill != q.Backfill {
		return false
	}
	return q.Parent.IsZero() || f.Parent != nil && f.Parent.Up().Run == q.Parent
}

func (q *RunQuery) fitsNames(r *dag.RunRow, names *Names) bool {
	if q.Namespace != "" && !strings.HasPrefix(names.Workflows[r.Workflow], q.Namespace+"/") {
		return false
	}
	if q.Node != "" && names.Nodes[r.Leader] != q.Node {
		return false
	}
	if q.Text == "" {
		return true
	}
	part := strings.ToLower(q.Text)
	for _, text := range []string{r.ID.String(), names.Workflows[r.Workflow], r.Key, r.User, string(r.Cause), r.Message} {
		if strings.Contains(strings.ToLower(text), part) {
			return true
		}
	}
	return false
}
