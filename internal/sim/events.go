package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/dispatch"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// In a world with events, tasks wait for events that clients send to the events API. The nodes run the
// production code that searches the log of events (dispatch.Awaited). Events are sent again with the same id,
// often with another content, and retention deletes the oldest events. The file events_judge.go has the
// rules.

// sending holds the random choices of a world with events, and the answers to the senders. It has its own
// source of random numbers.
type sending struct {
	r      *rand.Rand
	sends  int               // calls that send events
	ids    int               // number of different ids
	acked  map[eventID]int64 // the position of each event whose call was answered
	final  int               // calls that send the last events
	broker broker
}

// eventID identifies an event. All events have one namespace.
type eventID struct{ source, id string }

// sent is the content of an event, as a sender writes it.
type sent struct {
	Source string `json:"source"`
	ID     string `json:"id"`
	Type   string `json:"type"`
	Data   struct {
		N int `json:"n"`
	} `json:"data"`
}

// drawEvents makes longer histories, so that shards move. The last workflow is started by events.
func drawEvents(w *World) {
	s := &w.swarm
	r := rand.New(rand.NewPCG(w.Seed, 0xe7e7))
	w.sending = sending{r: r, sends: 4 + r.IntN(20), ids: 4 + r.IntN(20), acked: map[eventID]int64{}, broker: broker{first: 1}}
	s.nodes = [...]int{1, 2, 2, 3}[r.IntN(4)]
	if s.shards = 1; s.nodes > 1 {
		s.shards = 2 + r.IntN(2)
		s.active += 2 * lag
		s.freezes, s.leaves = max(s.freezes, r.IntN(3)), max(s.leaves, r.IntN(2))
	}
	s.runs += 1 + r.IntN(3)
	s.poison, s.badRuns = 0, 0 // a refused run would be quarantined, and its waits with it
	s.triggers, s.limit = true, false
	w.rich = &rich{verbs: r.IntN(4)}
}

// eventPlans returns random graphs in which about half of the tasks wait for an event.
var eventPlans = sync.OnceValue(func() (all []*plan) {
	for r := rand.New(rand.NewPCG(12, 12)); len(all) < plansMax/2; {
		needs := make([][]int, 1+r.IntN(6))
		for i := range needs {
			for n := range i {
				if r.IntN(3) == 0 {
					needs[i] = append(needs[i], n)
				}
			}
		}
		p := newPlan(needs, func(i int, t *dag.TaskSpec, p *plan) {
			if len(needs[i]) > 0 && r.IntN(4) == 0 {
				p.ifs[i] = [...]condition{"always", "failure"}[r.IntN(2)]
			}
			switch r.IntN(8) {
			case 0, 1, 2, 3:
				t.Logic = &dag.Logic{Kind: dag.Dependent, For: 10 * time.Second}
				if r.IntN(4) == 0 {
					t.Policy.Timeout = time.Duration(1+r.IntN(8)) * time.Second
				}
			case 4:
				t.Logic = &dag.Logic{Kind: dag.Wait, For: time.Duration(r.IntN(2000)) * time.Millisecond}
			default:
				t.Policy.Retry = dag.Retry{Max: r.Int32N(2), Delay: time.Duration(r.IntN(400)) * time.Millisecond}
			}
		}, r.IntN(6) == 0, 0)
		p.rich = true
		all = append(all, p)
	}
	return all
})

// eventPlan draws the graph of a workflow. Runs that events start wait for no event, because the last events
// must end all waits.
func eventPlan(w *World, i int) *plan {
	if i == w.swarm.flows-1 {
		return fedPlan()
	}
	return eventPlans()[w.rng.IntN(plansMax/2)]
}

var fedPlan = sync.OnceValue(func() *plan {
	p := single()
	p.rich = true
	return p
})

// wanted is what a task waits for.
type wanted struct {
	of     workflow.Awaited
	filter int // 0: every event; 1: events with an even n; 2: as 1, and the evaluation fails for an odd n
}

// wantedOf returns what a task waits for. It depends only on the number of the task.
func wantedOf(t dag.TaskID) *wanted {
	x := &wanted{filter: int(t+1) % 3}
	x.of.Types = [][]string{{"a"}, {"b.*", "c"}, nil}[t%3]
	x.of.Source = [...]string{"", "s0"}[t/2%2]
	x.of.Within = workflow.Duration([...]time.Duration{0, 400 * time.Millisecond, time.Hour}[t/3%3])
	return x
}

var errOdd = errors.New("the number is odd")

// passes is the filter.
func (x *wanted) passes(event json.RawMessage) (bool, error) {
	var is sent
	if err := json.Unmarshal(event, &is); err != nil {
		return false, err
	}
	odd := is.Data.N%2 != 0
	if odd && x.filter == 2 {
		return false, errOdd
	}
	return !odd || x.filter == 0, nil
}

// follow starts the thread of a process that follows the log of events.
func (l *life) follow() {
	w := l.w
	if !w.stage.Events {
		return
	}
	l.log = w.mutant.store(l, true)
	l.awaited = dispatch.NewAwaited(dispatch.AwaitedConfig{Engine: func() *engine.Engine { return l.eng }, Events: l.log, Host: l})
	w.spawn(l, "awaited", func() { l.awaited.Run(l.ctx) })
	w.spawn(l, "feed", l.feed)
}

