package metric

// Type says how Prometheus treats a family.
type Type string

// The types.
const (
	Counter  Type = "counter"
	Gauge    Type = "gauge"
	Duration Type = "histogram" // a histogram of durations
)

// On selects the processes that show a family.
type On uint8

// The processes.
const (
	Nodes   On = iota // every node
	Cluster           // nodes of a cluster on PostgreSQL
	Workers           // `skein worker --health-listen`
	Both              // every node, and every worker with --health-listen
	Files             // nodes on SQLite
	Some              // a node shows the family only if it has such objects
)

// Family is one line of the catalogue.
type Family struct {
	Section string
	Name    string // without Prefix
	Type    Type
	Unit    string
	Labels  []string
	On      On
	Help    string
}

// The sections of the catalogue.
const (
	secRuns     = "Runs and attempts"
	secWaiting  = "Waiting"
	secTime     = "Schedules"
	secWorkers  = "Workers and slots"
	secStore    = "Database"
	secCluster  = "Nodes and shards"
	secRecovery = "Recovery"
	secUpkeep   = "Logs, retention, backups"
	secHTTP     = "HTTP"
	secWorker   = "Workers' own page"
)

const (
	unitRuns     = "runs"
	unitAttempts = "attempts"
	unitTasks    = "tasks"
	unitSeconds  = "seconds"
	unitBytes    = "bytes"
	unitSlots    = "slots"
	unitBool     = "0 or 1"
)

