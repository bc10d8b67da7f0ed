package access

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"skein.dev/skein/internal/suggest"
)

// Verb is a right that a call needs. The zero Verb is no right: every decision about it denies.
type Verb uint8

// The verbs. A verb is about one namespace, unless it says that it is about the cluster.
const (
	_ Verb = iota

	// Reads.
	WorkflowRead
	RunRead
	ScheduleRead
	QueueRead
	Graph
	Explain
	Events
	AlertRead
	LogRead
	ArtifactRead
	RunValues // parameters and outputs
	NamespaceRead

	// Verbs of operators.
	RunStart
	RunControl // stop, kill, pause, resume
	RunRedo    // recover, rerun, retry
	ScheduleOperate
	BackfillWrite
	WorkflowOperate // pause, resume
	RunApprove
	RunMark      // mark, skip
	AlertOperate // acknowledge, resolve
	EventSend    // send events to triggers and waiting tasks

	// Verbs of editors.
	WorkflowSource
	WorkflowWrite
	WorkflowDelete
	QueueWrite
	ConnectionRead // read and test connections

	// Verbs of the admins of a namespace.
	SecretList
	SecretWrite
	AlertChannel // read, change and test channels
	ConnectionWrite
	MemberWrite
	TokenNamespace
	AuditRead

	// The cluster.
	NodeRead
	NodeControl
	ShardMove
	SchedulerRead
	SchedulerControl
	ClassRead
	ClassWrite
	TokenAll
	UserRead
	UserWrite
	UserImpersonate
	RoleRead
	RoleWrite
	KeyRotate
	NamespaceWrite
	Verify
	Metrics

	// Verbs that no role can have.

	Public     // every caller has it; the row of the call says why
	Self       // every known principal has it, for calls about itself
	WorkerCall // calls of the workers' protocol
	NodeCall   // calls between the nodes of a cluster
	WorkerJoin // calls of a worker with an invitation

	verbsEnd
)

var verbNames = [verbsEnd]string{
	WorkflowRead: "workflow.read", RunRead: "run.read", ScheduleRead: "schedule.read", QueueRead: "queue.read",
	Graph: "graph", Explain: "explain", Events: "events", AlertRead: "alert.read", LogRead: "log.read", ArtifactRead: "artifact.read",
	RunValues: "run.values", NamespaceRead: "namespace.read",
	RunStart: "run.start", RunControl: "run.control", RunRedo: "run.redo", ScheduleOperate: "schedule.operate",
	BackfillWrite: "backfill.write", WorkflowOperate: "workflow.operate", RunApprove: "run.approve", RunMark: "run.mark", AlertOperate: "alert.operate", EventSend: "event.send",
	WorkflowSource: "workflow.source", WorkflowWrite: "workflow.write", WorkflowDelete: "workflow.delete",
	QueueWrite: "queue.write", ConnectionRead: "connection.read",
	SecretList: "secret.list", SecretWrite: "secret.write", AlertChannel: "alert.channel", ConnectionWrite: "connection.write", MemberWrite: "member.write", TokenNamespace: "token.ns",
	AuditRead: "audit.read",
	NodeRead:  "node.read", NodeControl: "node.control", ShardMove: "shard.move", SchedulerRead: "scheduler.read",
	SchedulerControl: "scheduler.control", ClassRead: "class.read", ClassWrite: "class.write", TokenAll: "token.all",
	UserRead: "user.read", UserWrite: "user.write", UserImpersonate: "user.impersonate", RoleRead: "role.read",
	RoleWrite: "role.write", KeyRotate: "key.rotate", NamespaceWrite: "namespace.write", Verify: "verify", Metrics: "metrics",
	Public: "public", Self: "self", WorkerCall: "worker.call", NodeCall: "node.call", WorkerJoin: "worker.join",
}

// String returns the verb's name, or "none" for a number that is not a verb.
func (v Verb) String() string {
	if v == 0 || v >= verbsEnd {
		return "none"
	}
	return verbNames[v]
}

// MarshalText writes the verb's name.
func (v Verb) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// ParseVerb finds a verb that a role can have.
func ParseVerb(name string) (Verb, error) {
	for v := range assignable.All() {
		if verbNames[v] == name {
			return v, nil
		}
	}
	err := fmt.Errorf("there is no verb %.60q", name)
	if like := suggest.Nearest(name, slices.Values(assignable.Names())); like != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, like)
	}
	return 0, err
}

// Verbs is a set of verbs. The zero Verbs is empty.
type Verbs uint64

// VerbsOf returns a set of verbs. It leaves out numbers that are not verbs.
func VerbsOf(verbs ...Verb) (set Verbs) {
	for _, v := range verbs {
		if v != 0 && v < verbsEnd {
			set |= 1 << v
		}
	}
	return set
}

// Has reports whether a verb is in the set. The zero Verb is in no set.
func (s Verbs) Has(v Verb) bool { return v != 0 && v < verbsEnd && s>>v&1 == 1 }

// Covers reports whether the set has every verb of other.
func (s Verbs) Covers(other Verbs) bool { return other&^s == 0 }

// All yields the verbs of the set in their order.
func (s Verbs) All() func(yield func(Verb) bool) {
	return func(yield func(Verb) bool) {
		for rest := uint64(s); rest != 0; rest &= rest - 1 {
			if v := Verb(bits.TrailingZeros64(rest)); v >= verbsEnd || !yield(v) {
				return
			}
		}
	}
}

// Names returns the names of the verbs in their order.
func (s Verbs) Names() []string {
	names := []string{}
	for v := range s.All() {
		names = append(names, v.String())
	}
	return names
}

// String returns the names, separated by spaces.
func (s Verbs) String() string { return strings.Join(s.Names(), " ") }

// ParseVerbs reads the names of verbs that a role can have.
func ParseVerbs(names []string) (set Verbs, err error) {
	for _, name := range names {
		v, err := ParseVerb(name)
		if err != nil {
			return 0, err
		}
		set |= VerbsOf(v)
	}
	return set, nil
}
