package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// Mutant is a known bug of Skein or of another system. The store, the network or the definition is changed so
// that the engine behaves like a program with this bug. The engine's code stays the same. The zero value is
// no bug.
type Mutant struct {
	Name string
	Like string // description of the bug

	rule  string // the rule that must find the bug; set for bugs of worlds with events
	first uint64 // a seed shortly before one that shows the bug; set for rare bugs

	commit    func(v *view, b *store.Batch) (dag.Micros, error)
	claim     func(v *view, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error)
	load      func(v *view, recs []store.RunRecord) []store.RunRecord
	graph     func(p *plan) *plan // the graph that the engine gets
	slots     int                 // number of slots that the engine has only by mistake
	ahead     dag.Micros          // offset of the clock that the engine reads
	alive     func(bool) bool     // replaces the answer to the question whether another handler is alive
	anyBeat   bool                // a member is deposed even if its counter moves
	deaf      bool                // a node never notices that it was declared dead
	noKeys    bool                // idempotency keys are ignored
	cursor    bool                // the search for runs that programs insert begins after the last one found
	unfenced  bool                // the store accepts writes of former owners
	noneDue   bool                // no trigger is ever due
	boundless bool                // workflows have no concurrency limit
	anyToken  bool                // every report is applied to the newest attempt, whatever its token
	forgetful bool                // a report is sent only once
	again     bool                // a running attempt is started again
	eraless   bool                // no node raises the era
	unsettled bool                // no connection begins an era
	noSweep   bool                // no node sweeps
	halfStep  bool                // a step of the audit log is not one transaction
	recalls   bool                // a report counts as still being sent after an owner has accepted it
	registry  bool                // the bug shows in worlds with a registry
	hasty     bool                // a member that the registry has lost is deposed even if its counter moves
	rash      bool                // shards are shifted without hysteresis
	lawless   bool                // no node learns the levels that namespaces demand
	stale     bool                // attempts begin by readings of rules of any age
	nameless  bool                // placements do not name the namespace of their task
	strayed   bool                // a node takes every workflow for one of the first namespace
	// forgetsWaits makes an owner forget the waits for events that began before it took the shard.
	forgetsWaits bool
	until        func(v *view, at dag.Micros) (int64, error)                                   // replaces EventsUntil
	page         func(v *view, page []store.SentEvent) []store.SentEvent                       // changes a page of the log
	add          func(v *view, events []store.SentEvent) (added []store.EventAdded, err error) // replaces AddEvents
	noErrand     bool                                                                          // after a load, the start of an errand is not sent again
	shift        func(v *view, m store.ShiftMove) (bool, error)
}

// view is the store as one process sees it.
type view struct {
	*memory.Store
	l      *life
	m      *Mutant
	engine bool // the caller is the engine, not the node's membership
	seen   dag.RunID
}

var _ database = (*view)(nil)

// store returns the store as a process sees it. Without a bug this is the real store.
func (m *Mutant) store(l *life, engine bool) database {
	if m.Name == "" {
		return l.w.st
	}
	return &view{Store: l.w.st, l: l, m: m, engine: engine}
}

// Members can play a mutant that takes living members for dead: it then lists only this node.
func (v *view) Members(ctx context.Context) ([]store.Member, []store.ShardRow, error) {
	members, shards, err := v.Store.Members(ctx)
	if v.engine && v.m.alive != nil && !v.m.alive(true) {
		self := v.l.eng.Handler().ID
		members = slices.DeleteFunc(members, func(m store.Member) bool { return m.Handler != self })
	}
	if v.m.hasty && !v.engine {
		members = slices.Clone(members)
		for i := range members {
			members[i].Traits.Quick = 1
		}
	}
	return members, shards, err
}

// readsEach returns the interval at which a node reads the namespaces. Attempts begin by readings that are
// up to one and a half intervals old.
func (m *Mutant) readsEach() time.Duration {
	if m.stale {
		return time.Minute
	}
	return quotasEach
}

// NamespaceList plays a node that does not learn what namespaces demand.
func (v *view) NamespaceList(ctx context.Context) ([]store.Namespace, error) {
	all, err := v.Store.NamespaceList(ctx)
	for i := range all {
		if v.m.lawless {
			all[i].Isolation = ""
		}
	}
	return all, err
}

