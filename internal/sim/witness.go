package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// witness sees every commit that the store accepted, and checks every change of the base tables. It trusts
// neither the engine nor the store. It remembers every row, and states the rules in its own words.
type witness struct {
	w       *World
	epoch   map[dag.ShardID]int64
	seq     map[dag.ShardID]int64
	owner   map[dag.ShardID]dag.HandlerID
	taker   map[dag.ShardID]dag.HandlerID // the last owner, even if the shard is free now
	members map[dag.HandlerID]pulse
	runs    map[dag.RunID]*shadow
	order   []dag.RunID // the runs in the order of their insertion
	keys    map[string]dag.RunID
	once    map[string]bool                 // actors whose report counts only once
	said    map[attemptKey]dag.AttemptState // reports that holders really sent
	latest  dag.Micros                      // the latest time that the database's clock has shown
	moved   int64                           // time of the last change of a run or an attempt
	active  map[dag.WorkflowID][2]int32     // number of active runs, and the limit; a limit of 0 is none
	Commits int
	backs   int                  // how often the store returned to an earlier state
	given   map[attemptKey]begun // attempts that have begun, including those in lost transactions
	named   map[string]bool      // handles that rows have ever held
}

// pulse is the counter of a member, and the time at which it last moved.
type pulse struct {
	beat  int64
	since int64
	name  string
	uuid  string
	quick bool // the member has promised to end its attempts soon after it loses the registry
}

// shadow is the state of a run after its last commit.
type shadow struct {
	name     string
	plan     *plan
	graph    *dag.Graph // the graph of the run
	row      dag.RunRow
	attempts []dag.AttemptRow
	intent   dag.Intent // the intent that was acknowledged
	ended    bool       // the run has ended once and was not skipped; it may have been recovered since
	beside   bool       // conditions are evaluated outside the writer, so memory may lag behind the rows
}

func (v *witness) open(w *World) {
	v.w = w
	v.epoch, v.seq, v.owner = map[dag.ShardID]int64{}, map[dag.ShardID]int64{}, map[dag.ShardID]dag.HandlerID{}
	v.taker = map[dag.ShardID]dag.HandlerID{}
	v.members, v.runs = map[dag.HandlerID]pulse{}, map[dag.RunID]*shadow{}
	v.keys, v.said = map[string]dag.RunID{}, map[attemptKey]dag.AttemptState{}
	v.given, v.named = map[attemptKey]begun{}, map[string]bool{}
	v.once, v.active = map[string]bool{}, map[dag.WorkflowID][2]int32{}
	for _, s := range w.allShards() {
		v.epoch[s] = 1 // the epoch at which setUp leaves the shard
	}
}

// after is called after each operation of the store, before the caller gets the result.
func (v *witness) after(l *life, op memory.Op) {
	w := v.w
	w.aside++
	defer func() { w.aside-- }()
	v.latest = max(v.latest, w.clock())
	switch op.Kind {
	case memory.CommitAfter:
		v.commit(l, op.Batch)
	case memory.AcquireAfter:
		for _, s := range op.Shards {
			if was := v.owner[s]; w.swarm.nodes > 1 && was != 0 && was != op.Owner {
				w.violate("owner", "%s takes shard %d from handler %d, which still has it", l, s, was)
			}
			v.epoch[s]++
			v.owner[s], v.taker[s] = op.Owner, op.Owner
			w.tell("%s takes shard %d (epoch %d)", l, s, v.epoch[s])
		}
	case memory.ClaimAfter, memory.MemberAfter:
		v.look(l, op)
	case memory.AuditAfter:
		v.treed()
	case memory.EventsAfter:
		w.follows.grown(w)
	case memory.LogsAfter: // retention
		w.follows.deleted(w)
	}
}

