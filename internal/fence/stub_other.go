//go:build linux && !amd64 && !arm64

package fence

import (
	"errors"
	"syscall"
)

// supported says whether processes can be started behind a fence on this architecture.
const supported = false

// StartFiltered returns an error: New makes no fence on this architecture.
func (f *Fence) StartFiltered(string, []string, *syscall.ProcAttr) (int, error) {
	return 0, &EnterError{errors.ErrUnsupported}
}

// StartProcess returns an error: New makes no fence on this architecture.
func (f *Fence) StartProcess(string, []string, *syscall.ProcAttr) (int, error) {
	return 0, &EnterError{errors.ErrUnsupported}
}
