package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData syncs the content of a file, and the parts of its inode that are needed to read it, which
// excludes its times.
func syncData(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var synced error
	err = c.Control(func(fd uintptr) {
		for {
			if synced = unix.Fdatasync(int(fd)); !errors.Is(synced, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, synced)
}
