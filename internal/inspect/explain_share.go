package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// The functions of this file explain from rows alone which tasks wait for queue slots and which tasks have
// them.

// queueTasks counts the tasks of a run that name one queue.
type queueTasks struct {
	used  []string // names of the tasks that are assigned to handlers
	ready []string // names of the ready tasks
}

// queueTasks sorts the tasks of a run by the queue that they name.
func (s *Sight) queueTasks() map[string]*queueTasks {
	all := map[string]*queueTasks{}
	for t := range dag.TaskID(s.Graph.Len()) {
		q, state := s.Graph.Policy(t).Queue, s.Views[t].State
		if q == "" || s.Graph.Logic(t) != nil {
			continue
		}
		if s.Again[t] {
			state = dag.Ready
		}
		if state != dag.Ready && !state.Held() {
			continue
		}
		if all[q] == nil {
			all[q] = &queueTasks{}
		}
		if state == dag.Ready {
			all[q].ready = append(all[q].ready, s.Graph.Name(t))
		} else {
			all[q].used = append(all[q].used, s.Graph.Name(t))
		}
	}
	return all
}

// explainShares adds a reason for each queue in which ready tasks of a run wait, and returns the number of
// these tasks. If a task is given, it considers only that task.
func (x *explaining) explainShares(ctx context.Context, task string) (waiting int, err error) {
	if !x.Graph.Queued() {
		return 0, nil
	}
	all := x.queueTasks()
	for _, queue := range slices.Sorted(maps.Keys(all)) {
		q := all[queue]
		s := &dag.Share{Queue: queue}
		if i := slices.IndexFunc(x.run.Shares, func(s dag.Share) bool { return s.Of(queue) }); i >= 0 {
			s = &x.run.Shares[i]
		}
		short := len(q.ready) - int(s.Has()) + len(q.used)
		if short <= 0 || task != "" && !slices.Contains(q.ready, task) {
			continue
		}
		what := "it waits for a queue slot"
		if task == "" {
			what = "task " + q.ready[0] + " waits for a queue slot"
		}
		if more := short - 1; more > 0 {
			what += fmt.Sprintf(" with %d other ready tasks of its run", more)
		}
		r, err := x.shareReason(ctx, s, what)
		if err != nil {
			return waiting, err
		}
		x.add(r)
		waiting += short
	}
	return waiting, nil
}

// shareReason returns the reason why the tasks of a run get no more queue slots: the runs that hold the
// slots, and the runs that come first.
func (x *explaining) shareReason(ctx context.Context, s *dag.Share, what string) (Reason, error) {
	r := Reason{Kind: "queue", Code: "queue_tasks", Args: args{"queue": s.Queue, "key": s.Key},
		What: what + " in " + s.What(), Since: cmp.Or(s.Asked, x.run.Modified)}
	q, err := x.rd.store.Queue(ctx, s.Queue)
	if errors.Is(err, store.ErrNotFound) {
		r.Code = "queue_missing"
		r.What, r.Unblocks = what+": there is no queue "+s.Queue, "skein queue set "+s.Queue+" --limit N"
		return r, nil
	}
	if err != nil {
		return r, errkind.FromStore("read queue "+s.Queue, err)
	}
	now, err := x.rd.store.Clock(ctx)
	if err != nil {
		return r, errkind.FromStore("read the clock", err)
	}
	crews, err := x.rd.crewsOf(ctx, func(o *dag.Share) bool { return o.Line() == s.Line() })
	if err != nil {
		return r, err
	}
	has, before, mine := int64(0), 0, (*admission.Crew)(nil)
	var holders []*admission.Crew
	for i := range crews {
		c := &crews[i]
		if c.Run == x.run.ID {
			mine = c
		}
		if n := c.Share.Has(); n > 0 {
			has += n
			holders = append(holders, c)
		}
	}
	var why string
	why, r.Unblocks, r.Expected = admission.WhyHeld(&q, s, has, now)
	r.What = what + ": " + why
	if r.Holder, err = x.crewNames(ctx, holders); err != nil {
		return r, err
	}
	if state := admission.QueueState(&q, now); state != store.QueueActive {
		r.Holder, r.Code = q.Actor, "queue_draining"
		if state == store.QueuePaused {
			r.Code, r.Actions = "queue_paused", []Action{{Verb: "resume", Queue: q.Name}}
		}
	}
	if mine == nil || mine.Share.Wants() == 0 {
		return r, nil
	}
	for i := range crews {
		if c := &crews[i]; c != mine && c.Share.Wants() > 0 && admission.Sooner(&q, c, mine, now, dag.Micros(x.rd.cfg.Ageing.Microseconds())) {
			before++
		}
	}
	r.What += fmt.Sprintf("; the run is number %d in the queue", before+1)
	return r, nil
}

