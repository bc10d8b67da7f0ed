package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Shell carries out the decisions of the core, in the transaction in which the core makes them. Its methods
// may call the core: a run that gets its claim may end at once and leave.
type Shell interface {
	// Serial returns the number of the transaction. Numbers rise.
	Serial() int64
	// Full reports whether the transaction has no capacity for another decision. FullForTasks does so for
	// slots of tasks, which leave more capacity to other work.
	Full() bool
	FullForTasks() bool
	// Spend counts a slot of a task against the capacity of the transaction.
	Spend()
	// Paced stores the time until which the rate of a queue is used up.
	Paced(queue string, until dag.Micros)
	// Grant gives a run its claim. It returns false if the run no longer waits for the claim.
	Grant(c *Claimant) (asks bool, err error)
	// Deny ends the wait of a run that does not get its claim.
	Deny(c *Claimant, d *Denial) error
	// Give gives a run the slots that were granted to its tasks.
	Give(c *Crew)
	// Refuse informs a run that the queue of its tasks does not exist.
	Refuse(c *Crew, why string)
}

// Denial is the reason with which a waiting run ends.
type Denial struct {
	Cause dag.Cause
	Why   string
	Skip  bool
}

// Ask adds a new claimant. If everything that it claims is free, Ask grants the claim at once. Otherwise it
// returns the reason of the wait, or a denial.
func (s *State) Ask(c *Claimant, now dag.Micros, out Shell) (why string, d *Denial, err error) {
	if was := s.of[c.Run]; was != nil {
		if was.Claim.Asked == c.Claim.Asked {
			return "", nil, nil // the state already has the run, from its row
		}
		s.leave(was)
	}
	if c.Claim.Queue != "" {
		q := s.queues[c.Claim.Queue]
		if q == nil {
			return "", &Denial{Cause: dag.CauseQueue, Why: NoQueue(c.Claim.Queue, "")}, nil
		}
		if q.state(now) == store.QueueDraining && c.Claim.Stage == dag.ClaimAsked {
			return "", q.full(fmt.Sprintf("queue %s is drained%s", q.Name, Because(q.Reason))), nil
		}
	}
	if !s.enter(c) {
		return fmt.Sprintf("%s: many wait before it", c.Claim.What()), nil, nil
	}
	if !s.lockAll(c) {
		why = s.lockedBy(c)
		if c.Claim.Fail {
			s.leave(c)
			return "", &Denial{Cause: dag.CauseLock, Why: why}, nil
		}
		d, err = s.circle(c, out)
		return why, d, err
	}
	ok, _ := c.line.room(now)
	ok = ok && c.line.head(now, s.Ageing) == c
	switch q := c.line.q; {
	case ok:
		s.give(c, now, out)
		return "", nil, nil
	case q != nil && q.Overflow != store.OverflowWait && c.Claim.Stage == dag.ClaimAsked:
		d = q.full(c.line.held())
		s.leave(c)
		return "", d, nil
	}
	return c.line.held(), nil, nil
}

// AskAgain adds a claimant that kept its locks and wants a queue slot again. Serve grants the slot when the
// line has one.
func (s *State) AskAgain(c *Claimant) {
	if was := s.of[c.Run]; was != nil {
		if was.Claim.Asked == c.Claim.Asked {
			return
		}
		s.leave(was)
	}
	s.enter(c)
	for _, name := range c.Claim.Locks {
		s.hold(s.lockOf(name), c)
	}
}

// Leave releases all locks and the queue slot that a run got by this request or an earlier one. The run may
// have ended before the state received its last request.
func (s *State) Leave(run dag.RunID, asked dag.Micros) {
	if c := s.of[run]; c != nil && c.Claim.Asked <= asked {
		s.leave(c)
	}
}

// Lend releases the queue slot of a suspended run. The run keeps its locks.
func (s *State) Lend(run dag.RunID, asked dag.Micros) {
	c := s.of[run]
	if c == nil || c.Claim.Asked != asked || c.Claim.Stage != dag.ClaimGranted {
		return
	}
	next := *c.Claim // the run uses its current claim, so the claim is replaced and not changed
	next.Stage = dag.ClaimLent
	c.Claim = &next
	if c.slot {
		c.slot = false
		c.line.past--
		s.open[c.line.name] = true
	}
}

// Expect prepares the state for a request that it may already know. It returns false if the run already has
// its claim. If the state knows the run only from its row, Expect removes the run, because only the request
// says whether the run may wait.
func (s *State) Expect(run dag.RunID, asked dag.Micros) bool {
	was := s.of[run]
	if was == nil || was.Claim.Asked != asked {
		return true
	}
	if was.Claim.Stage != dag.ClaimAsked {
		return false
	}
	s.leave(was)
	return true
}

