package api

// WorkflowStats counts the ended runs of a workflow, or the attempts of its tasks in these runs, with their
// durations. A run counts each time it ends: a run that failed and was recovered counts once as failed, and
// once with its next result.
type WorkflowStats struct {
	Workflow string     `json:"workflow" doc:"NS/NAME"`
	By       string     `json:"by"`
	From     Time       `json:"from" format:"date-time"`
	To       Time       `json:"to" format:"date-time" doc:"The end of the last period."`
	Counted  bool       `json:"counted" doc:"Whether ended runs are counted: not as long as a node of an earlier version is in the cluster."`
	Damaged  int        `json:"damaged" doc:"Periods whose counts are damaged, and left out. skein verify names them."`
	Total    StatsRow   `json:"total" doc:"All runs of the time, or all attempts of the task that was asked for."`
	Items    []StatsRow `json:"items" nullable:"false" doc:"By day or hour, the oldest first, without periods in which nothing ended; by task, the greatest p95 first."`
}

// StatsRow holds the counts of one period or task. Durations are in seconds. Percentiles differ from the
// exact values by at most 1.6 %.
type StatsRow struct {
	At        *Time    `json:"at" format:"date-time" doc:"When the period begins; null by task."`
	Task      *string  `json:"task" doc:"null: runs."`
	N         int64    `json:"n" doc:"Ends."`
	Succeeded int64    `json:"succeeded"`
	Failed    int64    `json:"failed"`
	Stopped   int64    `json:"stopped"`
	Skipped   int64    `json:"skipped"`
	P50       *float64 `json:"p50" doc:"Of the durations from start to end; null: there is none."`
	P90       *float64 `json:"p90"`
	P95       *float64 `json:"p95"`
	P99       *float64 `json:"p99"`
	Mean      *float64 `json:"mean"`
	Max       *float64 `json:"max"`
	WaitP50   *float64 `json:"wait_p50" doc:"Of the waits from the creation of a run to its first start, or of an attempt from its assignment to its start."`
	WaitP95   *float64 `json:"wait_p95"`
	Trend     *float64 `json:"trend" doc:"By task: p95 of the second half of the time, divided by p95 of the first half; null: one of them has none."`
	Last      *Time    `json:"last" format:"date-time" doc:"The newest end."`
}

// RunCounts counts the ended runs of workflows.
type RunCounts struct {
	By      string     `json:"by"`
	From    Time       `json:"from" doc:"The beginning of the first period."`
	To      Time       `json:"to" doc:"The end of the last period."`
	Items   []RunCount `json:"items" doc:"By day and hour in their order; by workflow and state the largest first. Buckets without an end are left out."`
	Counted bool       `json:"counted" doc:"false: not every program of the cluster counts yet, so runs may be missing."`
	Damaged int        `json:"damaged" doc:"The number of stored rows that cannot be read, so their counts are missing; skein verify names them."`
	Next    string     `json:"next" doc:"Continue with this cursor for further workflows, and add the counts of the answers; empty: all were counted."`
}

// RunCount is a bucket of ended runs.
type RunCount struct {
	Key       string   `json:"key" doc:"The beginning of the day or hour, NAMESPACE/NAME, or the state."`
	N         int64    `json:"n" doc:"The number of ends. A run that was recovered and ended again counts twice."`
	Succeeded int64    `json:"succeeded"`
	Failed    int64    `json:"failed"`
	Stopped   int64    `json:"stopped"`
	Skipped   int64    `json:"skipped"`
	P50       *float64 `json:"p50" doc:"Of the durations from start to end, in seconds; null: there is none."`
	P95       *float64 `json:"p95"`
	Max       *float64 `json:"max"`
}
