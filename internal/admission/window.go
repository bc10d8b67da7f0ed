package admission

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// window holds the first waiting runs of one level.
type window struct {
	list []*Claimant // runs that have their locks, or need none, in the order of Asked
	more bool        // the store may have more runs; all of them asked at the time from, or later
	from dag.Micros
	page int // the number of runs to read next; 0 means windowFill
	// far is the position that reading had reached before it went back. It went back to read the runs that
	// wait for the locks that the field again lists.
	far   dag.Micros
	again map[string]bool
}

// Bounds of a window of waiting runs. When fewer than windowThin runs with free locks are left in a window,
// windowFill runs are read. A window grows to at most windowMax runs. Until all queues together have knownMax
// runs in memory, a run that arrives under this owner stays in memory and need not be read. A run that waits
// for a lock is in the list of the lock instead, which has at most wantsMax runs. So the runs at one lock
// neither fill the memory nor hide the runs behind them.
const (
	windowFill = 200
	windowThin = 50
	windowMax  = 1000
	wantsMax   = 200
	knownMax   = 20_000
)

// stand adds a claimant to the lists of its locks, or to its line. It returns false if the claimant need not
// be in memory until a lock is free.
func (s *State) stand(c *Claimant) bool {
	if c.line == nil {
		c.line = s.lineOf(c.Claim)
	}
	if s.crowded(c) {
		return false
	}
	s.of[c.Run] = c
	s.open[c.line.name] = true
	v := &c.line.levels[c.Claim.Level]
	if c.locks = len(c.Claim.Locks) == 0; c.locks {
		v.list = insertAsked(v.list, c)
		return true
	}
	c.line.wait++
	if !c.Claim.Family.IsZero() {
		s.kin++
	}
	for _, name := range c.Claim.Locks {
		k := s.lockOf(name)
		k.wants = insertAsked(k.wants, c)
	}
	return true
}

// crowded reports whether c need not be in memory, because one of its locks already has wantsMax known runs.
// It records that lock, so that c is read when the lock has fewer. A run that uses the locks of its ancestors
// is always kept in memory, because it may be part of a deadlock. A run that refuses to wait for locks is
// always kept, too, because it must get its denial.
func (s *State) crowded(c *Claimant) bool {
	if !c.Claim.Family.IsZero() || c.Claim.Fail {
		return false
	}
	for _, name := range c.Claim.Locks {
		k := s.locks[name]
		if k == nil || len(k.wants) < wantsMax || byAsked(k.wants[len(k.wants)-1], c) > 0 {
			continue
		}
		at := stand{c.line.name, c.Claim.Level}
		if from, in := k.more[at]; !in || c.Claim.Asked < from {
			if k.more == nil {
				k.more = map[stand]dag.Micros{}
			}
			k.more[at] = c.Claim.Asked
		}
		return true
	}
	return false
}

// recall makes the windows read again the runs that want a lock, if only few of these runs are in memory.
func (s *State) recall(k *lock) {
	if len(k.wants) >= windowThin {
		return
	}
	for at, from := range k.more {
		c := claimOfLine(at.line)
		l := s.lineOf(&c)
		v := &l.levels[at.level]
		if !v.more {
			v.more, v.from = true, endOfTime
		}
		if v.from > from {
			v.far, v.from = max(v.far, v.from), from
			if v.again == nil {
				v.again = map[string]bool{}
			}
			v.again[k.name] = true
		}
		s.open[l.name] = true
	}
	k.more = nil
}

// endOfTime is later than the time of any request.
const endOfTime = dag.Micros(1<<63 - 1)

// onward moves the end of a window after a page was read. All runs between the new and the former end are
// known, except runs whose lock is being read again. If enough runs are found, reading continues at the
// former end.
func (s *State) onward(l *line, level dag.Priority, page []store.Claimant, full bool) {
	v := &l.levels[level]
	switch n := len(page); {
	case !full:
		v.more, v.page = false, 0
	case page[n-1].Claim.Asked == v.from: // all runs of the page asked at the same instant
		v.page = 2 * max(v.page, windowFill)
	default:
		v.from, v.page = page[n-1].Claim.Asked, 0
	}
	if !v.more || v.from >= v.far {
		v.far, v.again = 0, nil
		return
	}
	for name := range v.again {
		if k := s.locks[name]; k == nil || len(k.wants) < wantsMax {
			return
		}
	}
	for name := range v.again {
		k := s.locks[name]
		if k.more == nil {
			k.more = map[stand]dag.Micros{}
		}
		k.more[stand{l.name, level}] = v.from
	}
	if v.more, v.from = v.far != endOfTime, v.far; !v.more {
		v.from = 0
	}
	v.far, v.again, v.page = 0, nil, 0
}

// thin reports whether the store has waiting runs of a window while few of them are in memory.
func (v *window) thin() bool { return v.more && len(v.list) < windowThin }
