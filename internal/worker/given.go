//go:build linux

package worker

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// newGiven returns a file in memory with the input of a kind, which may contain secrets. Only the user uid
// may read the file, and no process can change it. 0 is the worker's user. The kernel frees the file when the
// last process that has it open ends, even if all of them are killed.
func newGiven(input []byte, uid, gid uint32) (*os.File, error) {
	fd, err := unix.MemfdCreate("skein-input", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make the input of the kind in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "skein-input")
	_, err = file.Write(input)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = unix.Fchmod(fd, 0o400)
	}
	if err == nil && uid != 0 {
		err = unix.Fchown(fd, int(uid), int(gid))
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the input of the kind in memory: %w", err), file.Close())
	}
	return file, nil
}
