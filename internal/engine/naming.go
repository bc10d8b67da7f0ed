package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Namer finds the queues and locks that definitions name: package trigger implements it. Its methods may be
// called from any goroutine.
type Namer interface {
	// Names reads which claims the runs of a version have. It returns nil if they have none, whichever
	// trigger starts them.
	Names(def []byte) (Names, error)
	// CheckKey returns an error if the per_key of a queue does not compile, or certainly costs too much.
	CheckKey(expr string) error
	// KeyOf compiles the per_key of a queue into a function of a run's parameters and instant.
	KeyOf(expr string) (func(params []byte, instant dag.Micros) (string, error), error)
}

// Names holds the claims of the runs of one version.
type Names interface {
	// Of returns the claims of a run. trigger is the trigger that has started the run, or "". The expressions
	// in claims read the run's parameters and instant.
	Of(trigger string, params []byte, instant dag.Micros) (Named, error)
}

// Named holds the names that the claim of one run contains.
type Named struct {
	Queue string
	By    string // how messages name the definition that contains the queue's name: "the workflow" or "trigger nightly"
	Locks []string
	// Global are further locks, which several namespaces share. A namespace that shares the names of all its
	// locks has the prefix GlobalPrefix before these names.
	Global []string
	Fail   bool // lock_policy: fail
}

// namesKey identifies a version whose names are known.
type namesKey struct {
	workflow dag.WorkflowID
	version  int32
}

// naming keeps for the writer the names of queues and locks in definitions, and the definitions of queues.
type naming struct {
	names map[namesKey]Names
	keys  map[string]func([]byte, dag.Micros) (string, error) // expression → the function that computes its key
	// queues holds definitions of queues for a writer that is not the admission owner. An entry may be up to
	// a second old. A nil entry means that there was no such queue.
	queues map[string]*store.Queue
	read   time.Time
}

// namesMax bounds each map of names. A dropped entry is read again when it is needed.
const namesMax = 10_000

// names returns the names that the claims of a version's runs contain.
func (l *limits) names(r *dag.Run) (Names, error) {
	if l.namer == nil {
		return nil, nil
	}
	k := namesKey{r.Workflow, r.Version}
	if n, known := l.naming.names[k]; known {
		return n, nil
	}
	v, err := l.defs.version(r.Workflow, r.Version)
	if err != nil {
		return nil, err
	}
	n, err := l.namer.Names(v.Def)
	if err != nil {
		return nil, fmt.Errorf("%w: the names in version %d: %w", errkind.ErrInvalid, r.Version, err)
	}
	if l.naming.names == nil || len(l.naming.names) >= namesMax {
		l.naming.names = map[namesKey]Names{}
	}
	l.naming.names[k] = n
	return n, nil
}

// queueNamed returns the queue that the workflow of a run names: one of the run's namespace, or else the
// shared one of that name.
func (l *limits) queueNamed(r *dag.Run, name string) (store.Queue, error) {
	wf, err := l.defs.workflow(r.Workflow)
	if err != nil && !errors.Is(err, errkind.ErrNotFound) {
		return store.Queue{}, err
	}
	for _, stored := range [...]string{dag.OwnName(wf.Namespace, name), name} {
		if q, err := queueStored(l, stored); q != nil || err != nil {
			return *cmp.Or(q, &store.Queue{}), err
		}
	}
	return store.Queue{}, fmt.Errorf("queue %s: %w", name, store.ErrNotFound)
}

// queueStored returns the definition of a queue, or nil. The admission owner has it in memory; other owners
// read it.
func queueStored(l *limits, name string) (*store.Queue, error) {
	if l.held(store.GateShard) != nil {
		if q := l.admission.Queue(name); q != nil || l.admission.Loaded {
			return q, nil
		}
	}
	if l.clock().Sub(l.naming.read) > heardFor || len(l.naming.queues) >= namesMax {
		l.naming.queues, l.naming.read = map[string]*store.Queue{}, l.clock()
	}
	if q, known := l.naming.queues[name]; known && l.held(store.GateShard) == nil {
		return q, nil
	}
	q, err := l.store.Queue(context.Background(), name)
	switch {
	case err == nil:
		l.naming.queues[name] = &q
	case errors.Is(err, store.ErrNotFound):
		l.naming.queues[name], err = nil, nil
		return nil, err
	}
	return &q, err
}

// keyOf computes the key of a run in a queue.
func (l *limits) keyOf(q *store.Queue, params []byte, at dag.Micros) (string, error) {
	if q.PerKey == "" {
		return "", nil
	}
	var key string
	var err error
	l.expr.timed(func() {
		var f func([]byte, dag.Micros) (string, error)
		if f, err = l.naming.keyOf(l.namer, q.PerKey); err == nil {
			key, err = f(params, at)
		}
	})
	if err == nil && len(key) > dag.ClaimNameMax {
		err = fmt.Errorf("the key has %d bytes; it may have at most %d", len(key), dag.ClaimNameMax)
	}
	return key, err
}

// keyOf returns a compiled per_key.
func (n *naming) keyOf(by Namer, expr string) (func([]byte, dag.Micros) (string, error), error) {
	if f := n.keys[expr]; f != nil {
		return f, nil
	}
	f, err := by.KeyOf(expr)
	if err != nil {
		return nil, err
	}
	if n.keys == nil || len(n.keys) >= namesMax {
		n.keys = map[string]func([]byte, dag.Micros) (string, error){}
	}
	n.keys[expr] = f
	return f, nil
}

