package boxtest

import (
	"os/exec"
	"syscall"
)

// kernel returns an error if this kernel, or this user, cannot make containers.
func kernel() error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	return cmd.Run()
}
