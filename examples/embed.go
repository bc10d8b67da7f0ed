// Package examples holds the example workflows, so that a skein that was installed alone has them too.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed access-log fails-on-purpose hello job-center timezones
var files embed.FS

// FS is the folder of the examples.
func FS() fs.FS { return files }
