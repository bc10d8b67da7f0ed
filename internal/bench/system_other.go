//go:build !unix

package bench

import (
	"errors"
	"os"
	"time"
)

// once starts a program and waits for its end, with nothing around it. This system has no way to do so.
func once(string, []string, *os.File) error { return errors.ErrUnsupported }

// processorTime is the processor time of this process. It is not known on this system.
func processorTime() time.Duration { return 0 }
