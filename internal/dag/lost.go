package dag

import "time"

// OnLost is the rule for a task whose handler is gone.
type OnLost uint8

// The rules for a task whose handler is gone.
const (
	LostResubmit OnLost = iota // the task is assigned again, to another handler
	LostFail                   // the task fails
	LostAsk                    // the task waits for an operator
	lostPolicies
)

// afterLosses is the pause before the next assignment of a task that has lost its handler more than once. A
// task that crashes its workers takes all other tasks on these workers with it. The pauses separate the
// crashes, so that the other tasks end before the crashing task has reached its last loss.
var afterLosses = Retry{Delay: time.Second, Backoff: 2, Jitter: 0.5}

// afterLoss applies on_lost to a task that lost its handler, unless it was lost too often. If the handler is
// alive, a task that may run on no other worker runs there again.
func (r *Run) afterLoss(ev *Event, p *task, a *attempt, now Now, fx *Effects) {
	t, again := ev.Task, p.losses > 1 && a.Generation == r.Generation
	policy := r.Graph.Policy(t).OnLost
	node := r.Graph.Policy(t).Place.Node()
	switch {
	case node != "" && !ev.Here && r.Intent < IntentStop: // a task that is bound to this node is never moved to another one
		a.Cause, a.Message = CauseNodeGone, "node "+node+" is gone, and the task may run nowhere else"
		r.failFinally(t, a)
	case policy == LostFail && r.Intent < IntentStop:
		a.Cause, a.Message = CauseOnLost, "its handler is gone, and the task says on_lost: fail"
		r.failFinally(t, a)
	case policy == LostAsk && r.Intent < IntentStop:
		a.Cause, a.Message = CauseAsk, "its handler is gone, and the task says on_lost: ask"
		r.recordEnd(a, RetryWait)
		r.moveTask(t, RetryWait)
	case again && r.Intent < IntentStop:
		r.tryAgain(t, a, afterLosses.wait(int32(p.losses)-1, r.ID, t, a.Token), now, fx)
	default:
		r.makeReady(t)
	}
}

// The bits of the flags of a packed policy. Earlier versions know only the first bit.
const (
	policyWarn = 1 << iota
	policyLostFail
	policyLostAsk
	policyDeadline
	policyRelease
	policyAdopts
	policyReleaseTimeout
)

func (p *Policy) flags() (f byte) {
	if p.WarnOnTimeout {
		f |= policyWarn
	}
	switch p.OnLost {
	case LostFail:
		f |= policyLostFail
	case LostAsk:
		f |= policyLostAsk
	}
	if p.StartDeadline > 0 {
		f |= policyDeadline
	}
	if p.Release {
		f |= policyRelease
	}
	if p.Adopts {
		f |= policyAdopts
	}
	if p.ReleaseTimeout > 0 {
		f |= policyReleaseTimeout
	}
	return f
}

// setFlags sets the fields for the bits. It returns false if a bit is unknown.
func (p *Policy) setFlags(f byte) bool {
	p.WarnOnTimeout = f&policyWarn != 0
	p.Release, p.Adopts = f&policyRelease != 0, f&policyAdopts != 0
	switch f & (policyLostFail | policyLostAsk) {
	case policyLostFail:
		p.OnLost = LostFail
	case policyLostAsk:
		p.OnLost = LostAsk
	case policyLostFail | policyLostAsk:
		return false
	}
	return f < policyReleaseTimeout<<1
}
