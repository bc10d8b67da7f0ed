package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Past remembers what the store has confirmed, and notices when the store has gone back to an
// earlier state. Its methods may be called from any goroutine.
type Past interface {
	// Confirm records the fences of its shards after a transaction that the store has confirmed. It does not
	// block.
	Confirm(fences []store.Fence)
	// Look begins a read of shards. The caller passes the fences that it has read to the returned function, which
	// reports whether the store has gone back. In that case the function has raised the era, and the caller must
	// discard the rows that it read.
	Look() func(ctx context.Context, read []store.Fence) (back bool, err error)
}

// forgetful is a Past that remembers nothing. It is used if Config.Past is nil.
type forgetful struct{}

func (forgetful) Confirm([]store.Fence) {}
func (forgetful) Look() func(context.Context, []store.Fence) (bool, error) {
	return func(context.Context, []store.Fence) (bool, error) { return false, nil }
}

// errBack makes the writer take the shards again, in the new era.
var errBack = fmt.Errorf("the database has gone back to an earlier state: %w", store.ErrFenced)

// FaultRegressed is the fault in the history of a run after the database has gone back to an earlier state.
const FaultRegressed = "store_regressed"

// backWord tells a shard that the database has gone back. The node that raises the era writes it, in the same
// transaction.
type backWord struct {
	Era dag.Era `json:"era"`
	By  string  `json:"by"`
	Why string  `json:"why"`
}

// LetterOfEra returns the message that tells a shard why an era began.
func LetterOfEra(era dag.Era, by, why string) []byte {
	return envelope([]letter{{Back: &backWord{era, by, why}}})
}

// Back is called when the database has gone back: floor is the new floor of its era. Shards that are held
// under an older floor are taken again. Cached graphs are forgotten, because the database may have lost their
// versions, and other versions may get the same numbers.
func (e *Engine) Back(floor dag.Era) {
	e.stats.Regressed.Add(1)
	e.graphs.Forget()
	_ = e.writer.inbox.put(item{op: func(w *writer) answer {
		if w.clock.floor < floor { // the check of the floor covers a node without shards, too, and makes the change only once
			w.clock.era, w.clock.floor = max(w.clock.era, floor), floor
			w.unsure = errors.Join(w.unsure, errBack)
		}
		return answer{}
	}})
}

// Regressed counts n regressions of the database that were noticed before the engine existed.
func (e *Engine) Regressed(n int64) { e.stats.Regressed.Add(n) }

// endHeld ends the attempts of older eras in this process, also for shards of other nodes and for runs that
// the database has lost. The reports of their ends go to the owners.
func endHeld(w *writer) {
	var kills []dag.Cancel
	for _, k := range w.e.slots.attempts() {
		if k.Token.Era() < w.clock.floor {
			kills = append(kills, dag.Cancel{Run: k.Run, Task: dag.TaskID(k.Task), Token: k.Token, Handler: w.e.me().ID, Kill: true})
		}
	}
	if len(kills) > 0 {
		w.e.cfg.Executor.Cancel(kills)
	}
}

// compared compares the store with the states that it has confirmed, after this node has claimed shards. It
// returns errBack if the store has gone back. It reads all shards: a claim leaves out the shards of other
// owners, and a store that has gone back may name an earlier owner. It begins after the claim, so that it
// includes the states that this node read while the claim waited.
func compared(ctx context.Context, e *Engine) error {
	if _, none := e.cfg.Past.(forgetful); none {
		return nil
	}
	look := e.cfg.Past.Look()
	marks, err := e.store.Marks(ctx)
	if err != nil {
		return err
	}
	back, err := look(ctx, marks)
	if err == nil && back {
		err = errBack
	}
	return err
}

// confirmed passes to Past the fences of a batch whose transaction has committed.
func (w *writer) confirmed(b *store.Batch) {
	w.marks = w.marks[:0]
	for _, f := range b.Fences {
		f.Seq++
		w.marks = append(w.marks, f)
	}
	w.e.cfg.Past.Confirm(w.marks)
}

