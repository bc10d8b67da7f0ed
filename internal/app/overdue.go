package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// stopMax bounds how much longer than its drain a shutdown may take.
const stopMax = 10 * time.Second

// ErrOverdue says that a node or worker did not stop in time because a part of it is stuck. The process
// must end.
var ErrOverdue = errors.New("the shutdown did not end in time")

// deadline bounds a shutdown.
type deadline struct {
	drain, most time.Duration // most is how much longer it may take
	hurry       <-chan struct{}
	log         *slog.Logger
	// stuck describes the possible reason. It is nil if none is known.
	stuck func() string
}

// run works until ctx ends and the work has ended. If that takes too long, run returns ErrOverdue, and the
// work continues in the background.
func (d *deadline) run(ctx context.Context, work func() error) error {
	over := make(chan error, 1)
	go func() { over <- work() }()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
	}
	began, hurry := time.Now(), d.hurry
	timer := time.NewTimer(d.drain + d.most)
	defer timer.Stop()
	for {
		select {
		case err := <-over:
			return err
		case <-hurry:
			hurry = nil
			timer.Reset(d.most)
		case <-timer.C:
			return d.overdue(time.Since(began).Round(time.Millisecond))
		}
	}
}

// overdue is called when the shutdown has taken the time took, counted from the signal.
func (d *deadline) overdue(took time.Duration) error {
	why := "not known"
	if d.stuck != nil {
		why = d.stuck()
	}
	d.log.Error("the shutdown takes too long; the process ends now, and the next start recovers as after a crash",
		"code", "shutdown_overdue", "drain", d.drain, "took", took, "cause", why)
	return fmt.Errorf("%w: %v after the signal it was still under way (cause: %s); the next start recovers as after a crash", ErrOverdue, took, why)
}

// Run works until ctx ends. Then it accepts no more work, lets running attempts finish for Config.Drain or
// until Hurry, kills the others, writes all reports, and gives up its shards. The next process over the
// data folder finds the attempts that did not finish, declares them lost, and runs their tasks again. Run
// returns ErrOverdue if it needs more than stopMax longer than the drain. The stuck part then still runs,
// and the next process finds everything as after a crash.
func (n *Node) Run(ctx context.Context) error {
	d := deadline{drain: n.cfg.Drain, most: n.stopMax, hurry: n.hurry, log: n.log, stuck: n.stuck}
	if n.cfg.Hold { // the call waits for attempts that end, and for two barriers
		d.drain = obeyWait + 2*stopWait
	}
	return d.run(ctx, func() error { return n.work(ctx) })
}

// stuck names the part of the node that makes no progress.
func (n *Node) stuck() string {
	if d := n.engine.StuckFor(); d > stopWait {
		return fmt.Sprintf("the writer has completed no turn for %v", d.Round(time.Second))
	}
	if d := n.members.slots().StuckFor(); d > stopWait {
		return fmt.Sprintf("the broker of slots has completed no turn for %v", d.Round(time.Second))
	}
	return "not known"
}
