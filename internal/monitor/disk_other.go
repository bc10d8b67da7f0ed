//go:build !linux && !darwin

package monitor

import (
	"errors"
	"time"
)

// Disk returns errors.ErrUnsupported: the bytes of a disk are not known on this system.
func Disk(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

// processorTime returns 0: the time is not known on this system.
func processorTime() time.Duration { return 0 }
