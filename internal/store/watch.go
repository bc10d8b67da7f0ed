package store

import (
	"time"

	"skein.dev/skein/internal/dag"
)

// AlertRules are alert rules that belong to no workflow. Those of SystemNamespace are about the cluster.
type AlertRules struct {
	Namespace string
	Version   int64  // counted from 1
	Data      []byte // the form of package alert
	By        string // the user who set them last
	Created   dag.Micros
	Modified  dag.Micros
}

// SystemNamespace is the namespace of objects that belong to the whole cluster.
const SystemNamespace = "system"

// LostMember is a member that was declared dead and has not joined again under its name.
type LostMember struct {
	Name    string
	Worker  bool
	Handler dag.HandlerID // the handler of the process that ended
	At      dag.Micros
}

const (
	// LostMembersMax bounds the lost members that a database keeps.
	LostMembersMax = 1000
	// LostMembersKept is the time for which a lost member is kept.
	LostMembersKept = 7 * 24 * time.Hour
)

// Watched is the current version of a workflow that may have alert rules.
type Watched struct {
	Workflow dag.WorkflowID
	Version  int32
	Def      []byte
}
