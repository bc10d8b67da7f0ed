package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
)

// The states of an incident.
const (
	IncidentCounting     = "counting" // fewer failures in a row than the rule requires: no channel has been notified
	IncidentOpen         = "open"
	IncidentAcknowledged = "acknowledged"
	IncidentResolved     = "resolved"
	IncidentPassed       = "passed" // a success ended the incident while it was still counting failures
)

// IncidentOver reports whether a state is final.
func IncidentOver(state string) bool { return state == IncidentResolved || state == IncidentPassed }

// Incident is one violation of an alert rule of a workflow. Invariant: a rule of a workflow has at most one
// incident that has not ended.
type Incident struct {
	ID        uuid.UUID
	Shard     dag.ShardID // shard of the workflow
	Workflow  dag.WorkflowID
	Namespace string
	Rule      string // the name of the rule in the workflow file
	State     string
	Revision  int64      // +1 at every change; 1 is new
	Created   dag.Micros // when its row was written
	Modified  dag.Micros
	Ended     dag.Micros // 0 if the incident has not ended
	Data      []byte     // the form of package alert
}

// The states of a notice.
const (
	NoticePending = "pending"
	NoticeSent    = "sent"
	NoticeFailed  = "failed"  // the channel has refused it finally
	NoticeExpired = "expired" // the channel did not accept it in time
)

// Notice is a message to one channel about one transition of an incident. Incident, Seq and Channel are its
// key.
type Notice struct {
	Incident  uuid.UUID
	Seq       int32 // number of the transition, from 1
	Channel   string
	Namespace string // namespace of the channel and the workflow
	Shard     dag.ShardID
	Workflow  dag.WorkflowID
	State     string
	Tries     int32      // number of calls of the channel that have ended
	Due       dag.Micros // time of the next call
	Created   dag.Micros
	Ended     dag.Micros // 0 if pending
	Error     string     // error of the last call
	Data      []byte     // the form of package alert
}

// AlertChanges are the rows of alerts in a transaction of the owner.
type AlertChanges struct {
	// Incidents are new rows (Revision 1), or replace the row that is one revision older. Only State,
	// Revision, Modified, Ended and Data change.
	Incidents []Incident
	Notices   []Notice // inserts
}

// Rows returns the number of rows that the changes write.
func (c *AlertChanges) Rows() int { return len(c.Incidents) + len(c.Notices) }

// Reset empties the changes and keeps their arrays.
func (c *AlertChanges) Reset() {
	clear(c.Incidents)
	clear(c.Notices)
	c.Incidents, c.Notices = c.Incidents[:0], c.Notices[:0]
}

// AlertChannel is a way in which people are notified.
type AlertChannel struct {
	Namespace, Name string
	Version         int64  // counted from 1
	Data            []byte // the configuration in JSON, without values of secrets
	By              string // the person who set it last
	Created         dag.Micros
	Modified        dag.Micros
}

// AlertChannelsMax bounds the channels of a database.
const AlertChannelsMax = 1000

// Silence is a period in which no channel is notified of the incidents that it matches.
type Silence struct {
	ID        uuid.UUID
	Namespace string // "" means any
	Workflow  string // name of the workflow; "" means any
	Rule      string // "" means any
	Until     dag.Micros
	By        string
	Reason    string
	Created   dag.Micros
}

const (
	// SilencesMax bounds the silences of a database, including ended ones.
	SilencesMax = 200
	// SilencesKept is the time for which an ended silence is kept.
	SilencesKept = 7 * 24 * time.Hour
)

// Matches reports whether a silence applies to a rule of a workflow.
func (s *Silence) Matches(namespace, workflow, rule string) bool {
	return (s.Namespace == "" || s.Namespace == namespace) && (s.Workflow == "" || s.Workflow == workflow) && (s.Rule == "" || s.Rule == rule)
}

// ChannelKey names a channel.
type ChannelKey struct{ Namespace, Name string }

// IncidentQuery selects incidents for people, the newest first.
type IncidentQuery struct {
	Namespaces []string // nil means all
	Workflow   dag.WorkflowID
	Over       bool   // also list incidents that have ended
	Counting   bool   // also list incidents about which no channel was notified
	State      string // "" means any
	Before     dag.Micros
	BeforeID   uuid.UUID // together with Before: the id of the last incident of the previous page
	Limit      int
}

// NoticeQuery selects pending notices that are due. A notice is due only if its incident has no pending
// notice for the channel with a lower Seq.
type NoticeQuery struct {
	Shards []dag.ShardID
	Now    dag.Micros
	Not    []ChannelKey // channels that accept no notice now
	Limit  int
}

