package app

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/shutdown"
)

// stopMax bounds how much longer than its drain a shutdown may take.
const stopMax = 10 * time.Second

// Run works until ctx ends. Then it accepts no more work, lets running attempts finish for Config.Drain or
// until Hurry, kills the others, writes all reports, and gives up its shards. The next process over the
// data folder finds the attempts that did not finish, declares them lost, and runs their tasks again. Run
// returns shutdown.ErrOverdue if it needs more than stopMax longer than the drain. The stuck part then
// still runs, and the next process finds everything as after a crash.
func (n *Node) Run(ctx context.Context) error {
	d := shutdown.Deadline{Drain: n.cfg.Drain, Most: n.stopMax, Hurry: n.hurry, Log: n.log, Stuck: n.stuck}
	if n.cfg.Hold { // the call waits for attempts that end, and for two barriers
		d.Drain = obeyWait + 2*stopWait
	}
	return d.Run(ctx, func() error { return n.work(ctx) })
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
