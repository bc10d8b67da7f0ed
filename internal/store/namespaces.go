package store

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
)

// Quotas bound what a namespace may use. 0 is no bound.
type Quotas struct {
	Runs        int64 // runs that have not ended, waiting ones too
	RunsPerHour int64 // runs that begin in an hour of the clock
	Tasks       int64 // tasks of a workflow
	ParamsBytes int64 // parameters of one run
}

// The names of quotas.
const (
	QuotaRuns        = "runs"
	QuotaRunsPerHour = "runs_per_hour"
	QuotaTasks       = "tasks"
	QuotaParamsBytes = "params_bytes"
)

// Each yields the quotas by name, in a fixed order.
func (q *Quotas) Each(yield func(name string, bound *int64) bool) {
	_ = yield(QuotaRuns, &q.Runs) && yield(QuotaRunsPerHour, &q.RunsPerHour) && yield(QuotaTasks, &q.Tasks) && yield(QuotaParamsBytes, &q.ParamsBytes)
}

// Counted reports whether runs of the namespace have to be counted.
func (q *Quotas) Counted() bool { return q.Runs > 0 || q.RunsPerHour > 0 }

// Namespace holds the settings of a namespace. A namespace without a row has no quotas.
type Namespace struct {
	Name     string
	Revision int64 // from 1
	Quotas
	By       string // the user of the last change
	Modified dag.Micros
}

// NamespacesMax bounds the namespaces with settings of a database: they are read as one list.
const NamespacesMax = 10_000

// NamespaceUse is what the runs of one shard use of the quotas of a namespace.
type NamespaceUse struct {
	Namespace string
	Shard     dag.ShardID
	Runs      int64 // runs that have not ended
	// Started is the number of runs that have begun in the hour that began at Since.
	Started int64
	Since   dag.Micros
}

// QuotaHour returns the beginning of the hour of an instant.
func QuotaHour(at dag.Micros) dag.Micros { return at - at%dag.Micros(time.Hour/time.Microsecond) }

// UseUpdate is the use of a namespace after a transaction. If Check is set, the transaction starts runs
// that may be refused: it returns a QuotaError if all shards together use more than a quota.
type UseUpdate struct {
	NamespaceUse
	Check bool
}

// WorkflowRuns is the number of unfinished runs of a workflow in a shard.
type WorkflowRuns struct {
	Workflow dag.WorkflowID
	Shard    dag.ShardID
	Runs     int64
}

// Namespaces is the part of a store that keeps the settings of namespaces, and what they use. Batch.Uses
// changes the use, in the transaction of the runs.
type Namespaces interface {
	// PutNamespace adds or replaces the settings of a namespace; the store sets Modified. It returns ErrFenced
	// unless Revision follows the present one, and ErrRefused if there are NamespacesMax namespaces.
	PutNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// NamespaceList lists all namespaces with settings by name.
	NamespaceList(ctx context.Context) ([]Namespace, error)
	// NamespaceUses lists the use of a namespace, or of all ("") by namespace and shard.
	NamespaceUses(ctx context.Context, namespace string) ([]NamespaceUse, error)
	// UnfinishedOf counts the unfinished runs of shards by workflow, those that are only submitted not counted.
	// It reads each of them.
	UnfinishedOf(ctx context.Context, shards []dag.ShardID) ([]WorkflowRuns, error)
}

// QuotaError is the ErrRefused of a transaction or call that would use more than a quota.
type QuotaError struct {
	Namespace string
	Quota     string
	Bound     int64
	Used      int64      // what is used already, or what the refused call asks for (tasks, params_bytes)
	Until     dag.Micros // when there will be room; 0: not known
}

func (e *QuotaError) Error() string {
	switch e.Quota {
	case QuotaRuns:
		return fmt.Sprintf("quota %s of namespace %s: %d runs have not ended, and at most %d may be", e.Quota, e.Namespace, e.Used, e.Bound)
	case QuotaRunsPerHour:
		return fmt.Sprintf("quota %s of namespace %s: %d runs have begun in this hour, and at most %d may", e.Quota, e.Namespace, e.Used, e.Bound)
	case QuotaTasks:
		return fmt.Sprintf("quota %s of namespace %s: the workflow has %d tasks, and at most %d are allowed", e.Quota, e.Namespace, e.Used, e.Bound)
	}
	return fmt.Sprintf("quota %s of namespace %s: the parameters have %d bytes, and at most %d are allowed", e.Quota, e.Namespace, e.Used, e.Bound)
}

// Unwrap makes it an ErrRefused.
func (e *QuotaError) Unwrap() error { return ErrRefused }

// Exceeded returns the error of a namespace whose use would be over a quota with one more run, or nil. The
// last of the given runs is the one that is refused.
func (q *Quotas) Exceeded(namespace string, runs, started int64, hour dag.Micros) *QuotaError {
	switch {
	case q.Runs > 0 && runs > q.Runs:
		return &QuotaError{Namespace: namespace, Quota: QuotaRuns, Bound: q.Runs, Used: max(runs-1, q.Runs)}
	case q.RunsPerHour > 0 && started > q.RunsPerHour:
		return &QuotaError{Namespace: namespace, Quota: QuotaRunsPerHour, Bound: q.RunsPerHour, Used: max(started-1, q.RunsPerHour), Until: hour + dag.Micros(time.Hour/time.Microsecond)}
	}
	return nil
}

// Sum adds up the use of the shards of a namespace: unfinished runs, and runs that began in an hour.
func Sum(uses []NamespaceUse, hour dag.Micros) (runs, started int64) {
	for i := range uses {
		if runs += uses[i].Runs; uses[i].Since == hour {
			started += uses[i].Started
		}
	}
	return runs, started
}