// LevelsStand plays a node whose placements do not name the namespace.
func (v *view) LevelsStand() bool { return v.Store.LevelsStand() && !v.m.nameless }

func (v *view) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	if v.m.commit == nil {
		return v.Store.Commit(ctx, b)
	}
	return v.m.commit(v, b)
}

func (v *view) write(b *store.Batch) (dag.Micros, error) {
	return v.Store.Commit(context.Background(), b)
}

func (v *view) Claim(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	if v.m.claim == nil {
		return v.Store.Claim(ctx, owner, shards)
	}
	return v.m.claim(v, owner, shards)
}

// GrowAudit can play a mutant whose step moves the tree but loses the index of its last row.
func (v *view) GrowAudit(ctx context.Context, size int64, to store.AuditTree, rows []store.AuditLeaf) error {
	if v.m.halfStep && len(rows) > 0 {
		rows = rows[:len(rows)-1]
	}
	return v.Store.GrowAudit(ctx, size, to, rows)
}

func (v *view) Load(ctx context.Context, q store.LoadQuery) ([]store.RunRecord, error) {
	recs, err := v.Store.Load(ctx, q)
	if v.m.load != nil && v.l.w.aside == 0 {
		recs = v.m.load(v, recs)
	}
	return recs, err
}

func (v *view) RunsByKeys(ctx context.Context, keys []store.RunKey) ([]dag.RunRow, error) {
	if v.m.noKeys {
		return nil, nil
	}
	return v.Store.RunsByKeys(ctx, keys)
}

func (v *view) Submitted(ctx context.Context, shards []dag.ShardID, limit int) ([]dag.RunID, error) {
	ids, err := v.Store.Submitted(ctx, shards, limit)
	if v.m.cursor {
		ids = slices.DeleteFunc(ids, func(id dag.RunID) bool { return slices.Compare(id[:], v.seen[:]) <= 0 })
		v.seen = dag.RunID(v.l.w.id())
	}
	return ids, err
}

func (v *view) Due(ctx context.Context, shards []dag.ShardID, until dag.Micros, limit int) ([]store.Trigger, error) {
	if v.m.noneDue {
		return nil, nil
	}
	return v.Store.Due(ctx, shards, until, limit)
}

func (v *view) WorkflowByID(ctx context.Context, id dag.WorkflowID) (store.Workflow, error) {
	wf, err := v.Store.WorkflowByID(ctx, id)
	if v.m.boundless {
		wf.MaxRuns = 0
	}
	if v.m.strayed {
		wf.Namespace = namespaceOf(v.l.w, 0)
	}
	return wf, err
}

func (v *view) Clock(ctx context.Context) (dag.Micros, error) {
	now, err := v.Store.Clock(ctx)
	return now + v.m.ahead, err
}

func (v *view) Depose(ctx context.Context, h dag.HandlerID, beat int64) (bool, error) {
	if v.m.anyBeat {
		v.l.w.pause(v.l.w.delay(lag)) // time passes between the decision and the call
		members, _, err := v.Store.Members(ctx)
		for i := range members {
			if members[i].Handler == h && err == nil {
				beat = members[i].Beat
			}
		}
	}
	return v.Store.Depose(ctx, h, beat)
}

func (v *view) Shift(ctx context.Context, m store.ShiftMove) (bool, error) {
	if v.m.shift == nil {
		return v.Store.Shift(ctx, m)
	}
	return v.m.shift(v, m)
}

func (v *view) Renew(ctx context.Context, m store.Member) (bool, error) {
	listed, err := v.Store.Renew(ctx, m)
	return listed || v.m.deaf, err
}

// forge changes a report so that it takes effect as in a program that does not check tokens.
func (m *Mutant) forge(w *World, from dag.HandlerID, r engine.Report) (dag.HandlerID, engine.Report) {
	sh := w.witness.runs[r.Run]
	if !m.anyToken || sh == nil {
		return from, r
	}
	for i := range sh.attempts {
		if a := &sh.attempts[i]; a.Task == r.Task && a.Token > r.Token {
			from, r.Token = a.Handler, a.Token
		}
	}
	return from, r
}

