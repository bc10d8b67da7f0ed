package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
)

// The exit codes. They never change, because scripts rely on them.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitNotAllowed  = 4
	exitConflict    = 5
	exitInvalid     = 6
	exitUnreachable = 7
	exitTimedOut    = 8
	exitRunFailed   = 10
	exitRunStopped  = 11
	exitInterrupted = 130
)

// The following kinds of error occur only in the command line.
var (
	errUsage       = errors.New("usage")
	errTimedOut    = errors.New("timed out waiting")
	errInterrupted = errors.New("interrupted")
	errNotFound    = errors.New("not found")
	errNoData      = errors.New("nothing yet")
	errConflict    = errors.New("conflict")
	errInvalid     = errors.New("invalid")
	errUnreachable = errors.New("unreachable")
)

// errEnd says that a run did not succeed. The command has printed everything, so only the exit code must be
// set.
type errEnd struct{ code int }

func (e *errEnd) Error() string { return "the run did not succeed" }

// hinted is an error with the next command to type.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

func hint(err error, text string) error { return &hinted{err, text} }

// said is an error that shows a sentence. Its kind determines the exit code.
type said struct {
	kind error
	text string
}

func (s *said) Error() string { return s.text }
func (s *said) Unwrap() error { return s.kind }

// exits returns the table of exit codes. The first kind that matches an error gives the code.
func exits() []struct {
	kind error
	code int
} {
	return []struct {
		kind error
		code int
	}{
		{errInterrupted, exitInterrupted},
		{errUsage, exitUsage},
		{errTimedOut, exitTimedOut},
		{errNotFound, exitNotFound},
		{errNoData, exitNotFound},
		{errConflict, exitConflict},
		{errInvalid, exitInvalid},
		{errKindFailed, exitRunFailed},
		{errUnreachable, exitUnreachable},
		{dbadmin.ErrUnreachable, exitUnreachable},
		{skein.ErrNotFound, exitNotFound},
		{skein.ErrNotAllowed, exitNotAllowed},
		{config.ErrNotAllowed, exitNotAllowed},
		{fs.ErrPermission, exitNotAllowed},
		{skein.ErrConflict, exitConflict},
		{app.ErrListen, exitConflict},
		{skein.ErrInvalid, exitInvalid},
		{skein.ErrUnreachable, exitUnreachable},
		{skein.ErrUnavailable, exitUnreachable},
		{skein.ErrBusy, exitUnreachable},
		{fs.ErrNotExist, exitNotFound},
		{context.DeadlineExceeded, exitTimedOut},
		{context.Canceled, exitInterrupted},
	}
}

// exitCode returns the exit code of the process.
func exitCode(err error) int {
	var end *errEnd
	var setting *config.SettingError
	var locked *datadir.LockedError
	var faults workflow.Errors
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &end):
		return end.code
	case errors.As(err, &setting) && setting.IsFlag():
		return exitUsage
	case errors.As(err, &setting), errors.As(err, &faults):
		return exitInvalid
	case errors.As(err, &locked):
		return exitConflict
	}
	for _, row := range exits() {
		if errors.Is(err, row.kind) {
			return row.code
		}
	}
	return exitError
}

// run executes the program and returns its exit code.
func run(args []string) int {
	c := newCLI(os.Stdin, os.Stdout, os.Stderr)
	root := c.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err != nil && !c.entered {
		// The parser has refused the command line; its errors have no kind.
		err = usageError(cmd, err)
	}
	c.complain(err)
	return exitCode(err)
}

// unknownCommand matches the error of the parser about a word that is no command.
var unknownCommand = regexp.MustCompile(`^unknown command "([a-z-]+)" for "skein"`)

// meantMax bounds the commands that an error suggests.
const meantMax = 4

// usageError adds to an error of the parser the command that the user may have meant. A verb without its
// noun, such as "skein stop", gets the commands that end with the verb.
func usageError(cmd *cobra.Command, err error) error {
	if verb := unknownCommand.FindStringSubmatch(err.Error()); verb != nil {
		var full []string
		for _, noun := range cmd.Root().Commands() {
			for _, sub := range noun.Commands() {
				if sub.Name() == verb[1] && !sub.Hidden {
					full = append(full, sub.CommandPath())
				}
			}
		}
		none := &said{errUsage, "there is no command skein " + verb[1]}
		switch n := len(full); {
		case n > meantMax:
			first := full[max(slices.Index(full, "skein run "+verb[1]), 0)]
			return hint(none, "name a kind of object first, as in: "+first)
		case n > 0:
			return hint(none, "did you mean: "+strings.Join(full, ", "))
		}
	}
	return hint(&said{errUsage, err.Error()}, "see: "+cmd.CommandPath()+" --help")
}
