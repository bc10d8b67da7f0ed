//go:build !linux

package hadoop

import (
	"context"
	"encoding/json"
	"errors"

	"skein.dev/skein/internal/kind"
)

// Missing implements kind.Needy.
func (Kind) Missing(json.RawMessage) error {
	return errors.New("tasks of the kind hadoop run on Linux only")
}

// Main implements kind.Kind.
func (Kind) Main(context.Context, *kind.Env) int { return kind.Permanent }

// Release implements kind.Releaser.
func (Kind) Release(context.Context, *kind.Env) int { return kind.Permanent }
