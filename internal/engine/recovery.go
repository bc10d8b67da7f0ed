package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// The faults that a sweep may find. It should find none.
const (
	FaultHandlerGone = "handler_gone"  // the holder of an attempt is gone
	FaultReportLost  = "report_lost"   // the holder of an attempt is present, but does not have the attempt
	FaultUnclaimed   = "not_picked_up" // an attempt was assigned long ago and does not run
	FaultUnfinalised = "not_finalised" // all tasks of the run have ended, but the run has not
	FaultUnsubmitted = "not_submitted" // the run has something to do, and no component does it
	FaultCircle      = "wait_circle"   // runs wait for each other in a cycle: a deadlock
	FaultCorrupt     = "corrupt"       // rows that are invalid
	faults           = 7
)

// Faults lists them.
func Faults() []string {
	return []string{FaultHandlerGone, FaultReportLost, FaultUnclaimed, FaultUnfinalised, FaultUnsubmitted, FaultCircle, FaultCorrupt}
}

const (
	unclaimedDefault = 5 * time.Minute
	// suspectsMax bounds the suspects of one sweep. A repaired run is not suspected again, so the next sweep
	// finds others.
	suspectsMax = 1000
	// lookMax bounds the runs that one sweep reads with all their rows: runs that do not move and have no
	// open attempt. If there are more such runs, each sweep reads others.
	lookMax = 2000
	// askMax bounds the attempts in one request to a holder.
	askMax = 1000
	// checkMax bounds the runs in one check by an owner, because the owner's writer does nothing else
	// meanwhile.
	checkMax = 20
)

// Held names an attempt and its holder.
type Held struct {
	Run     dag.RunID     `json:"run"`
	Task    dag.TaskID    `json:"task"`
	Token   dag.Token     `json:"token"`
	Handler dag.HandlerID `json:"handler"`
}

// Suspect is a run that its owner should check, with the reason for the suspicion.
type Suspect struct {
	Run   dag.RunID `json:"run"`
	Fault string    `json:"fault"`
	// Lost are attempts that their holders do not have, although these holders are present.
	Lost []Held `json:"lost,omitempty"`
	// Since and Why describe a run that waits in a cycle.
	Since dag.Micros `json:"since,omitempty"`
	Why   string     `json:"why,omitempty"`
}

// Helpers lets a sweep reach the other nodes of a cluster.
type Helpers interface {
	// Check makes the owner of a shard check runs, and returns the number of repaired runs.
	Check(ctx context.Context, s dag.ShardID, list []Suspect) (int, error)
	// Missing asks another handler which of these attempts it does not have.
	Missing(ctx context.Context, h dag.HandlerID, list []Held) ([]Held, error)
}

// Swept is the result of a sweep.
type Swept struct {
	Runs     int `json:"runs"`     // unfinished runs that were examined
	Checked  int `json:"checked"`  // runs that an owner was asked to check
	Repaired int `json:"repaired"` // runs with a fault that was repaired
	Left     int `json:"left"`     // suspects that are left for the next sweep
}

func (s Swept) String() string {
	return fmt.Sprintf("%d runs looked at, %d checked, %d repaired, %d left to the next sweep", s.Runs, s.Checked, s.Repaired, s.Left)
}

// Sweep examines every unfinished run of the cluster, in the store and never in memory. It reads only the
// store, and makes the owners check those of their runs that seem to be stuck. It writes nothing itself, so
// two sweeps may overlap. Its error lists the shards that it could not check; all other shards are checked.
func (e *Engine) Sweep(ctx context.Context) (Swept, error) {
	e.stats.Sweeps.Add(1)
	now, err := e.store.Clock(ctx)
	if err != nil {
		return Swept{}, errkind.FromStore("sweep: read the clock", err)
	}
	s := sweep{e: e, now: now, spare: map[dag.ShardID]bool{}, owner: map[dag.ShardID]dag.HandlerID{}}
	if err := s.members(ctx); err != nil {
		return s.done, errkind.FromStore("sweep: list the members", err)
	}
	limits, err := e.Limits(ctx)
	if err != nil {
		return s.done, fmt.Errorf("sweep: %w", err)
	}
	s.limits, s.waits = limits, inspect.NewWaits(now, limits)
	var errs []error
	first := s.minute() % len(e.shards) // each minute begins with another shard, so that every shard is sometimes the first
	s.unread = len(e.shards)
	for i := range e.shards {
		if ctx.Err() != nil {
			break
		}
		s.left = len(e.shards) - i
		if err := s.shard(ctx, e.shards[(first+i)%len(e.shards)]); err != nil {
			errs = append(errs, err)
		}
	}
	if s.unread == 0 && ctx.Err() == nil { // only a sweep that has read all runs can find a cycle of waits
		errs = append(errs, s.circles(ctx))
	}
	return s.done, errors.Join(append(errs, ctx.Err())...)
}