// prepareEvent looks for the event of a waiting task, as package dispatch does.
func prepareEvent(ctx context.Context, w *World, q engine.PrepareQuery) (engine.Prepared, error) {
	l, x, k := w.cur.life, wantedOf(q.Task), dag.KeyOf(q.Row.ID, q.Task, q.Token)
	if w.mutant.forgetsWaits && w.follows.waits[attemptKey{k.Run, q.Task, k.Token}].life != l {
		return engine.Prepared{Later: time.Second, Called: true}, nil
	}
	return l.awaited.Look(ctx, &dispatch.Wanted{Key: k, Namespace: "sim", Event: &x.of, Passes: x.passes})
}

// sendEvents makes clients send events, and retention delete old ones, during the time of faults.
func (c *client) sendEvents(w *World) {
	if !w.stage.Events {
		return
	}
	d := &w.sending
	d.writeRecords(w)
	for range d.sends {
		w.after(time.Duration(d.r.Int64N(int64(w.swarm.active))), func() { c.send(w, d.draw(1+d.r.IntN(3)), 4) })
	}
	for range d.r.IntN(4) {
		keep := d.r.IntN(6)
		w.after(time.Duration(d.r.Int64N(int64(w.swarm.active))), func() { expire(w, keep) })
	}
}

// draw makes different events. Some of them have an id that was sent before.
func (d *sending) draw(n int) (all []sent) {
	known := map[eventID]bool{}
	for range n {
		is := sent{Source: fmt.Sprintf("s%d", d.r.IntN(2)), ID: fmt.Sprintf("e%d", d.r.IntN(d.ids)), Type: [...]string{"a", "b.x", "b.y", "c", "d"}[d.r.IntN(5)]}
		is.Data.N = d.r.IntN(10)
		if k := (eventID{is.Source, is.ID}); !known[k] {
			known[k] = true
			all = append(all, is)
		}
	}
	return all
}

// rows returns the rows of events.
func rows(events []sent) (all []store.SentEvent) {
	for i := range events {
		is := &events[i]
		data, err := json.Marshal(is)
		must(err)
		all = append(all, store.SentEvent{Namespace: "sim", Source: is.Source, ID: is.ID, Type: is.Type, Data: data})
	}
	return all
}

// send sends events in one call. It repeats the call until it is answered, or at most a number of times.
func (c *client) send(w *World, events []sent, tries int) {
	l := w.anyLife()
	again := func() {
		if tries > 1 {
			w.after(askAgain+w.delay(time.Second), func() { c.send(w, events, tries-1) })
		}
	}
	if l == nil || l.frozen || l.feeder == nil {
		again()
		return
	}
	w.spawn(l, "send", func() {
		w.tell("client sends to %s: %v", l, events)
		added, err := l.feeder.AddEvents(l.root, rows(events))
		w.tell("%s answers to the sender: %+v %v", l, added, err)
		switch {
		case l.dead, err != nil:
			w.after(0, again)
		case !l.dead:
			for i := range added {
				w.follows.answered(w, eventID{events[i].Source, events[i].ID}, added[i])
			}
		}
	})
}

// expire deletes the oldest events, as retention does.
func expire(w *World, keep int) {
	l := w.shardOwner(store.GateShard)
	if l == nil || l.frozen || l.eng == nil {
		return
	}
	w.spawn(l, "expire", func() {
		n, err := w.st.ExpireRecords(l.root, l.handler, store.RecordExpiry{Shard: store.GateShard, RequestsKeep: 1 << 30, CallsKeep: 1 << 30, EventsKeep: keep, Limit: 1000})
		w.tell("%s deletes %d events (%v)", l, n, err)
	})
}

const (
	// wakeWithin bounds the time in which a task wakes for its event, while there are no faults.
	wakeWithin = 10 * time.Second
	// finalEach is the interval of the calls that end the last waits.
	finalEach = 3 * time.Second
)

// healEvents ends all waits that are still open a while after the last fault: it sends events that every
// task wants. Until then, only the events from the time of faults can wake a task.
func (c *client) healEvents(w *World) {
	if !w.stage.Events {
		return
	}
	w.follows.overdue(w)
	w.follows.resume(w)
	if d := &w.sending; w.now > w.healed+int64(3*wakeWithin/2)+int64(d.final)*int64(finalEach) {
		d.final++
		var all []sent
		for _, kind := range []string{"a", "c"} {
			all = append(all, sent{Source: "s0", ID: fmt.Sprintf("last%d%s", d.final, kind), Type: kind})
		}
		c.send(w, all, 1)
	}
}

// EventsUntil can play a mutant that finds another begin of a wait.
func (v *view) EventsUntil(ctx context.Context, at dag.Micros) (int64, error) {
	if v.m.until != nil {
		return v.m.until(v, at)
	}
	return v.Store.EventsUntil(ctx, at)
}

// EventsAfter can play a mutant that reads other events than those of the log.
func (v *view) EventsAfter(ctx context.Context, seq int64, limit, size int) ([]store.SentEvent, error) {
	page, err := v.Store.EventsAfter(ctx, seq, limit, size)
	if v.m.page != nil && v.l.w.aside == 0 {
		page = v.m.page(v, page)
	}
	return page, err
}

// AddEvents can play a mutant that stores other events than the sent ones.
func (v *view) AddEvents(ctx context.Context, events []store.SentEvent) ([]store.EventAdded, error) {
	if v.m.add != nil {
		return v.m.add(v, events)
	}
	return v.Store.AddEvents(ctx, events)
}
