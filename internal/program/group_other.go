//go:build !unix

package program

import "os/exec"

// inGroup does nothing: this system has no process groups. Its cancellation kills the program alone.
func inGroup(*exec.Cmd) {}

// killGroup kills the program.
func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
