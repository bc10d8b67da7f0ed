package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/trigger"
)

// swarm holds the kinds of faults in one history, and their frequencies. Each seed draws its own, so that
// rare combinations occur. Small integers are percentages.
type swarm struct {
	nodes, shards, slots, flows int
	runs                        int           // number of runs that clients start
	active                      time.Duration // the time during which faults occur
	latency                     time.Duration // longest delay of a message
	commit                      time.Duration // longest duration of a store call

	crash    float64 // percent of store calls at which the process dies
	freezes  int     // number of freezes in the whole history
	stall    float64 // percent of writing store calls that take longer than other nodes wait
	outages  int
	cuts     int
	leaves   int
	jumps    int // number of jumps of the database's clock
	unknown  int // the answer to a commit is lost, or the commit itself
	failing  int // a write fails
	blind    int // a read fails
	lose     int
	double   int
	sleep    bool // the clock of a frozen machine stands still
	drift    bool
	fail     int // percent of attempts that fail
	stray    int
	poison   int
	vanish   int
	long     int
	twice    int
	ghosts   int
	verbs    int
	badRuns  int
	triggers bool
	limit    bool // workflows have a concurrency limit
	beside   bool // conditions are evaluated outside the writer
}

// Bounds on a history. A history with more steps makes no progress.
const (
	stepsMax = 400_000
	// Bounds on the time after the faults, in virtual time. Something must change within stillMax, and by the
	// end everything must have ended. Runs that all pass through a queue with one slot take long. So do
	// circular waits, because a sweep resolves only one each minute.
	stillMax = 3 * time.Minute
	endBound = 45 * time.Minute
)

func (w *World) draw() {
	r, s := w.rng, &w.swarm
	some := func(odds, most int) int { // returns 0 in most histories
		if r.IntN(100) >= odds {
			return 0
		}
		return 1 + r.IntN(most)
	}
	s.nodes = [...]int{1, 1, 1, 1, 2, 2, 2, 3}[r.IntN(8)]
	if w.stage.Registry && s.nodes == 1 {
		s.nodes = 2 + r.IntN(2)
	}
	s.shards, s.slots, s.flows = 1, 1+r.IntN(4), 1+r.IntN(3)
	if s.nodes > 1 {
		s.shards = 2 + r.IntN(2)
	}
	s.runs = 1 + r.IntN(4)
	s.active = time.Duration(300+r.IntN(2500)) * time.Millisecond
	s.latency = [...]time.Duration{2 * time.Millisecond, 50 * time.Millisecond, time.Second}[r.IntN(3)]
	s.commit = [...]time.Duration{time.Millisecond, 5 * time.Millisecond, 40 * time.Millisecond}[r.IntN(3)]
	if s.nodes > 1 {
		s.active += 3 * time.Second
		s.freezes, s.cuts, s.leaves = some(40, 2), some(20, 2), some(20, 1)
		if r.IntN(3) == 0 {
			s.stall = [...]float64{1, 4}[r.IntN(2)]
		}
	} else {
		s.freezes = some(15, 1)
	}
	if r.IntN(100) < 60 {
		s.crash = [...]float64{0.5, 2, 5}[r.IntN(3)]
	}
	s.outages, s.jumps = some(20, 2), some(25, 3)
	s.unknown, s.failing, s.blind = some(50, 12), some(30, 8), some(20, 4)
	s.lose, s.double = some(50, 30), some(50, 30)
	s.sleep, s.drift = r.IntN(3) == 0, r.IntN(4) == 0
	s.fail, s.stray, s.poison, s.vanish = some(60, 30), some(20, 8), some(20, 8), some(25, 8)
	s.long, s.twice, s.ghosts = some(40, 30), some(40, 40), some(50, 80)
	s.verbs, s.badRuns = some(40, 2), some(10, 1)
	s.beside = w.Seed%9 == 3 // derived from the seed, not drawn, so that older seeds keep their histories
	s.triggers, s.limit = r.IntN(4) == 0, r.IntN(4) == 0
	if w.stage.Registry { // a new process makes no promise during its first lag
		s.active += 2 * lag
		s.runs *= 2
	}
	if w.stage.Ahead { // prepared transactions need several shards, and many events at the same time
		s.shards, s.runs, s.flows = max(s.shards, 2), 2*s.runs+2, 3
	}
	if w.stage.Audit {
		s.verbs += 6
	}
	if drawOther(w) {
		return
	}
	drawHandles(w)
	if w.stage.Back { // the witness does not know which rows of triggers and admission were lost
		s.triggers, s.limit = false, false
		return
	}
	if w.stage.Load {
		s.nodes, s.shards, s.runs = 3, 10+r.IntN(6), 2
		s.triggers, s.limit, s.active = false, false, 20*time.Second+time.Duration(r.IntN(20))*time.Second
		s.crash = min(s.crash, 0.5) // a node must live long enough to decide
		return
	}
	w.drawRich()
	w.drawTimed()
}

