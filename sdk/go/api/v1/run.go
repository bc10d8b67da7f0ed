package api

import "encoding/json"

// Run is one execution of a workflow's version.
type Run struct {
	ID          string         `json:"id" format:"uuid" doc:"UUIDv7: ids sort by the time of their making."`
	Workflow    string         `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace   string         `json:"namespace"`
	Version     int32          `json:"version"`
	State       string         `json:"state" enum:"submitted,waiting,splitting,running,suspended,paused,finalising,succeeded,failed,stopped,skipped"`
	Intent      string         `json:"intent" enum:"run,pause,stop,kill" doc:"The intent of an operator, or of a rule of the run: run, pause, stop or kill."`
	Cause       *string        `json:"cause" doc:"Why it ended otherwise than well."`
	Message     *string        `json:"message" doc:"One sentence for a person."`
	Generation  int32          `json:"generation" doc:"+1 at each recover or rerun."`
	CreatedAt   Time           `json:"created_at" format:"date-time"`
	StartedAt   *Time          `json:"started_at" format:"date-time"`
	FinishedAt  *Time          `json:"finished_at" format:"date-time"`
	Duration    *float64       `json:"duration" doc:"Seconds from its start to its end; null until it has ended."`
	User        string         `json:"user" doc:"On whose behalf: the name of a user, service or token; local for a program on the node's machine; enqueue:ROLE for a role of the database that called skein_enqueue. The last two can be followed by the name that the program claimed."`
	ClaimedBy   *string        `json:"claimed_by" doc:"The name that a program without a token, or a caller of skein_enqueue, gave its user: shown, never proved."`
	Origin      string         `json:"origin" enum:"manual,api,schedule,sensor,backfill,parent,recovery,enqueue"`
	Trigger     *string        `json:"trigger" doc:"What started it, by its name in the workflow; null: a person or a program."`
	Instant     Time           `json:"instant" format:"date-time" doc:"The instant it is for: trigger.time. Without a trigger it is created_at."`
	Backfill    *int64         `json:"backfill" doc:"The backfill it is part of."`
	RerunOf     *string        `json:"rerun_of" doc:"The run that it repeats."`
	From        *string        `json:"from" doc:"The task at which it begins. Tasks that do not depend on it count as skipped."`
	Parent      *string        `json:"parent" format:"uuid" doc:"The run whose task called it; null: no task did."`
	ParentTask  *string        `json:"parent_task" doc:"The task of that run."`
	Tags        Tags           `json:"tags,omitempty" doc:"Absent: it has none."`
	Priority    string         `json:"priority" enum:"highest,high,medium,low,lowest"`
	Position    *Position      `json:"position" doc:"Its position in its queue, or in the queue of its lock; null: it is not queued."`
	Key         *string        `json:"idempotency_key"`
	Params      Params         `json:"params" nullable:"true" doc:"As the run sees them: defaults filled in. null in lists, unless they are asked for with include=params."`
	SplitAt     *Time          `json:"split_at" format:"date-time" doc:"When the Leader split it into tasks."`
	ModifiedAt  Time           `json:"modified_at" format:"date-time" doc:"Of its newest event."`
	Leader      Leader         `json:"leader" doc:"The node that split it into tasks."`
	Counts      map[string]int `json:"counts" doc:"Tasks by state; empty until it is split."`
	FailedTasks []string       `json:"failed_tasks" nullable:"false" doc:"The first tasks that failed, at most 3."`
	Tasks       []Task         `json:"tasks" nullable:"true" doc:"Only with include=tasks, up to 1,000 of 8 MiB together; null otherwise: read /tasks."`
}

// Tags are pairs of a name and a value by which lists and alerts select runs and workflows.
type Tags map[string]string

// Position is a run's position in its queue.
type Position struct {
	Line   string `json:"line" doc:"QUEUE/KEY, where KEY is that of the queue's per_key, or nothing; of a run that names no queue /LOCK."`
	Number *int   `json:"number" doc:"From 1; null: more than are counted are before it."`
	Of     int    `json:"of" doc:"Runs in the line."`
	More   bool   `json:"more" doc:"There are more than of: no more were counted."`
}

// Ended reports whether the present generation of the run has ended.
func (r *Run) Ended() bool {
	switch r.State {
	case "succeeded", "failed", "stopped", "skipped":
		return true
	}
	return false
}

// Leader is the handler that made the tasks of a run. All fields are null until the tasks are made.
type Leader struct {
	Handler    *string `json:"handler" doc:"Names one life of a process, in the form of a UUID."`
	Node       *string `json:"node"`
	AssignedAt *Time   `json:"assigned_at" format:"date-time"`
}

// Task is a node of a run's graph.
type Task struct {
	ID         int32           `json:"id" doc:"Position in the graph, from 0."`
	Name       string          `json:"name"`
	State      string          `json:"state" enum:"pending,ready,assigned,running,retry_wait,deferred,succeeded,failed,upstream_failed,stopped,skipped"`
	Cause      *string         `json:"cause" doc:"The cause of its end, if it failed, was skipped or is upstream_failed."`
	Message    *string         `json:"message" doc:"One sentence of its newest attempt."`
	CreatedAt  Time            `json:"created_at" format:"date-time"`
	ModifiedAt Time            `json:"modified_at" format:"date-time"`
	Attempts   []Attempt       `json:"attempts" nullable:"false"`
	Outputs    json.RawMessage `json:"outputs" doc:"An object; empty unless it succeeded with outputs."`
}

// Attempt is one try of a task by one handler.
type Attempt struct {
	Number     int32   `json:"number" doc:"From 1, per task, never reset."`
	Era        int32   `json:"era" doc:"The era of the database when the attempt was assigned: how often the database had gone back to an earlier state."`
	Token      int64   `json:"token" doc:"Fences: only the newest can settle the task. It is era × 1048576 + number, so it is the number while era is 0, and no two attempts of a task ever had the same."`
	Generation int32   `json:"generation"`
	Handler    string  `json:"handler"`
	Node       string  `json:"node"`
	State      string  `json:"state" enum:"assigned,running,deferred,succeeded,failed,stopped,lost"`
	Cause      *string `json:"cause"`
	Message    *string `json:"message"`
	ExitCode   *int32  `json:"exit_code"`
	Signal     *string `json:"signal"`
	Child      *string `json:"child" format:"uuid" doc:"Of a task that calls a workflow: the run that it started."`
	AssignedAt Time    `json:"assigned_at" format:"date-time"`
	StartedAt  *Time   `json:"started_at" format:"date-time" doc:"null: it never started."`
	FinishedAt *Time   `json:"finished_at" format:"date-time" doc:"Of a lost one: when it was declared lost."`
	RetryAt    *Time   `json:"retry_at" format:"date-time" doc:"The time of the next try after this failure. Of a deferred attempt: the end of its wait or its timeout."`

	Outside *Outside `json:"outside,omitempty" doc:"The work that it has left outside of its process; absent: none, or it was released. Only if one task is read."`
}

// Outside is work of an attempt that continues outside of its process.
type Outside struct {
	Handle string  `json:"handle" doc:"How the attempt has named the work."`
	State  string  `json:"state" enum:"held,releasing,orphan" doc:"held: the attempt, or the next one, continues it. releasing: a run ends it. orphan: no run waits for its end any more; a person must look whether it has ended."`
	Since  *Time   `json:"since" format:"date-time" doc:"When the release began, or when the work became an orphan; null: it is held."`
	Why    *string `json:"why" doc:"Why it is an orphan."`
	Errand *string `json:"errand" format:"uuid" doc:"The run that ends it; null: it is held."`
}

// RunRequest starts a run.
type RunRequest struct {
	Workflow string `json:"workflow" minLength:"1" maxLength:"127" doc:"NAME or NAMESPACE/NAME."`
	Version  int32  `json:"version,omitempty" minimum:"0" doc:"0 or absent: the workflow's current one."`
	Params   Params `json:"params,omitempty" nullable:"true"`
	Priority string `json:"priority,omitempty" enum:"highest,high,medium,low,lowest" doc:"Absent: the workflow's."`
	From     string `json:"from,omitempty" maxLength:"300" doc:"Begin at this task: tasks that do not depend on it count as skipped."`
	// IdempotencyKey is unique per workflow for as long as the run is kept. It has the meaning of the header
	// Idempotency-Key. If a request has both, they must be equal.
	IdempotencyKey string `json:"idempotency_key,omitempty" maxLength:"255"`
	Origin         string `json:"origin,omitempty" enum:"manual,api" doc:"manual: a person asked for it. Absent: api."`
	Tags           Tags   `json:"tags,omitempty" doc:"Up to 8, in addition to those of the workflow. If both have a key, this value takes precedence. A key has up to 63 letters, digits, '.', '_', '-' and '/', a value up to 63 bytes of printable text."`
	// Traceparent takes precedence over the header traceparent, which applies to all starts of a batch.
	Traceparent string `json:"traceparent,omitempty" maxLength:"512" doc:"The W3C trace context of the caller, if it is not that of the header traceparent. One that is not valid is ignored."`
}

// VerbRequest is the body of a verb on a run. The body is optional.
type VerbRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// RecoverRequest is the body of recover; it may be left out. Without a task, recover runs again each task
// that did not succeed, and each task that depends on one of these. With a task it also runs that task
// again, and all tasks that depend on it. task_only narrows this to the task, upstreams to the task and all
// that it needs, and dependents to the task and all that need it.
type RecoverRequest struct {
	From       string `json:"from,omitempty" maxLength:"300" doc:"A task."`
	TaskOnly   bool   `json:"task_only,omitempty" doc:"Only the task; all other tasks keep their states."`
	Upstreams  bool   `json:"upstreams,omitempty" doc:"Only the task and all that it needs."`
	Dependents bool   `json:"dependents,omitempty" doc:"Only the task and all that needs it."`
	Reason     string `json:"reason,omitempty" maxLength:"1000"`
}

// RecoveryPlan lists what a recover would do now.
type RecoveryPlan struct {
	Run        string        `json:"run"`
	Refused    *string       `json:"refused" doc:"Why the run cannot be recovered so; null: it can."`
	Generation int32         `json:"generation" doc:"The one that the recover would begin."`
	Again      int           `json:"again" doc:"How many tasks would be decided again. Conditions and switches may skip some of them."`
	Kept       int           `json:"kept" doc:"How many tasks keep their end and their results."`
	Tasks      []PlannedTask `json:"tasks" nullable:"false" doc:"The first 200 of them, those that failed or were stopped before the others."`
	Queue      *string       `json:"queue" doc:"The queue in which the run would ask for a slot."`
	Locks      []string      `json:"locks" nullable:"false" doc:"The locks that the run would ask for."`
	Queues     []string      `json:"queues" nullable:"false" doc:"Up to 20 queues in which its tasks would ask for slots."`
}

// PlannedTask is a task that a recover would run again.
type PlannedTask struct {
	Name  string `json:"name"`
	State string `json:"state" doc:"Its state now."`
}

// RerunRequest is the body of rerun. The body is optional.
type RerunRequest struct {
	Newest   bool   `json:"newest,omitempty" doc:"The workflow's current version instead of the run's."`
	Params   Params `json:"params,omitempty" nullable:"true" doc:"Parameters that replace those of the run, one by one."`
	Priority string `json:"priority,omitempty" enum:"highest,high,medium,low,lowest" doc:"Absent: the run's."`
	From     string `json:"from,omitempty" maxLength:"300" doc:"Begin at this task: tasks that do not depend on it count as skipped."`
	Origin   string `json:"origin,omitempty" enum:"manual,api" doc:"manual: a person asked for it. Absent: api."`
}

// MarkRequest is the body of mark.
type MarkRequest struct {
	State   string            `json:"state" enum:"succeeded,failed"`
	Reason  string            `json:"reason" minLength:"1" maxLength:"1000"`
	Outputs Params            `json:"outputs,omitempty" doc:"Of a task that succeeded: what others read as its outputs. What the task declares must be there, and of its type."`
	Texts   map[string]string `json:"texts,omitempty" doc:"Outputs given as texts: each becomes what the task declares of it; one that is not declared JSON, if it is JSON."`
}

// ApproveRequest is a person's decision on a task that waits for an approval.
type ApproveRequest struct {
	Reject  bool   `json:"reject,omitempty" doc:"Reject the task: it fails."`
	Comment string `json:"comment,omitempty" maxLength:"1000" doc:"Kept in the history, and an output of the task."`
	Answers Params `json:"answers,omitempty" doc:"The fields of the form that the approval has. They become outputs of the task."`
}

// Graph is the shape of a run or a version. State is null for a version.
type Graph struct {
	Nodes []GraphNode `json:"nodes" nullable:"false"`
	Edges []GraphEdge `json:"edges" nullable:"false"`
}

// GraphNode is a task.
type GraphNode struct {
	ID    int32   `json:"id"`
	Name  string  `json:"name"`
	State *string `json:"state"`
}

// GraphEdge says that task To needs task From.
type GraphEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Explanation gives the reasons for the present state of a run or a task.
type Explanation struct {
	ID      string   `json:"id" doc:"RUN, or RUN/TASK."`
	State   string   `json:"state"`
	Reasons []Reason `json:"reasons" nullable:"false"`
}

// Reason is one reason for the present state.
type Reason struct {
	Kind       string  `json:"kind"`
	What       string  `json:"what" doc:"A sentence."`
	Holder     *string `json:"holder" doc:"The holder: the run, node or person for which the run or task waits."`
	Since      *Time   `json:"since" format:"date-time"`
	Unblocks   *string `json:"unblocks" doc:"The event or command that ends the wait."`
	ExpectedAt *Time   `json:"expected_at" format:"date-time"`

	Code    string         `json:"code" doc:"The code of the sentence in what. It stays the same when the words change."`
	Args    map[string]any `json:"args" doc:"The values in the sentence, by name."`
	Actions []Action       `json:"actions" doc:"The calls by which a person can help."`
}

// Action is a request that would let the run or task continue.
type Action struct {
	Verb  string `json:"verb" doc:"The last part of the path, such as retry."`
	Path  string `json:"path" doc:"Where to POST it."`
	Label string `json:"label" doc:"The text of a button."`
}

// Event is one line of a run's history, which is also its audit log.
type Event struct {
	Seq      int64   `json:"seq" doc:"The transaction; its lines share it and take effect together."`
	Run      string  `json:"run"`
	At       Time    `json:"at" format:"date-time"`
	Kind     string  `json:"kind" enum:"submitted,split,assigned,started,ended,lost,timeout,intent,state,rejected,recovered,waiting,admitted,marked,task stop,deferred,repaired,handle,released,orphan"`
	Task     *string `json:"task" doc:"null: the run itself."`
	Attempt  *int32  `json:"attempt" doc:"The number of the attempt."`
	Token    *int64  `json:"token" doc:"The token of the attempt: logs and artifacts are found by it."`
	Handler  *string `json:"handler"`
	Node     *string `json:"node"`
	State    *string `json:"state" doc:"The new state of the task or run."`
	ExitCode *int32  `json:"exit_code"`
	Tasks    *int32  `json:"tasks" doc:"How many tasks it made or took back."`
	Actor    *string `json:"actor" doc:"The user who made the call."`
	// ClaimedBy has the meaning of Run.ClaimedBy.
	ClaimedBy *string `json:"claimed_by" doc:"The name that a program without a token, or a caller of skein_enqueue, gave its user: shown, never proved."`
	Text      *string `json:"text" doc:"Cause, origin or intent."`
	Reason    *string `json:"reason"`
}

// Change is the effect of one transaction on a run, as GET /events sends it. After an event named reset, some
// changes may be missing. The client must then read the watched runs again.
type Change struct {
	ID       string  `json:"-"` // SSE id: opaque, for the header Last-Event-ID
	Reset    bool    `json:"-"`
	Run      string  `json:"run"`
	Workflow string  `json:"workflow"`
	Seq      int64   `json:"seq"`
	At       Time    `json:"at" format:"date-time"`
	Events   []Event `json:"events" nullable:"false"`
}