// crewNames names the first few of the runs whose tasks hold queue slots, each with its number of slots.
func (x *explaining) crewNames(ctx context.Context, all []*admission.Crew) (string, error) {
	var names []string
	for _, c := range all[:min(len(all), holdersShown)] {
		name, err := x.nameOf(ctx, c.Run, 0)
		if err != nil {
			return "", err
		}
		names = append(names, fmt.Sprintf("%s (%d)", name, c.Share.Has()))
	}
	if more := len(all) - holdersShown; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", "), nil
}

// crewsOf reads the shares for which a function returns true, ordered by run.
func (rd *Reader) crewsOf(ctx context.Context, of func(*dag.Share) bool) ([]admission.Crew, error) {
	var found []admission.Crew
	for after := (dag.RunID{}); ; {
		page, err := rd.store.Holding(ctx, after, pageRows)
		if err != nil {
			return nil, errkind.FromStore("read what runs hold", err)
		}
		if len(page) == 0 {
			return found, nil
		}
		for i := range page {
			after = page[i].Run
			for _, s := range page[i].Shares {
				if of(&s) {
					found = append(found, admission.Crew{Run: after, Shard: page[i].Shard, Priority: page[i].Priority, Share: s})
				}
			}
		}
	}
}

// CrewView describes the tasks of one run that have slots of a queue, or wait for one.
type CrewView struct {
	Run     dag.RunID
	Key     string
	Held    int64
	Waiting int64
	Since   dag.Micros // the time since which the tasks wait for the next queue slot; 0 if no task waits
	Running []string   // tasks that run, the first of them
	Ready   []string   // tasks that wait for a queue slot or a worker, the first of them
}

// Bounds of the description of the tasks of one queue.
const (
	crewsShown     = 100
	crewsNamed     = 20 // the number of runs whose tasks are named
	crewTasksShown = 10
)

// crewsIn lists the runs whose tasks have slots of a queue.
func (rd *Reader) crewsIn(ctx context.Context, queue string) ([]CrewView, error) {
	crews, err := rd.crewsOf(ctx, func(s *dag.Share) bool { return s.Queue == queue && (s.Has() > 0 || s.Wants() > 0) })
	if err != nil {
		return nil, err
	}
	sort.SliceStable(crews, func(i, j int) bool { return crews[i].Share.Has() > crews[j].Share.Has() })
	_, named := dag.CutName(queue)
	var all []CrewView
	for i := range crews[:min(len(crews), crewsShown)] {
		s := &crews[i].Share
		c := CrewView{Run: crews[i].Run, Key: s.Key, Held: s.Has(), Waiting: s.Wants()}
		if c.Waiting > 0 {
			c.Since = s.Asked
		}
		if i < crewsNamed {
			row, err := rd.store.Run(ctx, c.Run)
			if err != nil {
				return nil, errkind.FromStore("run "+c.Run.String(), err)
			}
			seen, err := rd.look(FromRows(ctx), &row, dag.LeaderTask)
			if err != nil {
				return nil, err
			}
			if t := seen.queueTasks()[named]; t != nil {
				c.Running, c.Ready = t.used[:min(len(t.used), crewTasksShown)], t.ready[:min(len(t.ready), crewTasksShown)]
			}
		}
		all = append(all, c)
	}
	return all, nil
}
