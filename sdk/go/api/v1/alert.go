package api

import "encoding/json"

// Alert is an incident of an alert rule of a workflow or of the cluster.
type Alert struct {
	ID           string        `json:"id"`
	Namespace    string        `json:"namespace"`
	Workflow     string        `json:"workflow" doc:"Empty: it is about the cluster, and its namespace is system."`
	Subject      *string       `json:"subject" doc:"Of an alert about the cluster: the node, worker, queue or channel that it is about. Of a rule with group_by: the group."`
	Rule         string        `json:"rule" doc:"The name of the rule in the workflow file."`
	State        string        `json:"state" enum:"counting,open,acknowledged,resolved,passed" doc:"counting: fewer failures in a row than the rule asks for. passed: a success came before there were enough."`
	Severity     string        `json:"severity"`
	Channels     []string      `json:"channels" doc:"The channels that are notified."`
	Count        int64         `json:"count" doc:"The number of events in a row."`
	Event        string        `json:"event" doc:"The newest event."`
	Run          *string       `json:"run" doc:"The run of the newest event."`
	Task         *string       `json:"task" doc:"The task of the newest event, if it is about a task."`
	Trigger      *string       `json:"trigger"`
	Reason       *string       `json:"reason" doc:"The message of the run or of the task, or why an instant was missed."`
	Message      *string       `json:"message" doc:"The text of the rule."`
	DueAt        *Time         `json:"due_at" format:"date-time" doc:"Of late and slow: the deadline that the newest run has passed."`
	CreatedAt    Time          `json:"created_at" format:"date-time"`
	OpenedAt     *Time         `json:"opened_at" format:"date-time"`
	ModifiedAt   Time          `json:"modified_at" format:"date-time"`
	Silence      *AlertSilence `json:"silence" doc:"The silence in which it opened: its channels are notified when the silence ends, if it is still open and not acknowledged."`
	Escalations  int           `json:"escalations" doc:"The number of escalations: further channels were notified, because no person had acknowledged the alert."`
	EscalatesAt  *Time         `json:"escalates_at" format:"date-time" doc:"When the next channels are notified."`
	Acknowledged *AlertWord    `json:"acknowledged"`
	Resolved     *AlertWord    `json:"resolved"`
}

// AlertRule is a rule of a workflow. It says which events notify which channels.
type AlertRule struct {
	Name       string           `json:"name"`
	On         []string         `json:"on" nullable:"false" doc:"The events that it watches."`
	Channels   []string         `json:"channels" nullable:"false"`
	Severity   string           `json:"severity"`
	After      int64            `json:"after" doc:"It opens an alert at this event in a row."`
	Each       bool             `json:"each" doc:"One message for each event, and no alert that stays open."`
	GroupBy    []string         `json:"group_by,omitempty" doc:"An alert for each group of events with equal cause, trigger or tag; absent: one for all."`
	Origins    []string         `json:"origins" nullable:"false" doc:"The origins of the runs that the rule watches; none: all but backfills."`
	Tasks      []string         `json:"tasks,omitempty" doc:"Only events of these tasks, and runs in which one of them failed; absent: of all."`
	Tags       Tags             `json:"tags,omitempty" doc:"Only runs with all of these tags count; absent: all do."`
	Message    *string          `json:"message"`
	Deadline   *AlertDeadline   `json:"deadline" doc:"null: it watches no deadline."`
	Than       *AlertThan       `json:"than" doc:"null: it watches no durations."`
	Escalation []EscalationStep `json:"escalation" nullable:"false" doc:"Further channels, which are notified if the alert is still open and not acknowledged by then."`
}

// AlertDeadline is the latest time by which a run must have reached a state.
type AlertDeadline struct {
	Seconds  float64 `json:"seconds" doc:"The time after the point that from names; 0: by is used instead."`
	From     *string `json:"from" doc:"trigger, queued or started; null: trigger."`
	By       *string `json:"by" doc:"A time of day: HH:MM."`
	Timezone *string `json:"timezone" doc:"Of by; null: UTC."`
	For      string  `json:"for" enum:"success,end,start" doc:"What the run must have reached by then: success, end or start."`
}

// AlertThan is the duration beyond which a run counts as slow.
type AlertThan struct {
	Seconds    float64 `json:"seconds" doc:"The time since the start of the run; 0: times is used instead."`
	Times      float64 `json:"times" doc:"Multiple of the percentile."`
	Percentile int     `json:"percentile" doc:"Of the durations of the last 50 runs that succeeded."`
}

// EscalationStep names channels that are notified later.
type EscalationStep struct {
	Seconds  float64  `json:"seconds" doc:"After the first message."`
	Channels []string `json:"channels" nullable:"false"`
}