// drawOther draws the worlds that are neither rich nor timed. It reports whether this is one of them.
func drawOther(w *World) bool {
	switch {
	case w.stage.Quotas, w.stage.Spaces:
		drawQuotas(w)
	case w.stage.Events:
		drawEvents(w)
	default:
		return false
	}
	return true
}

// World plays one history.
type World struct {
	Seed  uint64
	swarm swarm
	rich  *rich // nil in a plain world
	timed *timed
	rng   *rand.Rand
	stage *Stage
	now   int64 // nanoseconds
	seq   int64
	ids   uint32
	steps int

	procs  []*proc
	cands  []*proc
	cur    *proc
	events events
	groups map[*sync.WaitGroup]int
	dying  []*life

	st        *memory.Store
	ahead     dag.Micros // offset of the database's clock
	outage    bool
	aside     int // above 0 while the test itself uses the store
	planner   engine.Planner
	lives     []*life // the current process of each node
	born      []int
	byHandler map[dag.HandlerID]*life
	workers   []*worker
	unarrived int // number of reports on their way
	calm      bool
	healed    int64        // when the last fault ended
	backAt    int64        // time at which the store last went back
	backs     int          // how often the store went back
	pasts     []*past.Past // confirmed states that each node remembers; nil if it remembers none

	outside outside
	shelf   shelf
	flows   []flow
	client  client
	audits  audits
	spaces  spaces
	burdens burdens
	sending sending
	follows follows
	witness witness
	mutant  *Mutant

	trace  io.Writer
	Faults map[string]int
	Found  []string // descriptions of the violations
}

