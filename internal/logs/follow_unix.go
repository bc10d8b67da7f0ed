//go:build unix

package logs

import "golang.org/x/sys/unix"

// noFollow is the flag that refuses to open a link as a log.
const noFollow = unix.O_NOFOLLOW
