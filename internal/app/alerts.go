package app

import (
	"context"
	"net/http"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/notify"
)

// newSender makes the sender of the notices of this node's shards.
func newSender(n *Node, shards int, database []egress.Own) *notify.Sender {
	return notify.New(notify.Options{
		Store: n.store,
		Shards: func() (owned []dag.ShardID) {
			for s := range dag.ShardID(shards) {
				if n.engine.Owns(s) {
					owned = append(owned, s)
				}
			}
			return owned
		},
		Secret: func(ctx context.Context, namespace, name string) ([]byte, error) {
			return n.secrets.Value(ctx, namespace, name, false)
		},
		Transport: func() (http.RoundTripper, error) {
			t, err := egress.Transport(n.egressHere(n.egressRules(database)))
			if err != nil {
				return nil, err
			}
			t.DisableKeepAlives = true // the rules of the next call may be others
			return t, nil
		},
		Commands: n.cfg.AlertCommands,
		Mail:     notify.Mail{URL: n.cfg.SMTP, From: n.cfg.SMTPFrom},
		Jitter:   host.Machine{}.Jitter,
		Log:      n.log,
	})
}

// sendNotices lets the sender work. A command leaves notices to the next server.
func sendNotices(n *Node) (stop func()) {
	if n.cfg.ByHand {
		return func() {}
	}
	return n.beside(n.sender.Run)
}