// Run plays the history of a seed.
func Run(stage *Stage, seed uint64, m *Mutant, trace io.Writer) *World {
	w := &World{Seed: seed, rng: rand.New(rand.NewPCG(seed, 0x5eed)), stage: stage, trace: trace, mutant: m,
		groups: map[*sync.WaitGroup]int{}, byHandler: map[dag.HandlerID]*life{}, Faults: map[string]int{}}
	if m == nil {
		w.mutant = &Mutant{}
	}
	w.draw()
	s := &w.swarm
	w.st = memory.New(memory.Options{Shards: s.shards, Clock: w.clock, Fault: w.fault})
	w.planner = nil
	if s.triggers {
		w.planner = trigger.New(w.st)
	}
	w.lives, w.born, w.pasts = make([]*life, s.nodes), make([]int, s.nodes), make([]*past.Past, s.nodes)
	w.witness.open(w)
	w.shelf.open(w)
	w.outside = outside{works: map[string]attemptKey{}, early: map[attemptKey]int64{}, errands: flow{plan: errandPlan()}}
	w.follows = follows{first: 1, waits: map[attemptKey]*waited{}}
	w.audits.acked, w.audits.leaves = map[string]order{}, map[int64]store.AuditLeaf{}
	w.setUp()
	w.tell("seed %d: %+v %+v", seed, *s, w.rich)
	for i := range w.lives {
		w.after(w.delay(50*time.Millisecond), func() { w.start(i) })
	}
	w.script()
	burden(w)
	w.play(int64(s.active), func() bool { return false })
	w.heal()
	healed := w.now
	w.witness.moved = healed
	stuck := func() bool { return w.now-w.witness.moved > int64(stillMax) }
	w.play(healed+int64(endBound), func() bool { return w.settled() || stuck() })
	if !w.settled() && len(w.Found) == 0 {
		w.violate("liveness", "%v after the last fault, %v after the last change, not everything has ended: %s%s",
			time.Duration(w.now-healed), time.Duration(w.now-w.witness.moved), w.left(), w.why())
	}
	balanced(w, healed)
	answers := func() { w.play(w.now+int64(time.Second), func() bool { return false }) } // the remaining ones arrive
	answers()
	for len(w.Found) == 0 && !w.settled() && !stuck() { // an event that was sent meanwhile may have started a run
		w.play(w.now+int64(endBound), func() bool { return w.settled() || stuck() })
		answers()
	}
	if len(w.Found) == 0 {
		w.witness.close()
	}
	w.end()
	return w
}

// play continues until an instant, or until the function over returns true. It reports whether over has
// returned true.
func (w *World) play(until int64, over func() bool) bool {
	look := int64(0)
	for len(w.Found) == 0 && w.now < until {
		if w.now >= look { // the function over is costly, so it is not called after every step
			if over() {
				return true
			}
			look = w.now + int64(50*time.Millisecond)
		}
		if w.steps > stepsMax {
			w.violate("liveness", "%d steps and no end: %s", w.steps, w.left())
			return false
		}
		if !w.step() {
			return over()
		}
	}
	return false
}

// end lets every thread run to its end.
func (w *World) end() {
	for _, l := range w.lives {
		if l != nil {
			if l.eng != nil {
				w.Faults["transaction made ahead"] += int(l.eng.Stats().Ahead.Load())
			}
			l.die()
		}
	}
	w.bury()
	for _, p := range w.procs {
		if !p.done && p.life == nil {
			p.c.stop()
		}
	}
}

func (w *World) clock() dag.Micros { return clockBase*1e6 + dag.Micros(w.now/1000) + w.ahead }

func (w *World) chance(percent int) bool { return percent > 0 && w.rng.IntN(100) < percent }

func (w *World) count(fault string) { w.Faults[fault]++ }

func (w *World) tell(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%s  %s\n", w, fmt.Sprintf(format, args...))
	}
}

func (w *World) violate(rule, format string, args ...any) {
	what := rule + ": " + fmt.Sprintf(format, args...)
	w.Found = append(w.Found, what)
	w.tell("VIOLATION %s", what)
}

// script schedules the faults that happen at fixed instants.
func (w *World) script() {
	s := &w.swarm
	at := func(n int, f func()) {
		for range n {
			w.after(time.Duration(w.rng.Int64N(int64(s.active))), f)
		}
	}
	at(s.freezes, func() {
		if l := w.anyLife(); l != nil {
			l.freeze()
			most := 2 * int64(lag)
			w.after(time.Duration(w.rng.Int64N(most)), l.thaw)
		}
	})
	at(s.outages, func() {
		w.count("outage")
		w.outage = true
		w.tell("the database is away")
		w.after(w.delay(3*time.Second), func() { w.outage = false; w.tell("the database is back") })
	})
	at(s.cuts, func() {
		if l := w.anyLife(); l != nil {
			w.count("cut")
			l.cut = true
			w.tell("%s does not reach the database", l)
			w.after(w.delay(2*lag), func() { l.cut = false; w.tell("%s reaches the database", l) })
		}
	})
	at(s.leaves, func() {
		if l := w.anyLife(); l != nil && l.member != nil && !l.frozen {
			w.count("leave")
			w.tell("%s is told to stop", l)
			l.leaving = true
			l.cancel()
		}
	})
	at(s.jumps, func() {
		w.count("clock jump")
		w.witness.latest = max(w.witness.latest, w.clock())
		w.ahead += [...]dag.Micros{3600e6, -3600e6, 30e6, -30e6, 2e6, -2e6}[w.rng.IntN(6)]
		w.tell("the clock of the database jumps: it is %d s off", w.ahead/1e6)
	})
	w.goBack()
	changeSpaces(w)
	w.shelf.script()
	w.client.script(w)
	w.client.operate(w)
	w.sweepUp()
	w.client.people(w)
	w.client.sendEvents(w)
	w.keepUp()
}

