package app

import "skein.dev/skein/internal/stamp"

// Version returns the version of this program.
func Version() string { return stamp.Version() }
