//go:build !linux

package sqlite

import "os"

// syncData brings what a file holds to the disk.
func syncData(f *os.File) error { return f.Sync() }
