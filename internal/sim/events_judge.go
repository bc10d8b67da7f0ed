package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// follows is the witness of events. It knows every event that the log ever had, and every task that waits
// for an event.
type follows struct {
	all   []logged // ordered by Seq; the first Seq is 1
	first int64    // the Seq of the oldest event that is kept
	waits map[attemptKey]*waited
	order []attemptKey
	fed   []*fed // the triggers with a cursor
}

// logged is an event of the log.
type logged struct {
	store.SentEvent
	sent
	at int64 // the virtual time of its commit
}

// waited is a task that waits for an event, or has waited.
type waited struct {
	want    *wanted
	life    *life      // the process that began the wait
	since   dag.Micros // every matching event that was received later must wake the task
	after   int64      // no other event may, except those after this Seq: they were stored after the wait began
	woken   int        // how often the task has woken
	over    bool
	overdue int64 // since when its event is in the log while there are no faults; 0 if it is not
}

// wants reports whether an event satisfies the task.
func (x *wanted) wants(is *sent) bool {
	kind := len(x.of.Types) == 0
	for _, t := range x.of.Types {
		prefix, many := strings.CutSuffix(t, "*")
		kind = kind || t == is.Type || many && strings.HasPrefix(is.Type, prefix)
	}
	return kind && (x.of.Source == "" || x.of.Source == is.Source) && (x.filter == 0 || is.Data.N%2 == 0)
}

// grown reads the new events of the log after a commit to the log.
func (f *follows) grown(w *World) {
	news, err := w.st.EventsAfter(context.Background(), int64(len(f.all)), 1000, 1<<30)
	must(err)
	for i := range news {
		ev := logged{SentEvent: news[i], at: w.now}
		must(json.Unmarshal(ev.SentEvent.Data, &ev.sent))
		for _, is := range judgeLog(f.all, f.first, &ev) {
			w.violate(is.rule, "%s", is.what)
		}
		f.all = append(f.all, ev)
		w.count("event")
	}
	if last := int64(len(f.all)); len(news) == 0 && f.first > last {
		return
	}
	w.tell("the log has %d new events, it has %d to %d", len(news), f.first, len(f.all))
}

// judgeLog checks an event that is added to the log.
func judgeLog(all []logged, first int64, ev *logged) (fs findings) {
	if ev.Seq != int64(len(all))+1 {
		fs.add("log of events", "event %d comes after event %d", ev.Seq, len(all))
	}
	if n := len(all); n > 0 && ev.Received < all[n-1].Received {
		fs.add("log of events", "event %d was received before the previous one", ev.Seq)
	}
	for i := range all {
		if is := &all[i]; is.Seq >= first && is.sent.Source == ev.sent.Source && is.sent.ID == ev.sent.ID {
			fs.add("event stored once", "events %d and %d are event %s of %s", is.Seq, ev.Seq, ev.sent.ID, ev.sent.Source)
		}
	}
	return fs
}

// deleted reads which events are still in the log.
func (f *follows) deleted(w *World) {
	first, last, err := w.st.EventLog(context.Background())
	must(err)
	if last != int64(len(f.all)) {
		w.violate("log of events", "its last event is %d, and %d were added", last, len(f.all))
	}
	if first > f.first {
		w.count("deleted events")
	}
	f.first = first
}

// answered checks the answer to a sender: the event is in the log at the given place.
func (f *follows) answered(w *World, id eventID, a store.EventAdded) {
	if a.Seq < 1 || a.Seq > int64(len(f.all)) {
		w.violate("event acknowledged", "event %v has position %d, and the log ends at %d", id, a.Seq, len(f.all))
		return
	}
	is := &f.all[a.Seq-1]
	was, known := w.sending.acked[id]
	switch {
	case is.sent.Source != id.source || is.sent.ID != id.id:
		w.violate("event acknowledged", "event %v has position %d, which is of event %s of %s", id, a.Seq, is.sent.ID, is.sent.Source)
	case known && a.Seq != was && min(was, a.Seq) >= f.first: // retention forgets the id of an event it deletes
		w.violate("event acknowledged", "event %v has positions %d and %d", id, was, a.Seq)
	}
	w.sending.acked[id] = max(was, a.Seq) // an answer may be late
	if a.Existing {
		w.count("event sent again")
	}
}

