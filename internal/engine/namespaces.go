package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Namespaces shows and changes the settings of namespaces: their quotas, and the level of isolation that
// they demand.
type Namespaces struct{ e *Engine }

// NamespacesOf returns the Namespaces of an engine.
func NamespacesOf(e *Engine) Namespaces { return Namespaces{e} }

// List returns the namespaces that have settings, in the order of their names.
func (n Namespaces) List(ctx context.Context) ([]store.Namespace, error) {
	rows, err := n.e.store.NamespaceList(ctx)
	return rows, errkind.FromStore("read the namespaces", err)
}

// NamesStand reports whether all nodes know queues and resource classes of namespaces.
func (n Namespaces) NamesStand() bool { return n.e.store.NamesStand() }

// quotaTries bounds how often a change is tried again because another change came first.
const quotaTries = 10

// Set sets the quotas of a namespace, see Change.
func (n Namespaces) Set(ctx context.Context, namespace string, q store.Quotas, by string) (store.Namespace, error) {
	return n.Change(ctx, namespace, by, func(is *store.Namespace) { is.Quotas = q })
}

// Change changes the settings of a namespace. When it returns, this node enforces them. If they narrow what
// tasks may do, no node begins an attempt by the earlier ones either. Other nodes enforce quotas within
// seconds.
func (n Namespaces) Change(ctx context.Context, namespace, by string, change func(*store.Namespace)) (is store.Namespace, err error) {
	for range quotaTries {
		rows, err := n.List(ctx)
		if err != nil {
			return is, err
		}
		next := store.Namespace{Name: namespace}
		if i := slices.IndexFunc(rows, func(r store.Namespace) bool { return r.Name == namespace }); i >= 0 {
			next = rows[i]
		}
		was := next
		next.Revision, next.By = next.Revision+1, by
		change(&next)
		if err := n.mayDemand(ctx, &was, &next); err != nil {
			return is, err
		}
		is, err = n.e.store.PutNamespace(ctx, next)
		if errors.Is(err, store.ErrFenced) {
			continue
		}
		if err != nil {
			return is, errkind.FromStore("set the quotas", err)
		}
		narrower := narrows(&was, &is, rulesMax(n.e.cfg.QuotasEach))
		if narrower { // a job that is based on an earlier reading and was not sent yet is made again
			now := n.e.quotas.now()
			n.e.quotas.since.Store(&now)
		}
		if err := n.Changed(ctx); err != nil {
			return is, err
		}
		n.held(ctx)
		if !narrower {
			return is, nil
		}
		return is, n.narrowed(ctx, namespace)
	}
	return is, fmt.Errorf("%w: namespace %s: other callers change it at the same time; try again", errkind.ErrConflict, namespace)
}

// mayDemand returns an error if the settings of a namespace cannot change in this way now.
func (n Namespaces) mayDemand(ctx context.Context, was, next *store.Namespace) error {
	if next.Isolation != "" && !n.e.store.LevelsStand() || next.Demands != was.Demands && !n.e.store.NamesStand() {
		return fmt.Errorf("%w: a node of an earlier version is a member, and would run tasks of namespace %s without the isolation: upgrade all nodes first", errkind.ErrConflict, next.Name)
	}
	if next.RunAs != was.RunAs && !n.e.store.RunAsStands() {
		return fmt.Errorf("%w: a node of an earlier version is a member, and would run tasks of namespace %s as another user: upgrade all nodes first", errkind.ErrConflict, next.Name)
	}
	switch level := slices.Index(dag.IsolationLevels, next.Isolation); {
	case next.RunAs != "" && level < slices.Index(dag.IsolationLevels, "user"):
		return fmt.Errorf("%w: run_as needs the level user or box, because other tasks have the user of their worker: set isolation, too", errkind.ErrInvalid)
	case next.AllowRead+next.AllowWrite != "" && level < slices.Index(dag.IsolationLevels, "fence"):
		return fmt.Errorf("%w: allow_read and allow_write need the level fence or a higher one, because a task without isolation reaches all files: set isolation, too", errkind.ErrInvalid)
	}
	for _, path := range slices.Concat(next.Reads(), next.Writes()) {
		for _, folder := range next.Writes() {
			if strings.HasPrefix(path, folder+"/") {
				return fmt.Errorf("%w: %s is in %s: tasks may write there, so a task could replace it by a link to other files; allow only %s", errkind.ErrInvalid, path, folder, folder)
			}
		}
	}
	if next.Locks == was.Locks {
		return nil
	}
	runs, err := n.e.store.UnfinishedOf(ctx, n.e.shards)
	if err != nil {
		return errkind.FromStore("count the runs of namespaces", err)
	}
	for i := range runs {
		if runs[i].Workflow == 0 {
			continue
		}
		wf, err := n.e.store.WorkflowByID(ctx, runs[i].Workflow)
		if err != nil {
			return errkind.FromStore("read a workflow", err)
		}
		if wf.Namespace == next.Name {
			return fmt.Errorf("%w: workflow %s/%s has unfinished runs, and a lock that they hold would exclude no run that names it later: pause the workflows of the namespace, and wait until their runs have ended",
				errkind.ErrConflict, wf.Namespace, wf.Name)
		}
	}
	return nil
}

// Uses returns, by namespace, how many runs of all shards are unfinished, and how many began in this hour.
func (n Namespaces) Uses(ctx context.Context) (map[string]store.NamespaceUse, error) {
	uses, err := n.e.store.NamespaceUses(ctx, "")
	if err != nil {
		return nil, errkind.FromStore("read the use of quotas", err)
	}
	now, err := n.e.store.Clock(ctx)
	if err != nil {
		return nil, errkind.FromStore("read the clock", err)
	}
	hour, day, out := store.QuotaHour(now), store.QuotaDay(now), map[string]store.NamespaceUse{}
	for ns, all := range byNamespace(uses) {
		runs, started := store.Sum(all, hour)
		out[ns] = store.NamespaceUse{Namespace: ns, Runs: runs, Started: started, Since: hour, Logged: store.Logged(all, day), Day: day}
	}
	return out, nil
}

// Room returns the quota that prevents further runs of a namespace, or nil if there is none.
func (n Namespaces) Room(ctx context.Context, namespace string) (*store.QuotaError, error) {
	rows, err := n.List(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rows, func(r store.Namespace) bool { return r.Name == namespace })
	if i < 0 {
		return nil, nil
	}
	if over, err := overstocked(ctx, n.e, &rows[i]); over != nil || err != nil || !rows[i].Counted() {
		return over, err
	}
	all, err := n.Uses(ctx)
	use := all[namespace]
	if over := rows[i].Exceeded(namespace, use.Runs+1, use.Started+1, use.Since); over != nil || err != nil {
		return over, err
	}
	return rows[i].Overlogged(namespace, use.Logged, use.Day), nil
}

// Changed reads the quotas again after a change. When it returns, the node enforces them.
func (n Namespaces) Changed(ctx context.Context) error {
	changed, err := n.e.quotas.read(ctx, n.e.store)
	if changed || err == nil && n.e.quotas.awaited.Swap(false) {
		n.e.writer.inbox.poke()
	}
	return err
}
