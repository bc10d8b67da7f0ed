package postgres

import (
	"context"
	"net"
	"strings"
	"syscall"
	"time"
)

// dialer returns a dialer whose connections fail after silence if the other machine is gone. A machine that
// has lost its power does not close its connections.
func dialer(silence time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 6, Count: 4},
		Control: func(network, _ string, raw syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			var set error
			if err := raw.Control(func(fd uintptr) { set = giveUpAfter(fd, silence) }); err != nil {
				return err
			}
			return set
		},
	}
	return d.DialContext
}
