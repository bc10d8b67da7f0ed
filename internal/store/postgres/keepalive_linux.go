package postgres

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT: the time without an acknowledgement of sent data after which the
// connection is given up.
const tcpUserTimeout = 0x12

func giveUpAfter(fd uintptr, silence time.Duration) error {
	return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
}
