package postgres

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT: after how long without an acknowledgement of what
// was sent the connection is given up.
const tcpUserTimeout = 0x12

func giveUpAfter(fd uintptr, silence time.Duration) error {
	return syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
}
