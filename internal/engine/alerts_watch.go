package engine

import (
	"context"
	"errors"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Most workflows have no alert rules. The owner of a shard finds the workflows with rules by one query, and
// reads nothing about other workflows. After a transaction that the store refused, the owner undoes its
// changes in memory and reads no incident again.

// current has the rules of the current version of a workflow.
type current struct {
	version int32
	rules   []alert.Rule
}

// noted is a change of the cache by a transaction that has not committed yet.
type noted struct {
	of  ruleOf
	was *alert.Incident // nil if there was no incident
}

// notedMax bounds the changes that can be undone. If there are more, the incidents are read again.
const notedMax = 20_000

// current returns the rules of the current version of a workflow. It returns nil if the workflow has none or
// is deleted.
func (a *alerts) current(id dag.WorkflowID) (*current, error) {
	if a.watching == nil {
		if err := a.loadWatching(); err != nil {
			return nil, err
		}
	}
	if a.unlisted && id != clusterWide {
		return a.alone(id)
	}
	return a.watching[id], nil
}

// alone reads the rules of one workflow. It is used when the rows of all workflows with rules cannot be read.
func (a *alerts) alone(id dag.WorkflowID) (*current, error) {
	wf, err := a.defs.workflow(id)
	if err != nil || wf.State == store.WorkflowDeleted {
		return nil, err
	}
	rules, err := a.ofVersion(&wf)
	if err != nil || len(rules) == 0 {
		return nil, err
	}
	return &current{wf.Version, rules}, nil
}

// loadWatching reads the workflows of the owned shards that have rules. If a row is damaged, it reads the
// rules of each workflow separately.
func (a *alerts) loadWatching() error {
	rows, err := a.store.Watched(context.Background(), a.shards())
	if err = errkind.FromStore("read the alert rules", err); errors.Is(err, errkind.ErrUnavailable) {
		return err
	}
	if a.unlisted = err != nil; a.unlisted {
		a.log.Error("the alert rules of all workflows cannot be listed; the node reads each workflow by itself; skein verify names the damaged row", "code", "alerts_unlisted", "err", err)
	}
	a.watching = make(map[dag.WorkflowID]*current, len(rows))
	for i := range rows {
		w := &rows[i]
		k := versionOf{w.Workflow, w.Version}
		rules, err := a.read(w.Def)
		if err != nil {
			a.unread(k, err)
			continue
		}
		a.hold(k, rules)
	}
	return nil
}

// hold stores the rules of the current version of a workflow in the cache.
func (a *alerts) hold(k versionOf, rules []alert.Rule) {
	switch {
	case a.watching == nil:
	case len(rules) == 0:
		delete(a.watching, k.workflow)
	default:
		a.watching[k.workflow] = &current{k.version, rules}
	}
}

// changes stores the new rules of a workflow whose version or state is changed by the transaction being made.
func (a *alerts) changes(wf *store.Workflow, rules []alert.Rule) {
	a.changed = true
	if wf.State == store.WorkflowDeleted {
		rules = nil
	}
	a.hold(versionOf{wf.ID, wf.Version}, rules)
}

// remember stores the state of the cache before the transaction being made changes an incident.
func (a *alerts) remember(n *alert.Incident) {
	if len(a.undo) <= notedMax {
		a.undo = append(a.undo, noted{ruleOf{n.Workflow, n.Rule}, a.open[n.Workflow][n.Rule]})
	}
}

// settled is called when no transaction is in flight. At that time, all changes of the cache are committed.
func (a *alerts) settled() {
	a.landed()
	clear(a.undo)
	a.undo, a.changed = a.undo[:0], false
}

// departed is called when the store begins to write the transaction that was just made. Later changes belong
// to the next transaction.
func (a *alerts) departed() { a.flown, a.undo = a.undo, a.flown[:0] }

// landed is called when the transaction in flight has committed.
func (a *alerts) landed() {
	clear(a.flown)
	a.flown = a.flown[:0]
}

// back undoes the changes of the cache by transactions that the store has refused. It computes deadlines
// again, from memory.
func (a *alerts) back() {
	if !a.loaded || len(a.undo) > notedMax || len(a.flown) > notedMax {
		a.forget()
		return
	}
	all := append(a.flown, a.undo...)
	for i := len(all) - 1; i >= 0; i-- {
		of, was := all[i].of, all[i].was
		if was != nil {
			if a.open[of.workflow] == nil {
				a.open[of.workflow] = map[string]*alert.Incident{}
			}
			a.open[of.workflow][of.rule] = was
		} else if delete(a.open[of.workflow], of.rule); len(a.open[of.workflow]) == 0 {
			delete(a.open, of.workflow)
		}
	}
	if a.changed { // watching may hold the rules of versions that were not written
		a.watching = nil
	}
	a.settled()
	a.rules, a.expecting, a.overseen = nil, false, overseen{}
	a.times.forget()
}
