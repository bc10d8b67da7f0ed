package dag

// OnLost says what becomes of a task whose handler is gone.
type OnLost uint8

// The policies.
const (
	LostResubmit OnLost = iota // it is handed to another
	LostFail                   // it failed
	LostAsk                    // it waits for an operator
	lostPolicies
)

// afterLoss applies the policy of a task that lost its handler, not too often yet. If whose attempt it was is there, a
// task that may run nowhere else runs there again.
func (r *Run) afterLoss(t TaskID, a *attempt, here bool) {
	policy := r.Graph.Policy(t).OnLost
	node := r.Graph.Policy(t).Place.Node()
	switch {
	case node != "" && !here && r.Intent < IntentStop: // never moved
		a.Cause, a.Message = CauseNodeGone, "node "+node+" is gone, and the task may run nowhere else"
		r.failFinally(t, a)
	case policy == LostFail && r.Intent < IntentStop:
		a.Cause, a.Message = CauseOnLost, "its handler is gone, and the task says on_lost: fail"
		r.failFinally(t, a)
	case policy == LostAsk && r.Intent < IntentStop:
		a.Cause, a.Message = CauseAsk, "its handler is gone, and the task says on_lost: ask"
		r.recordEnd(a, RetryWait)
		r.moveTask(t, RetryWait)
	default:
		r.makeReady(t)
	}
}

// The bits of a packed policy. The first is what it was before there were others.
const (
	policyWarn = 1 << iota
	policyLostFail
	policyLostAsk
	policyDeadline
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
	return f
}

// setFlags reads them; false: they are damaged.
func (p *Policy) setFlags(f byte) bool {
	p.WarnOnTimeout = f&policyWarn != 0
	switch f & (policyLostFail | policyLostAsk) {
	case policyLostFail:
		p.OnLost = LostFail
	case policyLostAsk:
		p.OnLost = LostAsk
	case policyLostFail | policyLostAsk:
		return false
	}
	return f < policyDeadline<<1
}
