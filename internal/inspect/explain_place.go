package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// wanting describes a group of tasks in an explanation: one ready task that some worker could run, or all
// such tasks of the run that have the same placement.
type wanting struct {
	task  dag.TaskID // the task, or the first of several
	place dag.Place  // the placement of the task
	all   bool
	what  string
	since dag.Micros
}

// explainSlots explains the wait of ready tasks that some worker could run, for each of their placements. If
// other tasks wait for queue slots, it gives one reason for all of these together.
func (x *explaining) explainSlots(ctx context.Context, groups [][]dag.TaskID, queued int) error {
	if queued > 0 && len(groups) > 0 {
		groups = [][]dag.TaskID{slices.Concat(groups...)}
	}
	for _, tasks := range groups {
		n := len(tasks) - queued
		if n <= 0 {
			continue
		}
		what := "1 task of the run is ready and waits for a slot"
		if n > 1 {
			what = fmt.Sprintf("%d tasks of the run are ready and wait for a slot", n)
		}
		r, err := x.roomReason(ctx, wanting{task: tasks[0], place: x.place(tasks[0]), all: true, what: what, since: x.run.Modified})
		if err != nil {
			return err
		}
		x.add(r)
	}
	return nil
}

// roomReason returns the reason of a ready task that some worker could run: it waits for a slot or, if it
// takes cpu or memory, for free resources.
func (x *explaining) roomReason(ctx context.Context, q wanting) (Reason, error) {
	p := q.place
	need := p.Need()
	if need.IsZero() || x.rd.rowsOnly() {
		return x.slotReason(ctx, q)
	}
	there, err := x.rd.fitting(ctx, p)
	if err != nil {
		return Reason{}, err
	}
	var holders []string
	for i := range there {
		m := &there[i]
		used, room := m.Traits.Used, m.Traits.Room
		if m.Busy >= m.Slots && need.Within(room.Minus(used)) { // only a free slot is missing
			return x.slotReason(ctx, q)
		}
		holders = append(holders, fmt.Sprintf("%s (cpu %s of %s taken, memory %s of %s)", there[i].Name, dag.Cores(used.CPU), dag.Cores(room.CPU),
			dag.Bytes(used.Memory), dag.Bytes(room.Memory)))
	}
	turn, err := x.turn(ctx, q, there)
	return Reason{Kind: "resources", Code: "no_resources",
		Args: args{"need": need.String(), "place": p.String()},
		What: fmt.Sprintf("%s and %s%s", q.what, need, turn), Holder: some(holders), Since: q.since,
		Unblocks: "the end of attempts there that use cpu or memory, or more of both (--cpu, --memory)"}, err
}

// slotReason names the runs that hold the slots for a ready task, and counts the runs that come before the
// task's own run.
func (x *explaining) slotReason(ctx context.Context, q wanting) (Reason, error) {
	if x.rd.unserved() {
		return Reason{Kind: "slot", Code: "no_server", What: q.what, Since: q.since,
			Unblocks: startServer}, nil
	}
	if x.rd.rowsOnly() { // the slots in use are only in the memory of nodes
		return Reason{Kind: "slot", Code: "slot_unknown", What: q.what, Since: q.since,
			Unblocks: "a free slot of a worker that fits"}, nil
	}
	p := q.place
	there, err := x.rd.fitting(ctx, p)
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
	turn, err := x.turn(ctx, q, there)
	is := "are"
	if busy == 1 {
		is = "is"
	}
	r := Reason{Kind: "slot", Code: "no_slot", Args: args{"busy": busy, "slots": all, "place": p.String()},
		What: fmt.Sprintf("%s: %d of %d %s busy%s", q.what, busy, all, is, turn), Holder: some(holders),
		Since:    q.since,
		Unblocks: "the end of a running attempt there, or more slots (--slots)"}
	if x.rd.roster != nil {
		r.Unblocks += ", or another skein worker"
	}
	return r, err
}

// some returns the first few elements of a list as text.
func some(names []string) string {
	text := strings.Join(names[:min(len(names), holdersShown)], ", ")
	if more := len(names) - holdersShown; more > 0 {
		text += fmt.Sprintf(", %d more", more)
	}
	return text
}

// fitting returns the members that could run tasks of a placement, with the numbers of slots in use. For
// another node, the number is that of its last message.
func (rd *Reader) fitting(ctx context.Context, p dag.Place) ([]store.Member, error) {
	all, err := rd.there(ctx)
	if err != nil {
		return nil, err
	}
	var fit []store.Member
	for _, m := range all {
		if m.Slots == 0 || !fits(p, &m) {
			continue
		}
		if m.Name == rd.cfg.Node {
			if busy, used := 0, (dag.Need{}); rd.cfg.Memory != nil {
				busy, used = rd.cfg.Memory.InUse()
				m.Busy, m.Traits.Used = int32(busy), used
			}
		}
		fit = append(fit, m)
	}
	return fit, nil
}

const (
	// TurnsMax bounds the count of the runs that go before another one.
	TurnsMax = 5000
	// turnWait bounds the wait for the owner's memory, because the store may not answer.
	turnWait = time.Second
)

// turn counts the runs, and the tasks of the same run, that come before a task that waits for slots of the
// given members. Only the owner of the run has this order in memory.
func (x *explaining) turn(ctx context.Context, q wanting, there []store.Member) (string, error) {
	task := q.task
	if q.all {
		task = dag.LeaderTask
	}
	shared := func(p dag.Place) bool {
		return slices.ContainsFunc(there, func(m store.Member) bool { return fits(p, &m) })
	}
	short, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	before, known, err := x.rd.cfg.Memory.Turn(short, x.run.ID, task, shared)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", nil // the node does not have the order now
	case known && before == (Turn{}):
		return "; it is next", nil
	case known:
		return "; " + before.words(), nil
	case x.rd.roster == nil:
		return "", nil
	}
	members, shards, err := x.rd.roster.Members(ctx)
	if err != nil {
		return "", errkind.FromStore("list the members", err)
	}
	for i := range members {
		for j := range shards {
			if m := &members[i]; shards[j].ID == x.run.Workflow.Shard && shards[j].Owner == m.Handler {
				return fmt.Sprintf("; how many runs go before it, its owner %s says: --server %s", m.Name, m.Address), nil
			}
		}
	}
	return "", nil
}

// words describes the runs and tasks that go before a task.
func (t Turn) words() string {
	count := func(n int, one, many string) string {
		switch n {
		case 0:
			return ""
		case 1:
			return "1 " + one
		case TurnsMax:
			return fmt.Sprintf("at least %d %s", n, many)
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	of, its := count(t.Runs, "run", "runs"), count(t.Tasks, "other task of its run", "other tasks of its run")
	verb := " go before it"
	if t.Runs+t.Tasks == 1 {
		verb = " goes before it"
	}
	if of != "" && its != "" {
		of += " and "
	}
	return of + its + verb
}
