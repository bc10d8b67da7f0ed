package access

import (
	"fmt"
	"slices"
)

// Role is a named set of verbs.
type Role struct {
	Name  string
	Verbs Verbs
}

// Everywhere is the namespace of a binding for all namespaces and for the cluster.
const Everywhere = "*"

var (
	viewerVerbs = VerbsOf(WorkflowRead, RunRead, ScheduleRead, QueueRead, Graph, Explain, Events, AlertRead,
		LogRead, ArtifactRead, RunValues, NamespaceRead)
	operatorVerbs = viewerVerbs | VerbsOf(RunStart, RunControl, RunRedo, ScheduleOperate, BackfillWrite,
		WorkflowOperate, RunApprove, RunMark, AlertOperate, EventSend)
	editorVerbs = operatorVerbs | VerbsOf(WorkflowSource, WorkflowWrite, WorkflowDelete, QueueWrite, ConnectionRead)
	adminVerbs  = editorVerbs | VerbsOf(SecretList, SecretWrite, AlertChannel, ConnectionWrite, ClassRead, ClassWrite, MemberWrite, TokenNamespace, AuditRead)
	// assignable is the set of verbs that roles can have: each verb before Public.
	assignable   = Verbs(1<<Public - 1<<WorkflowRead)
	auditorVerbs = VerbsOf(AuditRead, WorkflowRead, RunRead, ScheduleRead, QueueRead, NamespaceRead, UserRead, RoleRead)
)

// builtin are the built-in roles, from the narrowest to the widest.
var builtin = []Role{
	{"viewer", viewerVerbs},
	{"operator", operatorVerbs},
	{"editor", editorVerbs},
	{"admin", adminVerbs},
	{"cluster", assignable},
	{"auditor", auditorVerbs},
}

// Builtin returns the built-in roles.
func Builtin() []Role { return slices.Clone(builtin) }

// BuiltinRole finds a built-in role.
func BuiltinRole(name string) (Role, bool) {
	for _, r := range builtin {
		if r.Name == name {
			return r, true
		}
	}
	return Role{}, false
}

// NewRole makes a custom role. It returns an error for the name of a built-in role and for an empty set.
func NewRole(name string, verbs Verbs) (Role, error) {
	name, err := Name(name)
	if err != nil {
		return Role{}, err
	}
	switch _, taken := BuiltinRole(name); {
	case taken:
		return Role{}, fmt.Errorf("the role %s comes with the program; choose another name", name)
	case verbs == 0:
		return Role{}, fmt.Errorf("the role %s has no verb; give it at least one", name)
	case !assignable.Covers(verbs):
		return Role{}, fmt.Errorf("the role %s has verbs that no role can hold: %s", name, verbs&^assignable)
	}
	return Role{name, verbs}, nil
}

// Holders returns the names of the roles that have a verb: first the built-in ones, then custom ones.
func Holders(v Verb, custom ...Role) []string {
	names := []string{}
	for _, roles := range [...][]Role{builtin, custom} {
		for _, r := range roles {
			if r.Verbs.Has(v) {
				names = append(names, r.Name)
			}
		}
	}
	return names
}
