package inspect

import (
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// claimCount counts, from the rows of one snapshot, the shared things that runs hold.
type claimCount struct {
	places map[string]*places // the queue slots of runs, by line
	tasks  map[string]*places // the queue slots of tasks, by line
	locks  map[string]locked
}

type places struct {
	taken int
	limit int32 // the greatest limit at a grant to one of the holders; 0 means any number
	any   bool  // at least one grant was without a limit
}

type locked struct{ family, run dag.RunID }

// claim checks the claim of a run: an ended run has no slot and no lock, a running run has everything that it
// requests, and a queued run waits.
func (v *verifier) claim(rec *store.RunRecord) {
	r, c := &rec.Run, rec.Run.Claim
	if r.State.Terminal() && len(r.Shares) > 0 {
		v.fail("claims end with the run", dag.LeaderTask, "the run is %s, but its tasks still have slots of %d queues", r.State, len(r.Shares))
	}
	if c == nil {
		return
	}
	waits := r.State == dag.RunWaiting || r.State == dag.RunSubmitted
	switch {
	case r.State.Terminal() && (c.Holds() || c.InLine()):
		v.fail("claims end with the run", dag.LeaderTask, "the run is %s, but its claim is still %s", r.State, c.Stage)
		return
	case r.State.Terminal():
		return
	case waits && c.Holds(), !waits && !c.Holds():
		v.fail("claims", dag.LeaderTask, "the run is %s, but its claim of %s is %s", r.State, c.What(), c.Stage)
		return
	}
	if c.Slot() {
		p := v.claims.places[c.Line()]
		if p == nil {
			p = &places{}
			v.claims.places[c.Line()] = p
		}
		p.taken++
		p.limit = max(p.limit, c.Limit)
		p.any = p.any || c.Limit == 0
	}
	if !c.Holds() {
		return
	}
	family := c.Family
	if family.IsZero() {
		family = r.ID
	}
	for _, name := range c.Locks {
		if o, taken := v.claims.locks[name]; taken && o.family != family {
			v.fail("one holder of a lock", dag.LeaderTask, "the run %[2]s holds the lock %[1]s, too", dag.LockName(name), o.run)
		}
		v.claims.locks[name] = locked{family, r.ID}
	}
}

// shareNamed returns the stored name of the queue that tasks of the run name, if the run has a share of that
// queue.
func (v *verifier) shareNamed(queue string) string {
	all := v.rec.Run.Shares
	if i := slices.IndexFunc(all, func(s dag.Share) bool { return s.Of(queue) }); i >= 0 {
		return all[i].Queue
	}
	return queue
}

// shares checks the queue slots of tasks: an ended run has none, no more tasks are held than have a slot, and
// the slots of one key are within their limit.
func (v *verifier) shares(views []dag.TaskView) {
	r := &v.rec.Run
	used := map[string]int64{}
	for t := range views {
		if q := v.g.Policy(dag.TaskID(t)).Queue; q != "" && views[t].State.Held() {
			used[v.shareNamed(q)]++
		}
	}
	for i := range r.Shares {
		s := &r.Shares[i]
		if used[s.Queue] > s.Has() {
			v.fail("places of a queue", dag.LeaderTask, "%d of its tasks are assigned, but the run has %d slots of the queue %s", used[s.Queue], s.Has(), s.Queue)
		}
		delete(used, s.Queue)
		p := v.claims.tasks[s.Line()]
		if p == nil {
			p = &places{}
			v.claims.tasks[s.Line()] = p
		}
		if s.Has() > 0 {
			p.taken += int(s.Has())
			p.limit = max(p.limit, s.Limit)
			p.any = p.any || s.Limit == 0
		}
	}
	for q, n := range used {
		v.fail("places of a queue", dag.LeaderTask, "%d of its tasks are assigned, but the run has no slot of the queue %s", n, q)
	}
}

// limits checks that the number of used slots of a queue does not exceed the limit at the newest grant. The
// check uses the greatest of the holders' limits.
func (v *verifier) limits() {
	for name, p := range v.claims.places {
		if !p.any && p.taken > int(p.limit) {
			v.found = append(v.found, Violation{Rule: "limit of a queue", What: fmt.Sprintf("line %s: %d runs have a place, at most %d may", name, p.taken, p.limit)})
		}
	}
	for name, p := range v.claims.tasks {
		if !p.any && p.taken > int(p.limit) {
			v.found = append(v.found, Violation{Rule: "limit of a queue", What: fmt.Sprintf("line %s: tasks have %d places, at most %d may", name, p.taken, p.limit)})
		}
	}
}
