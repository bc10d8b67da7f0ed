package api

import "encoding/json"

// Alert is an incident of an alert rule of a workflow.
type Alert struct {
	ID           string        `json:"id"`
	Namespace    string        `json:"namespace"`
	Workflow     string        `json:"workflow"`
	Rule         string        `json:"rule" doc:"The name of the rule in the workflow file."`
	State        string        `json:"state" enum:"counting,open,acknowledged,resolved,passed" doc:"counting: fewer failures in a row than the rule asks for. passed: a success came before there were enough."`
	Severity     string        `json:"severity"`
	Channels     []string      `json:"channels" doc:"The channels that are notified."`
	Count        int64         `json:"count" doc:"Events in a row."`
	Event        string        `json:"event" doc:"The newest event."`
	Run          *string       `json:"run" doc:"The run of the newest event."`
	Trigger      *string       `json:"trigger"`
	Reason       *string       `json:"reason" doc:"The message of the run, or why an instant was missed."`
	Message      *string       `json:"message" doc:"The text of the rule."`
	DueAt        *Time         `json:"due_at" format:"date-time" doc:"Of late and slow: the deadline that the newest run has passed."`
	CreatedAt    Time          `json:"created_at" format:"date-time"`
	OpenedAt     *Time         `json:"opened_at" format:"date-time"`
	ModifiedAt   Time          `json:"modified_at" format:"date-time"`
	Silence      *AlertSilence `json:"silence" doc:"The silence in which it opened: its channels are notified when the silence ends, if it is still open and not acknowledged."`
	Escalations  int           `json:"escalations" doc:"How often further channels were notified because nobody had acknowledged it."`
	EscalatesAt  *Time         `json:"escalates_at" format:"date-time" doc:"When the next ones are."`
	Acknowledged *AlertWord    `json:"acknowledged"`
	Resolved     *AlertWord    `json:"resolved"`
}

// AlertWord says who or what changed an alert.
type AlertWord struct {
	User   *string `json:"user" doc:"null: no person did."`
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

// Silence is a time in which new alerts are recorded, and no channel is notified of them.
type Silence struct {
	ID        string  `json:"id"`
	Namespace string  `json:"namespace" doc:"* stands for all."`
	Workflow  *string `json:"workflow" doc:"null: all of the namespace."`
	Rule      *string `json:"rule" doc:"null: all."`
	State     string  `json:"state" enum:"active,over"`
	Until     Time    `json:"until" format:"date-time"`
	User      string  `json:"user" doc:"Who made it."`
	Reason    *string `json:"reason"`
	CreatedAt Time    `json:"created_at" format:"date-time"`
}

// SilenceRequest makes a silence.
type SilenceRequest struct {
	Workflow string `json:"workflow,omitempty" maxLength:"200" doc:"Only alerts of this workflow."`
	Rule     string `json:"rule,omitempty" maxLength:"200" doc:"Only alerts of the rule of this name."`
	Seconds  int64  `json:"seconds" minimum:"1" maximum:"7776000" doc:"How long it lasts, up to 90 days."`
	Reason   string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the people who look for the messages."`
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
	Error     *string `json:"error" doc:"Of the last call."`
}

// AlertRequest acknowledges or resolves an alert.
type AlertRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"For the people who read it later."`
}

// Channel says how people are notified.
type Channel struct {
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Kind       string          `json:"kind" doc:"webhook, slack, email, teams, pagerduty, alertmanager, discord, telegram, googlechat, command or log."`
	Config     json.RawMessage `json:"config" doc:"Its configuration, with the names of secrets."`
	Version    int64           `json:"version" doc:"How often it was set, from 1."`
	User       string          `json:"user" doc:"Who set it last."`
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
