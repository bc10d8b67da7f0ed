package cluster

import (
	"time"
)

const (
	// awayMax bounds the pause between two tries while the database does not answer.
	awayMax = 2 * time.Second
	// awayPerLag also bounds that pause, to the lag divided by awayPerLag.
	awayPerLag = 10
	// triesLeft is the number of tries that must still be possible before the attempts of this node would
	// end.
	triesLeft = 4
)

// backOff returns the pause after a number of failures in a row. The jitter prevents that nodes that lost the
// database at the same time all ask it at the same time.
func (n *Node) backOff(failures int) time.Duration {
	longest := min(awayMax, max(shortest(&n.cfg)/awayPerLag, lookEvery))
	return n.jitter(min(lookEvery<<min(max(failures, 1)-1, 4), longest))
}

// jitter returns a random pause between half of the given pause and all of it.
func (n *Node) jitter(pause time.Duration) time.Duration {
	return pause/2 + n.host.Jitter(pause-pause/2)
}

// retry returns the pause before the next renewal after a number of failures in a row. Shortly before the
// attempts of this node would end, the pause is short again. Otherwise, with a store that answers only some
// of the calls, other nodes could declare this node dead.
func (n *Node) retry(failures int) time.Duration {
	pause := n.backOff(failures)
	if sure := n.Sure(); sure > 0 {
		if left := sure + shortest(&n.cfg)*3/4 - n.cfg.Boot(); left > 0 {
			pause = min(pause, max(left/triesLeft, n.jitter(lookEvery)))
		}
	}
	return min(pause, n.cfg.Beat)
}

// trouble is a kind of work that can fail for a long time. The log has an entry when the failures begin,
// entries at growing intervals while they last, and an entry at their end. Only one goroutine uses a
// trouble.
type trouble struct {
	code       string // the code of the log lines
	what, over string
	tries      int // failed tries in a row
	began      time.Time
	tell       time.Time // the time of the next log line
	gap        time.Duration
}

// Bounds of the interval between two log lines about the same failure.
const (
	tellFirst = time.Minute
	tellMax   = 10 * time.Minute
)

// failed counts a failed try, and writes a log entry if one is due.
func (n *Node) failed(t *trouble, err error) {
	now := n.host.Now()
	t.tries++
	switch {
	case t.tries == 1:
		t.began, t.gap = now, tellFirst
		n.log.Warn(t.what+"; the node tries again until it succeeds", "code", t.code, "err", err)
	case now.Before(t.tell):
		return
	default:
		t.gap = min(2*t.gap, tellMax)
		n.log.Warn(t.what+"; the node still tries", "code", t.code,
			"for", now.Sub(t.began).Round(time.Second), "tries", t.tries, "err", err)
	}
	t.tell = now.Add(t.gap)
}

// succeeded ends a series of failures, and logs its end.
func (n *Node) succeeded(t *trouble) {
	if t.tries > 0 {
		n.log.Info(t.over, "code", t.code+"_ended", "after", n.host.Now().Sub(t.began).Round(time.Millisecond), "tries", t.tries)
	}
	t.tries = 0
}

// troubles holds the failures of a node that have not ended.
type troubles struct {
	joining, renewing              trouble
	looking, meeting, owning, born trouble
}

func newTroubles() troubles {
	return troubles{
		joining: trouble{code: "join_failing", what: "the node cannot join the cluster",
			over: "the node has joined the cluster"},
		renewing: trouble{code: "renewal_failing", what: "the node cannot renew its row",
			over: "the node renews its row again"},
		looking: trouble{code: "members_unreadable", what: "the members of the cluster cannot be read",
			over: "the members of the cluster can be read again"},
		meeting: trouble{code: "inserted_runs_unreadable", what: "runs that programs inserted cannot be read",
			over: "runs that programs inserted can be read again"},
		owning: trouble{code: "shards_failing", what: "shards cannot be taken or released",
			over: "shards can be taken and released again"},
		born: trouble{code: "rejoin_failing", what: "the node cannot join under a new handler",
			over: "the node has joined under a new handler"},
	}
}
