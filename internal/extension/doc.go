// Package extension reads the extensions of a machine. An extension is a folder with a file extension.yaml,
// which declares kinds of tasks that run as processes. The package starts no process. docs/extensions.md
// describes the file.
package extension
