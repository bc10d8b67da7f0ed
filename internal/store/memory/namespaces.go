package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Namespaces = (*Store)(nil)

// namespaces implements store.Namespaces for the store that embeds it. Its rows are never changed in place.
type namespaces struct {
	s    *Store
	rows []store.Namespace    // sorted by name
	uses []store.NamespaceUse // sorted by namespace and shard
	kept map[string]int64     // the sum of RunRow.Kept, by namespace, as owners have counted it
}

// PutNamespace implements store.Namespaces.
func (e *namespaces) PutNamespace(ctx context.Context, n store.Namespace) (store.Namespace, error) {
	err := e.s.write(ctx, Op{Kind: ClassesBefore}, ClassesAfter, e.s.noted(ctx, func() error {
		if err := checkTexts("namespace", n.Name, n.By); err != nil {
			return err
		}
		i, there := slices.BinarySearchFunc(e.rows, n.Name, func(o store.Namespace, name string) int { return cmp.Compare(o.Name, name) })
		was := int64(0)
		if there {
			was = e.rows[i].Revision
		}
		switch {
		case n.Revision != was+1:
			return fmt.Errorf("namespace %s is at revision %d: %w", n.Name, was, store.ErrFenced)
		case !there && len(e.rows) >= store.NamespacesMax:
			return fmt.Errorf("there are already %d namespaces, the limit: %w", store.NamespacesMax, store.ErrRefused)
		}
		n.Modified = e.s.clock()
		rows := slices.Clone(e.rows)
		if !there {
			rows = slices.Insert(rows, i, n)
		}
		rows[i] = n
		e.rows = rows
		return nil
	}))
	return n, err
}

// NamespaceList implements store.Namespaces.
func (e *namespaces) NamespaceList(ctx context.Context) (all []store.Namespace, err error) {
	return all, e.s.read(ctx, Read, func() error {
		all = slices.Clone(e.rows)
		return nil
	})
}

// LevelsStand implements store.Namespaces.
func (e *namespaces) LevelsStand() bool { return true }

// NamesStand implements store.Namespaces.
func (e *namespaces) NamesStand() bool { return true }

// RunAsStands implements store.Namespaces.
func (e *namespaces) RunAsStands() bool { return true }

// NamespaceUses implements store.Namespaces.
func (e *namespaces) NamespaceUses(ctx context.Context, namespace string) (all []store.NamespaceUse, err error) {
	return all, e.s.read(ctx, Read, func() error {
		all = e.of(namespace)
		return nil
	})
}

func (e *namespaces) of(namespace string) (all []store.NamespaceUse) {
	for _, u := range e.uses {
		if namespace == "" || u.Namespace == namespace {
			all = append(all, u)
		}
	}
	return all
}

// UnfinishedOf implements store.Namespaces.
func (e *namespaces) UnfinishedOf(ctx context.Context, shards []dag.ShardID) (all []store.WorkflowRuns, err error) {
	return all, e.s.read(ctx, Read, func() error {
		type key struct {
			shard    dag.ShardID
			workflow dag.WorkflowID
		}
		n := map[key]int64{}
		for _, shard := range shards {
			n[key{shard, 0}] = 0
			for _, id := range e.s.active[shard] {
				if r := &e.s.runs[id].row; r.State != dag.RunSubmitted {
					n[key{shard, r.Workflow}]++
				}
			}
		}
		for k, runs := range n {
			all = append(all, store.WorkflowRuns{Workflow: k.workflow, Shard: k.shard, Runs: runs, Seq: e.s.shards[k.shard].seq})
		}
		slices.SortFunc(all, func(a, b store.WorkflowRuns) int {
			return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Workflow, b.Workflow))
		})
		return nil
	})
}

// NamespaceStocks implements store.Namespaces.
func (e *namespaces) NamespaceStocks(ctx context.Context, namespace string) (all []store.NamespaceStock, err error) {
	return all, e.s.read(ctx, Read, func() error {
		all = e.stocks(namespace)
		return nil
	})
}

// stocks counts what namespaces store.
func (e *namespaces) stocks(namespace string) (all []store.NamespaceStock) {
	is := map[string]store.NamespaceStock{}
	count := func(id dag.WorkflowID, versions, triggers, size int64) {
		wf, there := e.s.workflows[id]
		if there && (namespace == "" || wf.Namespace == namespace) {
			was := is[wf.Namespace]
			is[wf.Namespace] = store.NamespaceStock{Namespace: wf.Namespace, Versions: was.Versions + versions, Triggers: was.Triggers + triggers, Bytes: was.Bytes + size}
		}
	}
	for id, versions := range e.s.versions {
		for i := range versions {
			v := &versions[i]
			size := len(v.Source) + len(v.Def) + len(v.Graph)
			for k := range v.Files {
				size += len(v.Files[k].Data)
			}
			count(id, 1, 0, int64(size))
		}
	}
	for k := range e.s.triggers {
		count(k.Workflow, 0, 1, 0)
	}
	for _, r := range e.s.runs {
		if n := store.StockBytes(r.row.Params); n > 0 && r.row.State != dag.RunSubmitted {
			count(r.row.Workflow, 0, 0, n)
		}
	}
	for name, n := range e.kept {
		if namespace == "" || name == namespace {
			was := is[name]
			was.Namespace, was.Bytes = name, was.Bytes+n
			is[name] = was
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		all = append(all, is[name])
	}
	return all
}

// keep adds the bytes that ended runs keep to the stock of their namespace.
func (x *tx) keep(u *store.StockUpdate) error {
	if err := x.fenced(u.Shard, "the stock of namespace "+u.Namespace); err != nil {
		return err
	}
	e := &x.s.namespaces
	old := e.kept
	e.addKept(u.Namespace, u.Bytes)
	x.onUndo(func() { e.kept = old })
	return nil
}

// addKept adds n to the kept bytes of a namespace. It replaces the map, so that a snapshot keeps the earlier
// one.
func (e *namespaces) addKept(namespace string, n int64) {
	next := maps.Clone(e.kept)
	if next == nil {
		next = map[string]int64{}
	}
	next[namespace] += n
	e.kept = next
}

// stock compares what a namespace stores with its quotas.
func (x *tx) stock(u *store.StockUpdate) error {
	if err := x.fenced(u.Shard, "the stock of namespace "+u.Namespace); err != nil || u.Check == 0 {
		return err
	}
	e := &x.s.namespaces
	for k := range e.rows {
		for _, is := range e.stocks(e.rows[k].Name) {
			if over := e.rows[k].Overstocked(&is, u.Check); is.Namespace == u.Namespace && over != nil {
				return over
			}
		}
	}
	return nil
}

// use writes the use of a namespace, and compares it with its quotas.
func (x *tx) use(u *store.UseUpdate) error {
	if err := x.fenced(u.Shard, "the use of namespace "+u.Namespace); err != nil {
		return err
	}
	e := &x.s.namespaces
	old := e.uses
	i, there := slices.BinarySearchFunc(old, u.NamespaceUse, func(a, b store.NamespaceUse) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Shard, b.Shard))
	})
	e.uses = slices.Clone(old)
	if !there {
		e.uses = slices.Insert(e.uses, i, u.NamespaceUse)
	}
	e.uses[i] = u.NamespaceUse
	x.onUndo(func() { e.uses = old })
	if !u.Check {
		return nil
	}
	for k := range e.rows {
		if n := &e.rows[k]; n.Name == u.Namespace {
			runs, started := store.Sum(e.of(n.Name), u.Since)
			if over := n.Exceeded(n.Name, runs, started, u.Since); over != nil {
				return over
			}
		}
	}
	return nil
}