type sweep struct {
	e      *Engine
	now    dag.Micros
	owner  map[dag.ShardID]dag.HandlerID
	spare  map[dag.ShardID]bool // shard → whether its owner had a free slot recently
	waits  *inspect.Waits
	limits map[dag.WorkflowID]int32 // limits on concurrent runs
	left   int                      // the number of shards that are left, including the present one
	// unread is the number of shards that were not read to the end.
	unread int
	done   Swept
	// looked is the number of runs that were read with all their rows.
	looked int

	// The fields below are about the present shard.
	found   []Suspect
	held    map[dag.HandlerID][]Held     // attempts whose holders are asked
	begun   map[dag.WorkflowID]bool      // workflows with an unfinished run that has started
	waiting map[dag.WorkflowID]dag.RunID // workflow → the run that has waited longest
	// runs that do not move and have no open attempt; the second list has the runs that may wait for a good
	// reason
	idle [2][]dag.RunID
}

func (s *sweep) minute() int { return int(s.now / dag.Micros(inspect.Standstill.Microseconds())) }

// members reads from the store which handler owns each shard.
func (s *sweep) members(ctx context.Context) error {
	if s.e.cluster == nil {
		total, busy := s.e.Slots()
		for _, id := range s.e.shards {
			s.owner[id], s.spare[id] = s.e.me().ID, busy < total
		}
		return nil
	}
	members, shards, err := s.e.cluster.Members(ctx)
	if err != nil {
		return err
	}
	spare := map[dag.HandlerID]bool{}
	for i := range members {
		spare[members[i].Handler] = members[i].Busy < members[i].Slots
	}
	for i := range shards {
		s.owner[shards[i].ID], s.spare[shards[i].ID] = shards[i].Owner, spare[shards[i].Owner]
	}
	return nil
}

func (s *sweep) shard(ctx context.Context, id dag.ShardID) error {
	s.found, s.held, s.idle = nil, map[dag.HandlerID][]Held{}, [2][]dag.RunID{}
	s.begun, s.waiting = map[dag.WorkflowID]bool{}, map[dag.WorkflowID]dag.RunID{}
	err := s.e.EachStanding(ctx, id, s.limits, func(is *store.Standing) {
		s.done.Runs++
		s.waits.See(is)
		if fault := s.judge(is, id); fault != "" {
			s.found = append(s.found, Suspect{Run: is.Run, Fault: fault})
		}
	})
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	s.unread--
	for wf, run := range s.waiting {
		if !s.begun[wf] { // all unfinished runs of the workflow wait to start, so there is nothing for which they wait
			s.found = append(s.found, Suspect{Run: run, Fault: FaultUnsubmitted})
		}
	}
	return errors.Join(s.lookAll(ctx, id), s.askHolders(ctx, id), s.askOwner(ctx, id))
}

// judge returns the fault that a run seems to have, according to its row alone.
func (s *sweep) judge(r *store.Standing, shard dag.ShardID) (fault string) {
	if r.Bad != nil {
		return FaultCorrupt
	}
	for i := range r.Live {
		a := &r.Live[i]
		switch {
		case a.Handler != s.e.me().ID && !s.e.alive(a.Handler):
			fault = FaultHandlerGone
		case a.State == dag.AttemptAssigned && s.old(a.Assigned, s.e.cfg.Unclaimed) && fault == "":
			fault = FaultUnclaimed
		}
		if a.Task != dag.LeaderTask && s.old(a.Assigned, inspect.Standstill) {
			s.held[a.Handler] = append(s.held[a.Handler], Held{r.Run, a.Task, a.Token, a.Handler})
		}
	}
	if r.State == dag.RunWaiting && r.Intent < dag.IntentStop {
		if _, known := s.waiting[r.Workflow]; !known && s.old(r.Moved, inspect.Standstill) {
			s.waiting[r.Workflow] = r.Run
		}
		return ""
	}
	s.begun[r.Workflow] = true
	switch {
	case len(r.Live) > 0 || !s.old(r.Moved, inspect.Standstill):
		return fault
	case r.Intent >= dag.IntentStop:
		return FaultUnfinalised
	case r.State == dag.RunSubmitted, r.State == dag.RunSplitting:
		return FaultUnsubmitted
	case r.Intent == dag.IntentPause:
		return ""
	}
	class := 0
	if r.State == dag.RunSuspended || r.Later > s.now || !s.spare[shard] { // the row gives a reason for the wait, or the owner has no free slot
		class = 1
	}
	s.idle[class] = append(s.idle[class], r.Run)
	return ""
}

