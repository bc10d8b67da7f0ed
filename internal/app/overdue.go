package app

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/shutdown"
)

// stopMax bounds how long a shutdown may take in addition to its drain.
const stopMax = 10 * time.Second

// Run works until ctx ends. Then it accepts no more work and lets running attempts finish for Config.Drain or
// until Hurry. It kills the remaining attempts, writes all reports, and releases its shards. The next process
// runs their tasks again. With Config.Hold, attempts continue, and the next process adopts them. Run returns
// shutdown.ErrOverdue if it needs more than stopMax in addition to the drain. In this case the stuck part is
// still running, and the next process finds the same state as after a crash.
func (n *Node) Run(ctx context.Context) error {
	d := shutdown.Deadline{Drain: n.cfg.Drain, Most: n.stopMax, Hurry: n.hurry, Log: n.log, Stuck: n.stuck}
	if n.cfg.Hold { // the stop waits for attempts that are ending, and for two barriers
		d.Drain = obeyWait + 2*stopWait
	}
	return d.Run(ctx, func() error { return n.work(ctx) })
}

// stuck returns the name of the part of the node that makes no progress.
func (n *Node) stuck() string {
	if d := n.engine.StuckFor(); d > stopWait {
		return fmt.Sprintf("the writer has completed no turn for %v", d.Round(time.Second))
	}
	if d := n.members.slots().StuckFor(); d > stopWait {
		return fmt.Sprintf("the broker of slots has completed no turn for %v", d.Round(time.Second))
	}
	return "not known"
}