// keepUp restarts dead processes after a while.
func (w *World) keepUp() {
	for i, l := range w.lives {
		if l != nil && l.dead && len(w.dying) == 0 {
			w.lives[i] = nil
			down := time.Second
			if w.swarm.nodes > 1 && w.rng.IntN(4) == 0 {
				down = 3 * lag
			}
			w.after(w.delay(down), func() { w.start(i) })
		}
	}
	w.after(100*time.Millisecond, w.keepUp)
}

// anyLife returns a running process, or nil.
func (w *World) anyLife() *life {
	first := w.rng.IntN(len(w.lives))
	for i := range w.lives {
		if l := w.lives[(first+i)%len(w.lives)]; l != nil && !l.dead && l.eng != nil {
			return l
		}
	}
	return nil
}

// heal ends all faults.
func (w *World) heal() {
	s := &w.swarm
	w.calm, w.outage, w.healed = true, false, w.now
	if w.ahead += max(w.witness.latest-w.clock(), 0); w.ahead < 0 { // makes triggers due
		w.ahead = 0
	}
	s.stall = 0
	s.crash, s.unknown, s.failing, s.blind, s.lose, s.double, s.fail, s.stray, s.poison, s.vanish = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	w.shelf.heal()
	s.latency = min(s.latency, 50*time.Millisecond)
	for _, l := range w.lives {
		if l != nil {
			l.cut = false
			l.thaw()
		}
	}
	w.tell("no faults from now on")
	healSpaces(w)
	w.client.heal(w)
}

// settled reports whether everything has ended.
func (w *World) settled() bool {
	for _, l := range w.lives {
		if l == nil || l.dead || l.eng == nil || len(l.work.live) > 0 {
			return false
		}
		if l.eng.Accepting() != nil {
			return false // the owner does not know the outcome of its last transaction yet
		}
		if _, listed := w.witness.members[l.handler]; l.member != nil && !listed {
			return false // the owner was deposed, but does not know it yet
		}
	}
	for _, p := range w.procs { // messages from the time of faults may arrive only now
		if !p.done && p.life != nil && !p.life.dead && (p.name == "ask" || p.name == "decide" || p.name == "verb" || p.name == "change" || p.name == "send") {
			return false
		}
	}
	return w.pastSeen() && w.client.open == 0 && w.unarrived == 0 && w.left() == ""
}

// left names the parts of the world that have not ended.
func (w *World) left() string {
	w.aside++
	defer func() { w.aside-- }()
	ctx := context.Background()
	runs, err := w.st.Unfinished(ctx)
	if err != nil {
		return err.Error()
	}
	text := ""
	for state, n := range runs {
		text += fmt.Sprintf(" %d runs are %s;", n, state)
	}
	for i := range w.swarm.shards {
		if ms, err := w.st.Messages(ctx, dag.ShardID(i), 1); len(ms) > 0 || err != nil {
			text += fmt.Sprintf(" messages wait for shard %d %v;", i, errors.Unwrap(err))
		}
	}
	if w.planner != nil {
		if next, err := w.st.NextDue(ctx, w.allShards()); next != 0 || err != nil {
			text += fmt.Sprintf(" a trigger is due at %d;", next)
		}
	}
	text += auditLeft(w) + w.follows.untaken(w)
	if w.timed != nil { // the simulated people delete all triggers at the end
		if all, err := w.st.Triggers(ctx, store.TriggerQuery{Limit: 1}); len(all) > 0 || err != nil {
			text += fmt.Sprintf(" triggers are declared: %d;", len(all))
		}
	}
	return text
}

