package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// fed is a trigger with a cursor, as its row and its lines in the ledger were after the last commit.
type fed struct {
	key   store.TriggerKey
	shard dag.ShardID
	batch int // largest number of events of one run; 0 if each event has its own
	place
	since  dag.Micros // events that were received until then do not count, unless all do
	all    bool
	paused bool
	keys   map[string]bool // keys of all lines
}

// place is the stored position of a trigger.
type place struct {
	begun          bool // it has a cursor
	seq            int64
	filtered, lost int64
}

// offer is an event that a trigger can read.
type offer struct {
	seq      int64
	key      string
	received dag.Micros
	deleted  bool
	wanted   bool // the trigger wants the type of the event
	odd, bad bool // the filter rejects the event; the event cannot be used
}

// offers returns all events that a trigger could ever read.
func (f *follows) offers(w *World, x *fed) (all []offer) {
	if x.key.Name == "read" {
		b := &w.sending.broker
		for i, r := range b.records {
			all = append(all, offer{seq: int64(i) + 1, key: r.key, deleted: int64(i)+1 < b.first, wanted: true, odd: r.n > 0 && r.n%2 != 0, bad: r.n < 0})
		}
		return all
	}
	for i := range f.all {
		ev := &f.all[i]
		all = append(all, offer{seq: ev.Seq, key: ev.sent.Source + " " + ev.sent.ID, received: ev.Received, deleted: ev.Seq < f.first,
			wanted: ev.sent.Type == "d" || strings.HasPrefix(ev.sent.Type, "b."), odd: ev.sent.Data.N%2 != 0})
	}
	return all
}

// openFed reads the triggers with a cursor, before the history begins.
func (f *follows) openFed(w *World) {
	if !w.stage.Events {
		return
	}
	all, err := w.st.Triggers(context.Background(), store.TriggerQuery{Limit: 10})
	must(err)
	for i := range all {
		t := &all[i]
		x := &fed{key: store.TriggerKey{Workflow: t.Workflow, Name: t.Name}, shard: t.Shard, keys: map[string]bool{}}
		x.place = x.read(t)
		f.fed = append(f.fed, x)
	}
}

// read reads the position of a trigger from its row.
func (x *fed) read(t *store.Trigger) place {
	decl, err := workflow.DecodeTrigger(t.Spec)
	must(err)
	pos, err := trigger.Position(t, decl.Intake)
	must(err)
	x.batch, x.since, x.all, x.paused = int(decl.Intake.BatchMax), pos.Since, pos.From == workflow.FromBeginning, t.State != store.TriggerActive
	is := place{begun: pos.Cursor != nil, filtered: pos.Filtered, lost: pos.Lost}
	if is.begun {
		is.seq = cursorOf(pos.Cursor)
	}
	return is
}

// feeds judges the triggers with a cursor that a commit changes.
func (f *follows) feeds(w *World, b *store.Batch) {
	for _, x := range f.fed {
		row := slices.ContainsFunc(b.TriggerUpdates, func(t store.Trigger) bool { return t.Workflow == x.key.Workflow && t.Name == x.key.Name })
		var lines []store.Fire
		for i := range b.Fires {
			if l := &b.Fires[i]; l.Workflow == x.key.Workflow && l.Trigger == x.key.Name {
				lines = append(lines, *l)
			}
		}
		if !row && len(lines) == 0 {
			continue
		}
		t, err := w.st.Trigger(context.Background(), x.key.Workflow, x.key.Name)
		must(err)
		now := x.read(&t)
		for _, is := range judgeFed(x, now, f.offers(w, x), lines) {
			w.violate(is.rule, "trigger %s: %s", x.key.Name, is.what)
		}
		if now.lost > x.lost {
			w.count("gap of a source")
		}
		if now.seq > x.seq {
			w.count("moved cursor")
		}
		for i := range lines {
			x.keys[lines[i].Key] = true
			w.count("event of a trigger")
		}
		x.place = now
	}
}

