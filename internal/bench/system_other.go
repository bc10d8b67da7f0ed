//go:build !unix

package bench

import (
	"errors"
	"os"
	"time"
)

// once returns an error, because this system has no way to start a program with nothing around it.
func once(string, []string, *os.File) error { return errors.ErrUnsupported }

// processorTime returns the processor time of this process. It is not known on this system.
func processorTime() time.Duration { return 0 }
