package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Namespaces shows and changes the settings of namespaces: their quotas, and the level of isolation that
// they demand.
type Namespaces struct{ e *Engine }

// NamespacesOf returns the Namespaces of an engine.
func NamespacesOf(e *Engine) Namespaces { return Namespaces{e} }

// List lists the namespaces that have settings by name.
func (n Namespaces) List(ctx context.Context) ([]store.Namespace, error) {
	rows, err := n.e.store.NamespaceList(ctx)
	return rows, errkind.FromStore("read the namespaces", err)
}

// quotaTries bounds how often a change is tried again because another change came first.
const quotaTries = 10

// Set sets the quotas of a namespace, see Change.
func (n Namespaces) Set(ctx context.Context, namespace string, q store.Quotas, by string) (store.Namespace, error) {
	return n.Change(ctx, namespace, by, func(is *store.Namespace) { is.Quotas = q })
}

// Change changes the settings of a namespace. When it returns, this node enforces them. Other nodes enforce
// them within seconds.
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
		next.Revision, next.By = next.Revision+1, by
		if change(&next); next.Isolation != "" && !n.e.store.LevelsStand() {
			return is, fmt.Errorf("%w: a node of an earlier version is a member, and would run tasks of namespace %s without the isolation: upgrade all nodes first", errkind.ErrConflict, namespace)
		}
		is, err = n.e.store.PutNamespace(ctx, next)
		if errors.Is(err, store.ErrFenced) {
			continue
		}
		if err != nil {
			return is, errkind.FromStore("set the quotas", err)
		}
		if err := n.Changed(ctx); err != nil {
			return is, err
		}
		n.held(ctx)
		return is, nil
	}
	return is, fmt.Errorf("%w: namespace %s: other callers change it at the same time; try again", errkind.ErrConflict, namespace)
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
