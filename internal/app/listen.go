package app

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// ErrListen is an address on which the process cannot listen. Its text names the address, the reason and
// the remedy.
var ErrListen = errors.New("cannot listen")

// portsMax is how many ports after the usual one are tried.
const portsMax = 100

// checkListen refuses an address before anything is done for it.
func checkListen(c *Config) error {
	host, _, err := splitAddress(c.Listen)
	if err != nil {
		return err
	}
	if err := mayOpen(c); err != nil {
		return err
	}
	return reachable(c, host)
}

// reachable refuses a node of a cluster that tells the others no address that leads to it.
func reachable(c *Config, host string) error {
	ip := net.ParseIP(host)
	if c.Postgres == "" || c.Advertise != "" || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return nil
	}
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	return &SettingError{Name: "listen", Origin: c.origin("listen"),
		Err: fmt.Errorf("the other nodes of the cluster cannot reach this one at %s; name an address that they can reach: "+
			"--advertise %s://HOST:PORT", c.Listen, scheme)}
}

// listen opens the node's address. The default address moves to the next free port if its port is taken. An
// address that was set is used as it is, or refused.
func listen(c *Config) (net.Listener, error) {
	host, port, err := splitAddress(c.Listen)
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

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%q is not HOST:PORT, such as %s", address, ListenDefault)
	}
	return host, port, nil
}

// ErrNotAllowed is something that is refused for safety.
var ErrNotAllowed = errors.New("not allowed to listen")
