//go:build unix

package logs

import "golang.org/x/sys/unix"

// noFollow is the flag with which no link is opened as a log.
const noFollow = unix.O_NOFOLLOW
