package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Command runs a program on the node that sends. It gets the message on its standard input, and its most
// important parts as variables.
type Command struct {
	Run []string `json:"run"`
}

const (
	// exitPermanent is the exit code with which a program says that another call is useless.
	exitPermanent = 78
	// saidMax bounds the output of a program that an error shows, in bytes.
	saidMax = 500
	// commandWait is the time for which the pipes of a program that was killed may stay open.
	commandWait = time.Second
)

// passed are the variables of the node that a program gets.
var passed = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

func (c *Command) send(ctx context.Context, m *means, msg *Message) error {
	if !m.commands { // a row alone, such as one of a restored database, must not run a program
		return errors.New("this node runs no programs of channels: set alert_commands to true on the nodes that may")
	}
	body, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.Run[0], c.Run[1:]...)
	cmd.Stdin = bytes.NewReader(append(body, '\n'))
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Dir, cmd.Env = os.TempDir(), c.env(msg)
	inGroup(cmd)
	cmd.WaitDelay = commandWait
	err = cmd.Run()
	if cmd.Process != nil { // processes that it has left in its group
		_ = killGroup(cmd)
	}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // exit code 0; a process that it has left held its output open
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("the program ran for too long: %w", ctx.Err())
	case errors.As(err, &exit) && exit.ExitCode() == exitPermanent:
		return permanent("the program gave up with exit code %d%s", exitPermanent, said.shown())
	case errors.As(err, &exit):
		return fmt.Errorf("the program ended with %s%s", exit.ProcessState, said.shown())
	}
	return fmt.Errorf("the program cannot be started: %w", err)
}

func (c *Command) env(msg *Message) []string {
	var all []string
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			all = append(all, name+"="+v)
		}
	}
	d := &msg.Data
	for _, kv := range [][2]string{{"ID", d.ID}, {"TYPE", msg.Type}, {"INCIDENT", d.Incident}, {"NAMESPACE", d.Namespace}, {"WORKFLOW", d.Workflow},
		{"RULE", d.Rule}, {"SEVERITY", d.Severity}, {"EVENT", d.Event}, {"RUN", d.Run}, {"TRIGGER", d.Trigger}, {"TEXT", d.Text}} {
		all = append(all, "SKEIN_ALERT_"+kv[0]+"="+kv[1])
	}
	return all
}

// tail keeps the end of an output.
type tail struct{ buf []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > saidMax {
		t.buf = append([]byte(nil), t.buf[len(t.buf)-saidMax:]...)
	}
	return len(p), nil
}

func (t *tail) shown() string {
	text := strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(string(t.buf), ""), "\x00", ""))
	if text == "" {
		return ""
	}
	return ": " + text
}