// Deadline is the state of a run with regard to a rule that watches the time of runs.
type Deadline struct {
	Rule     string   `json:"rule"`
	Event    string   `json:"event" enum:"late,slow" doc:"The event at the deadline: late or slow."`
	Goal     string   `json:"goal" enum:"success,end,start" doc:"What the run must have reached by then. success: the success of another run of the workflow also satisfies it."`
	State    string   `json:"state" enum:"ahead,due,met,passed,unknown" doc:"ahead: the time is counted from the start of the run, which has not started. unknown: fewer than 5 runs have succeeded, so no run is slow."`
	DueAt    *Time    `json:"due_at" format:"date-time"`
	Channels []string `json:"channels" nullable:"false" doc:"The channels that are notified."`
}

// AlertWord records a change of an alert by a person or by Skein.
type AlertWord struct {
	User   *string `json:"user" doc:"The user; null: no person did it."`
	Run    *string `json:"run" doc:"The run that succeeded."`
	Reason *string `json:"reason"`
	At     Time    `json:"at" format:"date-time"`
}

// AlertSilence is the silence of an alert.
type AlertSilence struct {
	ID     string  `json:"id"`
	User   string  `json:"user"`
	Reason *string `json:"reason"`
	Until  Time    `json:"until" format:"date-time" doc:"As it was when the alert opened, or when the silence was looked at last."`
	Told   bool    `json:"told" doc:"The channels were notified afterwards."`
}

// Silence is a span of time in which new alerts are recorded, but notify no channel.
type Silence struct {
	ID        string  `json:"id"`
	Namespace string  `json:"namespace" doc:"*: all namespaces."`
	Workflow  *string `json:"workflow" doc:"null: all of the namespace."`
	Rule      *string `json:"rule" doc:"null: all."`
	State     string  `json:"state" enum:"active,over"`
	Until     Time    `json:"until" format:"date-time"`
	User      string  `json:"user" doc:"The user who made it."`
	Reason    *string `json:"reason"`
	CreatedAt Time    `json:"created_at" format:"date-time"`
}

// SilenceRequest creates a silence.
type SilenceRequest struct {
	Workflow string `json:"workflow,omitempty" maxLength:"200" doc:"Only alerts of this workflow."`
	Rule     string `json:"rule,omitempty" maxLength:"200" doc:"Only alerts of the rule of this name."`
	Seconds  int64  `json:"seconds" minimum:"1" maximum:"7776000" doc:"Its duration, up to 90 days."`
	Reason   string `json:"reason" minLength:"1" maxLength:"1000" doc:"The reason, for people who miss the messages."`
}

// AlertDetail is an alert with its messages.
type AlertDetail struct {
	Alert
	Notices []AlertNotice `json:"notices"`
}

// AlertNotice is the message to one channel about one transition of an alert.
type AlertNotice struct {
	Seq       int32   `json:"seq" doc:"The transition: 1 is the opening."`
	Channel   string  `json:"channel"`
	State     string  `json:"state" enum:"pending,sent,failed,expired"`
	Tries     int32   `json:"tries" doc:"Calls of the channel."`
	CreatedAt Time    `json:"created_at" format:"date-time"`
	NextAt    *Time   `json:"next_at" format:"date-time" doc:"The next call, while the notice is pending."`
	EndedAt   *Time   `json:"ended_at" format:"date-time"`
	Error     *string `json:"error" doc:"The error of the last call."`
}

// AlertRequest acknowledges or resolves an alert.
type AlertRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"A reason for later readers."`
}

// Channel is a way to notify people.
type Channel struct {
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Kind       string          `json:"kind" doc:"webhook, slack, email, teams, pagerduty, alertmanager, discord, telegram, googlechat, dingtalk, feishu, wecom, ntfy, command or log."`
	Config     json.RawMessage `json:"config" doc:"Its configuration, with the names of secrets."`
	Version    int64           `json:"version" doc:"How often it was set, from 1."`
	User       string          `json:"user" doc:"The user who set it last."`
	CreatedAt  Time            `json:"created_at" format:"date-time"`
	ModifiedAt Time            `json:"modified_at" format:"date-time"`
}

// ChannelRequest sets a channel.
type ChannelRequest struct {
	Config map[string]any `json:"config" doc:"Exactly one kind with its settings, such as {\"log\": {}}."`
}

// ChannelTest is the outcome of a test message.
type ChannelTest struct {
	OK    bool    `json:"ok"`
	Error *string `json:"error" doc:"Why the channel did not take the message."`
}