// lookAll reads all rows of the runs that do not move, for each shard up to its part of lookMax.
func (s *sweep) lookAll(ctx context.Context, shard dag.ShardID) error {
	for class := range s.idle {
		room := max(lookMax-s.looked, 0) / s.left
		if class == 0 {
			room = (room + 1) / 2
		}
		list := s.turn(s.idle[class], room)
		for len(list) > 0 {
			n := min(checkMax, len(list))
			page, err := s.e.store.Load(ctx, store.LoadQuery{IDs: list[:n]})
			if err != nil {
				return errkind.FromStore(fmt.Sprintf("sweep: read runs of shard %d", shard), err)
			}
			for i := range page {
				if fault := s.still(&page[i], shard); fault != "" {
					s.found = append(s.found, Suspect{Run: page[i].Run.ID, Fault: fault})
				}
			}
			s.looked += n
			list = list[n:]
		}
	}
	return nil
}

// turn returns a part of a list. The parameter most is the approximate length of the part. If the list is
// longer, it returns another part each minute.
func (s *sweep) turn(list []dag.RunID, most int) []dag.RunID {
	if len(list) <= most || most == 0 {
		return list[:min(len(list), most)]
	}
	parts := (len(list) + most - 1) / most
	return slices.DeleteFunc(list, func(id dag.RunID) bool {
		return int(binary.BigEndian.Uint32(id[12:])%uint32(parts)) != s.minute()%parts
	})
}

func (s *sweep) old(at dag.Micros, than time.Duration) bool {
	return s.now-at > dag.Micros(than.Microseconds())
}

// still returns the fault of a run that has no open attempt.
func (s *sweep) still(rec *store.RunRecord, shard dag.ShardID) string {
	r := &rec.Run
	switch {
	case rec.Bad != nil:
		return FaultCorrupt
	// By now the run has moved on.
	case r.State.Terminal(), r.Intent != dag.IntentRun, r.State <= dag.RunWaiting, r.State == dag.RunSplitting:
		return ""
	}
	g, err := s.e.graphs.Of(r)
	if err != nil {
		return FaultCorrupt // only the owner can tell a damaged row from an outage of the store
	}
	var views []dag.TaskView
	if p := errkind.Guarded(func() { views, err = dag.Derive(g, r, rec.Attempts) }); p != nil || err != nil {
		return FaultCorrupt
	}
	if dag.AnyReleasing(rec.Attempts) { // the run waits for an errand
		return ""
	}
	due := map[dag.TaskID]dag.Micros{} // task → time of its next retry
	for i := range rec.Attempts {
		due[rec.Attempts[i].Task] = rec.Attempts[i].RetryAt // attempts come in the order of their tokens, so the time of the newest one remains
	}
	work, waits, left := false, false, false
	for t := range views {
		at := due[dag.TaskID(t)]
		switch st := views[t].State; {
		case st.Terminal():
		case (st == dag.Ready || st == dag.RetryWait && at != 0 && s.old(at, inspect.Standstill)) && s.spare[shard] && placed(g, r, dag.TaskID(t)):
			work = true
		case st == dag.Pending:
			left = true
		default: // the task waits for a slot, a queue slot, a time, a person, or the event of a deferred task
			waits = true
		}
	}
	switch {
	case work, left && !waits:
		return FaultUnsubmitted
	case waits:
		return ""
	}
	return FaultUnfinalised
}

// placed reports whether a ready task need not wait for a queue slot. This is so if it names no queue, or if
// its run holds a slot of the queue. Such a slot is free, because the caller has checked that the run has no
// open attempt.
func placed(g *dag.Graph, r *dag.RunRow, t dag.TaskID) bool {
	q := g.Policy(t).Queue
	return q == "" || slices.ContainsFunc(r.Shares, func(s dag.Share) bool { return s.Of(q) && s.Has() > 0 })
}

