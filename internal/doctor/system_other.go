//go:build !linux && !darwin

package doctor

import (
	"math"

	"skein.dev/skein/internal/worker"
)

// noLimit means that the system sets no limit.
const noLimit = math.MaxUint64

// processLimits returns an error, because the limits are not known on this system.
func processLimits() (files, procs uint64, err error) { return 0, 0, worker.ErrSystem }
