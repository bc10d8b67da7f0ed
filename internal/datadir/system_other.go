//go:build !linux && !darwin

package datadir

import (
	"os"

	"skein.dev/skein/internal/worker"
)

// flock lets readers look, and locks nothing: no server runs on this system.
func flock(_ *os.File, alone bool) error {
	if alone {
		return worker.ErrSystem
	}
	return nil
}

func writable(string) error { return nil }
