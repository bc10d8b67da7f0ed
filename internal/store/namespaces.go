package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
)

// Quotas bound what a namespace may use. 0 means no bound.
type Quotas struct {
	Runs        int64 // unfinished runs, including waiting ones
	RunsPerHour int64 // runs that begin within a full hour
	Tasks       int64 // tasks of one workflow
	ParamsBytes int64 // bytes of the parameters of one run
	LogsPerDay  int64 // bytes of the logs of attempts that end within a day (UTC)

	StoredBytes       int64 // bytes of workflow files, parameters, logs, artifacts and outputs, see NamespaceStock.Bytes
	Versions          int64 // kept versions of all workflows
	Triggers          int64 // triggers of all workflows
	Tokens            int64 // valid tokens and invitations that are limited to certain namespaces, among them this one
	RequestsPerMinute int64 // calls per minute of callers that have rights only in this namespace
}

// The names of quotas.
const (
	QuotaRuns        = "runs"
	QuotaRunsPerHour = "runs_per_hour"
	QuotaTasks       = "tasks"
	QuotaParamsBytes = "params_bytes"
	QuotaLogsPerDay  = "logs_per_day"
	QuotaStoredBytes = "stored_bytes"
	QuotaVersions    = "versions"
	QuotaTriggers    = "triggers"
	QuotaTokens      = "tokens"
	QuotaRequests    = "requests_per_minute"
)

// Each yields the quotas by name, in a fixed order.
func (q *Quotas) Each(yield func(name string, bound *int64) bool) {
	_ = yield(QuotaRuns, &q.Runs) && yield(QuotaRunsPerHour, &q.RunsPerHour) && yield(QuotaTasks, &q.Tasks) && yield(QuotaParamsBytes, &q.ParamsBytes) &&
		yield(QuotaLogsPerDay, &q.LogsPerDay) &&
		yield(QuotaStoredBytes, &q.StoredBytes) && yield(QuotaVersions, &q.Versions) && yield(QuotaTriggers, &q.Triggers) &&
		yield(QuotaTokens, &q.Tokens) && yield(QuotaRequests, &q.RequestsPerMinute)
}

// Counted reports whether runs of the namespace must be counted.
func (q *Quotas) Counted() bool { return q.Runs > 0 || q.RunsPerHour > 0 || q.LogsPerDay > 0 }

// Namespace holds the settings of a namespace. A namespace without a row has none.
type Namespace struct {
	Name     string
	Revision int64 // counted from 1
	Quotas
	Isolation string // least level of isolation of its tasks, see dag.Space; "" if there is none
	Demands
	By       string // the user of the last change
	Modified dag.Micros
}

// Demands are the rules of a namespace for its tasks besides the level of isolation. "" is no rule. No rule
// gives a task more than the settings of its worker do.
type Demands struct {
	AllowRead  string // the only paths outside of a fresh folder that tasks may name for reading, one per line
	AllowWrite string // the same for writing
	Egress     string // the policy for outgoing calls, see egress.ParsePolicy
	Locks      string // LocksShared or ""
	RunAs      string // the Unix user of its tasks; "" if each worker chooses a user for the namespace
}

// Reads returns the paths of AllowRead. nil stands for any path.
func (d *Demands) Reads() []string { return linesOf(d.AllowRead) }

// Writes returns the paths of AllowWrite. nil stands for any path.
func (d *Demands) Writes() []string { return linesOf(d.AllowWrite) }

func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// LocksShared as Demands.Locks says that all namespaces with this value share their locks by name. The locks
// of any other namespace belong to that namespace alone.
const LocksShared = "shared"

// NamespacesMax bounds the namespaces with settings, because they are read as one list.
const NamespacesMax = 10_000

// NamespaceUse is what the runs of one shard use of a namespace's quotas.
type NamespaceUse struct {
	Namespace string
	Shard     dag.ShardID
	Runs      int64 // unfinished runs
	// Started is the number of runs that have begun in the hour that began at Since.
	Started int64
	Since   dag.Micros
	// Logged is the number of bytes in the logs of attempts that ended in the day that began at Day. It is
	// counted only while the namespace has the quota logs_per_day.
	Logged int64
	Day    dag.Micros
}

// QuotaHour returns the beginning of the hour of an instant.
func QuotaHour(at dag.Micros) dag.Micros { return at - at%dag.Micros(time.Hour/time.Microsecond) }

// QuotaDay returns the beginning of the day of an instant, in UTC.
func QuotaDay(at dag.Micros) dag.Micros { return at - at%dayMicros }

const dayMicros = dag.Micros(24 * time.Hour / time.Microsecond)

