package api

// Schedule is a trigger of a workflow's current version. It is a schedule, whose instants follow from the
// clock, or a sensor, which waits for events.
type Schedule struct {
	Workflow          string          `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace         string          `json:"namespace"`
	Name              string          `json:"name" doc:"Unique in its workflow; its identity across edits."`
	Kind              string          `json:"kind" enum:"cron,every,at,daily,weekly,monthly,annually,start,webhook,file,run_of,again,absent,event,poll,query,object,kafka,nats,redis,mqtt,amqp,sqs,source" doc:"The key it was declared with; start: at each start of the scheduler."`
	Expression        string          `json:"expression" doc:"The declaration in short: a cron text, an interval, times of day."`
	Timezone          string          `json:"timezone" doc:"IANA name."`
	Description       string          `json:"description" doc:"In words."`
	State             string          `json:"state" enum:"active,paused,ended"`
	Reason            *string         `json:"reason" doc:"Why it is paused or ended."`
	PausedBy          *string         `json:"paused_by" doc:"null: it was declared paused, or is not."`
	Next              *Time           `json:"next" format:"date-time" doc:"The first instant that is not decided; null: none, or it waits for an event."`
	Decided           Time            `json:"decided" format:"date-time" doc:"Every instant up to here has its outcome among the fires; of a paused one, its pause is one line once it ends."`
	LastFire          *Fire           `json:"last_fire" doc:"The line of its newest instant."`
	Fired             int64           `json:"fired" doc:"The runs that it has started since its present declaration."`
	Overlap           string          `json:"overlap" enum:"skip,queue,cancel_running,allow,wait"`
	MaxConcurrentRuns *int32          `json:"max_concurrent_runs" doc:"null: any number."`
	Catchup           *string         `json:"catchup" enum:"none,latest,all" doc:"null: it has no instants."`
	CatchupLimit      *int32          `json:"catchup_limit" doc:"null: catchup is not all."`
	DelayTolerance    *string         `json:"delay_tolerance" doc:"Such as 30m0s; null: no limit."`
	Sensor            bool            `json:"sensor" doc:"The trigger is a sensor: it waits for an event."`
	Source            *ScheduleSource `json:"source,omitempty" doc:"Of a trigger with a cursor: how far its source has come."`
	PlannedPauses     []PlannedPause  `json:"planned_pauses,omitempty" nullable:"false" doc:"The planned pauses that have not ended, the earliest first. next is after the one that holds now."`
	Version           int32           `json:"version" doc:"The version of the workflow with its present declaration."`
	Since             Time            `json:"since" format:"date-time" doc:"The time of its present declaration."`
	CreatedAt         Time            `json:"created_at" format:"date-time"`
	ModifiedAt        Time            `json:"modified_at" format:"date-time"`
}

// PlannedPause is a range of time in which a trigger does not fire: its instants from the beginning of the
// range until before its end are recorded as skipped.
type PlannedPause struct {
	From   Time    `json:"from" format:"date-time"`
	Until  Time    `json:"until" format:"date-time" doc:"The first instant that fires again."`
	By     *string `json:"by" doc:"The person who planned it."`
	Reason *string `json:"reason"`
}

// PauseRequest is the body of the verbs pause and resume of a trigger. The body is optional. With until,
// pause plans a pause, and resume ends a planned pause.
type PauseRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
	From   *Time  `json:"from,omitempty" format:"date-time" doc:"The beginning of a planned pause; absent: now."`
	Until  *Time  `json:"until,omitempty" format:"date-time" doc:"The end of a planned pause; absent: the pause holds until a person resumes the trigger."`
}

// ScheduleSource is the progress of the source of a trigger.
type ScheduleSource struct {
	Cursor   *string `json:"cursor" doc:"Position after the last event that was taken; null: none was."`
	From     string  `json:"from" doc:"Where the source begins without a cursor: now, or beginning."`
	Lag      *int64  `json:"lag" doc:"Events that wait to be read; null: unknown. Events that the trigger does not want count, too."`
	AwayAt   *Time   `json:"away_at" format:"date-time" doc:"The time since which the source cannot reach the other system; null: it can, or no reachable node knows."`
	Why      *string `json:"why" doc:"Why the source is away."`
	TakenAt  *Time   `json:"taken_at" format:"date-time" doc:"When events were taken last."`
	Filtered int64   `json:"filtered" doc:"Events that its filter, start or end refused."`
	Lost     int64   `json:"lost" doc:"Events that were deleted before they were read."`
}

// SeekRequest sets the place from which a trigger reads its source.
type SeekRequest struct {
	To string `json:"to" minLength:"1" maxLength:"16384" doc:"beginning, now, or a cursor. For a trigger of kind event also an instant."`
}

// EventsSent holds the result for each event of a request, in the order of the request.
type EventsSent struct {
	Namespace string      `json:"namespace"`
	Events    []EventSent `json:"events" nullable:"false"`
}

// EventSent is the result for one event, which is durable.
type EventSent struct {
	Source     string `json:"source"`
	ID         string `json:"id"`
	Position   int64  `json:"position" doc:"In the log of events."`
	ReceivedAt Time   `json:"received_at" format:"date-time"`
	Existing   bool   `json:"existing" doc:"The same event came before, and was not taken again."`
}

// Fire is one line of the ledger. Each instant of a schedule and each event belongs to one line. Consecutive
// instants with the same outcome and without a run share a line.
type Fire struct {
	Workflow  string  `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace string  `json:"namespace"`
	Trigger   string  `json:"trigger"`
	At        Time    `json:"at" format:"date-time" doc:"The nominal instant, the first of the line; of an event, when it came."`
	Last      Time    `json:"last" format:"date-time" doc:"The last instant of the line."`
	Count     int64   `json:"count" doc:"The number of instants of the line."`
	Outcome   string  `json:"outcome" enum:"fired,late,skipped,merged,missed"`
	Reason    *string `json:"reason"`
	// Reasons are the parts of Reason.
	Reasons []FireReason `json:"reasons" doc:"The parts of reason by their codes. Empty: the reason came from outside, or from an earlier version."`
	Run     *string      `json:"run" doc:"null: none was started."`
	Key     *string      `json:"key" doc:"Id of the event; null: an instant of the schedule."`
	Decided Time         `json:"decided" format:"date-time" doc:"When it was written."`
}