func (w *World) allShards() []dag.ShardID {
	all := make([]dag.ShardID, w.swarm.shards)
	for i := range all {
		all[i] = dag.ShardID(i)
	}
	return all
}

// fault decides the outcome of a call of the store. Other threads can run during this call.
func (w *World) fault(op memory.Op) (out memory.Outcome) {
	if w.aside > 0 || w.cur == nil || w.cur.life == nil {
		return memory.OK
	}
	l, s := w.cur.life, &w.swarm
	defer func() {
		if out != memory.OK {
			l.hindered = w.now
		}
	}()
	switch op.Kind {
	case memory.Read, memory.Scan:
		if l.dead || w.outage || l.cut || w.chance(s.blind) {
			return memory.FailBefore
		}
		return memory.OK
	case memory.Load, memory.Members:
		w.pause(w.delay(s.commit))
		if l.dead || w.outage || l.cut || w.chance(s.blind) {
			return memory.FailBefore
		}
		return memory.OK
	case memory.CommitAfter, memory.AcquireAfter, memory.ClaimAfter, memory.RegisterAfter, memory.MemberAfter, memory.AuditAfter, memory.EventsAfter, memory.LogsAfter:
		return w.faultAfter(l, op)
	}
	if !l.dead {
		if s.stall > 0 && w.rng.Float64()*100 < s.stall {
			l.freeze()
			w.after(lag+time.Duration(w.rng.Int64N(int64(2*lag))), l.thaw)
		}
		w.pause(w.delay(s.commit))
		w.snipe(l, op)
		l.connect()
	}
	return w.faultBefore(l, op)
}

func (w *World) faultBefore(l *life, op memory.Op) memory.Outcome {
	s := &w.swarm
	if l.dead {
		return memory.FailBefore
	}
	if s.crash > 0 && w.rng.Float64()*100 < s.crash {
		l.crash(fmt.Sprintf("before a %s", op.Kind))
		return memory.FailBefore
	}
	switch {
	case w.outage || l.cut:
		return memory.FailBefore
	case op.Kind == memory.CommitBefore && poisoned(op.Batch):
		w.count("refused batch")
		w.tell("%s: refused:%s", l, describe(w, op.Batch))
		return memory.Refuse
	case w.chance(s.failing):
		w.count("failed write")
		w.tell("%s: a %s fails", l, op.Kind)
		return memory.FailBefore
	case w.chance(s.unknown) && w.rng.IntN(2) == 0:
		w.count("lost commit")
		w.tell("%s: a %s is lost on its way", l, op.Kind)
		return memory.UnknownLost
	}
	if op.Kind == memory.CommitBefore && w.mutant.unfenced {
		unfence(w, op.Batch)
	}
	return memory.OK
}

func (w *World) faultAfter(l *life, op memory.Op) memory.Outcome {
	s := &w.swarm
	w.witness.after(l, op)
	if l.dead {
		return memory.UnknownWritten
	}
	w.pause(w.delay(s.commit))
	w.snipe(l, op)
	switch {
	case l.dead:
		return memory.UnknownWritten
	case s.crash > 0 && w.rng.Float64()*100 < s.crash:
		l.crash(fmt.Sprintf("after a %s", op.Kind))
		return memory.UnknownWritten
	case w.chance(s.unknown), w.outage, l.cut:
		w.count("lost reply")
		w.tell("%s: the reply to a %s is lost", l, op.Kind)
		return memory.UnknownWritten
	}
	return memory.OK
}