// askHolders asks handlers whether they have the attempts that they have held for a long time.
func (s *sweep) askHolders(ctx context.Context, shard dag.ShardID) error {
	var errs []error
	for h, list := range s.held {
		if h != s.e.me().ID && (!s.e.alive(h) || s.e.cfg.Helpers == nil) {
			continue // the runs of this shard are already suspected
		}
		missing, err := s.missing(ctx, h, list)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep: ask handler %d for its attempts: %w", h, err))
		}
		for _, m := range missing {
			su := Suspect{Run: m.Run, Fault: FaultReportLost, Lost: []Held{m}}
			if h == s.owner[shard] { // the owner itself sends the attempt again, under the same token
				su = Suspect{Run: m.Run, Fault: FaultUnclaimed}
			}
			s.found = append(s.found, su)
		}
	}
	return errors.Join(errs...)
}

// missing asks a holder which of the given attempts it does not have. It asks in pages, so that the writer of
// the holder is not blocked for long.
func (s *sweep) missing(ctx context.Context, h dag.HandlerID, list []Held) (all []Held, err error) {
	for len(list) > 0 && err == nil {
		var page []Held
		n := min(askMax, len(list))
		if h == s.e.me().ID {
			page, err = s.e.Missing(ctx, list[:n])
		} else {
			page, err = s.e.cfg.Helpers.Missing(ctx, h, list[:n])
		}
		all, list = append(all, page...), list[n:]
	}
	return all, err
}

// circles resolves deadlocks. In each cycle of waits it fails the run that began to wait last. Before that,
// it reads the runs of the cycle again, because the first reading did not read all shards at the same
// instant.
func (s *sweep) circles(ctx context.Context) error {
	if s.waits.Settle(); len(s.waits.Circles()) == 0 {
		return nil
	}
	g, err := s.e.Waits(ctx, s.now, s.waits)
	if err != nil {
		return fmt.Errorf("sweep: check a circle of waits: %w", err)
	}
	var errs []error
	for _, c := range g.Circles() {
		s.found = []Suspect{{Run: c.Last.Run, Fault: FaultCircle, Since: c.Since, Why: clean(c.Words)}}
		errs = append(errs, s.askOwner(ctx, c.Last.Shard))
	}
	return errors.Join(errs...)
}

func (s *sweep) askOwner(ctx context.Context, shard dag.ShardID) error {
	list := s.suspects()
	if room := suspectsMax - s.done.Checked; len(list) > room {
		s.done.Left += len(list) - room
		list = list[:room]
	}
	for len(list) > 0 {
		n := min(checkMax, len(list))
		fixed, err := s.e.checkAt(ctx, shard, list[:n])
		if err != nil {
			s.done.Left += len(list)
			return fmt.Errorf("sweep: check runs of shard %d: %w", shard, err)
		}
		s.done.Checked += n
		s.done.Repaired += fixed
		list = list[n:]
	}
	return nil
}

// suspects returns the suspects of the sweep, each run once.
func (s *sweep) suspects() []Suspect {
	at := map[dag.RunID]int{}
	var list []Suspect
	for _, f := range s.found {
		i, known := at[f.Run]
		if !known {
			at[f.Run] = len(list)
			list = append(list, f)
			continue
		}
		list[i].Lost = append(list[i].Lost, f.Lost...)
	}
	return list
}

// checkAt makes the owner of a shard check runs. The owner may be this node.
func (e *Engine) checkAt(ctx context.Context, shard dag.ShardID, list []Suspect) (int, error) {
	fixed, err := e.CheckAll(ctx, list)
	var moved *errkind.Elsewhere
	if errors.As(err, &moved) && e.cfg.Helpers != nil {
		return e.cfg.Helpers.Check(ctx, shard, list)
	}
	return fixed, err
}

// Missing returns those of the given attempts that this process does not have: they do not run here, and no
// report about them is being delivered.
func (e *Engine) Missing(ctx context.Context, list []Held) (missing []Held, err error) {
	return ask(ctx, e.writer.inbox, func(w *writer) (missing []Held, err error) {
		told := w.told()
		for _, h := range list {
			k := dag.KeyOf(h.Run, h.Task, h.Token)
			if !told[k] && !w.carried.has(k) && !w.leading[k] && (h.Handler != e.me().ID || !e.cfg.Executor.Running(h.Run, h.Task, h.Token)) {
				missing = append(missing, h)
			}
		}
		return missing, nil
	})
}
