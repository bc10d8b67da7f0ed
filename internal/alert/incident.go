package alert

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Happening is one event of a workflow.
type Happening struct {
	Event    Event      `json:"event"`
	Run      string     `json:"run,omitempty"` // "": there is none
	Origin   dag.Origin `json:"origin"`
	Trigger  string     `json:"trigger,omitempty"`
	Tags     dag.Tags   `json:"tags,omitempty"` // of the run, or of the workflow if there is no run
	Instant  dag.Micros `json:"instant,omitempty"`
	Cause    string     `json:"cause,omitempty"`
	Message  string     `json:"message,omitempty"`
	At       dag.Micros `json:"at"`
	Instants int64      `json:"instants,omitempty"` // the number of instants of the trigger, if the incident is about several
	Due      dag.Micros `json:"due,omitempty"`      // the deadline that was passed, or will be
	Success  bool       `json:"-"`                  // true: the event resolves incidents
	Over     bool       `json:"-"`                  // the run has ended
	Course   Course     `json:"-"`                  // the progress of the run, or of an instant without a run
	ID       uuid.UUID  `json:"-"`                  // the id for an incident that the event opens
	Subject  string     `json:"subject,omitempty"`  // the object of a cluster event: a node, a worker, a queue
	Of       Subject    `json:"-"`
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
// Invariant: Data is the form of Detail that is stored.
type Incident struct {
	store.Incident
	Detail Detail
}

// Detail is the content of an incident.
type Detail struct {
	Name string `json:"name"` // name of the workflow; "": the incident is about the cluster
	// Of is the rule of an incident about the cluster. The rule of its row names the event and the subject as
	// well.
	Of           string     `json:"of,omitempty"`
	Severity     string     `json:"severity"`
	To           []string   `json:"to"` // the channels that were notified, or will be
	Message      string     `json:"message,omitempty"`
	Seq          int32      `json:"seq"`   // transitions so far
	Count        int64      `json:"count"` // events in a row
	First        Happening  `json:"first"`
	Last         Happening  `json:"last"`
	OpenedAt     dag.Micros `json:"opened_at,omitempty"` // 0: no channel was notified
	Acknowledged *Word      `json:"acknowledged,omitempty"`
	Resolved     *Word      `json:"resolved,omitempty"`
	Late         *Lateness  `json:"late,omitempty"` // for a rule about the times of runs
	// Silenced is the silence in which it opened. While Seq is 0, no channel was notified.
	Silenced *Silenced `json:"silenced,omitempty"`
	// ToldAt is the time of the first notice. EscalateAt is the time of the next escalation; 0: there is none.
	// Escalated has the escalations so far.
	ToldAt     dag.Micros  `json:"told_at,omitempty"`
	EscalateAt dag.Micros  `json:"escalate_at,omitempty"`
	Escalated  []Escalated `json:"escalated,omitempty"`
}

// Word is a change by a person or by an event.
type Word struct {
	By     string     `json:"by,omitempty"` // a person; "": none
	Run    string     `json:"run,omitempty"`
	Reason string     `json:"reason,omitempty"`
	At     dag.Micros `json:"at"`
}

// Read makes an incident of its row.
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
	KindEvent    = "event" // an incident that was over at once: each, or a success
	KindEscalate = "escalated"
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
	Text       string     `json:"text"`              // one line
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

// stored makes Data of Detail.
func (n *Incident) stored() { n.Data, _ = json.Marshal(&n.Detail) } // texts and numbers have a form
