package postgres

import (
	"syscall"
	"time"
)

// tcpUserTimeout is the socket option TCP_USER_TIMEOUT: if sent data is not acknowledged for this time, the
// connection fails.
const tcpUserTimeout = 0x12

func giveUpAfter(fd uintptr, silence time.Duration) error {
	return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
}
