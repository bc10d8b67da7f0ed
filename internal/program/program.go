// Package program runs programs that the settings of a node name, on its behalf: in a clean environment, in a
// process group that ends with the program, and only until the context ends.
package program

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// pipesMax is the time for which the pipes of a program that was killed may stay open.
const pipesMax = time.Second

// passed are the variables of this process that a program gets.
var passed = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// Call is one run of a program.
type Call struct {
	Argv           []string // the program and its arguments; at least one
	Stdin          io.Reader
	Env            []string // variables in addition to the passed ones
	Stdout, Stderr io.Writer
}

// Run runs a program to its end, and kills the processes that are left in its process group. If the program
// failed, the error is an *exec.ExitError, unless ctx has ended. It is no error if a process keeps the
// output open.
func Run(ctx context.Context, c *Call) error {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.Dir, cmd.Env = os.TempDir(), environment(c.Env)
	inGroup(cmd)
	cmd.WaitDelay = pipesMax
	err := cmd.Run()
	if cmd.Process != nil { // kills the processes that the program has left in its group
		_ = killGroup(cmd)
	}
	if errors.Is(err, exec.ErrWaitDelay) { // exit code 0; a process that it has left held its output open
		return nil
	}
	return err
}

func environment(more []string) (all []string) {
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			all = append(all, name+"="+v)
		}
	}
	return append(all, more...)
}

// Tail keeps the end of an output. The zero Tail keeps nothing.
type Tail struct {
	Max int // number of bytes that are kept
	buf []byte
}

// Write implements io.Writer. It takes everything.
func (t *Tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > t.Max {
		t.buf = append([]byte(nil), t.buf[len(t.buf)-t.Max:]...)
	}
	return len(p), nil
}

// Shown returns the kept text for people.
func (t *Tail) Shown() string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(string(t.buf), ""), "\x00", ""))
}