// UseUpdate is the use of a namespace after a transaction. Check says that the transaction starts runs that
// may be refused. Such a transaction returns a QuotaError if the use by all shards exceeds a quota.
type UseUpdate struct {
	NamespaceUse
	Check bool
}

// NamespaceStock is what a namespace stores in the database.
type NamespaceStock struct {
	Namespace string
	Versions  int64
	Triggers  int64
	// Bytes are the bytes of the files of kept versions, of the parameters of kept runs if they have at least
	// StockParams, and of what ended runs keep (dag.RunRow.Kept). The parameters of runs in the state
	// submitted are not included yet.
	Bytes int64
}

// StockParams is the smallest size of parameters that counts as stored bytes. Counting smaller parameters
// would make starts slower for little information.
const StockParams = 1 << 10

// StockBytes returns the number of stored bytes that parameters count as: 0 if they are smaller than
// StockParams.
func StockBytes(params []byte) int64 {
	if len(params) < StockParams {
		return 0
	}
	return int64(len(params))
}

// StockMiscounted is the message of a check about a namespace: its counts of versions, triggers and bytes,
// each with the number in its rows.
const StockMiscounted = "namespace %s: %d versions are counted and %d are kept, %d triggers are counted and %d exist, %d bytes are counted and %d are stored; " +
	"skein db copy counts again"

// StockUpdate adds the parameters of runs that begin, or what ended runs keep, to the stock of a namespace.
// The store counts versions, triggers and deleted runs itself. It returns a QuotaError if the stock of all
// shards exceeds a quota of Check.
type StockUpdate struct {
	Namespace string
	Shard     dag.ShardID
	Bytes     int64
	Check     StockCheck
}

// StockCheck is the set of quotas that a transaction must not exceed.
type StockCheck uint8

// The quotas of a StockCheck.
const (
	CheckStoredBytes StockCheck = 1 << iota
	CheckVersions
	CheckTriggers
)

// WorkflowRuns is the number of unfinished runs of a workflow in a shard, after transaction Seq of the
// shard.
type WorkflowRuns struct {
	Workflow dag.WorkflowID // 0 means no workflow; each shard has such a row, which gives its Seq
	Shard    dag.ShardID
	Runs     int64
	Seq      int64
}

// Namespaces is the part of a store that keeps the settings of namespaces and their use of quotas. Batch.Uses
// changes the use, in the transaction of the runs.
type Namespaces interface {
	// PutNamespace adds or replaces the settings of a namespace; the store sets Modified. It returns ErrFenced
	// unless Revision follows the present one, and ErrRefused if there are NamespacesMax namespaces.
	PutNamespace(ctx context.Context, n Namespace) (Namespace, error)
	// NamespaceList lists all namespaces that have settings, ordered by name.
	NamespaceList(ctx context.Context) ([]Namespace, error)
	// LevelsStand reports whether all programs that use the database know Namespace.Isolation, and placements
	// that name a namespace.
	LevelsStand() bool
	// NamesStand reports whether all programs that use the database know Demands, and queues and resource
	// classes of namespaces.
	NamesStand() bool
	// RunAsStands reports whether all programs that use the database know Demands.RunAs.
	RunAsStands() bool
	// NamespaceUses lists the use of a namespace, or of all namespaces (""), ordered by namespace and shard.
	NamespaceUses(ctx context.Context, namespace string) ([]NamespaceUse, error)
	// NamespaceStocks lists the stock of a namespace, or of each namespace (""), ordered by name.
	NamespaceStocks(ctx context.Context, namespace string) ([]NamespaceStock, error)
	// UnfinishedOf counts the unfinished runs of shards by workflow, except runs in the state submitted. It
	// reads every such run, all at the same instant.
	UnfinishedOf(ctx context.Context, shards []dag.ShardID) ([]WorkflowRuns, error)
}

// QuotaError is the ErrRefused of a transaction or call that would exceed a quota.
type QuotaError struct {
	Namespace string
	Quota     string
	Bound     int64
	Used      int64      // the present use; for tasks, params_bytes and stored amounts, the use including the refused call
	Until     dag.Micros // the time from which the call can succeed; 0 if unknown
}

// quotaSentences describe the use of a quota, and its bound.
var quotaSentences = map[string]string{
	QuotaRuns:        "%d runs have not ended, and at most %d may be",
	QuotaRunsPerHour: "%d runs have begun in this hour, and at most %d may",
	QuotaTasks:       "the workflow has %d tasks, and at most %d are allowed",
	QuotaParamsBytes: "the parameters have %d bytes, and at most %d are allowed",
	QuotaLogsPerDay:  "attempts that ended today have logged %d bytes, and no run begins from %d bytes on",
	QuotaStoredBytes: "%d bytes of workflow files, parameters, logs, artifacts and outputs are stored, and at most %d may be",
	QuotaVersions:    "%d versions of workflows are kept, and at most %d may be",
	QuotaTriggers:    "the workflows have %d triggers, and at most %d are allowed",
	QuotaTokens:      "%d tokens are limited to it and valid, and at most %d may be",
	QuotaRequests:    "%d calls came within a minute, and at most %d may",
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("quota %s of namespace %s: "+quotaSentences[e.Quota], e.Quota, e.Namespace, e.Used, e.Bound)
}