// FireReason is a part of the reason of a fire.
type FireReason struct {
	Code string            `json:"code" doc:"Stable: the page errors.md of the documentation lists all codes."`
	Args map[string]string `json:"args" doc:"The values in the sentence. Their names are stable for each code."`
}

// FireDay counts the instants of ledger lines that were deleted, by the day on which each line began.
type FireDay struct {
	Day     string `json:"day" format:"date" doc:"In UTC."`
	Fired   int64  `json:"fired"`
	Late    int64  `json:"late"`
	Skipped int64  `json:"skipped"`
	Merged  int64  `json:"merged"`
	Missed  int64  `json:"missed"`
}

// Instant is an instant at which a trigger will fire.
type Instant struct {
	Workflow  string `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace string `json:"namespace"`
	Trigger   string `json:"trigger"`
	Time      Time   `json:"time" format:"date-time"`
	Local     string `json:"local" doc:"The same on the clocks of its time zone, RFC 3339 with offset."`
	DueAt     *Time  `json:"due_at,omitempty" format:"date-time" doc:"If include=deadlines asks for it: its first deadline by the alert rules of the workflow."`
}

// NextFires lists the coming fires in the order of time.
type NextFires struct {
	Items  []Instant     `json:"items" nullable:"false"`
	Next   *string       `json:"next" doc:"Always null: ask again with from."`
	Shifts []ClockChange `json:"shifts" nullable:"false" doc:"Clock changes up to the last instant that touch a schedule."`
}

// ClockChange is a change of the clocks, such as the begin of summer time, that skips or repeats a time that
// a schedule names.
type ClockChange struct {
	Workflow  string `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace string `json:"namespace"`
	Trigger   string `json:"trigger"`
	At        Time   `json:"at" format:"date-time" doc:"The first instant of the new offset."`
	Local     string `json:"local" doc:"The same instant in the time zone, RFC 3339 with the new offset."`
	From      string `json:"from" doc:"The offset before the change, such as +01:00."`
	To        string `json:"to" doc:"The offset after the change."`
	Effect    string `json:"effect" doc:"The effect of the change on the schedule."`
}

