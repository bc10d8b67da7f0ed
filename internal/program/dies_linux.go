package program

import (
	"os/exec"
	"syscall"
)

// diesWithUs makes the kernel kill a program when this process dies.
func diesWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
