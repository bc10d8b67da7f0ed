package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// TestAwaitedEvents makes tasks wait for events. Whatever fails, each waiting task wakes once, by the first
// event that it waits for, each event is stored once, and each cursor moves with the fires of its events.
func TestAwaitedEvents(t *testing.T) {
	all := soak(0, 300, nil, Stage{Events: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -events -v", seed, all.what[seed], seed)
	}
	for _, kind := range []string{"event", "event sent again", "deleted events", "task that waits for an event", "task woken", "task woken by a later owner", "moved cursor", "event of a trigger", "gap of a source",
		"refused batch of a source"} {
		if all.kinds[kind] < 20 {
			t.Errorf("%s: %d times", kind, all.kinds[kind])
		}
	}
}

// TestAwaitedEventsCanFail checks that the simulator finds lost and doubled wakes, wakes by wrong events, and
// faults of the log and of cursors.
func TestAwaitedEventsCanFail(t *testing.T) {
	for _, m := range []*Mutant{
		{Name: "begin-of-the-wait-is-the-end-of-the-log", Like: "an event that crosses the commit of its wait is lost", rule: "woken in time",
			until: func(v *view, _ dag.Micros) (int64, error) {
				_, last, err := v.Store.EventLog(context.Background())
				return last, err
			}},
		{Name: "begin-of-the-wait-is-the-begin-of-the-log", Like: "an event that came before the wait ends it", rule: "woken by an event",
			until: func(v *view, _ dag.Micros) (int64, error) {
				first, _, err := v.Store.EventLog(context.Background())
				return first - 1, err
			}},
		{Name: "forgotten-by-a-load", Like: "only the owner that began a wait looks for its event", rule: "woken in time", forgetsWaits: true},
		{Name: "woken-twice", Like: "the next event wakes a task again", rule: "woken once", commit: wakeAgain},
		{Name: "type-not-looked-at", Like: "an event of another type ends the wait", rule: "woken by an event", page: func(_ *view, page []store.SentEvent) []store.SentEvent {
			page = slices.Clone(page)
			for i := range page {
				page[i].Type, page[i].Source = "a", "s0"
			}
			return page
		}},
		{Name: "newest-first", Like: "the newest event of a page ends the wait", rule: "woken by the first event", page: func(_ *view, page []store.SentEvent) []store.SentEvent {
			page = slices.Clone(page)
			slices.Reverse(page)
			return page
		}},
		{Name: "stored-twice", Like: "the log does not look for the id of an event", rule: "event stored once", add: func(v *view, events []store.SentEvent) ([]store.EventAdded, error) {
			events = slices.Clone(events)
			for i := range events {
				events[i].ID = fmt.Sprint(v.l.w.id())
			}
			return v.Store.AddEvents(context.Background(), events)
		}},
		{Name: "acknowledged-before-the-commit", Like: "a sender is answered before its events are durable", rule: "event acknowledged", add: func(v *view, events []store.SentEvent) ([]store.EventAdded, error) {
			added, err := v.Store.AddEvents(context.Background(), events)
			if err != nil {
				added = nil
				_, last, _ := v.Store.EventLog(context.Background())
				for i := range events {
					added = append(added, store.EventAdded{Seq: last + 1 + int64(i)})
				}
			}
			return added, nil
		}},
		{Name: "cursor-without-fence", Like: "a former owner still moves the cursor", rule: "cursor goes on", commit: staleCursor},
		{Name: "cursor-before-fires", Like: "the cursor is stored before the runs of its events (Airflow #31795)", rule: "cursor and fires", commit: split(func(first, second *store.Batch) bool {
			if len(first.Fires) == 0 || len(first.TriggerUpdates) == 0 {
				return false
			}
			second.RunInserts, second.AttemptInserts, second.Events, second.Fires = first.RunInserts, first.AttemptInserts, first.Events, first.Fires
			first.RunInserts, first.AttemptInserts, first.Events, first.Fires = nil, nil, nil, nil
			return true
		})},
		{Name: "cursor-after-fires", Like: "the cursor is stored after the runs of its events", rule: "cursor and fires", commit: split(func(first, second *store.Batch) bool {
			if len(first.Fires) == 0 || len(first.TriggerUpdates) == 0 {
				return false
			}
			second.TriggerUpdates, first.TriggerUpdates = first.TriggerUpdates, nil
			return true
		})},
		{Name: "event-left-out", Like: "a page of the log has a hole", rule: "cursor and fires", page: func(_ *view, page []store.SentEvent) []store.SentEvent {
			if len(page) > 2 {
				page = slices.Delete(slices.Clone(page), 1, 2)
			}
			return page
		}},
		{Name: "gap-not-told", Like: "lost events are counted, and no line tells of them (OpenFn #4564)", rule: "gap told", commit: without(func(b *store.Batch) {
			b.Fires = slices.DeleteFunc(slices.Clone(b.Fires), func(f store.Fire) bool { return strings.HasPrefix(f.Key, engine.LostKey) })
		})},
	} {
		found := map[string]uint64{}
		for seed := uint64(0); seed < 400 && found[m.rule] == 0; seed += 40 {
			for rule, bad := range soak(1000+seed, 40, m, Stage{Events: true}).rules {
				found[rule] = bad
			}
		}
		if found[m.rule] == 0 {
			t.Errorf("%s: the rule %q does not find it: %v", m.Name, m.rule, found)
			continue
		}
		t.Logf("%s: %v", m.Name, found)
	}
}

// staleCursor plays a former owner: after the commit of a moved cursor, it writes the trigger's earlier row.
func staleCursor(v *view, b *store.Batch) (dag.Micros, error) {
	var was []store.Trigger
	for i := range b.TriggerUpdates {
		t, err := v.Store.Trigger(context.Background(), b.TriggerUpdates[i].Workflow, b.TriggerUpdates[i].Name)
		if err == nil && t.Kind == workflow.KindPoll {
			was = append(was, t)
		}
	}
	now, err := v.write(b)
	if err != nil || v.l.dead || len(was) == 0 {
		return now, err
	}
	again := store.Batch{Fences: slices.Clone(b.Fences)}
	for i := range again.Fences {
		again.Fences[i].Seq++
	}
	for i := range was {
		was[i].Revision += 2
	}
	again.TriggerUpdates = was
	_, _ = v.write(&again)
	return now, err
}

// wakeAgain commits a wake, and then a second wake of the same attempt by another event.
func wakeAgain(v *view, b *store.Batch) (dag.Micros, error) {
	now, err := v.write(b)
	if err != nil || v.l.dead {
		return now, err
	}
	f := &v.l.w.follows
	for i := range b.AttemptUpdates {
		u := b.AttemptUpdates[i]
		if x := f.waits[attemptKey{u.Run, u.Task, u.Token}]; x == nil || u.State != dag.AttemptSucceeded || u.Cause != "" {
			continue
		}
		u.Was = u.State
		again := store.Batch{Fences: slices.Clone(b.Fences)}
		for i := range again.Fences {
			again.Fences[i].Seq++
		}
		again.AttemptUpdates = []dag.AttemptUpdate{u}
		_, _ = v.write(&again)
		break
	}
	return now, err
}

// TestJudgeEvents breaks each rule about one event or one wake once.
func TestJudgeEvents(t *testing.T) {
	event := func(seq int64, received dag.Micros, id, kind string) logged {
		ev := logged{sent: sent{Source: "s0", ID: id, Type: kind}}
		ev.Seq, ev.Received = seq, received
		return ev
	}
	all := []logged{event(1, 10, "x", "a"), event(2, 20, "y", "b"), event(3, 30, "z", "a"), event(4, 30, "v", "a")}
	for _, c := range []struct {
		rule  string
		first int64
		ev    logged
	}{
		{"", 1, event(5, 30, "w", "a")},
		{"", 2, event(5, 40, "x", "a")},
		{"log of events", 1, event(6, 40, "w", "a")},
		{"log of events", 1, event(5, 29, "w", "a")},
		{"event stored once", 1, event(5, 40, "x", "a")},
	} {
		expect(t, c.rule, judgeLog(all, c.first, &c.ev), fmt.Sprintf("%+v", c))
	}
	for _, c := range []struct {
		rule  string
		first int64
		since dag.Micros
		after int64
		woken int
		by    logged
	}{
		{"", 1, 5, 0, 0, all[0]},
		{"", 1, 10, 2, 0, all[2]},
		{"", 1, 40, 3, 0, all[3]}, // the clock that gave the begin of the wait was ahead
		{"", 2, 5, 0, 0, all[2]},
		{"woken once", 1, 5, 0, 1, all[0]},
		{"woken by an event", 1, 5, 0, 0, event(1, 10, "x", "c")},
		{"woken by an event", 1, 5, 0, 0, all[1]},
		{"woken by an event", 1, 10, 2, 0, all[0]},
		{"woken by the first event", 1, 5, 0, 0, all[2]},
	} {
		x := &waited{want: &wanted{}, since: c.since, after: c.after, woken: c.woken}
		x.want.of.Types = []string{"a"}
		expect(t, c.rule, judgeWake(all, c.first, x, &c.by.sent), fmt.Sprintf("%+v", c))
	}
}

// expect checks that findings begin with a rule, or that there are none.
func expect(t *testing.T, rule string, fs findings, what string) {
	t.Helper()
	if len(fs) == 0 && rule == "" || len(fs) > 0 && fs[0].rule == rule {
		return
	}
	t.Errorf("%s: found %v, want %q", what, fs, rule)
}

// TestJudgeCursors breaks each rule about a cursor once.
func TestJudgeCursors(t *testing.T) {
	all := []offer{{seq: 1, key: "a", wanted: true, deleted: true}, {seq: 2, key: "b", wanted: true, deleted: true}, {seq: 3, key: "c", wanted: true},
		{seq: 4, key: "d"}, {seq: 5, key: "e", wanted: true, odd: true}, {seq: 6, key: "f", wanted: true}}
	line := func(key string, n int64) store.Fire {
		return store.Fire{Key: key, Count: n, Outcome: store.OutcomeFired}
	}
	at := func(seq, filtered, lost int64) place { return place{true, seq, filtered, lost} }
	for _, c := range []struct {
		rule     string
		was, now place
		lines    []store.Fire
	}{
		{"", at(2, 0, 0), at(6, 1, 0), []store.Fire{line("c", 1), line("f", 1)}},
		{"", at(3, 0, 0), at(4, 0, 0), nil},
		{"", at(0, 0, 0), at(2, 0, 2), []store.Fire{line(engine.LostKey, 2)}},
		{"", place{}, at(3, 0, 0), []store.Fire{line("c", 1)}},
		{"cursor goes on", at(4, 0, 0), at(3, 0, 0), nil},
		{"cursor goes on", at(4, 0, 0), place{}, nil},
		{"cursor and fires", at(3, 0, 0), at(3, 0, 0), []store.Fire{line("c", 1)}},
		{"cursor and fires", at(2, 0, 0), at(3, 0, 0), nil},
		{"cursor and fires", at(2, 0, 0), at(3, 0, 0), []store.Fire{line("c", 1), line("f", 1)}},
		{"cursor and fires", at(4, 0, 0), at(5, 0, 0), nil},
		{"gap told", at(1, 0, 0), at(3, 0, 1), []store.Fire{line(engine.LostKey, 1)}},
		{"event fired once", at(4, 0, 0), at(6, 1, 0), []store.Fire{line("f", 1), line("z", 1)}},
		{"gap told", at(0, 0, 0), at(2, 0, 2), []store.Fire{line(engine.LostKey, 1)}},
		{"gap told", at(1, 0, 0), at(2, 0, 2), []store.Fire{line(engine.LostKey, 2)}},
	} {
		x := &fed{place: c.was, keys: map[string]bool{"z": true}, all: true}
		expect(t, c.rule, judgeFed(x, c.now, all, c.lines), fmt.Sprintf("%+v", c))
	}
}