// commit judges the tasks of a commit that begin to wait or end their wait.
func (f *follows) commit(w *World, l *life, b *store.Batch) {
	if !w.stage.Events {
		return
	}
	f.feeds(w, b)
	for i := range b.AttemptInserts {
		f.begun(w, l, &b.AttemptInserts[i])
	}
	for i := range b.AttemptUpdates {
		a := &b.AttemptUpdates[i].AttemptRow
		k := attemptKey{a.Run, a.Task, a.Token}
		x := f.waits[k]
		if x == nil || !a.State.Ended() {
			continue
		}
		x.over = true
		if a.State != dag.AttemptSucceeded || a.Cause == dag.CauseMarked {
			continue
		}
		var is sent
		must(json.Unmarshal(a.Outputs, &is))
		for _, v := range judgeWake(f.all, f.first, x, &is) {
			w.violate(v.rule, "attempt %s: %s", w.name(k), v.what)
		}
		x.woken++
		w.count("task woken")
		if x.life != l {
			w.count("task woken by a later owner")
		}
	}
}

// begun records a task that begins to wait.
func (f *follows) begun(w *World, l *life, a *dag.AttemptRow) {
	if a.Task < 0 || a.State != dag.AttemptDeferred {
		return
	}
	row, _ := w.peekRun(a.Run)
	if g := runGraph(flowOf(w, row.Workflow).plan, &row); g.Kind(a.Task) != dag.Dependent {
		return
	}
	k, want := attemptKey{a.Run, a.Task, a.Token}, wantedOf(a.Task)
	f.waits[k] = &waited{want: want, life: l, since: a.Assigned - dag.Micros(time.Duration(want.of.Within).Microseconds()), after: int64(len(f.all))}
	f.order = append(f.order, k)
	w.count("task that waits for an event")
}

// judgeWake checks that a task wakes once, and by the first event that it waits for.
func judgeWake(all []logged, first int64, x *waited, by *sent) (fs findings) {
	if x.woken > 0 {
		fs.add("woken once", "it wakes again, by event %s of %s", by.ID, by.Source)
		return fs
	}
	var ev *logged
	for i := range all { // after a deletion, an id may come again
		if is := &all[i]; is.sent == *by {
			ev = is
		}
	}
	switch {
	case ev == nil:
		fs.add("woken by an event", "it wakes by an event that was never in the log: %+v", *by)
		return fs
	case !x.want.wants(&ev.sent):
		fs.add("woken by an event", "it wakes by %+v, and wants %+v", ev.sent, *x.want)
	case ev.Received <= x.since && ev.Seq <= x.after:
		fs.add("woken by an event", "it wakes by event %d of %d, and waits since %d", ev.Seq, ev.Received, x.since)
	}
	if is := x.due(all, first); is != nil && is.Seq < ev.Seq {
		fs.add("woken by the first event", "it wakes by event %d, and event %d came before", ev.Seq, is.Seq)
	}
	return fs
}

// due returns the first kept event that must wake a task, or nil.
func (x *waited) due(all []logged, first int64) *logged {
	for i := range all {
		if ev := &all[i]; ev.Seq >= first && ev.Received > x.since && x.want.wants(&ev.sent) {
			return ev
		}
	}
	return nil
}

// overdue checks, while there are no faults, that no task waits whose event is in the log for a while.
func (f *follows) overdue(w *World) {
	for _, k := range f.order {
		x := f.waits[k]
		sh := w.witness.runs[k.run]
		l := w.ownerOf(k.run)
		ready := l != nil && l.eng != nil && !l.frozen && sh.row.Intent == dag.IntentRun && !sh.row.State.Terminal()
		ev := x.due(f.all, f.first)
		if x.over || ev == nil || !ready {
			x.overdue = 0
			continue
		}
		if x.overdue == 0 {
			x.overdue = w.now
		}
		if since := time.Duration(w.now - x.overdue); since > wakeWithin {
			w.violate("woken in time", "attempt %s waits for %+v, and event %d (%+v) is in the log for %v", w.name(k), *x.want, ev.Seq, ev.sent, since)
		}
	}
}

func (x wanted) String() string {
	return fmt.Sprintf("%v of %q within %v, filter %d", x.of.Types, x.of.Source, x.of.Within, x.filter)
}
