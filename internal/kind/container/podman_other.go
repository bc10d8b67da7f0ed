//go:build !linux

package container

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/kind"
)

// Engine returns an error, because containers run only on Linux.
func Engine(Settings) (string, error) { return "", errors.New("containers run on Linux only") }

// Main implements kind.Kind.
func (Kind) Main(_ context.Context, env *kind.Env) int {
	fmt.Fprintln(env.Stderr, "skein: containers run on Linux only")
	return kind.Failed
}

// InsideArg is the argument after the name of the kind for the first process of a container.
const InsideArg = "inside"

// Inside refuses: containers run on Linux only.
func Inside() int { return kind.Failed }
