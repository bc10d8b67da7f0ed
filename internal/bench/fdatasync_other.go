//go:build !linux

package bench

import "os"

// datasync writes what the kernel holds of a file to the disk. Other systems than Linux have no form of it
// that leaves the file's metadata out.
func datasync(f *os.File) error { return f.Sync() }
