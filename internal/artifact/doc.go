// Package artifact keeps files that tasks leave behind, under run, task and attempt.
//
// A Store is a place for them; one file each. A Keeper takes what an attempt has left in its
// working directory there, within bounds. Either all files of an attempt are kept or none: they
// are seen when their list is, and that comes last.
//
// Reading order: artifact.go (the contract), keep.go, pick.go, folder.go; inputs.go: what attempts get of
// others.
package artifact
