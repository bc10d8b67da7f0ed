package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/store"
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
		Secret: func(ctx context.Context, namespace, name string) ([]byte, error) {
			return n.secrets.Value(ctx, namespace, name, false)
		},
		Transport: n.connector.transport,
		Commands:  n.cfg.AlertCommands,
		Mail:      notify.Mail{URL: n.cfg.SMTP, From: n.cfg.SMTPFrom},
		Jitter:    host.Machine{}.Jitter,
		Log:       n.log,
	})
}

// stuckMax is the time from which a scheduler that completes nothing does not work.
const stuckMax = 30 * time.Second

// watch calls the address of the watchdog while the scheduler works.
func watch(n *Node) (stop func()) {
	if n.cfg.Watchdog == "" {
		return func() {}
	}
	w := notify.Watchdog{File: n.cfg.Watchdog, Log: n.log, Alive: func(ctx context.Context) error { return works(ctx, n) },
		Transport: n.connector.transport}
	return n.beside(w.Run)
}

// works says why the scheduler does not work. The owner of the first shard speaks for all nodes.
func works(ctx context.Context, n *Node) error {
	if !n.engine.Owns(0) {
		return notify.ErrNotMine
	}
	if err := n.engine.Accepting(); err != nil {
		return err
	}
	if d := n.engine.StuckFor(); d > stuckMax {
		return fmt.Errorf("it has completed nothing for %s", d.Round(time.Second))
	}
	shared := store.Can(n.store).Cluster
	if shared == nil {
		_, err := n.store.Clock(ctx)
		return err
	}
	members, shards, err := shared.Members(ctx)
	if err != nil {
		return err
	}
	for i := range shards {
		if !slices.ContainsFunc(members, func(m store.Member) bool { return m.Handler == shards[i].Owner }) {
			return fmt.Errorf("shard %d has no owner", shards[i].ID)
		}
	}
	return nil
}

// sendNotices lets the sender and the watchdog work. A command leaves notices to the next server.
func sendNotices(n *Node) (stop func()) {
	if n.cfg.ByHand {
		return func() {}
	}
	stopSender, stopWatchdog := n.beside(n.sender.Run), watch(n)
	return func() {
		stopWatchdog()
		stopSender()
	}
}
