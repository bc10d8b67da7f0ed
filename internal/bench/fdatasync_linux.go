package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync writes what the kernel holds of a file's content to the disk.
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
