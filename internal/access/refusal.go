package access

import (
	"fmt"
	"strings"

	"skein.dev/skein/internal/dag"
)

// Refusal is the reason why a call is refused.
type Refusal struct {
	// Verb is the verb that the caller lacks in Namespace. If Namespace is Everywhere, the call is about the
	// cluster.
	Verb      Verb
	Namespace string
	// Hidden says that the caller may not know whether the object exists. The answer is then the same as for an
	// object that does not exist.
	Hidden bool
	// Roles are the roles that have the verb.
	Roles []string
}

// Error names the missing verb and the roles that have it. For a hidden refusal it names nothing.
func (r *Refusal) Error() string {
	if r.Hidden {
		return "there is no such object"
	}
	text := fmt.Sprintf("this call needs the verb %s in %s", r.Verb, place(r.Namespace))
	if len(r.Roles) > 0 {
		text += "; ask an administrator for a role that has it: " + strings.Join(r.Roles, ", ")
	}
	return text
}

// Need is the verb that a call needs, with its object.
type Need struct {
	Verb Verb
	// See is the verb that shows the object. Zero means that every caller may see that the object exists.
	See Verb
	// Namespace is the namespace of the object. If it is Everywhere, the object belongs to the cluster.
	Namespace string
}

// Check returns nil if the principal has the verb that the call needs, and otherwise a *Refusal. If the
// principal may not see the object, the refusal hides whether it exists. The refusal names the roles in
// custom in addition to the built-in ones.
func Check(p *Principal, need Need, now dag.Micros, custom ...Role) error {
	if Decide(p, need.Verb, need.Namespace, now) {
		return nil
	}
	hidden := need.See != 0 && !Decide(p, need.See, need.Namespace, now)
	return &Refusal{Verb: need.Verb, Namespace: need.Namespace, Hidden: hidden, Roles: Holders(need.Verb, custom...)}
}
