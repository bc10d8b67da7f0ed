// Package access decides who may call what. It is pure: it reads no clock, file or store.
//
// Reading order: verb.go (the rights that a call can need), role.go (named sets of verbs), principal.go (the
// rights of one caller, and the decision), names.go (the form of names of principals and roles), rows.go (the
// verb and the object of every route), table.go (finding the row of a request).
//
// A missing verb, principal, scope or binding denies the call, as does a binding that has expired. A caller
// never gets more than its bindings say, whatever role, prefix or path it names.
package access
