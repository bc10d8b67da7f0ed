package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData syncs the content of a file and those parts of its inode that are needed to read it. It does not
// sync the times of the file.
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
