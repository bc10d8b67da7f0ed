package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/source"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// In a world with events, the last workflow has two triggers with a cursor. The trigger log reads the log of
// events by the production code (source.Feeder). The trigger read has a simulated source: it reads a
// simulated broker, which loses its oldest records, and it offers batches by engine.Intake. A source that is
// slow, or whose node was frozen, offers its batch although another node has taken the shard.

// broker is another system with numbered records. The first record has the number 1.
type broker struct {
	records []record
	first   int64 // the number of the oldest record that is kept
}

// record is a record of the broker.
type record struct {
	key string
	n   int // below 0: the record cannot be read
}

// lines returns the two triggers of the last workflow, as lines of a workflow file.
func (d *sending) lines(last bool) string {
	if !last {
		return ""
	}
	pick := func(all ...string) string { return all[d.r.IntN(len(all))] }
	overlap := func() string {
		return pick(", overlap: allow", ", overlap: queue", ", overlap: skip", ", overlap: wait, max_concurrent_runs: 2")
	}
	return fmt.Sprintf("triggers:\n  - {name: log, event: {type: [b.*, d], filter: event.data.n %% 2 == 0, from: %s, lost: %s%s}%s}\n",
		pick("now", "beginning"), pick("pause", "skip"), pick("", "", ", batch: {max: 2, wait: 1s}"), overlap()) +
		fmt.Sprintf("  - {name: read, poll: {url: 'http://h.example/x', filter: event.n %% 2 == 0, from: beginning, lost: %s%s}%s}\n",
			pick("pause", "skip"), pick("", "", ", batch: {max: 3}"), overlap())
}

// writeRecords makes the broker get and lose records during the time of faults.
func (d *sending) writeRecords(w *World) {
	at := func(f func()) { w.after(time.Duration(d.r.Int64N(int64(w.swarm.active))), f) }
	for range 3 + d.r.IntN(12) {
		at(func() {
			for range 1 + d.r.IntN(3) {
				d.broker.records = append(d.broker.records, record{fmt.Sprintf("k%d", d.r.IntN(40)), d.r.IntN(9) - 1})
			}
		})
	}
	for range d.r.IntN(3) {
		keep := int64(d.r.IntN(4))
		at(func() { d.broker.first = max(d.broker.first, int64(len(d.broker.records))+1-keep) })
	}
}

// feed runs the two sources of a process.
func (l *life) feed() {
	for l.eng == nil {
		if l.Await(l.ctx, nil, bootPause); l.ctx.Err() != nil || l.dead {
			return
		}
	}
	l.feeder = source.NewFeeder(source.FeederConfig{Events: l.log, Triggers: l.eng.Sensors, Intake: engine.IntakeOf(l.eng), Grown: l.awaited.Wake,
		Log: slog.New(slog.DiscardHandler), Host: l, Namespace: func(context.Context, dag.WorkflowID) (string, error) { return "sim", nil }})
	l.w.spawn(l, "read", l.readAll)
	l.feeder.Run(l.ctx)
}

// readAll runs the simulated source as long as the process lives.
func (l *life) readAll() {
	for l.ctx.Err() == nil && !l.dead {
		all, err := l.eng.Sensors(l.ctx, []string{workflow.KindPoll}, store.TriggerKey{}, 10)
		for i := range all {
			if err == nil {
				read(l, &all[i])
			}
		}
		l.Await(l.ctx, nil, 200*time.Millisecond+l.Jitter(300*time.Millisecond))
	}
}

// read reads one batch of the broker and offers it. After an unknown outcome it often offers it again.
func read(l *life, t *store.Trigger) {
	in, d := engine.IntakeOf(l.eng), &l.w.sending
	pos, err := in.Position(t)
	if err != nil {
		return
	}
	b := d.broker.batch(&pos, 1+d.r.IntN(4))
	if b.Cursor == nil {
		return
	}
	slow := 300 * time.Millisecond
	if !l.w.calm && d.r.IntN(8) == 0 {
		slow = 2 * lag
	}
	for range 3 {
		l.Await(l.ctx, nil, l.Jitter(slow))
		taken, err := in.Take(l.ctx, store.TriggerKey{Workflow: t.Workflow, Name: t.Name}, b)
		l.w.tell("%s offers %d records after %q: %+v %v", l, len(b.Events), b.After, taken, err)
		if errors.Is(err, engine.ErrStale) || errkind.IsElsewhere(err) {
			l.w.count("refused batch of a source")
		}
		if l.dead || !errors.Is(err, errkind.ErrUnavailable) || d.r.IntN(2) == 0 {
			return
		}
	}
}

// batch returns the next records after a position, or the number of those that the broker has lost.
func (b *broker) batch(pos *engine.Position, most int) engine.Batch {
	is := engine.Batch{After: pos.Cursor, Since: pos.Since}
	seq := b.first - 1
	if pos.Cursor != nil {
		seq = cursorOf(pos.Cursor)
	}
	if lost := b.first - 1 - seq; lost > 0 {
		is.Lost, is.Why, seq = lost, "the broker has deleted them", b.first-1
		is.Cursor = strconv.AppendInt(nil, seq, 10)
		return is
	}
	for ; seq < int64(len(b.records)) && len(is.Events) < most; seq++ {
		r := &b.records[seq]
		ev := engine.Event{Key: r.key, Reason: "a record"}
		if r.n >= 0 {
			ev.Value = fmt.Appendf(nil, `{"n":%d}`, r.n)
		}
		is.Events = append(is.Events, ev)
	}
	if len(is.Events) > 0 {
		is.Cursor = strconv.AppendInt(nil, seq, 10)
	}
	return is
}

func cursorOf(text []byte) int64 {
	n, err := strconv.ParseInt(string(text), 10, 64)
	must(err)
	return n
}

// resume resumes triggers that were paused because events were lost.
func (f *follows) resume(w *World) {
	for _, x := range f.fed {
		l := w.shardOwner(x.shard)
		if x.paused && l != nil && l.eng != nil && !l.frozen {
			w.spawn(l, "resume", func() { _ = l.eng.PauseTrigger(l.root, x.key, engine.Pause{Resume: true, Actor: "eve"}, nil) })
		}
	}
}
