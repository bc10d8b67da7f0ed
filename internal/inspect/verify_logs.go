package inspect

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
)

// logCheck compares the counted logs of namespaces with an upper bound. The rows of a run have only the sum
// of its logs, artifacts and outputs. A log counts only while its namespace has the quota logs_per_day. So
// the exact number cannot be computed from the rows.
type logCheck struct {
	uses []logUse
	at   map[dag.WorkflowID]int // the index of the use to which the runs of a workflow belong
	// unread says that a run could not be read, so the bytes that it keeps are not known.
	unread bool
}

type logUse struct {
	store.NamespaceUse
	most int64 // the bytes that runs keep which had not ended before the day of the count
}

// newLogCheck reads the counts. The caller then passes each run to run, and calls differences.
func newLogCheck(ctx context.Context, st store.Store) (*logCheck, error) {
	c := &logCheck{at: map[dag.WorkflowID]int{}}
	uses, err := st.NamespaceUses(ctx, "")
	if err != nil {
		return nil, err
	}
	for i := range uses {
		if uses[i].Logged > 0 {
			c.uses = append(c.uses, logUse{NamespaceUse: uses[i]})
		}
	}
	if len(c.uses) == 0 {
		return c, nil
	}
	return c, tally.EachWorkflow(ctx, st, func(page []store.Workflow) error {
		for i := range page {
			for k := range c.uses {
				if u := &c.uses[k]; page[i].Namespace == u.Namespace && page[i].Shard == u.Shard {
					c.at[page[i].ID] = k
				}
			}
		}
		return nil
	})
}

// run adds the bytes that a run keeps.
func (c *logCheck) run(rec *store.RunRecord) {
	c.unread = c.unread || rec.Bad != nil
	k, counted := c.at[rec.Run.Workflow]
	if counted && (rec.Run.FinishedAt == 0 || rec.Run.FinishedAt >= c.uses[k].Day) {
		c.uses[k].most += rec.Run.Weight
	}
}

// differences describes the counts above their bound. It skips a count if runs that ended in its day or later
// were deleted.
func (c *logCheck) differences(ctx context.Context, st store.Store) (found []string, err error) {
	for k := range c.uses {
		u, gone := &c.uses[k], false
		if c.unread || u.Logged <= u.most {
			continue
		}
		for w, of := range c.at {
			if of != k {
				continue
			}
			err := tally.Rows(ctx, st, store.TallyQuery{Workflow: w, Span: store.TallyGone, From: store.DayOf(u.Day), To: 1<<31 - 1, Tasks: true},
				func(*store.TallyRow) error { gone = true; return nil })
			if err != nil {
				return found, err
			}
		}
		if !gone {
			found = append(found, fmt.Sprintf("namespace %s, shard %d: %d bytes of logs are counted for %s, and its runs keep at most %d bytes of that day. "+
				"If they ended before an upgrade on that day, this is no fault: an earlier version may have counted the logs, but not what its runs keep",
				u.Namespace, u.Shard, u.Logged, u.Day.Time().UTC().Format(time.DateOnly), u.most))
		}
	}
	return found, nil
}