var catalogue = []Family{
	{secRuns, "runs_accepted_total", Counter, unitRuns, nil, Nodes, "Runs that were written durably."},
	{secRuns, "runs_ended_total", Counter, unitRuns, []string{"workflow", "state", "cause"}, Nodes,
		"Runs that ended, by their state and cause. A run that is recovered ends again."},
	{secRuns, "run_seconds", Duration, unitSeconds, []string{"workflow"}, Nodes, "Time from the start of a run to its end."},
	{secRuns, "runs_active", Gauge, unitRuns, nil, Nodes, "Unfinished runs in memory."},
	{secRuns, "oldest_running_seconds", Gauge, unitSeconds, nil, Nodes,
		"Age of the oldest run that has started and not ended, of this node's shards. 0: there is none."},
	{secRuns, "runs_revived_total", Counter, unitRuns, nil, Nodes, "Runs that continued after their end. Each ends again."},
	{secRuns, "runs_quarantined_total", Counter, unitRuns, nil, Nodes, "Runs set aside because their rows cannot be used."},
	{secRuns, "attempts_started_total", Counter, unitAttempts, nil, Nodes, "Attempts that were assigned to a slot."},
	{secRuns, "attempts_ended_total", Counter, unitAttempts, []string{"kind", "state", "cause"}, Nodes,
		"Attempts that ended, by the kind of task, their state and cause. The kind of processes and HTTP calls is work."},
	{secRuns, "attempts_lost_total", Counter, unitAttempts, nil, Nodes, "Attempts whose worker is gone."},
	{secRuns, "reports_rejected_total", Counter, "reports", nil, Nodes, "Reports of attempts that their sender does not hold any more."},
	{secRuns, "tasks_poisoned_total", Counter, unitTasks, nil, Nodes, "Tasks that failed because their workers were lost too often."},
	{secRuns, "conditions_evaluated_beside_total", Counter, "conditions", nil, Nodes,
		"Conditions that were evaluated outside of a transaction because they cost too much."},

	{secWaiting, "task_wait_seconds", Duration, unitSeconds, []string{"why"}, Nodes,
		"Time from ready to assigned. slot: any worker fits; place: only some workers fit; queue: the task, or its run, waits " +
			"for a queue slot; lock: its run waits for locks. A waiting run counts once, when it gets what it waits for."},
	{secWaiting, "tasks_ready", Gauge, unitTasks, []string{"group", "kind"}, Nodes,
		"Ready tasks that wait for a slot, by the group and the kind of worker that they ask for. Add the nodes: each counts its " +
			"own shards."},
	{secWaiting, "queue_waiting", Gauge, unitRuns, []string{"queue"}, Nodes,
		"Runs that wait for a named queue, or whose tasks do. Shown by the node that grants queue slots (the owner of shard 0)."},
	{secWaiting, "queue_oldest_seconds", Gauge, unitSeconds, []string{"queue"}, Nodes,
		"Time for which the first in the queue has waited. Shown by the node that grants queue slots."},
	{secWaiting, "approvals_waiting", Gauge, unitTasks, nil, Nodes, "Tasks that wait for an approval, of this node's shards."},
	{secWaiting, "approval_oldest_seconds", Gauge, unitSeconds, nil, Nodes,
		"Time for which the oldest run with such tasks has waited for an approval."},
	{secWaiting, "runs_ready", Gauge, unitRuns, nil, Nodes, "Runs with tasks that wait for a slot."},
	{secWaiting, "inbox_items", Gauge, "items", nil, Nodes, "Items that wait for the writer, as of the last transaction."},

	{secTime, "fires_total", Counter, "instants", []string{"outcome"}, Nodes,
		"Decided instants and events of triggers, by outcome. A run that was started and then did not begin in time counts as " +
			"fired and as missed."},
	{secTime, "sources", Gauge, "sources", []string{"state"}, Nodes,
		"Sources of events that this node runs: away, those that do not reach the other system, and running."},
	{secTime, "source_lag", Gauge, "events", []string{"kind"}, Some,
		"Events that a source has read and its trigger has not taken: the largest number of a source of this kind."},
	{secTime, "git_commits_total", Counter, "commits", []string{"outcome"}, Nodes,
		"Commits of git sources that this node applied, and git sources of this node that began to fail."},
	{secTime, "git_failing", Gauge, "sources", nil, Nodes,
		"Git sources of this node whose newest commit is not in force, or whose repository cannot be read."},
	{secTime, "fire_lag_seconds", Duration, unitSeconds, nil, Nodes,
		"Time from the instant of a schedule to the transaction that started its run."},
	{secTime, "schedule_next_overdue_seconds", Gauge, unitSeconds, nil, Nodes,
		"Time since the earliest instant of a schedule that is due and not decided. 0: none is due."},

	{secWorkers, "slots", Gauge, unitSlots, nil, Both, "Slots of this process."},
	{secWorkers, "slots_busy", Gauge, unitSlots, nil, Both, "Slots of this process that are taken."},
	{secWorkers, "worker_slots", Gauge, unitSlots, []string{"group", "kind", "state"}, Nodes,
		"Slots of all workers and nodes, free or busy, by their groups and kinds. Every node of a cluster shows all of them: take " +
			"the maximum, not the sum."},
	{secWorkers, "places_unserved", Gauge, "placements", nil, Nodes,
		"Placements (node, group, labels, kind) that ready tasks of this node's shards ask for and that no worker has."},
	{secWorkers, "worker_registrations_total", Counter, "registrations", nil, Nodes, "Workers that were attached to this node."},
	{secWorkers, "worker_attempts_lost_total", Counter, unitAttempts, nil, Nodes,
		"Attempts that a worker lost without a report."},
	{secWorkers, "worker_calls_rejected_total", Counter, "calls", []string{"reason"}, Nodes,
		"Calls and messages of workers that were rejected."},

	{secStore, "commits_total", Counter, "transactions", nil, Nodes, "Committed transactions."},
	{secStore, "commits_ahead_total", Counter, "transactions", nil, Nodes,
		"Transactions that were prepared while the transaction before them was being written."},
	{secStore, "rows_written_total", Counter, "rows", nil, Nodes, "Rows that were written by committed transactions."},
	{secStore, "commit_seconds_total", Counter, unitSeconds, nil, Nodes, "Time spent in committed transactions."},
	{secStore, "store_seconds", Duration, unitSeconds, []string{"op"}, Nodes,
		"Time of calls of the database: commit, acquire (of shards), load (of unfinished runs), read (of runs and attempts), clock."},
	{secStore, "store_up", Gauge, unitBool, nil, Nodes, "1 if the database answered within a second, at most five seconds ago."},
	{secStore, "store_pool_waiting", Gauge, "calls", nil, Cluster, "Calls that wait for a connection to the database now."},
	{secStore, "store_reconnects_total", Counter, "connections", nil, Cluster,
		"Connections to the database that failed and are replaced by new ones."},
	{secStore, "store_bytes", Gauge, unitBytes, []string{"table"}, Nodes,
		"Size of the database: of each table with its indexes on PostgreSQL, of the whole file on SQLite. At most a minute old."},
	{secStore, "store_regressed_total", Counter, "regresses", nil, Nodes,
		"Times that the database went back to an earlier state: a failover that lost commits, or a restore."},
	{secStore, "disk_full", Gauge, unitBool, nil, Both, "1 if the node takes no task because the disk of its data folder is full."},

	{secCluster, "build_info", Gauge, "always 1", []string{"version", "go"}, Both, "The version of the program and of Go."},
	{secCluster, "accepting", Gauge, unitBool, nil, Nodes, "1 if the node takes submissions."},
	{secCluster, "members", Gauge, "members", []string{"role", "state"}, Nodes,
		"Nodes and workers that the cluster lists. Every node shows all of them."},
	{secCluster, "shards_unowned", Gauge, "shards", nil, Nodes, "Shards that no listed node owns. Every node shows them."},
	{secCluster, "node_load", Gauge, "part", []string{"node"}, Cluster,
		"Load of each node: the part of its capacity that its shards take, from its last heartbeat. Every node shows all of them."},
	{secCluster, "shard_load", Gauge, "seconds per second", []string{"shard"}, Cluster,
		"Load of the 10 costliest shards: the time of the writer per second, from the last heartbeats."},
	{secCluster, "shards_shifted_total", Counter, "moves", nil, Cluster, "Shards that this node moved to another node because of their load."},
	{secCluster, "deposed_total", Counter, "members", nil, Nodes, "Silent nodes and workers that this node declared dead."},
	{secCluster, "peers", Gauge, "nodes", []string{"state"}, Nodes,
		"Other nodes, as this one sees them over the node channel: reached, unready (it answers and is not ready), unreachable (two calls " +
			"in a row failed, and the database lists it), unknown (not asked yet)."},
	{secCluster, "peers_clock_difference_seconds", Gauge, unitSeconds, nil, Nodes,
		"The greatest difference between the clock of this node and that of a node that it reaches."},
	{secCluster, "peers_cut_off_by", Gauge, "nodes", nil, Nodes, "Other nodes that say that they cannot reach this one."},
	{secCluster, "registry_up", Gauge, unitBool, nil, Some, "1 if the registry answers and lists the node. Without a registry there is no such line."},
	{secCluster, "registry_sessions_total", Counter, "sessions", nil, Some, "Sessions that the node began in the registry. One more means that the registry lost the one before."},
	{secCluster, "certificate_expires_seconds", Gauge, unitSeconds, nil, Some, "Time until the certificate of the node expires."},
	{secCluster, "turn_stuck_seconds", Gauge, unitSeconds, []string{"part"}, Nodes,
		"Time for which a part of the node has completed no turn although work waits."},
	{secCluster, "shards_retaken_total", Counter, "times", nil, Nodes, "Times that shards were taken again after a failed transaction."},

	{secRecovery, "sweeps_total", Counter, "sweeps", nil, Nodes, "Sweeps of recovery over all runs."},
	{secRecovery, "recovery_faults_total", Counter, "faults", []string{"fault"}, Nodes,
		"Faults that sweeps found and repaired. A healthy cluster has none."},
	{secRecovery, "repaired_total", Counter, unitRuns, nil, Nodes, "Repairs of runs by recovery. A healthy cluster has none."},

	{secUpkeep, "runs_expired_total", Counter, unitRuns, nil, Nodes, "Finished runs that retention deleted."},
	{secUpkeep, "retention_oldest_seconds", Gauge, unitSeconds, nil, Nodes,
		"Time since retention last completed a pass over all workflows, or since the start."},
	{secUpkeep, "log_lag_bytes", Gauge, unitBytes, nil, Some,
		"Bytes of logs that the shared store of logs does not have yet."},
	{secUpkeep, "log_dropped_bytes_total", Counter, unitBytes, nil, Some,
		"Bytes of logs that stay on this machine only, because too many logs waited for the shared store or a file was unreadable."},
	{secUpkeep, "log_segments_waiting", Gauge, "logs", nil, Some,
		"Logs with bytes that are not in the object store of the setting logs yet. From 20,000 on, further logs get there late."},
	{secUpkeep, "alert_notices_total", Counter, "notices", []string{"outcome"}, Nodes,
		"Calls of alert channels by notice: sent, again (the call failed and is repeated), failed (the channel refused it for ever), expired " +
			"(no call succeeded within a day)."},
	{secUpkeep, "trace_lag_seconds", Gauge, unitSeconds, nil, Some,
		"Time since the end of the oldest run that waits to be exported as a trace, since the exporter began with it. 0: none waits."},
	{secUpkeep, "trace_runs_total", Counter, unitRuns, []string{"outcome"}, Some,
		"Ends of runs that the exporter of traces has done with: sent, unsampled, rejected (the collector refused spans for ever), gone " +
			"(deleted or damaged before it was exported)."},
	{secUpkeep, "trace_spans_total", Counter, "spans", []string{"outcome"}, Some,
		"Spans by outcome: sent, rejected by the collector, left_out (attempts of a run with too many of them)."},
	{secUpkeep, "trace_calls_failed_total", Counter, "calls", nil, Some, "Calls of the collector that failed and are repeated."},
	{secUpkeep, "backup_age_seconds", Gauge, unitSeconds, nil, Some,
		"Time since skein db backup last ran with the data folder of this node."},

	{secWorker, "worker_attached", Gauge, unitBool, nil, Workers, "1 if the worker is attached to a node."},
	{secWorker, "worker_draining", Gauge, unitBool, nil, Workers, "1 if the worker takes nothing new."},
	{secWorker, "worker_unreported", Gauge, unitAttempts, nil, Workers,
		"Attempts that have ended and whose result no node has acknowledged yet."},

	{secHTTP, "http_requests_total", Counter, "requests", []string{"route", "code"}, Nodes, "Answered requests, by route and status."},
	{secHTTP, "http_request_duration_seconds", Duration, unitSeconds, []string{"route"}, Nodes,
		"Time to answer a request. Streams and waits count in full."},
	{secHTTP, "event_streams", Gauge, "clients", nil, Nodes, "Clients that watch events now."},
	{secHTTP, "webhook_calls_total", Counter, "calls", []string{"outcome", "form"}, Nodes,
		"Calls to webhooks, by outcome. form is the form of a valid signature."},
	{secHTTP, "calls_refused_total", Counter, "calls", nil, Nodes, "Calls that were refused because of their token, or because they had none."},
	{secHTTP, "connections_closed_total", Counter, "connections", nil, Nodes,
		"Connections that were closed because too many had shown no credential."},
	{secHTTP, "body_bytes", Gauge, "bytes", nil, Nodes, "Bytes of the bodies of requests in flight."},
}
