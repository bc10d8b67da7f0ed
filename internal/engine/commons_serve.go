package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// word is what owners of shards say to the owner of the gate, and it to them, of the claim of
// a run. Claim.Asked tells which asking is meant.
type word struct {
	Kind  wordKind    `json:"kind"`
	Run   dag.RunID   `json:"run"`
	Shard dag.ShardID `json:"shard,omitempty"` // of the run that asks
	Claim *dag.Claim  `json:"claim"`
	// Share is of places for its tasks; then Claim does not count.
	Share *dag.Share   `json:"share,omitempty"`
	Level dag.Priority `json:"level,omitempty"` // of the run whose share it is
	Cause dag.Cause    `json:"cause,omitempty"` // of a denial
	Why   string       `json:"why,omitempty"`
	Skip  bool         `json:"skip,omitempty"`
}

type wordKind string

const (
	wordAsk   wordKind = "ask"   // to the admission owner: the run is queued, or wants its queue slot again
	wordLeft  wordKind = "left"  // to the gate: it wants nothing any more, and has nothing
	wordLend  wordKind = "lend"  // to the gate: its place is free, its locks are not
	wordGrant wordKind = "grant" // from the gate
	wordDeny  wordKind = "deny"  // from the gate

	wordShare  wordKind = "share"  // to the admission owner: the queue slots that its tasks want, and those given back
	wordOver   wordKind = "over"   // to the gate: it has ended, and its tasks have nothing
	wordGave   wordKind = "gave"   // from the admission owner: the queue slots that its tasks have got
	wordRefuse wordKind = "refuse" // from the gate: its tasks get none
)

func (w *writer) say(to dag.ShardID, said word) {
	w.tx.letters[to] = append(w.tx.letters[to], letter{Word: &said})
}

// gateHere reports whether this writer grants; then the transaction needs that shard's fence.
func (w *writer) gateHere() bool {
	if w.held(store.GateShard) == nil {
		return false
	}
	w.tx.common = true
	return true
}

