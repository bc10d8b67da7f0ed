package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// roomReason says what for a ready task waits that some worker could run: a slot or, if it takes
// cpu or memory, that.
func (e *Engine) roomReason(ctx context.Context, v *RunView, t *TaskView, what string, since dag.Micros) (Reason, error) {
	g, err := e.graphOf(&v.RunRow)
	if err != nil {
		return Reason{}, err
	}
	p := g.Policy(t.ID).Place
	need := p.Need()
	if need.IsZero() || e.reads() {
		return e.slotReason(ctx, v, t, what, since)
	}
	there, err := e.fitting(ctx, p)
	if err != nil {
		return Reason{}, err
	}
	var holders []string
	for i := range there {
		used, room := there[i].Traits.Used, there[i].Traits.Room
		holders = append(holders, fmt.Sprintf("%s (cpu %s of %s taken, memory %s of %s)", there[i].Name, dag.Cores(used.CPU), dag.Cores(room.CPU),
			dag.Bytes(used.Memory), dag.Bytes(room.Memory)))
	}
	turn, err := e.turn(ctx, v, p)
	return Reason{Kind: "resources", What: fmt.Sprintf("%s and %s%s", what, need, turn), Holder: some(holders), Since: since,
		Unblocks: "the end of attempts there that take cpu or memory; more of it: --cpu, --memory"}, err
}

// slotReason says who has the slots that a ready task could have, and how many runs go before its own.
func (e *Engine) slotReason(ctx context.Context, v *RunView, t *TaskView, what string, since dag.Micros) (Reason, error) {
	if e.reads() {
		return Reason{Kind: "slot", What: what, Since: since, Unblocks: startServer}, nil
	}
	g, err := e.graphOf(&v.RunRow)
	if err != nil {
		return Reason{}, err
	}
	p := g.Policy(t.ID).Place
	there, err := e.fitting(ctx, p)
	if err != nil {
		return Reason{}, err
	}
	busy, all, holders := int32(0), int32(0), []string(nil)
	for i := range there {
		m := &there[i]
		busy, all = busy+m.Busy, all+m.Slots
		who := fmt.Sprintf("%s (%d of %d)", m.Name, m.Busy, m.Slots)
		if m.Cordoned {
			who = m.Name + " (cordoned)"
		}
		holders = append(holders, who)
	}
	turn, err := e.turn(ctx, v, p)
	is := "are"
	if busy == 1 {
		is = "is"
	}
	r := Reason{Kind: "slot", What: fmt.Sprintf("%s: %d of %d %s busy%s", what, busy, all, is, turn), Holder: some(holders), Since: since,
		Unblocks: "the end of any running attempt there; more slots: --slots"}
	if e.cluster != nil {
		r.Unblocks += ", or another skein worker"
	}
	return r, err
}

// some names the first of many.
func some(names []string) string {
	text := strings.Join(names[:min(len(names), holdersShown)], ", ")
	if more := len(names) - holdersShown; more > 0 {
		text += fmt.Sprintf(", %d more", more)
	}
	return text
}

// fitting is everybody who could run tasks of a place, with what is taken of them: of others as of their last word.
func (e *Engine) fitting(ctx context.Context, p dag.Place) ([]store.Member, error) {
	all, err := e.there(ctx)
	if err != nil {
		return nil, err
	}
	var fit []store.Member
	for _, m := range all {
		if m.Slots == 0 || !fits(p, &m) {
			continue
		}
		if m.Name == e.cfg.Node {
			m.Busy = m.Slots - int32(max(e.home.free.Load(), 0))
			_, m.Traits.Used = e.Room()
		}
		fit = append(fit, m)
	}
	return fit, nil
}

const (
	// turnsMax is how far the runs are counted that go before another.
	turnsMax = 5000
	// turnWait bounds the wait for the owner's memory: the store may be away.
	turnWait = time.Second
)

// turn says how many runs go before another one that waits for slots of a place; only its owner knows.
func (e *Engine) turn(ctx context.Context, v *RunView, p dag.Place) (string, error) {
	before, known := 0, false
	short, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	_, err := e.writer.inbox.send(short, item{ask: func(w *writer) error {
		if r := w.runs[v.ID]; r != nil {
			before, known = w.queue.Before(r, p, w.tx.now.Wall, turnsMax), true
		}
		return nil
	}})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", nil // it cannot say now
	case known && before == 0:
		return "; it is next", nil
	case known && before == 1:
		return "; 1 run goes before it", nil
	case known && before < turnsMax:
		return fmt.Sprintf("; %d runs go before it", before), nil
	case known:
		return fmt.Sprintf("; at least %d runs go before it", before), nil
	case e.cluster == nil:
		return "", nil
	}
	members, shards, err := e.cluster.Members(ctx)
	if err != nil {
		return "", fromStore("list who is there", err)
	}
	for i := range members {
		for j := range shards {
			if m := &members[i]; shards[j].ID == v.Workflow.Shard && shards[j].Owner == m.Handler {
				return fmt.Sprintf("; how many runs go before it, its owner %s says: --server %s", m.Name, m.Address), nil
			}
		}
	}
	return "", nil
}
