package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Namer knows what definitions name of the things that all shards share: package trigger
// implements it. Its methods may be called from any goroutine.
type Namer interface {
	// Names reads what the runs of a version claim; nil: nothing, whatever starts them.
	Names(def []byte) (Names, error)
	// KeyOf compiles the per_key of a queue: a function of a run's parameters and instant.
	KeyOf(expr string) (func(params []byte, instant dag.Micros) (string, error), error)
}

// Names is what the runs of one version claim.
type Names interface {
	// Of gives what a run claims that a trigger has started; "": no trigger has. Expressions
	// see its parameters and its instant.
	Of(trigger string, params []byte, instant dag.Micros) (Named, error)
}

// Named is what one run names.
type Named struct {
	Queue string
	By    string // the definition that names the queue, in words: "the workflow" or "trigger nightly"
	Locks []string
	Fail  bool // lock_policy: fail
}

// denial ends a run that waits.
type denial struct {
	cause dag.Cause
	why   string
	skip  bool
}

// namesKey is a version, of which it is known what it names.
type namesKey struct {
	workflow dag.WorkflowID
	version  int32
}

// naming is what the writer knows of what is named.
type naming struct {
	names map[namesKey]Names
	keys  map[string]func([]byte, dag.Micros) (string, error) // by expression
	// queues are definitions, for a writer that has not the gate: exact to within a second.
	queues map[string]store.Queue
	read   time.Time
}

// namesMax bounds each of its maps. A dropped entry is read again when needed.
const namesMax = 10_000

// names gives what the runs of a version claim.
func (w *writer) names(r *dag.Run) (Names, error) {
	if w.e.cfg.Namer == nil {
		return nil, nil
	}
	k := namesKey{r.Workflow, r.Version}
	if n, known := w.naming.names[k]; known {
		return n, nil
	}
	v, err := w.version(r.Workflow, r.Version)
	if err != nil {
		return nil, err
	}
	n, err := w.e.cfg.Namer.Names(v.Def)
	if err != nil {
		return nil, fmt.Errorf("%w: what version %d names: %w", ErrInvalid, r.Version, err)
	}
	if w.naming.names == nil || len(w.naming.names) >= namesMax {
		w.naming.names = map[namesKey]Names{}
	}
	w.naming.names[k] = n
	return n, nil
}

// queueNamed reads a queue's definition; the one who has the gate knows it.
func (w *writer) queueNamed(name string) (store.Queue, error) {
	if w.held(store.GateShard) != nil {
		if q := w.commons.queues[name]; q != nil {
			return q.Queue, nil
		}
	}
	if w.e.host.Now().Sub(w.naming.read) > heardFor || len(w.naming.queues) >= namesMax {
		w.naming.queues, w.naming.read = map[string]store.Queue{}, w.e.host.Now()
	}
	if q, known := w.naming.queues[name]; known && w.held(store.GateShard) == nil {
		return q, nil
	}
	q, err := w.e.store.Queue(context.Background(), name)
	if err == nil {
		w.naming.queues[name] = q
	}
	return q, err
}

// keyOf works out the key of a run in a queue.
func (w *writer) keyOf(q *store.Queue, params []byte, at dag.Micros) (string, error) {
	if q.PerKey == "" {
		return "", nil
	}
	f := w.naming.keys[q.PerKey]
	if f == nil {
		var err error
		if f, err = w.e.cfg.Namer.KeyOf(q.PerKey); err != nil {
			return "", err
		}
		if w.naming.keys == nil || len(w.naming.keys) >= namesMax {
			w.naming.keys = map[string]func([]byte, dag.Micros) (string, error){}
		}
		w.naming.keys[q.PerKey] = f
	}
	var key string
	var err error
	w.timed(func() { key, err = f(params, at) })
	if err == nil && len(key) > dag.ClaimNameMax {
		err = fmt.Errorf("a key of %d bytes, at most %d", len(key), dag.ClaimNameMax)
	}
	return key, err
}

// claimOf makes the claim of a run that asks for the first time. It has none if it names
// nothing; a denial says what is wrong with what it names.
func (w *writer) claimOf(r *dag.Run) (*dag.Claim, *denial, error) {
	names, err := w.names(r)
	if err != nil || names == nil {
		return nil, nil, err
	}
	trigger := ""
	if r.Fire != nil {
		trigger = r.Fire.Trigger
	}
	params, err := w.completed(r)
	if errors.Is(err, ErrInvalid) {
		return nil, nil, nil // the split of the run reports the error
	}
	if err != nil {
		return nil, nil, err
	}
	var n Named
	w.timed(func() { n, err = names.Of(trigger, params, r.Instant()) })
	if err != nil {
		return nil, &denial{cause: dag.CauseLock, why: clean("its locks: " + err.Error())}, nil
	}
	var locks []string
	if len(n.Locks) > 0 {
		locks = slices.Compact(slices.Sorted(slices.Values(n.Locks)))
	}
	if n.Queue == "" && len(locks) == 0 {
		return nil, nil, nil
	}
	if why := wrongLocks(locks); why != "" {
		return nil, &denial{cause: dag.CauseLock, why: why}, nil
	}
	c := &dag.Claim{Queue: n.Queue, Locks: locks, Fail: n.Fail}
	if p := r.Parent(); p != nil {
		c.Family = p.Line[0].Run
	}
	if n.Queue == "" {
		return c, nil, nil
	}
	q, err := w.queueNamed(n.Queue)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, &denial{cause: dag.CauseQueue, why: noQueue(n.Queue, n.By)}, nil
	case err != nil:
		return nil, nil, fromStore("read queue "+n.Queue, err)
	}
	if c.Key, err = w.keyOf(&q, params, r.Instant()); err != nil {
		return nil, &denial{cause: dag.CauseQueue, why: clean(fmt.Sprintf("the per_key %s of queue %s: %v", q.PerKey, q.Name, err))}, nil
	}
	c.Level = r.Priority // also if the queue is first in, first out: that may change while it waits
	return c, nil, nil
}

func noQueue(name, by string) string {
	if by == "" {
		by = "the run"
	}
	return fmt.Sprintf("there is no queue %s, which %s names: make it with skein queue set %s --limit N, or correct the name", name, by, name)
}

func wrongLocks(locks []string) string {
	if len(locks) > dag.ClaimLocksMax {
		return fmt.Sprintf("it names %d locks, at most %d can be held", len(locks), dag.ClaimLocksMax)
	}
	for _, l := range locks {
		if l == "" || len(l) > dag.ClaimNameMax || clean(l) != l {
			return fmt.Sprintf("%.60q is not the name of a lock: 1 to %d bytes of text", l, dag.ClaimNameMax)
		}
	}
	return ""
}

// mustKeep reports whether the run must stay in memory while it waits in a line: another limit
// counts it, or a timer waits for it.
func (w *writer) mustKeep(r *dag.Run) (bool, error) {
	if r.AwaitsStart() || r.Workflow == w.system { // another sweep becomes this one: see coalesced
		return true, nil
	}
	if limit, err := w.limit(workflowGate(r)); limit > 0 || err != nil {
		return true, err
	}
	k, triggered := triggerGate(r)
	if !triggered {
		return r.Fire != nil && r.Fire.Backfill != 0, nil
	}
	limit, err := w.limit(k)
	return limit > 0, err
}
