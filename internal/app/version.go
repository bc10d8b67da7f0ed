package app

import "skein.dev/skein/internal/stamp"

// Version is the version of this program.
func Version() string { return stamp.Version() }
