//go:build !linux

package bench

import "os"

// datasync writes to the disk the part of a file that only the kernel has. Systems other than Linux cannot
// leave out the file's metadata.
func datasync(f *os.File) error { return f.Sync() }
