//go:build !linux

package boxtest

import "errors"

// kernel returns an error, because only Linux makes containers.
func kernel() error { return errors.New("this is not Linux") }