// Occurrence is the result of an event, or of a request by a person to fire a trigger.
type Occurrence struct {
	Workflow  string  `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace string  `json:"namespace"`
	Trigger   string  `json:"trigger"`
	Key       *string `json:"key" doc:"The event's id: the same once more is no second fire. null: nothing was kept."`
	Run       *string `json:"run" doc:"null: none was started."`
	Outcome   string  `json:"outcome" enum:"fired,late,skipped,merged,missed,filtered" doc:"filtered: the trigger's filter does not want it, nothing was kept."`
	Reason    *string `json:"reason"`
	// Reasons are the parts of Reason.
	Reasons  []FireReason `json:"reasons" doc:"The parts of reason by their codes. Empty: it has none."`
	Existing bool         `json:"existing" doc:"The same event came before; the answer is the earlier one."`
}

// SimulateRequest requests a forecast for a span of time.
type SimulateRequest struct {
	From      *Time  `json:"from,omitempty" format:"date-time" doc:"Absent: now."`
	To        Time   `json:"to" format:"date-time" doc:"At most 366 days after from."`
	Workflow  string `json:"workflow,omitempty" maxLength:"127" doc:"NAME or NAMESPACE/NAME: only its triggers. Absent: all."`
	Namespace string `json:"namespace,omitempty" maxLength:"63" doc:"Only the triggers of this namespace. Absent: all."`
	// With is an edit: its workflows replace the current ones of the same name.
	With *ApplyRequest `json:"with,omitempty"`
}

// Simulation is the forecast for a span of time. It assumes that runs take as long as they did recently. It
// excludes sensors, because their events cannot be predicted.
type Simulation struct {
	From     Time               `json:"from" format:"date-time"`
	To       Time               `json:"to" format:"date-time"`
	Fires    int64              `json:"fires" doc:"Of all triggers."`
	Triggers []SimulatedTrigger `json:"triggers" nullable:"false"`
	Hours    []SimulatedHour    `json:"hours" nullable:"false" doc:"The hours in which something happens."`
	Limits   []SimulatedLimit   `json:"limits" nullable:"false" doc:"Limits that will be hit; none: there is room."`
	Shifts   []ClockChange      `json:"shifts" nullable:"false"`
	Changes  []ScheduleChange   `json:"changes" nullable:"true" doc:"The effects of the edit; null: there is no edit."`
	Notes    []string           `json:"notes" nullable:"false" doc:"What the simulation cannot know or leaves out."`
}

// SimulatedTrigger lists the fires of one trigger in a simulation.
type SimulatedTrigger struct {
	Workflow    string   `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace   string   `json:"namespace"`
	Trigger     string   `json:"trigger"`
	Description string   `json:"description"`
	Fires       int64    `json:"fires"`
	PerHour     float64  `json:"per_hour" doc:"The average number of fires in an hour of the span."`
	First       *Time    `json:"first" format:"date-time"`
	Last        *Time    `json:"last" format:"date-time"`
	Overlaps    int64    `json:"overlaps" doc:"Fires while as many runs of the trigger as may be are active."`
	Skipped     int64    `json:"skipped" doc:"Of these, by overlap: skip or a full queue."`
	Waiting     int64    `json:"waiting" doc:"Of these, the fires that wait."`
	Cancelled   int64    `json:"cancelled" doc:"Runs that a newer one stops."`
	Median      *float64 `json:"median_s" doc:"Seconds that a run takes; null: none has ended yet."`
	P95         *float64 `json:"p95_s"`
	Measured    int      `json:"measured" doc:"Runs that this was taken from."`
}

// SimulatedHour is one hour of UTC.
type SimulatedHour struct {
	At     Time    `json:"at" format:"date-time"`
	Fires  int64   `json:"fires"`
	Active int64   `json:"active" doc:"Most runs at one time, by the median."`
	Mean   float64 `json:"mean" doc:"How many there are on average."`
	Long   int64   `json:"active_p95" doc:"The same if every run takes its 95th percentile."`
}

// SimulatedLimit is a limit that the simulated runs reach.
type SimulatedLimit struct {
	Kind      string  `json:"kind" enum:"trigger,workflow,slots"`
	Workflow  *string `json:"workflow"`
	Namespace *string `json:"namespace"`
	Trigger   *string `json:"trigger"`
	Limit     int64   `json:"limit"`
	Peak      int64   `json:"peak" doc:"Most that would be there at one time without it."`
	Hits      int64   `json:"hits" doc:"How many runs meet it."`
	First     *Time   `json:"first" format:"date-time"`
	Instants  []Time  `json:"instants" nullable:"false" doc:"The first of them, at most 20."`
	What      string  `json:"what" doc:"A sentence."`
}

// ScheduleChange is the effect of an edit on one trigger.
type ScheduleChange struct {
	Workflow  string   `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace string   `json:"namespace"`
	Trigger   string   `json:"trigger"`
	Change    string   `json:"change" enum:"added,removed,changed,unchanged"`
	Before    *string  `json:"before" doc:"The rule in words; null: the trigger is new."`
	After     *string  `json:"after" doc:"The rule in words; null: the trigger is removed."`
	Fires     [2]int64 `json:"fires" doc:"Before and after."`
	Gained    []Time   `json:"gained" nullable:"false" doc:"The first instants that are new, at most 20."`
	Lost      []Time   `json:"lost" nullable:"false" doc:"The first instants that go, at most 20."`
}
