package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"

	"skein.dev/skein/sdk/shared/local"
)

// Exposed reports whether other machines can reach the address that the node listens on.
func (c *Config) Exposed() bool {
	host, _, err := splitAddress(c.Listen)
	return err == nil && !local.Loopback(host)
}

// MayListen refuses an address that other machines can reach, unless the connection is encrypted or the
// settings allow plain text. A caller that reaches the port can run commands on this machine.
func (c *Config) MayListen() error {
	switch {
	case c.TLSCert == "" && c.TLSKey != "":
		return alone(c, "tls_key", "--tls-cert")
	case c.TLSCert != "" && c.TLSKey == "":
		return alone(c, "tls_cert", "--tls-key")
	case !c.Exposed() || c.TLSCert != "" || c.Plaintext:
		return nil
	}
	return fmt.Errorf("%w on %s: it can be reached from other machines, and tokens and everything else would pass in plain text; "+
		"give it a certificate (--tls-cert, --tls-key), or a loopback address such as %s with an SSH tunnel from elsewhere; "+
		"--insecure-plaintext allows it on a network that no one else can read", ErrNotAllowed, c.Listen, ListenDefault)
}

// alone returns the error for a setting that requires another setting.
func alone(c *Config, name, other string) error {
	return c.Wrong(name, fmt.Errorf("--tls-cert and --tls-key belong together, and there is no %s; add it", other))
}

// CheckListen refuses an address on which a node must not listen. It is called before any other work of the
// start.
func (c *Config) CheckListen() error {
	host, _, err := splitAddress(c.Listen)
	if err != nil {
		return err
	}
	if err := c.MayListen(); err != nil {
		return err
	}
	return c.reachable(host)
}

// reachable refuses a node of a cluster that would advertise an address at which other nodes cannot reach it.
func (c *Config) reachable(host string) error {
	ip := net.ParseIP(host)
	if c.Postgres == "" || c.Advertise != "" || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return nil
	}
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	return c.Wrong("listen", fmt.Errorf("the other nodes of the cluster cannot reach this one at %s; name an address that they can reach: "+
		"--advertise %s://HOST:PORT", c.Listen, scheme))
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

// ErrNotAllowed means that something is refused for security reasons.
var ErrNotAllowed = errors.New("not allowed to listen")

var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

func setBasePath(c *Config, v string) error {
	if !basePath.MatchString(v) {
		return fmt.Errorf("%q is not a path such as /skein: it begins with a slash, ends without one, and has letters, digits and . _ ~ -", v)
	}
	c.BasePath = v
	return nil
}

// loopbackSetting returns the setting that makes a node on loopback accept programs without a token.
func loopbackSetting() setting {
	return setting{name: "loopback", def: text("token"), set: func(c *Config, v string) error {
		c.LoopbackOpen = v == "open"
		return oneOf(v, "open", "token")
	}}
}

// TokenFree reports whether the node treats every caller of its port as its own user.
func (c *Config) TokenFree() bool { return c.LoopbackOpen && !c.Exposed() }

func healthSettings() []setting {
	return []setting{{name: "health_listen", def: text(""), set: setHealthListen}}
}

// setHealthListen reads an address. If the address has no host, the host is loopback.
func setHealthListen(c *Config, v string) error {
	if c.HealthListen = ""; v == "" {
		return nil
	}
	host, port, err := splitAddress(v)
	if err != nil {
		return err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	c.HealthListen = net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

// ListenAddress returns host and port of Listen.
func (c *Config) ListenAddress() (host string, port int, err error) { return splitAddress(c.Listen) }
