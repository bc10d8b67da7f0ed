package program

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestEndedStream: the memory of a program that has ended is 0, and it is not killed, also if another process
// has its number by now.
func TestEndedStream(t *testing.T) {
	s, err := Open(&Call{Argv: []string{"/bin/true"}}, StreamOptions{LineMax: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	<-s.ended
	other := exec.CommandContext(t.Context(), "/bin/sleep", "60")
	inGroup(other)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd.Process = other.Process
	if bytes := s.Memory(); bytes != 0 {
		t.Errorf("it takes %d bytes", bytes)
	}
	s.Kill()
	s.cmd.Process, _ = os.FindProcess(1 << 30)
	_ = s.End(time.Second)
	_ = other.Process.Signal(os.Interrupt)
	if state, err := other.Process.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("the other process ended by %v, %v", state, err)
	}
}
