package dag

import "time"

// Ages lists runs by the time since which a condition has held for each of them, oldest first. A run is in
// the list at most once.
type Ages struct {
	first, last *Run
	at          func(*Run) *age
}

// age is the entry of one run in a list of Ages.
type age struct {
	older, younger *Run
	since          Micros
	listed         bool
}

// ageWalk bounds the walk from the youngest run to the position of a new run. Runs arrive nearly in order;
// only a reload adds runs out of order.
const ageWalk = 100

func (l *Ages) put(r *Run, since Micros) {
	a := l.at(r)
	if a.listed {
		return
	}
	a.since, a.listed = since, true
	older := l.last
	if l.first != nil && since < l.at(l.first).since {
		older = nil
	}
	for n := 0; n < ageWalk && older != nil && l.at(older).since > since; n++ {
		older = l.at(older).older
	}
	if a.older = older; older == nil {
		a.younger, l.first = l.first, r
	} else {
		a.younger = l.at(older).younger
		l.at(older).younger = r
	}
	if a.younger == nil {
		l.last = r
	} else {
		l.at(a.younger).older = r
	}
}

func (l *Ages) remove(r *Run) {
	a := l.at(r)
	if !a.listed {
		return
	}
	if a.older == nil {
		l.first = a.younger
	} else {
		l.at(a.older).younger = a.younger
	}
	if a.younger == nil {
		l.last = a.older
	} else {
		l.at(a.younger).older = a.older
	}
	*a = age{}
}

// Oldest returns the time since which the condition has held for the oldest run, or 0 if the list is empty.
// It first removes the runs for which the condition no longer holds.
func (l *Ages) Oldest(there func(*Run) bool) Micros {
	for l.first != nil {
		if there(l.first) {
			return l.at(l.first).since
		}
		l.remove(l.first)
	}
	return 0
}

// Running lists the started runs that have not ended, ordered by their start.
func (b *Board) Running() *Ages {
	b.running.at = func(r *Run) *age { return &r.running }
	return &b.running
}

// Approving lists the runs with tasks that wait for an approval, ordered by the first of these tasks.
func (b *Board) Approving() *Ages {
	b.approving.at = func(r *Run) *age { return &r.approving }
	return &b.approving
}

// Approvals returns the number of tasks that wait for an approval.
func (b *Board) Approvals() int { return b.approvals }

// aged updates the lists that are ordered by age for a run that may have changed.
func (b *Board) aged(r *Run) {
	switch {
	case r.State.Terminal() || r.StartedAt == 0 || r.State == RunWaiting:
		b.Running().remove(r)
	case !r.running.listed:
		b.Running().put(r, r.StartedAt)
	}
	if n := r.approvals; n != r.approvalsSeen {
		b.approvals += int(n - r.approvalsSeen)
		if r.approvalsSeen = n; n == 0 {
			b.Approving().remove(r)
		} else {
			b.Approving().put(r, r.approvalSince)
		}
	}
}

// gone removes an ended run from the lists that are ordered by age.
func (b *Board) gone(r *Run) {
	b.Running().remove(r)
	b.Approving().remove(r)
	b.approvals -= int(r.approvalsSeen)
	r.approvalsSeen = 0
}

// awaits changes the number of the run's tasks that wait for an approval. The change, by, may be negative.
func (r *Run) awaits(by int32) {
	if r.approvals == 0 {
		r.approvalSince = r.clock
	}
	r.approvals += by
}

// Waited returns how long a ready task of the list has waited, up to 24 days. After a reload, the wait
// counts from the reload.
func (r *Run) Waited(t TaskID, now Micros) time.Duration {
	if t == LeaderTask {
		return 0
	}
	if ms := int32(uint32(now/1000) - r.tasks[t].since); ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return 0 // the clock was set back
}
