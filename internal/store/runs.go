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
	Not       dag.WorkflowID // only runs of workflows other than this one
	Namespace string         // namespace of the workflow
	States    []string       // any of these run states; StateActive means all unfinished states
	User      string
	Tags      dag.Tags // runs that have all of these tags
	Origin    dag.Origin
	Cause     string
	Trigger   string    // the name of the trigger that started the run
	Backfill  int64     // the backfill of the run
	Parent    dag.RunID // the run whose task called the run
	Node      string    // the node that split the run
	// Text is a part of the run's id, key, user, cause or message, or of NAMESPACE/NAME. Upper and lower case
	// are equal.
	Text   string
	Since  dag.Micros // only runs that were created at or after this time
	Until  dag.Micros // created before it
	Before dag.RunID  // the cursor: only runs before this one
	Limit  int        // at most 1,000
	// Params says that the parameters are read, too. A page ends before its parameters exceed Bytes, but
	// contains at least one run. If Bytes is 0, there is no bound.
	Params bool
	Bytes  int
	// Count says that the selected runs are counted.
	Count bool
}

// StateActive selects all runs that are unfinished.
const StateActive = "active"

// RunPage is one page of runs. Next is the cursor of the next page, or zero on the last page. A page can be
// short and still have a next page, because a query reads a bounded number of rows. A query by States alone
// returns full pages if all its states are unfinished, or if all are in UnsuccessfulStates.
type RunPage struct {
	Runs  []dag.RunRow
	Next  dag.RunID
	Total Total
}

// Total is the number of runs that a query selects. If the number is not exact, the query selects at least N
// runs.
type Total struct {
	N     int64
	Exact bool
}

// CountMax bounds the number of runs that a query counts. An engine that knows the number without examining
// each run may return more.
const CountMax = 10_000

// ClockSlack bounds the difference between the clocks of nodes. A query that finds runs by the time in their
// ids extends its range by this time on both sides.
const ClockSlack = time.Hour

// UnsuccessfulStates returns the final states other than succeeded. Engines list these runs by state, because
// they are few.
func UnsuccessfulStates() []string {
	return []string{dag.RunFailed.String(), dag.RunStopped.String(), dag.RunSkipped.String()}
}

// Unsuccessful reports whether engines list runs by this state.
func Unsuccessful(s dag.RunState) bool {
	return s == dag.RunFailed || s == dag.RunStopped || s == dag.RunSkipped
}

// UnsuccessfulName does the same as Unsuccessful, for the name of a state. It returns false for an unknown
// name.
func UnsuccessfulName(name string) bool {
	s, ok := dag.ParseRunState(name)
	return ok && Unsuccessful(s)
}

// Expanded returns the names of the selected states, with StateActive replaced by all unfinished states. It
// returns none if the query selects all states. Unknown names are kept.
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

// Names holds the names of workflows and nodes to which runs refer by number.
type Names struct {
	Workflows map[dag.WorkflowID]string // NAMESPACE/NAME
	Nodes     map[dag.HandlerID]string
}

// Names reports which names the method Fits needs.
func (q *RunQuery) Names() (workflows, nodes bool) {
	return q.Namespace != "" || q.Text != "", q.Node != ""
}

// Looks reports whether the query has a condition for which engines have neither a list nor a column.
func (q *RunQuery) Looks() bool {
	workflows, nodes := q.Names()
	return workflows || nodes || q.Trigger != "" || q.Backfill != 0 || !q.Parent.IsZero()
}

// Fits reports whether the query selects a run, according to the run's row. states is the result of Expanded.
// Fits ignores the cursor.
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
	for tag := range q.Tags.Lines() {
		if !r.Tags().Has(tag) {
			return false
		}
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