// Unwrap returns ErrRefused, so that errors.Is finds it in a QuotaError.
func (e *QuotaError) Unwrap() error { return ErrRefused }

// Exceeded returns an error if the given numbers of runs exceed a quota of the namespace, and nil otherwise.
// The numbers include the run that would be refused.
func (q *Quotas) Exceeded(namespace string, runs, started int64, hour dag.Micros) *QuotaError {
	switch {
	case q.Runs > 0 && runs > q.Runs:
		return &QuotaError{Namespace: namespace, Quota: QuotaRuns, Bound: q.Runs, Used: max(runs-1, q.Runs)}
	case q.RunsPerHour > 0 && started > q.RunsPerHour:
		return &QuotaError{Namespace: namespace, Quota: QuotaRunsPerHour, Bound: q.RunsPerHour, Used: max(started-1, q.RunsPerHour), Until: hour + dag.Micros(time.Hour/time.Microsecond)}
	}
	return nil
}

// Overlogged returns an error if the logs of a day have used up the quota of their namespace, or nil. A run
// that has begun is never refused its log.
func (q *Quotas) Overlogged(namespace string, logged int64, day dag.Micros) *QuotaError {
	if q.LogsPerDay == 0 || logged < q.LogsPerDay {
		return nil
	}
	return &QuotaError{Namespace: namespace, Quota: QuotaLogsPerDay, Bound: q.LogsPerDay, Used: logged, Until: day + dayMicros}
}

// Logged adds up the bytes of the logs of a day, of all shards.
func Logged(uses []NamespaceUse, day dag.Micros) (n int64) {
	for i := range uses {
		if uses[i].Day == day {
			n += uses[i].Logged
		}
	}
	return n
}

// Sum adds up what all shards use of a namespace's quotas: unfinished runs, and runs that began in an hour.
func Sum(uses []NamespaceUse, hour dag.Micros) (runs, started int64) {
	for i := range uses {
		if runs += uses[i].Runs; uses[i].Since == hour {
			started += uses[i].Started
		}
	}
	return runs, started
}

// Stocked reports whether a stored amount of the namespace is bounded.
func (q *Quotas) Stocked() bool { return q.StoredBytes > 0 || q.Versions > 0 || q.Triggers > 0 }

// Overstocked returns the error of a namespace whose stock exceeds a quota of a check, or nil.
func (q *Quotas) Overstocked(is *NamespaceStock, check StockCheck) *QuotaError {
	for _, one := range [...]struct {
		quota       string
		check       StockCheck
		used, bound int64
	}{{QuotaStoredBytes, CheckStoredBytes, is.Bytes, q.StoredBytes}, {QuotaVersions, CheckVersions, is.Versions, q.Versions},
		{QuotaTriggers, CheckTriggers, is.Triggers, q.Triggers}} {
		if check&one.check != 0 && one.bound > 0 && one.used > one.bound {
			return &QuotaError{Namespace: is.Namespace, Quota: one.quota, Bound: one.bound, Used: one.used}
		}
	}
	return nil
}

// limitedTo reports whether a token counts against the quota of a namespace now.
func (t *Token) limitedTo(namespace string, now dag.Micros) bool {
	counts := t.Kind == TokenAPI || t.Kind == TokenInvite
	return counts && t.Replaced == 0 && t.Valid(now) && slices.Contains(strings.Fields(t.Namespaces), namespace)
}

// TokensOf counts the tokens that count against the quota of a namespace.
func TokensOf(all []Token, namespace string, now dag.Micros) (n int64) {
	for i := range all {
		if all[i].limitedTo(namespace, now) {
			n++
		}
	}
	return n
}

// TokenOver returns a QuotaError if a new token would exceed the quota of one of its namespaces. The
// parameter all holds the existing tokens.
func TokenOver(rows []Namespace, all []Token, t *Token, now dag.Micros) error {
	for i := range rows {
		n := &rows[i]
		if n.Tokens == 0 || !t.limitedTo(n.Name, now) {
			continue
		}
		if used := TokensOf(all, n.Name, now); used >= n.Tokens {
			return &QuotaError{Namespace: n.Name, Quota: QuotaTokens, Bound: n.Tokens, Used: used}
		}
	}
	return nil
}
