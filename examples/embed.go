// Package examples holds the example workflows, so that a skein that was installed alone has them too.
package examples

import (
	"embed"
	"io/fs"
)

// The files that the examples produce (out/) are in the same folders and must stay out.
//
//go:embed */README.md */workflow.yaml */*.py */*.sh */*.ics */data
var files embed.FS

// FS returns the folder of the examples.
func FS() fs.FS { return files }
