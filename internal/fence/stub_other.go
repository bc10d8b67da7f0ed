//go:build linux && !amd64 && !arm64

package fence

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported says whether processes can be started behind a fence on this architecture.
const supported = false

// Bound is a limit of a process (ulimit).
type Bound struct {
	Resource uintptr
	Limit    unix.Rlimit
}

// Bounds returns an error: New makes no fence on this architecture.
func Bounds() ([3]Bound, error) { return [3]Bound{}, &EnterError{errors.ErrUnsupported} }

// StartFiltered returns an error: New makes no fence on this architecture.
func (f *Fence) StartFiltered(string, []string, *syscall.ProcAttr) (int, error) {
	return 0, &EnterError{errors.ErrUnsupported}
}

// StartProcess returns an error: New makes no fence on this architecture.
func (f *Fence) StartProcess(string, []string, *syscall.ProcAttr) (int, error) {
	return 0, &EnterError{errors.ErrUnsupported}
}
