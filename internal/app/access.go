package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/localtoken"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/peer"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
)

// someToken returns an error if other machines could reach the node and no caller could sign in.
func someToken(ctx context.Context, c *config.Config, st store.Tokens) error {
	if !c.Exposed() {
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
		config.ErrNotAllowed, c.Listen)
}

// secure requires TLS if there is a certificate, and credentials from callers elsewhere. It also bounds what
// the requests of callers may cost.
func (n *Node) secure() (err error) {
	if n.own, err = localtoken.New(n.cfg.Data, n.cfg.Exposed()); err != nil {
		return err
	}
	n.gate = auth.New(auth.Config{Store: n.store, Required: !n.cfg.TokenFree(), Local: n.own.Hash(), Sessions: n.sessions, Route: n.route, Channel: n.members.proofs(), Certificates: n.joining, NodesCertified: n.cfg.NodesCertified, Rates: n.cfg.Rates, Others: auth.OthersOf(n.members.list, n.engine.Handler), PerMinute: engine.NamespacesOf(n.engine.Engine).RequestsPerMinute, Refused: countRefusals(n.auditor), Log: n.log})
	n.conns = auth.NewConnections(n.listener, n.cfg.Connections, max(n.cfg.Connections, auth.ConnectionsOfAll))
	n.http.Handler = server.UnderBase(n.cfg.BasePath, n.gate.Wrap(n.handler))
	// for requests that net/http answers itself; for all other requests, the check of the credential sets the
	// deadline
	n.http.ReadTimeout = auth.StrangerBodyMax
	n.http.ConnContext, n.http.ConnState = n.conns.Context, n.conns.State
	if n.http.TLSConfig = n.tls; n.tls != nil {
		n.upkeep.certificate = n.tls.GetCertificate
	}
	return nil
}

// announce publishes the node's address for other processes, and its token for processes of the same user.
// Commands find the node of a data folder by that folder. So a command that is itself a node needs no record
// of its token.
func announce(n *Node) error {
	level := slog.LevelWarn
	if n.cfg.LoopbackOpen {
		level = slog.LevelInfo
	}
	if n.cfg.TokenFree() {
		n.log.Warn("every user of this machine can run commands as the user of this node; the next version has no loopback: open",
			"code", "loopback_open", "listen", n.cfg.Listen, "remedy", "remove the setting loopback: commands, workers and Go clients of your user find the token by themselves")
	}
	if !n.cfg.ByHand {
		n.own.Record(n.URL(), level, n.log)
	}
	return n.lock.Announce(n.URL())
}

// neighbours returns the parts of the cluster and of this process that the server needs.
func (n *Node) neighbours() neighbours {
	near := neighboursOf(n.store, n.logs, n.depot)
	n.members.forServer(&near)
	near.sessions, near.auditor, near.notifier, near.connector = n.sessions, n.auditor, n.sender, n.connector
	near.authority, near.monitor, near.events, near.source = n.authority, n.monitor, n.feeder, n.feeds.Brief
	near.git = func() server.GitSyncer { return n.git }
	near.keeping = func() time.Duration { return n.keeping().Audit.Age }
	near.metrics = append(append(near.metrics, n.doorMetrics), n.sources()...)
	return near
}

// doorMetrics shows the counters of the bounds of calls and connections.
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
	case r.ContentLength == 0: // the kind of the route does not matter
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