// split writes a batch in two transactions. move moves rows from the first to the second.
func split(move func(first, second *store.Batch) bool) func(v *view, b *store.Batch) (dag.Micros, error) {
	return func(v *view, b *store.Batch) (dag.Micros, error) {
		first, second := *b, store.Batch{}
		if !move(&first, &second) {
			return v.write(b)
		}
		first.Fences = slices.Clone(b.Fences)
		now, err := v.write(&first)
		if err != nil {
			return now, err
		}
		for _, f := range first.Fences {
			f.Seq++
			second.Fences = append(second.Fences, f)
		}
		if now, err = v.write(&second); err == nil {
			for i := range b.Fences {
				b.Fences[i].Seq++ // the writer expects only one transaction
			}
		}
		return now, err
	}
}

// without removes a part of a batch before the store gets the batch.
func without(drop func(b *store.Batch)) func(v *view, b *store.Batch) (dag.Micros, error) {
	return func(v *view, b *store.Batch) (dag.Micros, error) {
		c := *b
		drop(&c)
		return v.write(&c)
	}
}

// unfence lets a former owner write. It puts the shard's current epoch into the batch.
func unfence(w *World, b *store.Batch) {
	for i := range b.Fences {
		f := &b.Fences[i]
		f.Epoch, f.Seq = w.witness.epoch[f.Shard], w.witness.seq[f.Shard]
	}
}

// apart commits a copy of a batch, so that a bug does not change the writer's fences.
func apart(v *view, b *store.Batch) (dag.Micros, error) {
	c := *b
	c.Fences = slices.Clone(b.Fences)
	return v.write(&c)
}

