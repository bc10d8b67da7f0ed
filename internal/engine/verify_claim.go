package engine

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// claimCount recounts, from the rows of one snapshot, what runs hold of what all share.
type claimCount struct {
	places map[string]*places // by line
	locks  map[string]locked
}

type places struct {
	taken int
	limit int32 // the greatest that one of them was granted under; 0: any number
	any   bool  // one was granted under no limit
}

type locked struct{ family, run dag.RunID }

// claim: what has ended holds nothing; a run that moves has what it claims; who is in line
// waits.
func (v *verifier) claim(rec *store.RunRecord) {
	r, c := &rec.Run, rec.Run.Claim
	if c == nil {
		return
	}
	waits := r.State == dag.RunWaiting || r.State == dag.RunSubmitted
	switch {
	case r.State.Terminal() && (c.Holds() || c.InLine()):
		v.fail("claims end with the run", dag.LeaderTask, "the run is %s, its claim %s", r.State, c.Stage)
		return
	case r.State.Terminal():
		return
	case waits && c.Holds(), !waits && !c.Holds():
		v.fail("claims", dag.LeaderTask, "the run is %s, its claim of %s is %s", r.State, c.What(), c.Stage)
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
			v.fail("one holder of a lock", dag.LeaderTask, "lock %s is run %s's, too", name, o.run)
		}
		v.claims.locks[name] = locked{family, r.ID}
	}
}

// limits: nowhere are more places taken than the limit was when the newest was given: it is at
// most the greatest of theirs.
func (v *verifier) limits() {
	for name, p := range v.claims.places {
		if !p.any && p.taken > int(p.limit) {
			v.found = append(v.found, Violation{Rule: "limit of a queue", What: fmt.Sprintf("line %s: %d runs have a place, at most %d may", name, p.taken, p.limit)})
		}
	}
}
