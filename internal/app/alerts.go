package app

import (
	"context"
	"net/http"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/notify"
)

// newSender makes the sender of the notices of this node's shards.
func newSender(n *Node, shards int) *notify.Sender {
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
		Secret:    n.secretNow,
		Transport: egress.RulesFor(n.connector.rules).Transport,
		Commands:  n.cfg.AlertCommands,
		Mail:      notify.Mail{URL: n.cfg.SMTP, From: n.cfg.SMTPFrom},
		Jitter:    host.Machine{}.Jitter,
		Log:       n.log,
	})
}

// watch calls the address of the watchdog regularly while the scheduler works.
func watch(n *Node) (stop func()) {
	if n.cfg.Watchdog == "" {
		return func() {}
	}
	w := notify.Watchdog{File: n.cfg.Watchdog, Log: n.log, NotMine: monitor.ErrNotOwner, Alive: func(ctx context.Context) error { return monitor.Works(ctx, n.engine, n.store) },
		Transport: func() (http.RoundTripper, error) {
			return egress.RulesFor(n.connector.rules).Transport(context.Background(), "")
		}}
	return n.beside(w.Run)
}

// sendNotices starts the sender, the watchdog and the monitor. A short-lived command does not send notices:
// the next server sends them.
func sendNotices(n *Node) (stop func()) {
	if n.cfg.ByHand {
		return func() {}
	}
	stopSender, stopWatchdog, stopMonitor, stopOverseer := n.beside(n.sender.Run), watch(n), n.beside(n.monitor.Run), n.beside(newOverseer(n).Run)
	return func() {
		stopOverseer()
		stopMonitor()
		stopWatchdog()
		stopSender()
	}
}
