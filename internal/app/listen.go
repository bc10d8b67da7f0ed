package app

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"skein.dev/skein/internal/config"
)

// ErrListen is an address on which the process cannot listen. Its text names the address, the reason and
// the remedy.
var ErrListen = errors.New("cannot listen")

// portsMax is the number of ports after the default one that are tried.
const portsMax = 100

// listen opens the node's address. If the port of the default address is taken, it uses the next free port.
// It uses an address from the settings as it is, or returns an error.
func listen(c *config.Config) (net.Listener, error) {
	host, port, err := c.ListenAddress()
	if err != nil {
		return nil, err
	}
	for next := port; ; next++ {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(next)))
		switch {
		case err == nil:
			return l, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("%w on %s: %w", ErrListen, c.Listen, err)
		case c.ListenChosen:
			return nil, fmt.Errorf("%w on %s: the port is in use by another process; choose another one, or --listen %s for any free port",
				ErrListen, c.Listen, net.JoinHostPort(host, "0"))
		case next == port+portsMax || next == 65535:
			return nil, fmt.Errorf("%w: ports %d to %d of %s are all in use; choose one with --listen HOST:PORT", ErrListen, port, next, host)
		}
	}
}
