package alert

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Happening is one event that rules may watch.
type Happening struct {
	Event   Event      `json:"event"`
	Run     string     `json:"run,omitempty"` // the run of the event; "" if there is none
	Origin  dag.Origin `json:"origin"`
	Trigger string     `json:"trigger,omitempty"`
	Tags    dag.Tags   `json:"tags,omitempty"` // the tags of the run or, without a run, of the workflow
	Instant dag.Micros `json:"instant,omitempty"`
	Cause   string     `json:"cause,omitempty"`
	Message string     `json:"message,omitempty"`
	Task    string     `json:"task,omitempty"` // the task of an event about a task
	At      dag.Micros `json:"at"`
	// the number of instants of the trigger, if the incident is about several instants
	Instants int64      `json:"instants,omitempty"`
	Due      dag.Micros `json:"due,omitempty"`     // the deadline that has passed, or will pass
	Success  bool       `json:"-"`                 // the event resolves incidents
	Over     bool       `json:"-"`                 // the run has ended
	Course   Course     `json:"-"`                 // the progress of the run; or the instant, if there is no run
	ID       uuid.UUID  `json:"-"`                 // the id of the incident, if the event opens one
	Subject  string     `json:"subject,omitempty"` // the object of an event of the cluster, or the group of the event
	Of       Subject    `json:"-"`
	// Failures reports whether a task whose name matches has failed. It is nil unless a run has ended.
	Failures func(match func(task string) bool) bool `json:"-"`
}

// Subject is the workflow that events are about.
type Subject struct {
	Shard     dag.ShardID
	Workflow  dag.WorkflowID
	Namespace string
	Name      string
}

// Incident is an incident with its content.
//
// Invariant: Data is the stored form of Detail.
type Incident struct {
	store.Incident
	Detail Detail
}

// Detail is the content of an incident.
type Detail struct {
	Name string `json:"name"` // the name of the workflow; "" if the incident is about the cluster
	// Of is the name of the rule of an incident about the cluster or about a group. The rule in the row also
	// contains the event and the subject, or the group.
	Of           string     `json:"of,omitempty"`
	GroupBy      []string   `json:"group_by,omitempty"` // keys of the group, which Last.Subject names
	Severity     string     `json:"severity"`
	To           []string   `json:"to"` // the channels that were notified, or will be notified
	Message      string     `json:"message,omitempty"`
	Seq          int32      `json:"seq"`   // transitions so far
	Count        int64      `json:"count"` // the number of events in a row
	First        Happening  `json:"first"`
	Last         Happening  `json:"last"`
	OpenedAt     dag.Micros `json:"opened_at,omitempty"` // 0 if no channel was notified
	Acknowledged *Word      `json:"acknowledged,omitempty"`
	Resolved     *Word      `json:"resolved,omitempty"`
	Late         *Lateness  `json:"late,omitempty"` // only for a rule about the times of runs
	// Silenced is the silence during which the incident opened. While Seq is 0, no channel was notified.
	Silenced *Silenced `json:"silenced,omitempty"`
	// ToldAt is the time of the first notice. EscalateAt is the time of the next escalation, or 0 if there is
	// none. Escalated has the escalations that have happened.
	ToldAt     dag.Micros  `json:"told_at,omitempty"`
	EscalateAt dag.Micros  `json:"escalate_at,omitempty"`
	Escalated  []Escalated `json:"escalated,omitempty"`
	// Runs are the runs that were counted before that of Last, if events of tasks are counted.
	Runs []string `json:"runs,omitempty"`
}

// Word is a change by a person or by an event.
type Word struct {
	By     string     `json:"by,omitempty"` // a person; "" if there is none
	Run    string     `json:"run,omitempty"`
	Reason string     `json:"reason,omitempty"`
	At     dag.Micros `json:"at"`
}

// Read returns the incident of a row.
func Read(row store.Incident) (*Incident, error) {
	n := &Incident{Incident: row}
	if err := json.Unmarshal(row.Data, &n.Detail); err != nil {
		return nil, fmt.Errorf("incident %s: %w: %w", row.ID, store.ErrCorrupt, err)
	}
	return n, nil
}

// The kinds of notices.
const (
	KindOpened   = "opened"
	KindResolved = "resolved"
	KindEvent    = "event" // an incident that ended at once: of a rule with each, or about a success
	KindEscalate = "escalated"
	KindMessage  = "message" // a message that a task sends
	KindTest     = "test"
)

// Notice is the content of a notice: what a channel gets.
type Notice struct {
	Kind       string     `json:"kind"`
	Incident   string     `json:"incident"`
	Seq        int32      `json:"seq"`
	Namespace  string     `json:"namespace"`
	Workflow   string     `json:"workflow"`
	Rule       string     `json:"rule"`
	Severity   string     `json:"severity"`
	Text       string     `json:"text"`              // a single line
	Message    string     `json:"message,omitempty"` // message of the rule
	Event      Happening  `json:"event"`             // the newest one
	Count      int64      `json:"count"`
	At         dag.Micros `json:"at"` // time of the transition
	OpenedAt   dag.Micros `json:"opened_at,omitempty"`
	ResolvedBy *Word      `json:"resolved,omitempty"`
}

// put stores the content in a new revision of the row.
func (n *Incident) put(state string, at dag.Micros) {
	n.State, n.Modified = state, at
	n.Revision++
	if store.IncidentOver(state) {
		n.Ended = at
	}
	n.stored()
}

// stored sets Data to the stored form of Detail.
func (n *Incident) stored() { n.Data, _ = json.Marshal(&n.Detail) } // texts and numbers can always be encoded
