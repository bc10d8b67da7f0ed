package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"skein.dev/skein/internal/program"
	"skein.dev/skein/internal/secret"
)

// unknown returns the error for a secret that a provider does not have. The text names the place where the
// provider searched.
func unknown(format string, args ...any) error {
	return fmt.Errorf("%w: %s", secret.ErrUnknown, fmt.Sprintf(format, args...))
}

// files reads each value from a file that only the node can read.
type files struct{ pattern string }

func (f files) get(_ context.Context, namespace, name string) ([]byte, error) {
	path := fill(f.pattern, namespace, name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, unknown("there is no file %s", path)
	case err == nil && !info.Mode().IsRegular(): // a pipe would wait for its writer
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrRefused, path)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	value, err := secret.File(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRefused, path, err)
	}
	return value, nil
}

func (f files) check(context.Context) (string, error) {
	dir := fixed(f.pattern)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a folder")
	}
	if err == nil {
		_, err = os.ReadDir(dir)
	}
	if err != nil {
		return "", fmt.Errorf("the folder %s cannot be read: %w", dir, err)
	}
	return "files " + f.pattern, nil
}

// variables reads each value from an environment variable of the node.
type variables struct{ prefix string }

func (v variables) get(_ context.Context, _, name string) ([]byte, error) {
	value, ok := os.LookupEnv(v.prefix + name)
	if !ok || value == "" {
		return nil, unknown("the node has no variable %s%s", v.prefix, name)
	}
	return []byte(value), nil
}

func (v variables) check(context.Context) (string, error) {
	n := 0
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, v.prefix) {
			n++
		}
	}
	return fmt.Sprintf("this process has %d variables %s*", n, v.prefix), nil
}

// The exit codes of programs that give secrets.
const (
	exitUnknown = 66 // the secret does not exist
	exitAway    = 75 // try again
)

// command reads each value from the standard output of a program.
type command struct{ argv []string }

// limited stores an output up to the size limit of a value and its line end. A longer output ends with an
// error.
type limited struct {
	buf  []byte
	over bool
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if len(l.buf)+len(p) > secret.ValueMax+len("\r\n") {
		l.over = true
		return 0, io.ErrShortWrite
	}
	l.buf = append(l.buf, p...)
	return len(p), nil
}

// get runs the program. Its errors do not contain the output of the program, which may contain a secret.
func (c command) get(ctx context.Context, namespace, name string) ([]byte, error) {
	var out limited
	argv := append(append([]string(nil), c.argv...), namespace, name)
	err := program.Run(ctx, &program.Call{Argv: argv, Stdout: &out})
	var exit *exec.ExitError
	switch {
	case out.over:
		return nil, fmt.Errorf("%w: the output of the program is longer than %d bytes", ErrRefused, secret.ValueMax)
	case err == nil:
		return bytes.TrimSuffix(bytes.TrimSuffix(out.buf, []byte("\n")), []byte("\r")), nil
	case ctx.Err() != nil:
		return nil, ErrAway
	case !errors.As(err, &exit):
		return nil, fmt.Errorf("%w: the program cannot be started: %w", ErrRefused, err)
	case exit.ExitCode() == exitUnknown:
		return nil, unknown("the program %s has none", filepath.Base(c.argv[0]))
	case exit.ExitCode() == exitAway:
		return nil, fmt.Errorf("%w: the program ended with exit code %d", ErrAway, exitAway)
	}
	return nil, fmt.Errorf("%w: the program ended with %s: run it by hand to see why", ErrRefused, exit.ProcessState)
}

// check tests whether the program exists, and does not run it.
func (c command) check(context.Context) (string, error) {
	path := c.argv[0]
	if _, err := exec.LookPath(path); err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o002 != 0 {
		return "", fmt.Errorf("every user can change %s: chmod o-w %s", path, path)
	}
	return "the program " + path, nil
}