// Mutants lists the known bugs.
var Mutants = []*Mutant{
	{Name: "epoch-only-read", Like: "the epoch is read before the transaction, not moved by it (DolphinScheduler, Quartz)", unfenced: true, commit: func(v *view, b *store.Batch) (dag.Micros, error) {
		for _, f := range b.Fences {
			if f.Epoch != v.l.w.witness.epoch[f.Shard] {
				return 0, store.ErrFenced
			}
		}
		return apart(v, b)
	}},
	{Name: "no-fence", Like: "no fence at all on completion", unfenced: true, commit: apart},
	{Name: "no-fence-no-guards", Like: "an update without the state in its WHERE (Airflow #60330)", unfenced: true, commit: func(v *view, b *store.Batch) (dag.Micros, error) {
		c := *b
		c.RunUpdates, c.AttemptUpdates = slices.Clone(b.RunUpdates), slices.Clone(b.AttemptUpdates)
		for i := range c.RunUpdates {
			if sh := v.l.w.witness.runs[c.RunUpdates[i].ID]; sh != nil {
				c.RunUpdates[i].Was = sh.row.State
			}
		}
		for i := range c.AttemptUpdates {
			u := &c.AttemptUpdates[i]
			if sh := v.l.w.witness.runs[u.Run]; sh != nil {
				for j := range sh.attempts {
					if a := &sh.attempts[j]; a.Task == u.Task && a.Token == u.Token {
						u.Was = a.State
					}
				}
			}
		}
		return apart(v, &c)
	}},
	{Name: "steal", Like: "a shard is taken although its owner lives", claim: func(v *view, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
		return v.Store.Acquire(context.Background(), owner, shards)
	}},
	{Name: "ack-before-commit", Like: "answered before it is durable (Sidekiq #1831)", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
		if v.l.w.chance(5) {
			return v.l.w.clock(), nil
		}
		return v.write(b)
	}},
	{Name: "unknown-is-done", Like: "memory is kept after a commit of unknown outcome", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
		now, err := v.write(b)
		if errors.Is(err, store.ErrUnknown) && !v.l.dead {
			return v.l.w.clock(), nil
		}
		return now, err
	}},
	{Name: "unknown-is-not-done", Like: "a commit of unknown outcome counts as failed", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
		now, err := v.write(b)
		if errors.Is(err, store.ErrUnknown) {
			err = store.ErrRefused
		}
		return now, err
	}},
	{Name: "failed-is-done", Like: "the error of a commit is dropped", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
		now, err := v.write(b)
		if errors.Is(err, store.ErrUnavailable) && !v.l.dead {
			return v.l.w.clock(), nil
		}
		return now, err
	}},
	{Name: "finalise-apart", Like: "the end of a run is another transaction than its last task's (DolphinScheduler #3929)", commit: split(func(first, second *store.Batch) bool {
		ended := func(u dag.RunUpdate) bool { return u.State.Terminal() }
		if !slices.ContainsFunc(first.RunUpdates, ended) {
			return false
		}
		second.RunUpdates = first.RunUpdates
		first.RunUpdates = nil
		return true
	})},
	{Name: "end-without-next", Like: "the end of a task and the start of the next are two transactions (Hatchet #4494)", commit: split(func(first, second *store.Batch) bool {
		if len(first.AttemptInserts) == 0 || len(first.AttemptUpdates) == 0 {
			return false
		}
		second.AttemptInserts = first.AttemptInserts
		first.AttemptInserts = nil
		return true
	})},
	{Name: "tick-after-run", Like: "the instant is recorded after its run (Argo #14719)", commit: split(func(first, second *store.Batch) bool {
		if len(first.Fires) == 0 {
			return false
		}
		second.Fires, second.TriggerUpdates = first.Fires, first.TriggerUpdates
		first.Fires, first.TriggerUpdates = nil, nil
		return true
	})},
	{Name: "tick-before-run", Like: "the instant is recorded before its run (Airflow #28293)", commit: split(func(first, second *store.Batch) bool {
		if len(first.Fires) == 0 || len(first.RunInserts) == 0 {
			return false
		}
		second.RunInserts, second.AttemptInserts, second.Events = first.RunInserts, first.AttemptInserts, first.Events
		first.RunInserts, first.AttemptInserts, first.Events = nil, nil, nil
		return true
	})},
	{Name: "edit-forgets-an-instant", Like: "an edit moves on from what was due (APScheduler: a job modified while due)", commit: without(func(b *store.Batch) {
		if len(b.WorkflowUpdates) == 0 {
			return
		}
		b.TriggerUpdates = slices.Clone(b.TriggerUpdates)
		for i := range b.TriggerUpdates {
			if t := &b.TriggerUpdates[i]; t.Next != 0 && t.Kind == "every" {
				t.Decided = t.Next
			}
		}
	})},
	{Name: "message-not-deleted", Like: "a message is taken in and stays", commit: without(func(b *store.Batch) { b.Consumed = nil })},
	{Name: "message-lost", Like: "a message is sent after the commit, and lost", commit: without(func(b *store.Batch) { b.Messages = nil })},
	{Name: "no-history", Like: "the event is not of the transaction", commit: without(func(b *store.Batch) { b.Events = nil })},
	{Name: "intent-in-memory", Like: "a stop is only remembered", commit: without(func(b *store.Batch) {
		b.RunUpdates = slices.Clone(b.RunUpdates)
		for i := range b.RunUpdates {
			b.RunUpdates[i].Intent = dag.IntentRun
		}
	})},
	{Name: "key-not-stored", Like: "the idempotency key is forgotten", noKeys: true, commit: without(func(b *store.Batch) {
		b.RunInserts = slices.Clone(b.RunInserts)
		for i := range b.RunInserts {
			b.RunInserts[i].Key = ""
		}
	})},
	{Name: "key-not-looked-for", Like: "only the index knows the idempotency key", noKeys: true},
	{Name: "old-token", Like: "a task is given away again under its old token", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
		c := *b
		c.AttemptInserts = nil
		for _, a := range b.AttemptInserts {
			lost := slices.IndexFunc(c.AttemptUpdates, func(u dag.AttemptUpdate) bool { return u.Run == a.Run && u.Task == a.Task && u.Token == a.Token-1 })
			if lost < 0 {
				c.AttemptInserts = append(c.AttemptInserts, a)
				continue
			}
			a.Token--
			c.AttemptUpdates = slices.Clone(c.AttemptUpdates)
			c.AttemptUpdates[lost].AttemptRow = a
		}
		return v.write(&c)
	}},
	{Name: "load-misses-newest", Like: "a takeover reads before the last commit", load: func(_ *view, recs []store.RunRecord) []store.RunRecord {
		for i := range recs {
			if n := len(recs[i].Attempts); n > 1 {
				recs[i].Attempts = recs[i].Attempts[:n-1]
			}
		}
		return recs
	}},
	{Name: "load-misses-runs", Like: "a takeover forgets a run (dagu #1103)", load: func(_ *view, recs []store.RunRecord) []store.RunRecord {
		return recs[:max(len(recs)-1, 0)]
	}},
	{Name: "last-seen", Like: "runs are found by id greater than the last one seen", cursor: true},
	{Name: "direct-dependents-only", Like: "a failure reaches only the direct dependents", graph: func(p *plan) *plan {
		return mangled(p, func(i int, q *plan) {
			far := false
			for _, n := range p.needs[i] {
				far = far || len(p.needs[n]) > 0
			}
			if far && q.ifs[i] == "" {
				q.ifs[i] = "always"
			}
		})
	}},
	{Name: "double-decrement", Like: "an end counts twice: a join does not wait for all", graph: func(p *plan) *plan {
		return mangled(p, func(i int, q *plan) {
			if n := len(q.needs[i]); n > 1 {
				q.needs[i] = q.needs[i][:n-1]
			}
		})
	}},
	{Name: "failure-not-handled", Like: "a task with if: failure() is upstream_failed", graph: func(p *plan) *plan {
		return mangled(p, func(i int, q *plan) {
			if q.ifs[i] == "failure" {
				q.ifs[i] = ""
			}
		})
	}},
	{Name: "one-retry-more", Like: "a lost count: tried more often than allowed (Sidekiq #4594)", graph: func(p *plan) *plan {
		return mangled(p, func(i int, q *plan) { q.retries[i]++ })
	}},
	{Name: "slot-freed-twice", Like: "a slot is given back twice", slots: 1},
	{Name: "report-without-token", Like: "a late report settles the newest attempt (Airflow #12396)", anyToken: true},
	{Name: "report-sent-once", Like: "a report whose receiver is away is forgotten", forgetful: true},
	{Name: "started-twice", Like: "a reload starts again what runs (DolphinScheduler #13283)", again: true},
	{Name: "living-taken-for-dead", Like: "a takeover revokes what living nodes hold (dagu #1773)", alive: func(bool) bool { return false }},
	{Name: "dead-taken-for-living", Like: "what dead nodes hold is never given away (River #1258)", alive: func(bool) bool { return true }},
	{Name: "deposed-by-name", Like: "a node is declared dead although it has renewed meanwhile (Airflow #16023)", anyBeat: true},
	{Name: "clock-ahead", Like: "instants by the node's own clock", ahead: 700_000},
	{Name: "circles-not-looked-for", Like: "runs wait for each other, each with what the next one needs", noSweep: true},
	{Name: "never-due", Like: "a trigger is stuck for ever (Quartz #145)", noneDue: true},
	{Name: "no-era", Like: "a failover that lost commits gives tokens again", eraless: true, unsettled: true},
	{Name: "loss-not-told", Like: "a failover lost commits, and attempts that have ended in the lost time are waited for", eraless: true},
	{Name: "connections-not-looked-at", Like: "an owner of an earlier state writes before any node has compared", unsettled: true},
	{Name: "lost-end-remembered", Like: "a node remembers a report that the database has lost, and waits for its effect", recalls: true},
	{Name: "registry-is-the-fence", Like: "a node writes as long as the registry lists it (etcd #10811: two clients hold one lock)", registry: true, unfenced: true, first: 1100,
		commit: func(v *view, b *store.Batch) (dag.Micros, error) {
			if v.l.member == nil || !v.l.w.shelf.lists(v.l.member.Self().UUID) {
				return 0, store.ErrFenced
			}
			return apart(v, b)
		}},
	{Name: "registry-alone-deposes", Like: "a session that the registry lost is a death (DolphinScheduler #2601)", registry: true, hasty: true},
	{Name: "limit-not-looked-at", Like: "more runs of a workflow are active than may be (Airflow #45388)", boundless: true},
}
