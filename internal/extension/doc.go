// Package extension reads the extensions of a machine: folders with a file extension.yaml, which declare
// kinds of tasks that run as processes. It starts no process. docs/extensions.md says what a file means.
package extension