// look records the owners of shards, and the members that are declared dead.
func (v *witness) look(l *life, op memory.Op) {
	w := v.w
	members, shards, err := w.st.Members(context.Background())
	must(err)
	for i := range shards {
		s := &shards[i]
		if v.raised(s) {
			continue
		}
		if s.Epoch > v.epoch[s.ID] {
			if was := v.owner[s.ID]; was != 0 && was != op.Owner {
				w.violate("owner", "%s takes shard %d from handler %d, which still has it", l, s.ID, was)
			}
			v.taker[s.ID] = op.Owner
			w.tell("%s takes shard %d (epoch %d)", l, s.ID, s.Epoch)
		} else if s.Owner != v.owner[s.ID] && s.Owner != 0 {
			w.violate("owner", "shard %d goes from handler %d to %d without a new epoch", s.ID, v.owner[s.ID], s.Owner)
		}
		v.epoch[s.ID], v.owner[s.ID] = s.Epoch, s.Owner
	}
	v.shifted(shards, members)
	listed := map[dag.HandlerID]bool{}
	names := map[string]bool{}
	for i := range members {
		m := &members[i]
		listed[m.Handler], names[m.Name] = true, true
		if was, ok := v.members[m.Handler]; !ok || was.beat != m.Beat {
			v.members[m.Handler] = pulse{m.Beat, w.now, m.Name, m.UUID, m.Traits.Quick > 0}
		}
	}
	for _, h := range slices.Sorted(maps.Keys(v.members)) {
		if listed[h] {
			continue
		}
		p := v.members[h]
		delete(v.members, h)
		gone := w.byHandler[h]
		if gone == l || names[p.name] { // the node left by itself, or a new process of it has joined
			continue
		}
		w.count("deposed")
		w.tell("%s deposes %s (handler %d)", l, gone, h)
		if silent := w.now - p.since; w.backs == 0 && float64(silent) < 0.95*float64(w.lagOf(l, p)) {
			w.violate("false death", "%s was declared dead after %.3f s of silence", gone, float64(silent)/1e9)
		} else if float64(silent) < 0.95*float64(lag) {
			w.count("deposed sooner")
		}
	}
}

func (v *witness) commit(l *life, b *store.Batch) {
	w := v.w
	v.Commits++
	if b.Changes.Rows() > 0 {
		v.moved = w.now
	}
	for _, f := range b.Fences {
		if f.Epoch != v.epoch[f.Shard] || f.Seq != v.seq[f.Shard] {
			w.violate("fence", "%s wrote for shard %d under epoch %d seq %d, it is at epoch %d seq %d", l, f.Shard, f.Epoch, f.Seq, v.epoch[f.Shard], v.seq[f.Shard])
		}
		if taker := w.byHandler[v.taker[f.Shard]]; taker != l {
			w.violate("fence", "%s wrote for shard %d, which %s has taken", l, f.Shard, taker)
		}
		v.seq[f.Shard]++
	}
	if len(b.Fences) > 0 {
		w.tell("%s commits %s", l, describe(w, b))
	}
	v.noted(b)
	w.follows.commit(w, l, b)
	ids := append([]dag.RunID{}, touched(b)...)
	recs, err := w.st.Load(context.Background(), store.LoadQuery{IDs: ids})
	must(err)
	if len(recs) != len(ids) {
		w.violate("lost", "%d runs were written, %d are there", len(ids), len(recs))
	}
	live := recs[:0:0]
	for i := range recs {
		v.judge(l, &recs[i])
		v.weighed(&recs[i])
		if !recs[i].Run.State.Terminal() {
			live = append(live, recs[i])
		}
	}
	v.fires(b)
	if w.timed != nil {
		w.timed.watch(w, b)
	}
	v.commons()
	v.limits()
	v.handles()
	v.quotas(b)
	v.spaces()
	if len(b.Fences) == 0 || len(w.Found) > 0 {
		return
	}
	if diff, err := l.eng.Mirror(live); diff != "" || err != nil {
		w.violate("memory", "of %s: %s %v", l, diff, err)
	}
	if v.Commits%4 == 0 {
		v.mirrorAll(l, b, len(live), len(recs))
	}
}

// mirrorAll compares the memory of an owner with the rows of the shards that it wrote. It leaves out runs
// that other nodes inserted and the owner has not read yet, runs that have just ended, and transactions that
// the owner has prepared ahead of the rows.
func (v *witness) mirrorAll(l *life, b *store.Batch, live, written int) {
	if v.w.swarm.nodes > 1 || live != written || v.w.stage.Ahead {
		return
	}
	for _, f := range b.Fences {
		if diff, err := l.eng.MirrorShard(context.Background(), f.Shard); diff != "" || err != nil {
			v.w.violate("memory", "of %s: %s %v", l, diff, err)
		}
	}
}

// touched returns the runs that a batch changes.
func touched(b *store.Batch) []dag.RunID {
	set := map[dag.RunID]bool{}
	for i := range b.RunInserts {
		set[b.RunInserts[i].ID] = true
	}
	for i := range b.RunUpdates {
		set[b.RunUpdates[i].ID] = true
	}
	for i := range b.AttemptInserts {
		set[b.AttemptInserts[i].Run] = true
	}
	for i := range b.AttemptUpdates {
		set[b.AttemptUpdates[i].Run] = true
	}
	for i := range b.Events {
		set[b.Events[i].Run] = true
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b dag.RunID) int { return slices.Compare(a[:], b[:]) })
}

