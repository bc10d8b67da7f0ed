package memory

import (
	"context"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Runs selects runs for people, newest first.
func (s *Store) Runs(ctx context.Context, q store.RunQuery) (store.RunPage, error) {
	var p store.RunPage
	states := q.Expanded()
	err := s.read(ctx, Read, func() error {
		names := s.namesLocked()
		p = s.pageLocked(&q, states, &names)
		if q.Count {
			all := q
			all.Before, all.Limit, all.Params = dag.RunID{}, store.CountMax, false
			n, rest := s.selectRunsLocked(&all, states, &names, func(*dag.RunRow) bool { return true })
			p.Total = store.Total{N: int64(n), Exact: rest.IsZero()}
		}
		return nil
	})
	return p, err
}

func (s *Store) pageLocked(q *store.RunQuery, states []string, names *store.Names) (p store.RunPage) {
	of, bytes := *q, 0
	of.Limit = min(pageSize(q.Limit), pageMax)
	_, p.Next = s.selectRunsLocked(&of, states, names, func(row *dag.RunRow) bool {
		r := *row
		if !q.Params {
			r.Params = nil
		}
		bytes += len(r.Params)
		if q.Bytes > 0 && bytes > q.Bytes && len(p.Runs) > 0 {
			return false
		}
		p.Runs = append(p.Runs, cloneRun(r))
		return true
	})
	return p
}

// selectRunsLocked calls the function see for the runs that a query selects, up to the query's limit, until
// see returns false. It returns the number of these runs, and the position at which the next page begins. The
// position is zero if there is no next page.
func (s *Store) selectRunsLocked(q *store.RunQuery, states []string, names *store.Names, see func(*dag.RunRow) bool) (n int, rest dag.RunID) {
	index := s.indexLocked(q)
	at := len(index)
	if !q.Before.IsZero() {
		at, _ = index.find(q.Before)
	}
	for looked := 0; at > 0 && looked < lookMax && n < q.Limit; {
		row := &s.runs[index[at-1]].row
		if len(states) == 0 || slices.Contains(states, row.State.String()) { // only rows in these states cost an engine a read
			looked++
		}
		if q.Fits(row, states, names) {
			if !see(row) {
				break
			}
			n++
		}
		at--
	}
	if at > 0 { // at least one row has been read
		rest = index[at]
	}
	return n, rest
}

func (s *Store) namesLocked() store.Names {
	n := store.Names{Workflows: map[dag.WorkflowID]string{}, Nodes: map[dag.HandlerID]string{}}
	for id, w := range s.workflows {
		n.Workflows[id] = w.Namespace + "/" + w.Name
	}
	for _, h := range s.handlers {
		n.Nodes[h.ID] = h.Node
	}
	return n
}

func (s *Store) indexLocked(q *store.RunQuery) ids {
	var index *ids
	switch {
	case q.Workflow != 0:
		index = s.byWorkflow[q.Workflow]
	case q.User != "":
		index = s.byUser[q.User]
	default:
		index = &s.all
	}
	if index == nil {
		return nil
	}
	return *index
}
