package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/local"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/peer"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
)

// open reports whether other machines can reach the address that the node listens on.
func (c *Config) open() bool {
	host, _, err := splitAddress(c.Listen)
	return err == nil && !isLoopback(host)
}

// IsLoopback reports whether a host is this machine by its loopback address.
func IsLoopback(host string) bool { return isLoopback(host) }

func isLoopback(host string) bool { return local.Loopback(host) }

// mayOpen refuses an address that other machines could reach, unless the connection is encrypted or the
// configuration allows plain text. A caller that reaches the port can run commands on this machine.
func mayOpen(c *Config) error {
	switch {
	case c.TLSCert == "" && c.TLSKey != "":
		return alone(c, "tls_key", "--tls-cert")
	case c.TLSCert != "" && c.TLSKey == "":
		return alone(c, "tls_cert", "--tls-key")
	case !c.open() || c.TLSCert != "" || c.Plaintext:
		return nil
	}
	return fmt.Errorf("%w on %s: it can be reached from other machines, and tokens and everything else would pass in plain text; "+
		"give it a certificate (--tls-cert, --tls-key), or a loopback address such as %s with an SSH tunnel from elsewhere; "+
		"--insecure-plaintext allows it on a network that no one else can read", ErrNotAllowed, c.Listen, ListenDefault)
}

// alone is the error of a setting that needs another one.
func alone(c *Config, name, other string) error {
	return &SettingError{Name: name, Origin: c.origin(name), Err: fmt.Errorf("--tls-cert and --tls-key belong together, and there is no %s; add it", other)}
}

// someToken refuses to open the node to other machines as long as no caller could sign in.
func someToken(ctx context.Context, c *Config, st store.Tokens) error {
	if !c.open() {
		return nil
	}
	all, err := st.TokenList(ctx)
	if err != nil {
		return fmt.Errorf("read the tokens: %w", err)
	}
	for i := range all {
		if all[i].Kind == store.TokenAPI && all[i].Revoked == 0 {
			return nil
		}
	}
	return fmt.Errorf("%w on %s: every call from there needs a token, and there is none; make one first: skein token create --kind api",
		ErrNotAllowed, c.Listen)
}

// secure loads the certificate, requires tokens of callers from other machines, and bounds the cost of
// callers.
func (n *Node) secure() (err error) {
	if n.own, err = newOwnToken(n.cfg); err != nil {
		return err
	}
	n.gate = auth.New(auth.Config{Store: n.store, Required: !n.cfg.loopbackOpen(), Local: n.own.hash, Sessions: n.sessions, Route: n.route, Channel: n.member.proofs(), Refused: countRefusals(n.auditor), Log: n.log})
	n.conns = auth.NewConnections(n.listener, n.cfg.Connections, max(n.cfg.Connections, auth.ConnectionsOfAll))
	n.http.Handler = server.UnderBase(n.cfg.BasePath, n.gate.Wrap(n.handler))
	n.http.ReadTimeout = auth.StrangerBodyMax // of what net/http answers itself; the gate sets its own
	n.http.ConnContext, n.http.ConnState = n.conns.Context, n.conns.State
	n.http.TLSConfig, n.settled.read, err = serverTLS(n.cfg, n.log)
	if n.http.TLSConfig != nil {
		n.upkeep.certificate = n.http.TLSConfig.GetCertificate
	}
	return err
}

// neighbours returns the parts of the cluster and of this process that the server needs.
func (n *Node) neighbours() neighbours {
	near := neighboursOf(n.store, n.member, n.logs)
	n.sessions = auth.NewSessions(n.store)
	near.sessions, near.auditor = n.sessions, n.auditor
	near.keeping = func() time.Duration { return n.keeping().Audit.Age }
	near.metrics = append(append(near.metrics, n.doorMetrics), n.sources()...)
	return near
}

// doorMetrics shows what the bounds of calls and connections count.
func (n *Node) doorMetrics(p *metric.Page) {
	p.Set("calls_refused_total", float64(n.gate.Refused()))
	p.Set("connections_closed_total", float64(n.conns.Closed()))
	p.Set("body_bytes", float64(n.gate.BodyBytes()))
}

// route describes a request before its body is read.
func (n *Node) route(r *http.Request) auth.Route {
	row, _ := access.Match(r)
	out := auth.Route{Verb: row.Verb}
	switch {
	case r.ContentLength == 0: // whatever it may be
	case row.Of == access.OfWorker:
		out.BodyMax = home.CallBytesMax
	case row.Of == access.OfNode && strings.HasPrefix(r.URL.Path, home.PeerPrefix):
		out.BodyMax = home.PeerBytesMax
	case row.Of == access.OfNode:
		out.BodyMax = peer.BodyMax
	default:
		out.BodyMax = n.server.BodyMax(r)
	}
	return out
}