// comeIn takes in a new claimant. The claimant may get everything at once. Otherwise comeIn returns the
// reason of its wait, or its denial.
func (w *writer) comeIn(c *claimant) (why string, d *denial) {
	g := &w.commons
	if was := g.of[c.run]; was != nil {
		if was.claim.Asked == c.claim.Asked {
			return "", nil // read from its row before
		}
		g.leave(was)
	}
	if c.claim.Queue != "" {
		q := g.queues[c.claim.Queue]
		if q == nil {
			return "", &denial{cause: dag.CauseQueue, why: noQueue(c.claim.Queue, "")}
		}
		if q.state(w.tx.now.Wall) == store.QueueDraining && c.claim.Stage == dag.ClaimAsked {
			return "", q.full(fmt.Sprintf("queue %s is drained%s", q.Name, because(q.Reason)))
		}
	}
	if !g.enter(c) {
		return fmt.Sprintf("%s: many wait before it", c.claim.What()), nil
	}
	if !g.lockAll(c) {
		why = w.lockedBy(c)
		if c.claim.Fail {
			g.leave(c)
			return "", &denial{cause: dag.CauseLock, why: why}
		}
		return why, w.circle(c)
	}
	if c.claim.Stage == dag.ClaimAsked && c.line.q != nil && c.line.q.Overflow != store.OverflowWait {
		if ok, _ := c.line.room(w.tx.now.Wall); !ok || c.line.head(w.tx.now.Wall, w.ageing()) != c {
			d = c.line.q.full(c.line.held())
			g.leave(c)
			return "", d
		}
	}
	if ok, _ := c.line.room(w.tx.now.Wall); ok && c.line.head(w.tx.now.Wall, w.ageing()) == c {
		w.give(c)
		return "", nil
	}
	return c.line.held(), nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// full is what becomes of a run for which the queue has no place.
func (q *queue) full(why string) *denial {
	return &denial{cause: dag.CauseQueue, why: why, skip: q.Overflow == store.OverflowSkip}
}

// held says why a queue lets no run through.
func (l *line) held() string {
	q := l.q
	of := ""
	if i := strings.IndexByte(l.name, '/'); l.name[i+1:] != "" {
		of = " for " + l.name[i+1:]
	}
	switch {
	case q == nil:
		return "its locks are taken"
	case q.State != store.QueueActive:
		return fmt.Sprintf("queue %s is %s%s", q.Name, q.State, because(q.Reason))
	case q.Limit > 0 && l.past >= int(q.Limit):
		if l.fullAt != q.Limit {
			l.full, l.fullAt = lets("queue "+q.Name+of, q.Limit), q.Limit
		}
		return l.full
	case q.Rate > 0:
		return paces("queue "+q.Name, q.Rate, "run", q.Each)
	}
	return fmt.Sprintf("others are before it in queue %s%s", q.Name, of)
}

// each is the period of a rate in words.
func each(p dag.Micros) string {
	switch p {
	case perSecond:
		return "a second"
	case perMinute:
		return "a minute"
	}
	return "an hour"
}

// lockedBy names the lock for which a claimant waits, and its holder.
func (w *writer) lockedBy(c *claimant) string {
	for _, name := range c.claim.Locks {
		k := w.commons.lockOf(name)
		if w.commons.free(k, c) {
			continue
		}
		for _, o := range sortedClaimants(k.has) {
			return fmt.Sprintf("lock %s is held by run %s", name, o.run)
		}
		return fmt.Sprintf("lock %s is wanted by run %s, which was first", name, k.wants[0].run)
	}
	return "its locks are taken"
}

func sortedClaimants(m map[dag.RunID]*claimant) []*claimant {
	return slices.SortedFunc(maps.Values(m), byAsked)
}

func (w *writer) ageing() dag.Micros { return dag.Micros(w.e.cfg.Ageing.Microseconds()) }

// give grants a claimant what it claims; it has the locks and there is a place. The claim that it has is changed.
func (w *writer) give(c *claimant) {
	g, l := &w.commons, c.line
	if c.claim.Stage == dag.ClaimAgain {
		l.again = removeAsked(l.again, c)
	} else {
		v := &l.levels[c.claim.Level]
		v.list = removeAsked(v.list, c)
		g.grants++
		c.claim.Grant = (w.held(store.GateShard).Seq+1)<<grantBits | g.grants
	}
	c.claim.Stage, c.claim.Granted, c.claim.Limit = dag.ClaimGranted, w.tx.now.Wall, 0
	if l.q != nil {
		c.slot = true
		l.past++
		if c.claim.Limit = l.q.Limit; l.q.Rate > 0 {
			l.q.pace(w.tx.now.Wall)
			w.paced(l.q)
		}
	}
}

// grantBits leave room for the grants of one transaction: so the number of the transaction
// makes grants that rise.
const grantBits = 13

// paced writes down what a rate has left.
func (w *writer) paced(q *queue) {
	for i := range w.tx.batch.QueuePaces {
		if p := &w.tx.batch.QueuePaces[i]; p.Name == q.Name {
			p.Paced = q.Paced
			return
		}
	}
	w.tx.batch.QueuePaces = append(w.tx.batch.QueuePaces, store.QueuePace{Name: q.Name, Paced: q.Paced})
}

// serve lets through every run that can be, after the transaction has freed locks and queue slots.
func (w *writer) serve() error {
	g := &w.commons
	if !g.loaded {
		return nil
	}
	if g.wake != 0 && g.wake <= w.tx.now.Wall {
		g.wake = 0
		for name, l := range g.lines {
			if l.q != nil && (l.q.Rate > 0 || l.q.Until != 0) {
				g.open[name] = true
			}
		}
		g.vacate(func(q *queue) bool { return q.Rate > 0 || q.Until != 0 })
	}
	for len(g.open)+len(g.freed) > 0 && w.tx.rows < grantRowsMax {
		w.gateHere()
		for _, name := range slices.Sorted(maps.Keys(g.freed)) {
			delete(g.freed, name)
			if err := w.serveLock(name); err != nil {
				return err
			}
		}
		done := 0
		for _, l := range w.inTurn() {
			more, err := w.serveLine(l)
			if err != nil {
				return err
			}
			if !more {
				delete(g.open, l.name)
				done++
			}
			g.tidy(l)
		}
		if done == 0 && len(g.freed) == 0 {
			return nil // windows are to be filled first, or the transaction is full
		}
	}
	return nil
}

// inTurn are the open lines, that of the one who has asked first before the others: they may
// share a rate.
func (w *writer) inTurn() []*line {
	g := &w.commons
	var all []*line
	for _, name := range slices.Sorted(maps.Keys(g.open)) {
		if l := g.lines[name]; l != nil {
			all = append(all, l)
		} else {
			delete(g.open, name)
		}
	}
	if len(all) > 1 {
		heads := make(map[*line]*claimant, len(all))
		for _, l := range all {
			heads[l] = l.head(w.tx.now.Wall, w.ageing())
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

// serveLine lets through who can be; more tells that it has to be looked at again.
func (w *writer) serveLine(l *line) (more bool, err error) {
	g := &w.commons
	for {
		if w.tx.rows >= grantRowsMax {
			return true, nil // the next transaction goes on
		}
		c := l.head(w.tx.now.Wall, w.ageing())
		if c == nil {
			return l.thin(), nil
		}
		if l.q == nil && c.claim.Queue != "" { // it was removed while the run asked for it
			if err := w.denied(c, &denial{cause: dag.CauseQueue, why: noQueue(c.claim.Queue, "")}); err != nil {
				return false, err
			}
			continue
		}
		if ok, later := l.room(w.tx.now.Wall); !ok {
			if later != 0 && (g.wake == 0 || later < g.wake) {
				g.wake = later
			}
			return false, nil
		}
		next := *c.claim // the one it has is its run's, and may be on its way to the store
		c.claim = &next
		w.give(c)
		if err := w.granted(c); err != nil {
			return false, err
		}
		if l.q != nil && l.q.Rate > 0 && len(g.open) > 1 {
			return true, nil // another line of the queue may be next
		}
	}
}

// thin reports whether the store holds waiting runs of a level while few of them are in memory.
func (l *line) thin() bool {
	for p := range l.levels {
		if v := &l.levels[p]; v.more && len(v.list) < windowThin {
			return true
		}
	}
	return false
}

// serveLock lets those have a freed lock who can have all of theirs now.
func (w *writer) serveLock(name string) error {
	g := &w.commons
	k := g.locks[name]
	if k == nil {
		return nil
	}
	for _, c := range slices.Clone(k.wants) {
		if !g.turn(k, c) && (len(k.has) == 0 || k.family != c.family()) {
			continue
		}
		if !g.lockAll(c) {
			if d := w.circle(c); d != nil {
				if err := w.denied(c, d); err != nil {
					return err
				}
			}
			continue
		}
		g.open[c.line.name] = true
		q := c.line.q
		if ok, _ := c.line.room(w.tx.now.Wall); q != nil && q.Overflow != store.OverflowWait && !ok {
			d := q.full(c.line.held())
			if err := w.denied(c, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// granted tells the run's owner; if that is this writer, the run goes on in this transaction.
func (w *writer) granted(c *claimant) error {
	if w.held(c.shard) == nil {
		w.tx.rows += rowsPerItem
		w.say(c.shard, word{Kind: wordGrant, Run: c.run, Claim: c.claim})
		return nil
	}
	ok, err := w.goOn(c.run, c.claim)
	if err == nil && !ok {
		w.commons.leave(c)
	}
	return err
}

// denied ends a claimant's waiting.
func (w *writer) denied(c *claimant, d *denial) error {
	w.commons.leave(c)
	w.tx.rows += rowsPerItem
	if w.held(c.shard) == nil {
		w.say(c.shard, word{Kind: wordDeny, Run: c.run, Claim: c.claim, Cause: d.cause, Why: d.why, Skip: d.skip})
		return nil
	}
	return w.sendAway(c.run, c.claim, d)
}

// circle looks for a circle of families that wait for each other's locks and that includes the claimant. It
// denies the youngest run that waits in the circle. Only a run that uses an ancestor's locks can close one:
// every other run waits before it holds anything.
func (w *writer) circle(from *claimant) *denial {
	g := &w.commons
	if g.kin == 0 {
		return nil
	}
	var path []*claimant // those that wait, each for the family of the next
	seen := map[dag.RunID]bool{}
	var visit func(c *claimant) bool
	visit = func(c *claimant) bool {
		path = append(path, c)
		for _, name := range c.claim.Locks {
			k := g.locks[name]
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
			for _, o := range g.waitingOf(k.family) {
				if visit(o) {
					return true
				}
			}
		}
		path = path[:len(path)-1]
		return false
	}
	if !visit(from) {
		return nil
	}
	youngest := slices.MaxFunc(path, byAsked)
	var parts []string
	for _, c := range path {
		parts = append(parts, fmt.Sprintf("run %s waits: %s", c.run, w.lockedBy(c)))
	}
	d := &denial{cause: dag.CauseCycle, why: clean("it waited in a circle: " + strings.Join(parts, "; "))}
	if youngest == from {
		g.leave(from)
		return d
	}
	if err := w.denied(youngest, d); err != nil {
		w.broken(err)
	}
	return nil
}

// waitingOf are the members of a family that wait for locks.
func (g *commons) waitingOf(family dag.RunID) []*claimant {
	var all []*claimant
	for _, c := range g.of {
		if !c.locks && c.family() == family {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, byAsked)
	return all
}
