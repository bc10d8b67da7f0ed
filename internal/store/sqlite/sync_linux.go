package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData brings what a file holds to the disk, and of its inode what is needed to read that: its times are not.
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
