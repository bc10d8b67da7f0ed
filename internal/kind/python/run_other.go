//go:build !linux

package python

import (
	"context"
	"encoding/json"
	"errors"

	"skein.dev/skein/internal/kind"
)

// Found describes what this machine has for the kind.
func Found() (string, error) { return "", errors.New("tasks of the kind python run on Linux only") }

// Missing implements kind.Needy.
func (Kind) Missing(json.RawMessage) error {
	_, err := Found()
	return err
}

// Prepare implements kind.Preparer.
func (Kind) Prepare(context.Context, *kind.Env) int { return kind.Permanent }

// Main implements kind.Kind.
func (Kind) Main(context.Context, *kind.Env) int { return kind.Permanent }
