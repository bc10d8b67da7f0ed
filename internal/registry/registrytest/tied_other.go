//go:build !linux

package registrytest

import "os/exec"

// tie does nothing here: only on Linux can a process end together with the process that started it.
func tie(*exec.Cmd) {}
