// Package artifact stores the files that tasks produce, by run, task and attempt.
//
// A Store has the files. A Keeper copies files from the working directory of an attempt into a Store, within
// limits. Either all files of an attempt are stored or none: a Store shows them only after their list is
// written, which is the last step.
//
// Reading order: artifact.go (the contract), keep.go, pick.go, folder.go; inputs.go: the files that attempts
// get from others.
package artifact
