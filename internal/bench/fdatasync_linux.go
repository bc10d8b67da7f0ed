package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync writes to the disk the part of a file's content that only the kernel has.
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