// claimOf makes the claim of a run that asks for the first time. It returns nil if the run names no queue and
// no lock. If a name is invalid, it returns a denial that says why.
func (l *limits) claimOf(r *dag.Run) (*dag.Claim, *admission.Denial, error) {
	names, err := l.names(r)
	if err != nil || names == nil {
		return nil, nil, err
	}
	trigger := ""
	if r.Fire != nil {
		trigger = r.Fire.Trigger
	}
	params, err := l.completed(r)
	if errors.Is(err, errkind.ErrInvalid) {
		return nil, nil, nil // the split of the run will report the error
	}
	if err != nil {
		return nil, nil, err
	}
	var n Named
	l.expr.timed(func() { n, err = names.Of(trigger, params, r.Instant()) })
	if err != nil {
		return nil, &admission.Denial{Cause: dag.CauseLock, Why: clean("its locks: " + err.Error())}, nil
	}
	if n.Queue == "" && len(n.Locks)+len(n.Global) == 0 {
		return nil, nil, nil
	}
	if why := wrongLocks(slices.Concat(n.Locks, n.Global)); why != "" {
		return nil, &admission.Denial{Cause: dag.CauseLock, Why: why}, nil
	}
	locks, err := storedLocks(l, r, &n)
	if err != nil {
		return nil, nil, err
	}
	c := &dag.Claim{Queue: n.Queue, Locks: locks, Fail: n.Fail}
	if p := r.Parent(); p != nil {
		c.Family = p.Line[0].Run
	}
	if n.Queue == "" {
		return c, nil, nil
	}
	q, err := l.queueNamed(r, n.Queue)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, &admission.Denial{Cause: dag.CauseQueue, Why: admission.NoQueue(n.Queue, n.By)}, nil
	case err != nil:
		return nil, nil, errkind.FromStore("read queue "+n.Queue, err)
	}
	if c.Key, err = l.keyOf(&q, params, r.Instant()); err != nil {
		return nil, &admission.Denial{Cause: dag.CauseQueue, Why: clean(fmt.Sprintf("the per_key %s of queue %s: %v", q.PerKey, q.Name, err))}, nil
	}
	c.Queue = q.Name
	// set also if the queue is first in, first out, because an operator may change the order while the run
	// waits
	c.Level = r.Priority
	return c, nil, nil
}

// GlobalPrefix begins the names of locks that several namespaces share, in definitions.
const GlobalPrefix = "global/"

// storedLocks returns the stored names of the locks that a run names.
func storedLocks(l *limits, r *dag.Run, n *Named) ([]string, error) {
	if len(n.Locks)+len(n.Global) == 0 {
		return nil, nil
	}
	own, err := ownsLocks(l, r)
	if err != nil {
		return nil, err
	}
	all := make([]string, 0, len(n.Locks)+len(n.Global))
	for _, name := range n.Locks {
		if own != "" {
			name = dag.OwnLock(own, name)
		}
		all = append(all, name)
	}
	for _, name := range n.Global {
		if own == "" {
			name = GlobalPrefix + name
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// ownsLocks returns the namespace of a run if the locks of its runs belong to the namespace, and "" if they
// are shared by name. While nodes of earlier versions are members, all locks are shared, because these nodes
// know only shared locks.
func ownsLocks(l *limits, r *dag.Run) (namespace string, err error) {
	known := l.quotas.known
	if !known.on || !l.store.NamesStand() {
		return "", nil
	}
	if known.is.Load() == nil {
		if _, err := known.read(context.Background(), l.store); err != nil {
			return "", err
		}
	}
	wf, err := l.defs.workflow(r.Workflow)
	switch {
	case errors.Is(err, errkind.ErrNotFound), err == nil && known.is.Load().shared[wf.Namespace]:
		return "", nil
	case err != nil:
		return "", err
	}
	return wf.Namespace, nil
}

func wrongLocks(locks []string) string {
	if len(locks) > dag.ClaimLocksMax {
		return fmt.Sprintf("it names %d locks, at most %d can be held", len(locks), dag.ClaimLocksMax)
	}
	for _, l := range locks {
		if !dag.IsLock(l) || clean(l) != l {
			return fmt.Sprintf("%.60q is not the name of a lock: 1 to %d bytes of text", l, dag.ClaimNameMax)
		}
	}
	return ""
}

// mustKeep reports whether the run must stay in memory while it waits in a line, because another limit counts
// it, or because a timer or an alert rule watches it.
func (l *limits) mustKeep(r *dag.Run) (bool, error) {
	// coalesced finds a waiting sweep in memory, and lets further requests share it
	if r.AwaitsStart() || l.defs.system == r.Workflow {
		return true, nil
	}
	if timed, err := l.defs.alerts.timedFor(r); timed || err != nil {
		return true, err
	}
	if limit, err := l.limit(workflowGate(r)); limit > 0 || err != nil {
		return true, err
	}
	k, triggered := triggerGate(r)
	if !triggered {
		return r.Fire != nil && r.Fire.Backfill != 0, nil
	}
	limit, err := l.limit(k)
	return limit > 0, err
}
