//go:build unix

package logs

import "golang.org/x/sys/unix"

// noFollow is the flag with which a link cannot be opened as a log.
const noFollow = unix.O_NOFOLLOW
