package tally

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Check recounts the tally. The caller begins the check before it scans the rows, passes each run to Run, and
// then calls Differences.
type Check struct {
	st     store.Store
	marks  map[dag.ShardID][]store.TallyMark
	counts Counts
	shards map[dag.WorkflowID]dag.ShardID
	// unread holds the workflows with a run that could not be read. The key 0 stands for a run of an unknown
	// workflow.
	unread map[dag.WorkflowID]bool
	gone   map[dag.WorkflowID]uint64 // checksums of the counts of deleted runs before the scan
}

// NewCheck returns a check of the ends that are counted now.
func NewCheck(ctx context.Context, st store.Store) (*Check, error) {
	c := &Check{st: st, counts: Counts{}, shards: map[dag.WorkflowID]dag.ShardID{},
		unread: map[dag.WorkflowID]bool{}, gone: map[dag.WorkflowID]uint64{}}
	return c, c.read(ctx)
}

// note stores the checksums of the deleted runs of workflows.
func (c *Check) note(ctx context.Context, page []store.Workflow) error {
	for i := range page {
		gone, err := goneOf(ctx, c.st, page[i].ID)
		if err != nil {
			return err
		}
		c.gone[page[i].ID] = checksum(gone)
	}
	return nil
}

// goneOf reads the counts of deleted runs of a workflow.
func goneOf(ctx context.Context, st store.Store, w dag.WorkflowID) (map[store.TallyKey]int64, error) {
	gone := map[store.TallyKey]int64{}
	return gone, Rows(ctx, st, store.TallyQuery{Workflow: w, Span: store.TallyGone, To: 1<<31 - 1, Tasks: true}, func(r *store.TallyRow) error {
		gone[r.TallyKey] = r.N
		return nil
	})
}

// checksum returns equal numbers for equal counts.
func checksum(gone map[store.TallyKey]int64) (sum uint64) {
	for k, n := range gone {
		h := fnv.New64a()
		fmt.Fprint(h, k.At, k.Task, n)
		sum += h.Sum64()
	}
	return sum
}

func (c *Check) read(ctx context.Context) error {
	info, err := c.st.Info(ctx)
	if err != nil {
		return err
	}
	c.marks = map[dag.ShardID][]store.TallyMark{}
	for s := range dag.ShardID(info.Shards) {
		if c.marks[s], err = c.st.TallyMarks(ctx, s); err != nil {
			return err
		}
	}
	return EachWorkflow(ctx, c.st, func(page []store.Workflow) error { return c.note(ctx, page) })
}

// Run recounts a run. g is the graph of the run if the attempts of its tasks are counted, and otherwise nil.
func (c *Check) Run(rec *store.RunRecord, events []dag.EventRow, g *dag.Graph) {
	row := &rec.Run
	if rec.Bad != nil { // the store may know only the id of such a run
		c.unread[row.Workflow] = true
		return
	}
	c.shards[row.Workflow] = row.Shard
	mark, ok := store.Counted(c.marks[row.Shard], row.Workflow)
	ends, err := Ends(row, events)
	if err != nil {
		c.unread[row.Workflow] = true
	}
	if !ok || err != nil {
		return
	}
	for i := range ends {
		if e := &ends[i]; e.Seq <= mark.Seq {
			c.counts.Run(row.Workflow, e)
			if g != nil {
				c.counts.Tasks(row.Workflow, e, g, rec.Attempts)
			}
		}
	}
}

// Differences describes the differences between the new counts and the rows of the tally. It skips a workflow
// whose counts changed during the scan, or of which runs were deleted during the scan. It also skips a
// workflow with an unreadable run, because skein verify reports that run. If the workflow of such a run is
// unknown, it skips all workflows. Of deleted runs only day and state are known, so a workflow with deleted
// runs is compared only by the counts of days.
func (c *Check) Differences(ctx context.Context) (found []string, err error) {
	before := c.marks
	workflows := make([]dag.WorkflowID, 0, len(c.shards))
	for w := range c.shards {
		workflows = append(workflows, w)
	}
	slices.Sort(workflows)
	for _, w := range workflows {
		was, ok := store.Counted(before[c.shards[w]], w)
		if !ok || c.unread[w] || c.unread[0] {
			continue
		}
		rows, gone, err := c.rows(ctx, w)
		if err != nil {
			return found, err
		}
		now, err := c.st.TallyMarks(ctx, c.shards[w])
		if err != nil {
			return found, err
		}
		if is, _ := store.Counted(now, w); is.Seq != was.Seq || checksum(gone) != c.gone[w] {
			continue
		}
		found = append(found, c.compare(w, rows, gone)...)
	}
	return found, nil
}