// ofOldEra reports whether an attempt was assigned before the database went back. Such an attempt may depend
// on data that the database has lost. So it is ended wherever it runs, and counts as lost.
func ofOldEra(w *writer, a *dag.AttemptRow) bool { return a.Token.Era() < w.clock.floor }

// endOld ends an attempt of an older era. The attempt counts as lost when its holder reports its end, or
// reports that it does not have the attempt. Until then the attempt may run, so the task is not assigned
// again.
func endOld(w *writer, r *dag.Run, a *dag.AttemptRow, f *found) {
	k := dag.KeyOf(r.ID, a.Task, a.Token)
	kill := dag.Cancel{Run: r.ID, Task: a.Task, Token: a.Token, Handler: a.Handler, Kill: true}
	switch {
	case a.Task == dag.LeaderTask:
		f.lost = append(f.lost, *a)
	case a.Handler != w.e.me().ID && w.e.alive(a.Handler):
		f.fx.Cancels = append(f.fx.Cancels, kill)
		w.abroad.add(r.ID)
	case a.Handler != w.e.me().ID:
		f.lost = append(f.lost, *a)
	case w.e.slots.has(k) && w.e.cfg.Executor.Running(r.ID, a.Task, a.Token):
		f.fx.Cancels = append(f.fx.Cancels, kill)
	case !w.carried.has(k):
		// The executor also remembers attempts that it has just reported. If the owner had accepted such a
		// report and the database has lost it, the slot of the attempt is not booked, and no other report
		// comes.
		f.fx.Cancels = append(f.fx.Cancels, kill)
		w.e.slots.unbook(k)
		f.lost = append(f.lost, *a)
	}
}

// askWorkers asks the home nodes of workers which attempts of an older era these workers do not hold. No
// other node knows this.
func askWorkers(w *writer, held map[dag.HandlerID][]Held) {
	for h, list := range held {
		w.e.host.Go(w.wg, func() {
			ctx, cancel := context.WithTimeout(w.ctx, abroadEvery)
			defer cancel()
			missing, err := w.e.cfg.Helpers.Missing(ctx, h, list)
			if err != nil {
				w.e.log.Debug("a worker cannot be asked for its attempts yet", "handler", h, "err", err)
				_ = w.inbox.put(item{op: func(w *writer) answer { w.abroad.open = true; return answer{} }})
			}
			for _, m := range missing {
				_ = w.inbox.put(item{run: m.Run, ev: &dag.Event{Kind: dag.EvLost, Task: m.Task, Token: m.Token, Handler: m.Handler, Here: true,
					Reason: "its worker does not have it"}})
			}
		})
	}
}

// tellMax bounds the runs of a shard to whose history one transaction adds the entry that the database has
// gone back.
const tellMax = 200

// tellBack adds to the history of the unfinished runs of a shard the entry that the database has gone back.
// done reports whether all these runs have the entry. After a crash tellBack begins from the start, so some
// runs get the entry twice.
func (w *writer) tellBack(m *store.Message, said *backWord) (done bool, err error) {
	page, err := w.e.store.Load(context.Background(), store.LoadQuery{Shard: m.To, After: w.telling[m.ID], Limit: tellMax})
	if err != nil {
		return false, errkind.FromStore("load the runs of a shard", err)
	}
	for i := range page {
		id := page[i].Run.ID
		w.telling[m.ID] = id
		if page[i].Bad != nil || page[i].Run.Created > m.Created {
			continue
		}
		if w.runs[id] == nil {
			if _, err := w.fetch(id); err != nil {
				return false, err
			}
		}
		if w.runs[id] == nil {
			continue
		}
		ev := &dag.Event{Kind: dag.EvCheck, Fault: FaultRegressed, Actor: said.By,
			Reason: fmt.Sprintf("era %d began: %s", said.Era, said.Why)}
		if a := w.event(&item{run: id, ev: ev}); a.err != nil {
			return false, a.err
		}
	}
	return len(page) < tellMax, nil
}
