package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// The rules of a namespace bound what its tasks may do: the level of isolation, and store.Demands. Each node
// reads them every Config.QuotasEach, and begins no attempt by a reading older than rulesMax. So after a
// change of rules has waited for rulesMax, no node begins an attempt by the earlier rules, even if it was
// cut off from the database, or from the node that made the change. No node has to answer, and no task costs
// a read.

// rulesSlack is added to the wait of a change. It allows for clocks of machines that differ in speed, and for
// the time between the last check of an attempt and its start.
const rulesSlack = 250 * time.Millisecond

// rulesMax returns the age of the oldest reading of rules by which an attempt begins. The parameter each is
// the time between two readings.
func rulesMax(each time.Duration) time.Duration { return each + each/2 }

// A Reading is a reading of the rules of namespaces. The zero Reading is never old.
type Reading struct {
	At  time.Time     // the time at which the reading began
	Max time.Duration // the age from which on the reading is old
	// since is the time of the last change by this process that narrowed rules. A reading that began before
	// that time is old.
	since *atomic.Pointer[time.Time]
}

// Old reports whether the reading is so old that no attempt may begin by it any more.
func (r Reading) Old(now time.Time) bool {
	if r.since != nil {
		if at := r.since.Load(); at != nil && r.At.Before(*at) {
			return true
		}
	}
	// Compare the wall clock, too: while a machine sleeps, its monotonic clock may stand still.
	return r.Max > 0 && max(now.Sub(r.At), now.Round(0).Sub(r.At.Round(0))) > r.Max
}

// Demands returns the settings of a namespace, and the reading from which they come. An attempt may begin by
// these settings until the reading is old. If the last reading is old, Demands reads again. An error is one
// of the store.
func (n Namespaces) Demands(ctx context.Context, namespace string) (is store.Namespace, from Reading, err error) {
	b := &n.e.quotas
	if !b.on {
		return store.Namespace{Name: namespace}, from, nil
	}
	set, err := b.recent(ctx, n.e.store)
	if err != nil {
		return is, from, err
	}
	return set.row(namespace), b.reading(set), nil
}

// row returns the settings of a namespace.
func (q *quotaSet) row(namespace string) store.Namespace {
	i, there := slices.BinarySearchFunc(q.rows, namespace, func(r store.Namespace, name string) int { return strings.Compare(r.Name, name) })
	if !there {
		return store.Namespace{Name: namespace}
	}
	return q.rows[i]
}

// Egress returns the policy for the calls of a namespace, as this process has last read it. It only reads
// memory, so it may return an earlier policy than Demands while the store does not answer.
func (n Namespaces) Egress(namespace string) string {
	if set := n.e.quotas.is.Load(); set != nil {
		is := set.row(namespace)
		return is.Egress
	}
	return ""
}

// Of returns the namespace of a workflow.
func (n Namespaces) Of(ctx context.Context, id dag.WorkflowID) (string, error) {
	w, err := n.e.store.WorkflowByID(ctx, id)
	return w.Namespace, err
}

// MayRead returns an error if a namespace allows only certain paths, and the path is none of them.
func (n Namespaces) MayRead(ctx context.Context, namespace, path string) error {
	is, _, err := n.Demands(ctx, namespace)
	if err != nil || is.AllowRead+is.AllowWrite == "" {
		return err
	}
	if path = filepath.Clean(path); slices.Contains(is.Reads(), path) || slices.Contains(is.Writes(), path) {
		return nil
	}
	return fmt.Errorf("namespace %[1]s does not allow tasks to read %[2]s; to allow it: skein namespace set %[1]s --allow-read %[2]s, and repeat --allow-read for each path that it allows already, because the list is replaced", namespace, path)
}

func (b *quotaBook) reading(set *quotaSet) Reading {
	return Reading{At: set.at, Max: b.oldest, since: &b.since}
}

// recent returns the last reading. If there is none, or the last one is old, it reads again.
func (b *quotaBook) recent(ctx context.Context, st store.Store) (*quotaSet, error) {
	usable := func() *quotaSet {
		if set := b.is.Load(); set != nil && !b.reading(set).Old(b.now()) {
			return set
		}
		return nil
	}
	if set := usable(); set != nil {
		return set, nil
	}
	b.rereads.Lock()
	defer b.rereads.Unlock()
	if set := usable(); set != nil {
		return set, nil
	}
	if _, err := b.read(ctx, st); err != nil {
		return nil, err
	}
	if set := usable(); set != nil {
		return set, nil
	}
	return nil, fmt.Errorf("%w: the database took too long to show the rules of namespaces", errkind.ErrUnavailable)
}

// narrows reports whether a change must wait until other nodes know it. This is the case if the change
// forbids something that tasks could do before. It is also the case if the previous change was less than the
// time span ago: other nodes may not know that one yet, and this call may repeat it after a lost answer.
func narrows(was, is *store.Namespace, span time.Duration) bool {
	switch {
	case dag.Stricter(was.Isolation, is.Isolation) != was.Isolation,
		is.AllowRead+is.AllowWrite != "" && (is.AllowRead != was.AllowRead || is.AllowWrite != was.AllowWrite),
		is.Egress != "" && is.Egress != was.Egress, is.RunAs != was.RunAs:
		return true
	case is.Isolation+is.AllowRead+is.AllowWrite+is.Egress == "":
		return false
	}
	return is.Modified-was.Modified < dag.Micros((span+rulesSlack)/time.Microsecond)
}

// narrowed waits until no node begins an attempt by readings that began before this call.
func (n Namespaces) narrowed(ctx context.Context, namespace string) error {
	e := n.e
	if !e.quotas.on || e.cluster == nil {
		return nil
	}
	if e.host.Await(ctx, nil, rulesMax(e.cfg.QuotasEach)+rulesSlack); ctx.Err() != nil {
		return fmt.Errorf("%w: the rules of namespace %s are set, but for up to %v other nodes may start tasks by the earlier rules: set them again to be sure",
			errkind.ErrUnavailable, namespace, rulesMax(e.cfg.QuotasEach)+rulesSlack)
	}
	return nil
}
