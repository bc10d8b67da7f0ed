package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Stream is a program that runs until its input ends, and whose output is read line by line. On Linux it is
// killed when this process dies.
type Stream struct {
	In    io.WriteCloser // standard input of the program
	Lines *bufio.Scanner // lines of its standard output
	cmd   *exec.Cmd
	out   *os.File
	ended chan struct{}
	err   error // error of Wait; valid once ended is closed
}

// StreamOptions are the bounds and the place of a Stream.
type StreamOptions struct {
	Dir     string // "" means the folder for temporary files
	LineMax int    // bytes of the longest line
}

// Open starts a program as a Stream. Stdin and Stdout of the call are not used. The caller calls End.
func Open(c *Call, o StreamOptions) (*Stream, error) {
	cmd := exec.CommandContext(context.Background(), c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = o.Dir, environment(c.Env), c.Stderr
	if cmd.Dir == "" {
		cmd.Dir = os.TempDir()
	}
	inGroup(cmd)
	diesWithUs(cmd)
	cmd.WaitDelay = pipesMax
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, given, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = given
	s := &Stream{In: in, Lines: bufio.NewScanner(out), cmd: cmd, out: out, ended: make(chan struct{})}
	s.Lines.Buffer(make([]byte, 0, 64<<10), o.LineMax)
	started := make(chan error)
	go func() {
		// The kernel kills the program when the thread ends that started it, so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = given.Close() //nolint:errcheck // nothing was written
		started <- err
		if err == nil {
			s.err = cmd.Wait()
			close(s.ended)
		}
	}()
	if err := <-started; err != nil {
		_ = out.Close() //nolint:errcheck // nothing was read
		return nil, err
	}
	return s, nil
}

// Kill kills the program and its group, unless the program has ended. The caller still calls End.
func (s *Stream) Kill() {
	if !s.gone() {
		_ = killGroup(s.cmd)
	}
}

// gone reports whether the program has ended. Its number may then be that of another process.
func (s *Stream) gone() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// End ends the input, and kills the program and its group after a grace. It returns how the program ended:
// nil after exit code 0, an *exec.ExitError after another end.
func (s *Stream) End(grace time.Duration) error {
	_ = s.In.Close() //nolint:errcheck // the program may have closed it
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
	}
	_ = killGroup(s.cmd)
	<-s.ended
	err := s.err
	if errors.Is(err, exec.ErrWaitDelay) { // a process that it has left held its stderr open
		err = nil
	}
	if closing := s.out.Close(); err == nil && closing != nil {
		err = fmt.Errorf("close its output: %w", closing)
	}
	return err
}