// IncidentExpiry selects incidents to delete: those that ended before Before, and all ended ones except the
// newest Keep.
type IncidentExpiry struct {
	Before dag.Micros
	Keep   int // at least 1
	Limit  int
}

// Trouble is a channel that does not accept notices.
type Trouble struct {
	ChannelKey
	Pending int64 // the number of notices with at least one failed call
	Lost    int64 // the number of notices that failed or expired since the requested time
	Error   string
}

// NoticeExpiry is the age after which a notice is no longer sent.
const NoticeExpiry = 24 * time.Hour

// Alerts is the part of a store that keeps channels, incidents and notices. Incidents and notices are
// written by the owner of the shard (Batch.AlertChanges).
type Alerts interface {
	// PutAlertChannel adds or replaces a channel. The store sets the times. It returns ErrFenced unless the
	// version follows the present one, and ErrRefused if there are AlertChannelsMax channels.
	PutAlertChannel(ctx context.Context, c AlertChannel) (AlertChannel, error)
	// DropAlertChannel removes a channel. It returns ErrNotFound if there is none.
	DropAlertChannel(ctx context.Context, namespace, name string) error
	// AlertChannels lists all channels, ordered by namespace and name.
	AlertChannels(ctx context.Context) ([]AlertChannel, error)

	// PutSilence adds a silence. The store sets Created. It also deletes ended silences: those that ended
	// SilencesKept ago, and all ended ones if there are SilencesMax silences. It returns ErrRefused if
	// SilencesMax silences remain.
	PutSilence(ctx context.Context, s Silence) (Silence, error)
	// EndSilence ends a silence now. It returns ErrNotFound if the silence is not in force.
	EndSilence(ctx context.Context, id uuid.UUID) (Silence, error)
	// Silences lists all silences, the newest first.
	Silences(ctx context.Context) ([]Silence, error)

	// PutAlertRules adds or replaces the rules of a namespace. The store sets the times. It returns ErrFenced
	// unless the version follows the present one.
	PutAlertRules(ctx context.Context, r AlertRules) (AlertRules, error)
	// AlertRules lists the rules that belong to no workflow, ordered by namespace.
	AlertRules(ctx context.Context) ([]AlertRules, error)
	// LostMembers lists the members that were declared dead and have not joined again, ordered by name.
	LostMembers(ctx context.Context) ([]LostMember, error)
	// Watched lists the undeleted workflows of the shards whose current version has alert rules. It may also
	// list a version whose definition contains the text of the key elsewhere. It reads no row of other
	// versions.
	Watched(ctx context.Context, shards []dag.ShardID) ([]Watched, error)

	// OpenIncidents lists the incidents of a shard that have not ended and come after the given ID, ordered
	// by ID.
	OpenIncidents(ctx context.Context, shard dag.ShardID, after uuid.UUID, limit int) ([]Incident, error)
	// Incident returns an incident, or ErrNotFound.
	Incident(ctx context.Context, id uuid.UUID) (Incident, error)
	// LastIncident returns the newest incident of a rule, or ErrNotFound.
	LastIncident(ctx context.Context, workflow dag.WorkflowID, rule string) (Incident, error)
	// Incidents lists incidents for people.
	Incidents(ctx context.Context, q IncidentQuery) ([]Incident, error)
	// Notices lists the notices of an incident, ordered by Seq and channel.
	Notices(ctx context.Context, incident uuid.UUID) ([]Notice, error)
	// DueNotices lists due notices, the oldest first.
	DueNotices(ctx context.Context, q NoticeQuery) ([]Notice, error)
	// NextNotice returns the time at which the next pending notice of the shards is due. It returns
	// ErrNotFound if none is pending.
	NextNotice(ctx context.Context, shards []dag.ShardID) (dag.Micros, error)
	// NoteNotice records the end of a call: State, Tries, Due, Ended and Error of a pending notice. It
	// returns ErrFenced unless the notice is pending and had Tries-1 calls.
	NoteNotice(ctx context.Context, n Notice) error
	// AlertTroubles lists the channels that do not accept notices, ordered by namespace and name.
	AlertTroubles(ctx context.Context, since dag.Micros) ([]Trouble, error)
	// ExpireIncidents deletes old incidents and their notices, except incidents with a pending notice. It
	// returns the number of deleted incidents.
	ExpireIncidents(ctx context.Context, x IncidentExpiry) (int, error)
}

// FindAlertChannel finds a channel in a list.
func FindAlertChannel(all []AlertChannel, namespace, name string) (AlertChannel, bool) {
	for i := range all {
		if all[i].Namespace == namespace && all[i].Name == name {
			return all[i], true
		}
	}
	return AlertChannel{}, false
}