// rows reads the tally of a workflow.
func (c *Check) rows(ctx context.Context, w dag.WorkflowID) (rows map[store.TallyKey]store.TallyRow, gone map[store.TallyKey]int64, err error) {
	rows = map[store.TallyKey]store.TallyRow{}
	if gone, err = goneOf(ctx, c.st, w); err != nil {
		return nil, nil, err
	}
	for _, span := range [...]store.TallySpan{store.TallyDay, store.TallyHour} {
		q := store.TallyQuery{Workflow: w, Span: span, To: 1<<31 - 1, Tasks: true}
		err := Rows(ctx, c.st, q, func(r *store.TallyRow) error {
			rows[r.TallyKey] = *r
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return rows, gone, nil
}

// sumRest moves the counts of a workflow's tasks without a row to the rest of their day, if the day has one.
func (c *Check) sumRest(w dag.WorkflowID, rows map[store.TallyKey]store.TallyRow) {
	for k, cell := range c.counts {
		_, there := rows[k]
		if k.Workflow != w || k.Span != store.TallyDay || k.Task == "" || there {
			continue
		}
		rest := k
		rest.Task = store.TallyRest
		if _, full := rows[rest]; !full {
			continue
		}
		c.counts.cell(w, k.Span, k.At, store.TallyRest).Merge(cell)
		delete(c.counts, k)
	}
}

func (c *Check) compare(w dag.WorkflowID, rows map[store.TallyKey]store.TallyRow, gone map[store.TallyKey]int64) (found []string) {
	c.sumRest(w, rows)
	first := map[store.TallySpan]int32{store.TallyDay: 1<<31 - 1, store.TallyHour: 1<<31 - 1}
	for k := range rows {
		first[k.Span] = min(first[k.Span], k.At)
	}
	say := func(k store.TallyKey, format string, args ...any) {
		unit := "day"
		if k.Span == store.TallyHour {
			unit = "hour"
		}
		found = append(found, fmt.Sprintf("workflow %d, %s %d, task %q: ", w, unit, k.At, k.Task)+fmt.Sprintf(format, args...))
	}
	for k, r := range rows {
		is, err := Unpack(&r)
		want := c.counts[k]
		if want == nil {
			want = &Cell{}
		}
		switch {
		case err != nil:
			say(k, "%v", err)
		case len(gone) == 0 && !bytes.Equal(r.Data, want.Pack()):
			say(k, "the tally counts %v, the runs are %v", is.Ends, want.Ends)
		case len(gone) > 0 && k.Span == store.TallyDay && k.Task == "":
			if text := withGone(k, &is, want, gone); text != "" {
				say(k, "%s", text)
			}
		}
	}
	for k, want := range c.counts {
		if _, there := rows[k]; k.Workflow == w && !there && k.At >= first[k.Span] {
			say(k, "the tally has no row, the runs are %v", want.Ends)
		}
	}
	slices.Sort(found)
	return found
}

// withGone compares the counts of a day of which some runs were deleted. Two kinds of ends are not known any
// more: earlier ends of deleted runs that ended more than once, and ends of runs that were deleted while the
// counts were made again.
func withGone(k store.TallyKey, is, want *Cell, gone map[store.TallyKey]int64) string {
	again := false
	for g := range gone {
		again = again || g.Task == store.TallyAgain || g.Task == store.TallyRemade
	}
	for i, name := range OutcomeNames() {
		k.Span, k.Task = store.TallyGone, name
		if n := want.Ends[i] + gone[k]; is.Ends[i] < n || is.Ends[i] > n && !again {
			return fmt.Sprintf("the tally counts %d %s, kept and deleted runs are %d", is.Ends[i], name, n)
		}
	}
	return ""
}
