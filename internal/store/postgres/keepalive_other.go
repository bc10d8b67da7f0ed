//go:build !linux

package postgres

import "time"

// giveUpAfter does nothing, because no portable option exists. Keep-alive probes are used in any case.
func giveUpAfter(uintptr, time.Duration) error { return nil }
