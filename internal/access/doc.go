// Package access decides who may call what. It is pure: it reads no clock, file or store.
//
// Reading order: verb.go (what a call can need), role.go (named sets of verbs), principal.go (the rights of
// one caller, and the decision), names.go (how names of principals and roles are written), rows.go (the verb
// and the object of every route), table.go (how the row of a request is found).
//
// A missing verb, principal, scope or binding denies the call, as does a binding that has expired. There is
// no role, prefix or path that a caller can name to get more than its bindings say.
package access
