package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// KeeperMain is the main function of a keeper: see worker.KeeperMain.
func KeeperMain(args []string) int { return worker.KeeperMain(args) }

// beside runs f in a goroutine until stop is called. stop returns when f has returned.
func (n *Node) beside(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// tag is stored at the keeper by a node, so that the next process of the node can continue under the same
// handler.
type tag struct {
	Handler dag.HandlerID `json:"handler"`
	UUID    string        `json:"uuid"` // distinguishes databases
}

func tagOf(h store.Handler) string {
	text, err := json.Marshal(tag{h.ID, h.UUID})
	if err != nil {
		panic("app: a tag cannot be written: " + err.Error())
	}
	return string(text)
}

// connected is the result of Connect.
type connected struct {
	link    *worker.Link
	adopted *worker.Adopted
	err     error
}

// connect finds or starts the keeper. It works concurrently with the rest of the start.
func (n *Node) connect(ctx context.Context) <-chan connected {
	got := make(chan connected, 1)
	go func() {
		var c connected
		c.link, c.adopted, c.err = worker.Connect(ctx, worker.LinkConfig{Lease: leaseOf(n.cfg), Lock: n.lock.File, Config: worker.Config{DataDir: n.cfg.Data,
			Slots: n.cfg.Slots, PassEnv: n.cfg.PassEnv, Isolation: n.cfg.Isolation, Levels: n.cfg.WorkerLevels(), Users: n.cfg.TaskUsers, IsolationAuto: n.cfg.IsolationAuto, UIDs: n.cfg.TaskUIDs, ClosedBoxes: n.cfg.BoxNetwork == config.BoxNetworkNone, Protected: n.cfg.Protected(), Log: n.log, Report: func(rs ...worker.Result) { n.executor.Ended(rs...) },
			Started: func(k worker.Key, at time.Time, handle string, adopts bool) {
				n.executor.Started(k, at, handle, adopts)
			}, Room: func(why string) { n.executor.Room(why) }}})
		got <- c
	}()
	return got
}

// goOn finds out whether an earlier process of this node has left attempts at the keeper. If there are none,
// or if they belong to another database and were killed, it returns no identity.
func (n *Node) goOn(ctx context.Context, a *worker.Adopted) (identity, error) {
	if len(a.Running)+len(a.Ended) == 0 {
		return identity{}, nil
	}
	var t tag
	if json.Unmarshal([]byte(a.Tag), &t) == nil && t.Handler != 0 {
		found, err := n.store.Handlers(ctx, []dag.HandlerID{t.Handler})
		if err != nil {
			return identity{}, fmt.Errorf("database %s: %w", n.cfg.DBName(), err)
		}
		if len(found) == 1 && found[0].UUID == t.UUID {
			n.log.Info("the node continues with the attempts of its earlier process", "code", "attempts_taken_over", "running", len(a.Running), "ended_since", len(a.Ended))
			return identity{found[0], true}, nil
		}
	}
	n.log.Warn("the keeper kills attempts of another database; give each database a data folder of its own", "code", "foreign_attempts_killed", "attempts", len(a.Running))
	return identity{}, n.worker.Forsake()
}

const (
	// renewalsPerLease is how often a lease is renewed during its length.
	renewalsPerLease = 8
	// firstRenewal is the pause between two tries while there is no instant from which a lease could be
	// renewed.
	firstRenewal = 50 * time.Millisecond
)

// renew renews the lease of the attempts until ctx ends. Without a cluster no other node can take the
// attempts of this process, so the lease begins at the present instant. In a cluster it begins at the last
// confirmation by the store, or from the last instant at which all nodes were blind.
func (n *Node) renew(ctx context.Context) {
	lease := n.worker.Lease()
	pause := firstRenewal
	for {
		if sure := n.members.sure(); sure > 0 {
			n.worker.Renew(sure + lease)
			pause = lease / renewalsPerLease
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// leasePerLag is the longest lease, as a fraction of the lag. The attempts of a node must have ended before
// other nodes may declare the node dead.
const leasePerLagNum, leasePerLagDen = 3, 4

// leaseOf returns how long attempts outlive the last renewal.
func leaseOf(cfg *config.Config) time.Duration {
	if cfg.Postgres == "" {
		return cfg.Lease
	}
	return min(cfg.Lease, cfg.Failover()*leasePerLagNum/leasePerLagDen)
}

// reborn gives the keeper the new handler of a node that the other nodes had declared dead.
type reborn struct {
	*inside
	brand func(store.Handler)
}

// Reborn implements cluster.Owner.
func (r reborn) Reborn(ctx context.Context) (store.Handler, error) {
	h, err := r.inside.Reborn(ctx)
	if err == nil {
		r.brand(h)
	}
	return h, err
}