func describe(w *World, b *store.Batch) string {
	if w.trace == nil {
		return ""
	}
	text := ""
	for i := range b.RunInserts {
		text += fmt.Sprintf(" +%s %s", w.runName(b.RunInserts[i].ID), b.RunInserts[i].State)
	}
	for i := range b.RunUpdates {
		text += fmt.Sprintf(" %s %s/%s", w.runName(b.RunUpdates[i].ID), b.RunUpdates[i].State, b.RunUpdates[i].Intent)
	}
	for i := range b.AttemptInserts {
		a := &b.AttemptInserts[i]
		text += fmt.Sprintf(" +%s→h%d", w.name(attemptKey{a.Run, a.Task, a.Token}), a.Handler)
	}
	for i := range b.AttemptUpdates {
		a := &b.AttemptUpdates[i]
		text += fmt.Sprintf(" %s %s%s", w.name(attemptKey{a.Run, a.Task, a.Token}), a.State, a.Cause)
	}
	for i := range b.Fires {
		text += fmt.Sprintf(" fire %s at %d %s", b.Fires[i].Trigger, b.Fires[i].At, b.Fires[i].Outcome)
	}
	if n := len(b.Messages); n > 0 {
		text += fmt.Sprintf(" %d messages", n)
	}
	if n := len(b.Consumed); n > 0 {
		text += fmt.Sprintf(" %d consumed", n)
	}
	return text
}

// promised checks an acknowledged start. Its run exists with the requested content, and no other run has its
// key.
func (v *witness) promised(a *asked) {
	w := v.w
	row, ok := w.peekRun(a.acked)
	switch {
	case !ok && w.backs > 0: // the start may have been lost when the store went back
		a.acked = dag.RunID{}
		return
	case !ok:
		w.violate("acknowledged", "run %s was acknowledged and is not there", a.acked)
	case row.Key != a.key, a.key == "" && row.Priority != a.priority, row.Workflow != w.flows[a.flow].row.ID, !a.id.IsZero() && a.key == "" && row.ID != a.id:
		w.violate("acknowledged", "run %s is not what was asked: %+v, %+v", a.acked, row.Header, *a)
	}
	if a.key == "" {
		return
	}
	key := fmt.Sprint(row.Workflow, a.key)
	if was, known := v.keys[key]; known && was != a.acked {
		w.violate("one key, one run", "key %s gave runs %s and %s", a.key, was, a.acked)
	}
	v.keys[key] = a.acked
}

// ordered records that an intent was acknowledged and must be durable.
func (v *witness) ordered(id dag.RunID, intent dag.Intent) {
	row, ok := v.w.peekRun(id)
	if v.w.backs > 0 { // the store may have lost acknowledged writes
		return
	}
	// A run with a lower intent is no violation if it continues in a new generation.
	if !ok || row.Intent < intent && !row.State.Terminal() && intent >= dag.IntentStop && v.w.rich == nil {
		v.w.violate("acknowledged", "run %s was told to %s, its row says %s", v.w.runName(id), intent, row.Intent)
	}
}

// fast bounds how far a node's estimate of the database's clock may run ahead between two readings.
func (v *witness) fast() dag.Micros {
	if v.w.swarm.drift {
		return 15e6 / 50
	}
	return 0
}

// fires checks that each fire of a batch has its run, and that no trigger fires before its instant.
func (v *witness) fires(b *store.Batch) {
	w := v.w
	lined := map[dag.RunID]bool{}
	for i := range b.Fires {
		f := &b.Fires[i]
		lined[f.Run] = true
		if f.Key == "" && f.At > v.latest+v.fast() {
			w.violate("early", "trigger %s fired for %d, the clock never showed more than %d", f.Trigger, f.At, v.latest)
		}
		started := f.Outcome == store.OutcomeFired || f.Outcome == store.OutcomeLate
		if _, ok := w.peekRun(f.Run); started && !ok {
			w.violate("outcome", "trigger %s says %s for %d, and there is no run", f.Trigger, f.Outcome, f.At)
		}
	}
	for i := range b.RunInserts {
		if r := &b.RunInserts[i]; r.Fire != nil && r.Fire.Trigger != "" && r.Fire.Backfill == 0 && !lined[r.ID] {
			w.violate("outcome", "a run of trigger %s at %d has no line", r.Fire.Trigger, r.Fire.Instant)
		}
	}
}