// judgeFed checks a change of a trigger's row, and the lines of the same transaction. The cursor never goes
// back. The lines are exactly those of the events that the cursor passes. Lost events are counted.
func judgeFed(x *fed, now place, all []offer, lines []store.Fire) (fs findings) {
	if now.begun == x.begun && now.seq == x.seq {
		if len(lines) > 0 {
			fs.add("cursor and fires", "it stays at %d, and there are %d lines", now.seq, len(lines))
		}
		return fs
	}
	if !now.begun || x.begun && now.seq < x.seq {
		fs.add("cursor goes on", "it goes from %d to %d", x.seq, now.seq)
		return fs
	}
	lost := now.lost - x.lost
	var told int64
	got := map[string]string{}
	for i := range lines {
		l := &lines[i]
		switch _, twice := got[l.Key]; {
		case strings.HasPrefix(l.Key, engine.LostKey):
			told += l.Count
			continue
		case twice || x.keys[l.Key]:
			fs.add("event fired once", "event %s has a second line", l.Key)
		}
		got[l.Key] = l.Outcome
	}
	if told != lost {
		fs.add("gap told", "%d events are counted as lost, and the lines tell of %d", lost, told)
	}
	if lost > 0 {
		judgeGap(x, now, lost, all, &fs)
	}
	judgePassed(x, now, all, got, &fs)
	return fs
}

// judgeGap checks that the events that count as lost are the deleted ones before the new cursor.
func judgeGap(x *fed, now place, lost int64, all []offer, fs *findings) {
	if now.seq-lost < x.seq {
		fs.add("gap told", "%d events are lost between %d and %d", lost, x.seq, now.seq)
	}
	for i := range all {
		if ev := &all[i]; ev.seq > now.seq-lost && ev.seq <= now.seq && !ev.deleted {
			fs.add("gap told", "event %d counts as lost, and is there", ev.seq)
		}
	}
}

// judgePassed checks that the lines are those of the events between the old cursor and the new one, without
// lost events. got has the outcome of each line.
func judgePassed(x *fed, now place, all []offer, got map[string]string, fs *findings) {
	lost := now.lost - x.lost
	var filtered int64
	var starts []string
	unsure := map[string]bool{} // events that a trigger without a cursor may leave out
	due := map[string]bool{}
	for i := range all {
		ev := &all[i]
		switch {
		case ev.seq > now.seq-lost || x.begun && ev.seq <= x.seq || !ev.wanted:
		case !x.begun && (ev.deleted || !x.all && ev.received <= x.since):
			unsure[ev.key] = true
		case ev.bad:
			due[ev.key] = true
		case ev.odd:
			filtered++
		default:
			starts = append(starts, ev.key)
		}
	}
	if x.batch > 0 && len(unsure) > 0 {
		return // the keys of the batches are not known
	}
	if x.batch > 0 {
		starts = batchKeys(starts, x.batch)
	}
	for _, key := range starts {
		due[key] = true
	}
	for key := range due {
		if _, ok := got[key]; !ok && !x.keys[key] {
			fs.add("cursor and fires", "it goes from %d to %d, and event %s has no line", x.seq, now.seq, key)
		}
	}
	for key := range got {
		if !due[key] && !unsure[key] {
			fs.add("cursor and fires", "it goes from %d to %d, and event %s has a line", x.seq, now.seq, key)
		}
	}
	if n := now.filtered - x.filtered; len(unsure) == 0 && n != filtered {
		fs.add("cursor and fires", "it goes from %d to %d, %d events were filtered, and %d were counted", x.seq, now.seq, filtered, n)
	}
}

// batchKeys returns the keys of runs that are started for several events each.
func batchKeys(starts []string, most int) (keys []string) {
	for part := range slices.Chunk(starts, most) {
		sum := sha256.New()
		for _, key := range part {
			fmt.Fprintf(sum, "%d %s", len(key), key)
		}
		keys = append(keys, "batch/"+hex.EncodeToString(sum.Sum(nil)[:16]))
	}
	return keys
}

// untaken names the events that triggers have not taken yet.
func (f *follows) untaken(w *World) (text string) {
	for _, x := range f.fed {
		if x.paused {
			text += fmt.Sprintf(" trigger %s is paused;", x.key.Name)
		}
		for _, ev := range f.offers(w, x) {
			if ev.wanted && !ev.deleted && (x.begun && ev.seq > x.seq || !x.begun && (x.all || ev.received > x.since)) {
				text += fmt.Sprintf(" trigger %s has not taken event %d;", x.key.Name, ev.seq)
			}
		}
	}
	return text
}
