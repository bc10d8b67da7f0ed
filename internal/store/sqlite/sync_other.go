//go:build !linux

package sqlite

import "os"

// syncData syncs the content of a file.
func syncData(f *os.File) error { return f.Sync() }
