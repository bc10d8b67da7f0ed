package app

import (
	"context"
	"encoding/json"
	"net/http"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/source"
)

// connector uses connections on this node.
type connector struct {
	n        *Node
	database []egress.Own
}

// rules returns the rules for calls that this node makes for a namespace to addresses that users choose. The
// namespace "" stands for the installation.
func (c connector) rules(ctx context.Context, namespace string) (egress.Rules, error) {
	rules := c.n.egressHere(c.n.egressRules())
	if namespace == "" {
		return rules, nil
	}
	is, _, err := engine.NamespacesOf(c.n.engine.Engine).Demands(ctx, namespace)
	return rules.Under(namespace, is.Egress), err
}

// Test implements server.Connector.
func (c connector) Test(ctx context.Context, namespace string, is *connection.Config) (string, error) {
	rules := egress.RulesFor(c.rules)
	return is.Test(ctx, &connection.Means{
		Secret: func(ctx context.Context, name string) (string, error) {
			value, err := c.n.secrets.Value(ctx, namespace, name, false)
			return string(value), err
		},
		Transport: func() (http.RoundTripper, error) { return rules.Transport(ctx, namespace) },
		Dial:      rules.Dialer(namespace),
		Plus: func(ctx context.Context, kind string, resolved json.RawMessage) (string, error) {
			is, err := rules(ctx, namespace)
			if err != nil {
				return "", err
			}
			return source.TryPlus(ctx, kind, resolved, is)
		},
		Protected: c.n.cfg.Unwatched(),
	})
}
