package app

import (
	"context"
	"encoding/json"
	"net"
	"net/http"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/source"
)

// connector uses connections on this node.
type connector struct {
	n        *Node
	database []egress.Own
}

// rules returns the rules for requests that this node sends to addresses that users choose.
func (c connector) rules() egress.Rules { return c.n.egressHere(c.n.egressRules()) }

// transport makes a transport for one call, because the rules may be different for the next call.
func (c connector) transport() (http.RoundTripper, error) {
	t, err := egress.Transport(c.rules())
	if err != nil {
		return nil, err
	}
	t.DisableKeepAlives = true
	return t, nil
}

func (c connector) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dial, err := egress.Dialer(c.rules())
	if err != nil {
		return nil, err
	}
	return dial(ctx, network, address)
}

// Test implements server.Connector.
func (c connector) Test(ctx context.Context, namespace string, is *connection.Config) (string, error) {
	return is.Test(ctx, &connection.Means{
		Secret: func(ctx context.Context, name string) (string, error) {
			value, err := c.n.secrets.Value(ctx, namespace, name, false)
			return string(value), err
		},
		Transport: c.transport,
		Dial:      c.dial,
		Plus: func(ctx context.Context, kind string, resolved json.RawMessage) (string, error) {
			return source.TryPlus(ctx, kind, resolved, c.rules())
		},
		Protected: c.n.cfg.Unwatched(),
	})
}
