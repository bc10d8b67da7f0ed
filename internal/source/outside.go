package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/internal/program"
	"skein.dev/skein/internal/stamp"
	"skein.dev/skein/internal/workflow"
)

// outside makes a source that runs as a process.
func (m *Means) outside(namespace, name string, decl *workflow.Trigger, start Start) Source {
	o := decl.Outside
	return &Process{Intake: decl.Intake, Start: start, Begin: func(ctx context.Context) (*Begun, error) {
		b := &Begun{Memory: m.Memory, Start: feed.Start{Version: m.Version, Source: o.Source, With: o.With, Namespace: namespace, Workflow: name, Trigger: decl.Name}}
		types, err := m.program(o, b)
		if err != nil {
			return nil, err
		}
		rules, err := m.Rules(ctx, namespace)
		if err != nil {
			return nil, err
		}
		if b.Start.Egress, err = json.Marshal(rules); err != nil {
			return nil, err
		}
		return b, m.connect(ctx, namespace, o, types, b)
	}}
}

// program sets the program of a source. It returns the types of its connection.
func (m *Means) program(o *workflow.Outside, b *Begun) (types string, err error) {
	if workflow.IsBroker(o.Source) {
		argv, err := m.Plus()
		b.Argv = append(argv, "source", o.Source)
		return o.Source, err // the type of the connection has the name of the source
	}
	c, err := m.Extensions.Source(o.Source, o.With)
	if err != nil {
		return "", err
	}
	b.Argv, b.Dir, b.Start.Source = c.Argv, c.Folder, c.Name
	return c.Connection, nil
}

// connect adds the connection that a trigger names, with the values of its secrets.
func (m *Means) connect(ctx context.Context, namespace string, o *workflow.Outside, types string, b *Begun) error {
	switch {
	case types == "" && o.Connection == "":
		return nil
	case types == "":
		return fmt.Errorf("source %s uses no connection: remove the key connection", o.Source)
	case o.Connection == "":
		return fmt.Errorf("source %s needs the key connection: the name of a connection of type %s", o.Source, types)
	}
	c, err := m.connection(ctx, namespace, o.Connection)
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Split(types, ","), c.Type()) {
		return otherType(namespace, o.Connection, c.Type(), types)
	}
	b.Start.Connection, err = c.Resolved(func(name string) (string, error) { return m.Secret(ctx, namespace, name) })
	if err != nil {
		return err
	}
	full, err := connection.ParseResolved(b.Start.Connection)
	b.Hidden = full.Secrets()
	return err
}

// TryPlus lets skein-plus use a resolved connection of a type once. It returns a description of the other
// side.
func TryPlus(ctx context.Context, kind string, resolved json.RawMessage, rules egress.Rules) (found string, err error) {
	argv, err := stamp.Plus()
	if err != nil {
		return "", err
	}
	start := feed.Start{Protocol: feed.Protocol, Version: stamp.Build(), Source: kind, Connection: resolved}
	if start.Egress, err = json.Marshal(rules); err != nil {
		return "", err
	}
	first, err := json.Marshal(start)
	if err != nil {
		return "", err
	}
	out, said := program.Tail{Max: saidMax}, program.Tail{Max: saidMax}
	err = program.Run(ctx, &program.Call{Argv: append(argv, "test", kind), Stdin: bytes.NewReader(append(first, '\n')), Stdout: &out, Stderr: &said})
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.Shown(), nil
	case errors.As(err, &exit) && said.Shown() != "":
		return "", errors.New(said.Shown())
	}
	return "", err
}
