package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// wanting is what is asked about: one ready task of a run that some worker could run, or all of them that have its place.
type wanting struct {
	run   *RunView
	task  dag.TaskID // or the first of them
	place dag.Place  // of the task
	all   bool
	what  string
	since dag.Micros
}

// explainSlots explains the wait of ready tasks that some worker could run, for each of their placements. If
// other tasks wait for queue slots, it gives one reason for all of these together.
func (e *Engine) explainSlots(ctx context.Context, v *RunView, groups [][]dag.TaskID, queued int, x *explaining) error {
	if queued > 0 && len(groups) > 0 {
		groups = [][]dag.TaskID{slices.Concat(groups...)}
	}
	for _, tasks := range groups {
		n := len(tasks) - queued
		if n <= 0 {
			continue
		}
		what := "1 of its tasks is ready and waits for a slot"
		if n > 1 {
			what = fmt.Sprintf("%d of its tasks are ready and wait for a slot", n)
		}
		r, err := e.roomReason(ctx, wanting{run: v, task: tasks[0], place: x.g.Policy(tasks[0]).Place, all: true, what: what, since: v.Modified})
		if err != nil {
			return err
		}
		x.add(r)
	}
	return nil
}

// roomReason says what for a ready task waits that some worker could run: a slot or, if it takes
// cpu or memory, that.
func (e *Engine) roomReason(ctx context.Context, q wanting) (Reason, error) {
	p := q.place
	need := p.Need()
	if need.IsZero() || e.reads() {
		return e.slotReason(ctx, q)
	}
	there, err := e.fitting(ctx, p)
	if err != nil {
		return Reason{}, err
	}
	var holders []string
	for i := range there {
		m := &there[i]
		used, room := m.Traits.Used, m.Traits.Room
		if m.Busy >= m.Slots && need.Within(room.Minus(used)) { // all that is missing is a slot
			return e.slotReason(ctx, q)
		}
		holders = append(holders, fmt.Sprintf("%s (cpu %s of %s taken, memory %s of %s)", there[i].Name, dag.Cores(used.CPU), dag.Cores(room.CPU),
			dag.Bytes(used.Memory), dag.Bytes(room.Memory)))
	}
	turn, err := e.turn(ctx, q, there)
	return Reason{Kind: "resources", Code: "no_resources",
		Args: args{"need": need.String(), "place": p.String()},
		What: fmt.Sprintf("%s and %s%s", q.what, need, turn), Holder: some(holders), Since: q.since,
		Unblocks: "the end of attempts there that use cpu or memory, or more of both (--cpu, --memory)"}, err
}

// slotReason says who has the slots that a ready task could have, and how many runs go before its own.
func (e *Engine) slotReason(ctx context.Context, q wanting) (Reason, error) {
	if e.reads() {
		return Reason{Kind: "slot", Code: "no_server", What: q.what, Since: q.since,
			Unblocks: startServer}, nil
	}
	p := q.place
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
	if q.all && p != dag.Anywhere {
		q.what += " (" + p.String() + ")"
	}
	turn, err := e.turn(ctx, q, there)
	is := "are"
	if busy == 1 {
		is = "is"
	}
	r := Reason{Kind: "slot", Code: "no_slot", Args: args{"busy": busy, "slots": all, "place": p.String()},
		What: fmt.Sprintf("%s: %d of %d %s busy%s", q.what, busy, all, is, turn), Holder: some(holders),
		Since:    q.since,
		Unblocks: "the end of a running attempt there, or more slots (--slots)"}
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

// fitting returns the members that could run tasks of a placement, with their slots in use: for other nodes
// as of their last message.
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

// turn says how many runs, and tasks of the same run, go before one that waits for slots of those who are there for it; only
// its owner knows.
func (e *Engine) turn(ctx context.Context, q wanting, there []store.Member) (string, error) {
	v, runs, tasks, known := q.run, 0, 0, false
	shared := func(p dag.Place) bool {
		return slices.ContainsFunc(there, func(m store.Member) bool { return fits(p, &m) })
	}
	short, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	_, err := e.writer.inbox.send(short, item{ask: func(w *writer) error {
		r := w.runs[v.ID]
		if r == nil {
			return nil
		}
		if runs, known = w.queue.Before(r, shared, w.tx.now.Wall, turnsMax), true; !q.all && r.Graph != nil && int(q.task) < r.Graph.Len() {
			tasks = r.Ahead(q.task, shared, turnsMax)
		}
		return nil
	}})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", nil // it cannot say now
	case known && runs == 0 && tasks == 0:
		return "; it is next", nil
	case known:
		return "; " + ahead(runs, tasks), nil
	case e.cluster == nil:
		return "", nil
	}
	members, shards, err := e.cluster.Members(ctx)
	if err != nil {
		return "", fromStore("list the members", err)
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

// ahead says what goes before a task.
func ahead(runs, tasks int) string {
	count := func(n int, one, many string) string {
		switch n {
		case 0:
			return ""
		case 1:
			return "1 " + one
		case turnsMax:
			return fmt.Sprintf("at least %d %s", n, many)
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	of, its := count(runs, "run", "runs"), count(tasks, "other task of its run", "other tasks of its run")
	verb := " go before it"
	if runs+tasks == 1 {
		verb = " goes before it"
	}
	if of != "" && its != "" {
		of += " and "
	}
	return of + its + verb
}