// full returns the denial of a run for which the queue has no free slot.
func (q *queue) full(why string) *Denial {
	return &Denial{Cause: dag.CauseQueue, Why: why, Skip: q.Overflow == store.OverflowSkip}
}

// held returns the reason why a queue admits no run.
func (l *line) held() string {
	q := l.q
	of := ""
	if _, key := dag.CutLine(l.name); key != "" {
		of = " for " + key
	}
	switch {
	case q == nil:
		return "its locks are taken"
	case q.State != store.QueueActive:
		return fmt.Sprintf("queue %s is %s%s", q.Name, q.State, Because(q.Reason))
	case q.Limit > 0 && l.past >= int(q.Limit):
		if l.fullAt != q.Limit {
			l.full, l.fullAt = Lets("queue "+q.Name+of, q.Limit), q.Limit
		}
		return l.full
	case q.Rate > 0:
		return Paces("queue "+q.Name, q.Rate, "run", q.Each)
	}
	return fmt.Sprintf("others are before it in queue %s%s", q.Name, of)
}

// lockedBy names the lock for which a claimant waits, and its holder.
func (s *State) lockedBy(c *Claimant) string {
	for _, name := range c.Claim.Locks {
		k := s.lockOf(name)
		if s.free(k, c) {
			continue
		}
		for _, o := range slices.SortedFunc(maps.Values(k.has), byAsked) {
			return fmt.Sprintf("lock %s is held by run %s", dag.LockName(name), o.Run)
		}
		return fmt.Sprintf("lock %s is wanted by run %s, which was first", dag.LockName(name), k.wants[0].Run)
	}
	return "its locks are taken"
}

// give grants a claimant its claim. The claimant has its locks, and a slot is free. give changes the claim in
// place.
func (s *State) give(c *Claimant, now dag.Micros, out Shell) {
	l := c.line
	if c.Claim.Stage == dag.ClaimAgain {
		l.again = removeAsked(l.again, c)
	} else {
		v := &l.levels[c.Claim.Level]
		v.list = removeAsked(v.list, c)
		s.grants++
		c.Claim.Grant = out.Serial()<<grantBits | s.grants
	}
	c.Claim.Stage, c.Claim.Granted, c.Claim.Limit = dag.ClaimGranted, now, 0
	if l.q != nil {
		c.slot = true
		l.past++
		if c.Claim.Limit = l.q.Limit; l.q.Rate > 0 {
			l.q.pace(now)
			out.Paced(l.q.Name, l.q.Paced)
		}
	}
}

// grantBits is the number of bits that count the grants of one transaction. The number of the transaction is
// in the bits above them, so grants rise.
const grantBits = 13

// Tick sets the time. After a rate or a pause has ended, Serve and ServeTasks may admit runs and tasks.
func (s *State) Tick(now dag.Micros) {
	if s.wake == 0 || s.wake > now {
		return
	}
	s.wake = 0
	for name, l := range s.lines {
		if l.q != nil && (l.q.Rate > 0 || l.q.Until != 0) {
			s.open[name] = true
		}
	}
	s.look(func(q *queue) bool { return q.Rate > 0 || q.Until != 0 })
}

// RunsMayPass reports whether Serve may admit a run.
func (s *State) RunsMayPass() bool { return len(s.open)+len(s.freed) > 0 }

// Serve admits every run that can be admitted, after locks and queue slots have become free.
func (s *State) Serve(now dag.Micros, out Shell) error {
	for s.RunsMayPass() && !out.Full() {
		for _, name := range slices.Sorted(maps.Keys(s.freed)) {
			delete(s.freed, name)
			if err := s.serveLock(name, now, out); err != nil {
				return err
			}
		}
		done := 0
		for _, l := range s.inTurn(now) {
			more, err := s.serveLine(l, now, out)
			if err != nil {
				return err
			}
			if !more {
				delete(s.open, l.name)
				done++
			}
			s.tidy(l)
		}
		if done == 0 && len(s.freed) == 0 {
			return nil // windows must be filled first, or the transaction has no capacity left
		}
	}
	return nil
}

// inTurn returns the open lines, ordered by the request time of their first run. The order matters because
// lines of one queue share its rate.
func (s *State) inTurn(now dag.Micros) []*line {
	var all []*line
	for _, name := range slices.Sorted(maps.Keys(s.open)) {
		if l := s.lines[name]; l != nil {
			all = append(all, l)
		} else {
			delete(s.open, name)
		}
	}
	if len(all) > 1 {
		heads := make(map[*line]*Claimant, len(all))
		for _, l := range all {
			heads[l] = l.head(now, s.Ageing)
		}
		slices.SortStableFunc(all, func(a, b *line) int {
			x, y := heads[a], heads[b]
			if x == nil || y == nil {
				return 0
			}
			return byAsked(x, y)
		})
	}
	return all
}

