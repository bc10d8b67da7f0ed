package cluster

import (
	"time"
)

const (
	// awayMax bounds the pause between two tries while the database is away.
	awayMax = 2 * time.Second
	// awayPerLag: nor is it noticed later that the database is back than by this part of the lag.
	awayPerLag = 10
	// triesLeft is how many more tries fit at least before what runs here would end.
	triesLeft = 4
)

// backOff is the pause after so many failures in a row. The jitter keeps nodes that lost the database together from
// asking it in step.
func (n *Node) backOff(failures int) time.Duration {
	longest := min(awayMax, max(n.cfg.Lag/awayPerLag, lookEvery))
	return n.jitter(min(lookEvery<<min(max(failures, 1)-1, 4), longest))
}

// jitter is between half of a pause and the whole.
func (n *Node) jitter(pause time.Duration) time.Duration {
	return pause/2 + n.host.Jitter(pause-pause/2)
}

// retry is the pause before a renewal that failed so many times in a row is tried again. Before what runs here would end,
// which is before the others may take this node for dead, it is tried as often as ever: a store that answers
// one time in several must not cost a node its life.
func (n *Node) retry(failures int) time.Duration {
	pause := n.backOff(failures)
	if sure := n.Sure(); sure > 0 {
		if left := sure + n.cfg.Lag*3/4 - n.cfg.Boot(); left > 0 {
			pause = min(pause, max(left/triesLeft, n.jitter(lookEvery)))
		}
	}
	return min(pause, n.cfg.Beat)
}

// trouble is what fails again and again for one reason. The log says so when it begins, at growing intervals while
// it lasts, and when it is over. It is of one goroutine.
type trouble struct {
	what, over string
	tries      int // in a row that failed
	began      time.Time
	tell       time.Time // when it is told again
	gap        time.Duration
}

// How often it is told that something still fails.
const (
	tellFirst = time.Minute
	tellMax   = 10 * time.Minute
)

// failed counts a try, and tells of it if it is time.
func (n *Node) failed(t *trouble, err error) {
	now := n.host.Now()
	t.tries++
	switch {
	case t.tries == 1:
		t.began, t.gap = now, tellFirst
		n.log.Warn(t.what+"; it is tried again until it succeeds", "err", err)
	case now.Before(t.tell):
		return
	default:
		t.gap = min(2*t.gap, tellMax)
		n.log.Warn(t.what+" still; it is tried again until it succeeds", "for", now.Sub(t.began).Round(time.Second), "tries", t.tries, "err", err)
	}
	t.tell = now.Add(t.gap)
}

// succeeded tells that what failed does so no more.
func (n *Node) succeeded(t *trouble) {
	if t.tries > 0 {
		n.log.Info(t.over, "after", n.host.Now().Sub(t.began).Round(time.Millisecond), "tries", t.tries)
	}
	t.tries = 0
}

// troubles are those of a node.
type troubles struct {
	joining, renewing              trouble
	looking, meeting, owning, born trouble
}

func newTroubles() troubles {
	return troubles{
		joining:  trouble{what: "cannot join the cluster yet", over: "this node has joined the cluster"},
		renewing: trouble{what: "cannot renew this node's row", over: "this node's row is renewed again"},
		looking:  trouble{what: "cannot read who is in the cluster", over: "it is known again who is in the cluster"},
		meeting:  trouble{what: "cannot look for runs that others have inserted", over: "runs that others have inserted are found again"},
		owning:   trouble{what: "shards could not be taken or given back", over: "shards are taken and given back again"},
		born:     trouble{what: "cannot begin a new life yet", over: "a new life begins"},
	}
}
