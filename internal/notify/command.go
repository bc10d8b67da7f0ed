package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"

	"skein.dev/skein/internal/program"
)

// Command runs a program on the sending node. The program gets the message on its standard input, and the
// most important parts as environment variables.
type Command struct {
	Run []string `json:"run"`
}

const (
	// exitPermanent is the exit code with which a program says that another call is useless.
	exitPermanent = 78
	// saidMax bounds the bytes of a program's output that an error contains.
	saidMax = 500
)

func (c *Command) send(ctx context.Context, m *means, msg *Message) error {
	if !m.commands { // a row alone, such as one of a restored database, must not run a program
		return errors.New("this node runs no programs of channels: set alert_commands to true on the nodes that may run them")
	}
	body, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	said := program.Tail{Max: saidMax}
	err = program.Run(ctx, &program.Call{Argv: c.Run, Stdin: bytes.NewReader(append(body, '\n')), Env: c.env(msg), Stdout: &said, Stderr: &said})
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("the program was ended before it had finished: %w", ctx.Err())
	case errors.As(err, &exit) && exit.ExitCode() == exitPermanent:
		return permanent("the program gave up with exit code %d%s", exitPermanent, shown(&said))
	case errors.As(err, &exit):
		return fmt.Errorf("the program ended with %s%s", exit.ProcessState, shown(&said))
	}
	return fmt.Errorf("the program cannot be started: %w", err)
}

// env returns the most important parts of a message as environment variables.
func (c *Command) env(msg *Message) (all []string) {
	d := &msg.Data
	for _, kv := range [][2]string{{"ID", d.ID}, {"TYPE", msg.Type}, {"INCIDENT", d.Incident}, {"NAMESPACE", d.Namespace}, {"WORKFLOW", d.Workflow},
		{"RULE", d.Rule}, {"SEVERITY", d.Severity}, {"EVENT", d.Event}, {"RUN", d.Run}, {"TRIGGER", d.Trigger}, {"TEXT", d.Text}} {
		all = append(all, "SKEIN_ALERT_"+kv[0]+"="+kv[1])
	}
	return all
}

func shown(said *program.Tail) string {
	if text := said.Shown(); text != "" {
		return ": " + text
	}
	return ""
}
