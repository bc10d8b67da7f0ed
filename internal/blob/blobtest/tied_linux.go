package blobtest

import (
	"os/exec"
	"syscall"
)

// tie lets a server end with this process, also if a test is killed or panics.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
