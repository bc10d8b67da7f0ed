package app

import (
	"strings"

	"skein.dev/skein/internal/config"
)

// Reload reads the settings again while the node runs: see config.Live.
func (n *Node) Reload(load func() (*config.Config, error)) { n.settings.Reload(load) }

// apply applies a changed setting. It returns false if the setting needs a restart.
func (n *Node) apply(name string, to *config.Config) bool {
	switch {
	case name == "tls_cert", name == "tls_key":
		return n.cfg.TLSCert != "" && to.TLSCert != "" // the certificate was read again
	case name == "pass_env":
		return n.worker.PassEnv(to.PassEnv)
	case strings.HasPrefix(name, "retention_"):
		n.newer.Store(to)
		select {
		case n.rekept <- struct{}{}:
		default:
		}
		return true
	}
	return false
}

// keeping returns the present settings of retention.
func (n *Node) keeping() *config.Config {
	if c := n.newer.Load(); c != nil {
		return c
	}
	return n.cfg
}