// serveLine admits the runs that can be admitted. more reports whether the line must be served again.
func (s *State) serveLine(l *line, now dag.Micros, out Shell) (more bool, err error) {
	for {
		if out.Full() {
			return true, nil // the next transaction continues
		}
		c := l.head(now, s.Ageing)
		if c == nil {
			return l.thin(), nil
		}
		if l.q == nil && c.Claim.Queue != "" { // the queue was removed while the run asked for it
			if err := s.deny(c, &Denial{Cause: dag.CauseQueue, Why: NoQueue(c.Claim.Queue, "")}, out); err != nil {
				return false, err
			}
			continue
		}
		if ok, later := l.room(now); !ok {
			s.wakeAt(later)
			return false, nil
		}
		next := *c.Claim // the run uses its current claim, and the store may be writing it
		c.Claim = &next
		s.give(c, now, out)
		asks, err := out.Grant(c)
		if err != nil {
			return false, err
		}
		if !asks {
			s.leave(c)
		}
		if l.q != nil && l.q.Rate > 0 && len(s.open) > 1 {
			return true, nil // another line of the same queue may come first now
		}
	}
}

// wakeAt records a time at which a run or task can be admitted without an event. If the given time is 0,
// wakeAt records nothing.
func (s *State) wakeAt(at dag.Micros) {
	if at != 0 && (s.wake == 0 || at < s.wake) {
		s.wake = at
	}
}

// thin reports whether the store has waiting runs of a level while few of them are in memory.
func (l *line) thin() bool {
	for p := range l.levels {
		if l.levels[p].thin() {
			return true
		}
	}
	return false
}

// serveLock grants a freed lock to the runs that can get all of their locks now.
func (s *State) serveLock(name string, now dag.Micros, out Shell) error {
	k := s.locks[name]
	if k == nil {
		return nil
	}
	for _, c := range slices.Clone(k.wants) {
		if s.of[c.Run] != c { // c was the youngest run of a deadlock, and was denied
			continue
		}
		if !s.turn(k, c) && (len(k.has) == 0 || k.family != c.family()) {
			continue
		}
		if !s.lockAll(c) {
			d, err := s.circle(c, out)
			if d != nil {
				err = s.deny(c, d, out)
			}
			if err != nil {
				return err
			}
			continue
		}
		s.open[c.line.name] = true
		q := c.line.q
		if ok, _ := c.line.room(now); q != nil && q.Overflow != store.OverflowWait && !ok {
			if err := s.deny(c, q.full(c.line.held()), out); err != nil {
				return err
			}
		}
	}
	return nil
}

// deny removes a claimant from all lines and locks, and denies its claim.
func (s *State) deny(c *Claimant, d *Denial, out Shell) error {
	s.leave(c)
	return out.Deny(c, d)
}

// circle looks for a deadlock that includes the claimant: families that wait for each other's locks in a
// cycle. It denies the youngest waiting run of the cycle. Only a run that uses the locks of an ancestor can
// close a cycle, because every other run waits before it holds anything.
func (s *State) circle(from *Claimant, out Shell) (*Denial, error) {
	if s.kin == 0 {
		return nil, nil
	}
	var path []*Claimant // waiting claimants; each waits for a lock that the family of the next one holds
	seen := map[dag.RunID]bool{}
	var visit func(c *Claimant) bool
	visit = func(c *Claimant) bool {
		path = append(path, c)
		for _, name := range c.Claim.Locks {
			k := s.locks[name]
			if k == nil || len(k.has) == 0 || k.family == c.family() {
				continue
			}
			if k.family == from.family() {
				return true
			}
			if seen[k.family] {
				continue
			}
			seen[k.family] = true
			for _, o := range s.waitingOf(k.family) {
				if visit(o) {
					return true
				}
			}
		}
		path = path[:len(path)-1]
		return false
	}
	if !visit(from) {
		return nil, nil
	}
	youngest := slices.MaxFunc(path, byAsked)
	var parts []string
	for _, c := range path {
		parts = append(parts, fmt.Sprintf("run %s waits: %s", c.Run, s.lockedBy(c)))
	}
	d := &Denial{Cause: dag.CauseCycle, Why: "it waited in a circle: " + strings.Join(parts, "; ")}
	if youngest == from {
		s.leave(from)
		return d, nil
	}
	return nil, s.deny(youngest, d, out)
}

// waitingOf returns the members of a family that wait for locks.
func (s *State) waitingOf(family dag.RunID) []*Claimant {
	var all []*Claimant
	for _, c := range s.of {
		if !c.locks && c.family() == family {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, byAsked)
	return all
}
