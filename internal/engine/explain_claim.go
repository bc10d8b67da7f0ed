package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// holdersShown bounds the holders that a reason names.
const holdersShown = 5

const (
	// positionMax bounds how many of a line are counted for a run's place in it, before it and behind: a count of
	// more takes longer than anybody wants to wait for a number that is only large.
	positionMax = 5_000
	// positionsMax does so for the runs of a page, all their lines together.
	positionsMax = 20_000
)

// explainClaim explains a wait for something that all shards share: the queue or lock, its holder, the run's
// position, since when, and what lets the run through. It reads rows only, so any node can answer.
func (e *Engine) explainClaim(ctx context.Context, v *RunView, x *explaining) error {
	c := v.Claim
	since := c.Asked
	for _, name := range c.Locks {
		if c.Stage != dag.ClaimAsked {
			break
		}
		holders, n, err := e.store.Holders(ctx, store.HolderQuery{Lock: name, First: holdersShown})
		if err != nil {
			return fromStore("read the holder of lock "+name, err)
		}
		if n > 0 {
			x.add(Reason{Kind: "lock", Code: "lock_held", Args: args{"lock": name, "runs": n},
				What: "it waits for lock " + name, Holder: runsOf(holders, n), Since: since,
				Unblocks: "the end of " + runsOf(holders, n)})
		}
	}
	if c.Queue != "" {
		if err := e.explainQueue(ctx, v, x); err != nil {
			return err
		}
	}
	if len(x.Reasons) == 0 {
		x.add(Reason{Kind: "lock", Code: "lock_asked", Args: args{"asks": c.What()},
			What: "it asks for " + c.What() + "; others asked before", Since: since,
			Unblocks: "the end of those before it"})
	}
	return nil
}

func (e *Engine) explainQueue(ctx context.Context, v *RunView, x *explaining) error {
	c := v.Claim
	q, err := e.store.Queue(ctx, c.Queue)
	if errors.Is(err, store.ErrNotFound) {
		x.add(Reason{Kind: "queue", Code: "queue_missing", Args: args{"queue": c.Queue},
			What: "there is no queue " + c.Queue, Since: c.Asked,
			Unblocks: "skein queue set " + c.Queue + " --limit N"})
		return nil
	}
	if err != nil {
		return fromStore("read queue "+c.Queue, err)
	}
	holders, held, err := e.store.Holders(ctx, store.HolderQuery{Queue: c.Queue, Key: c.Key, First: holdersShown})
	if err != nil {
		return fromStore("read the holders of queue "+c.Queue, err)
	}
	now, err := e.store.Clock(ctx)
	if err != nil {
		return fromStore("read the clock", err)
	}
	where := "queue " + q.Name
	if c.Key != "" {
		where += " for " + c.Key
	}
	r := Reason{Kind: "queue", Code: "queue_turn",
		Args: args{"queue": q.Name, "key": c.Key, "limit": q.Limit, "held": held}, Since: c.Asked,
		Holder: runsOf(holders, held)}
	switch state := effective(&q, now); {
	case state == store.QueuePaused:
		r.What, r.Holder = where+" is paused"+because(q.Reason), q.Actor
		r.Code, r.Actions = "queue_paused", []Action{{Verb: "resume", Queue: q.Name}}
		r.Unblocks, r.Expected = "skein queue resume "+q.Name, q.Until
	case q.Limit > 0 && held >= int(q.Limit):
		r.Code = "queue_full"
		r.What, r.Unblocks = lets(where, q.Limit), "the end of one of them, or a higher limit: skein queue set "+q.Name+" --limit N"
	case q.Rate > 0 && q.Paced > now:
		r.Code = "queue_rate"
		r.What, r.Holder = paces(where, q.Rate, "run", q.Each), ""
		r.Unblocks, r.Expected = "time", q.Paced // of the first in line
		if v.Place != nil && v.Place.Number > 1 {
			r.Expected += dag.Micros(v.Place.Number-1) * q.Each / dag.Micros(q.Rate)
		}
	default:
		r.What, r.Unblocks = "it is queued in "+where, "its turn"
	}
	if place := v.Place; place != nil {
		switch more := map[bool]string{true: "more than "}[place.More]; {
		case place.Number > 0:
			r.Args["number"], r.Args["of"] = place.Number, place.Of
			r.What += fmt.Sprintf("; it is number %d of %s%d in line", place.Number, more, place.Of)
		default:
			r.What += fmt.Sprintf("; %s%d are before it in line", more, place.Of)
		}
	} else {
		r.What += "; it was suspended, and comes before those that are new"
	}
	x.add(r)
	return nil
}

func seatOf(r *dag.RunRow) store.Seat {
	return store.Seat{Run: r.ID, Line: r.Claim.Line(), Level: r.Claim.Level, Asked: r.Claim.Asked}
}

// seat adds their positions to the queued runs of a page.
func (e *Engine) seat(ctx context.Context, views []RunView) error {
	q := store.SeatQuery{Most: positionsMax, Ageing: dag.Micros(e.cfg.Ageing.Microseconds())}
	var at []int
	ages := map[string]bool{} // queues
	for i := range views {
		v := &views[i]
		if !v.Claim.InLine() {
			continue
		}
		s := seatOf(&v.RunRow)
		if name := v.Claim.Queue; name != "" {
			is, known := ages[name]
			if !known {
				row, err := e.store.Queue(ctx, name)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return fromStore("read queue "+name, err)
				}
				is = row.Order == store.QueuePriority
				ages[name] = is
			}
			s.Ages, s.Flat = is, !is
		}
		q.Seats, at = append(q.Seats, s), append(at, i)
	}
	if len(q.Seats) == 0 {
		return nil
	}
	if len(q.Seats) == 1 {
		q.Most = positionMax
	}
	if slices.ContainsFunc(q.Seats, func(s store.Seat) bool { return s.Ages }) {
		now, err := e.store.Clock(ctx)
		if err != nil {
			return fromStore("read the clock", err)
		}
		q.Now = now
	}
	places, err := e.store.Places(ctx, &q)
	if err != nil {
		return fromStore("count the queued runs", err)
	}
	for i, p := range places {
		views[at[i]].Place = &p
	}
	return nil
}

// holders are the runs whose claims hold what is asked for, in the order of their grants.
func (e *Engine) holders(ctx context.Context, of func(*dag.Claim) bool) ([]store.Claimant, error) {
	var found []store.Claimant
	for after := (dag.RunID{}); ; {
		page, err := e.store.Holding(ctx, after, loadPage)
		if err != nil {
			return nil, fromStore("read what runs hold", err)
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			after = page[i].Run
			if page[i].Claim.Holds() && of(&page[i].Claim) {
				found = append(found, page[i])
			}
		}
	}
	slices.SortFunc(found, func(a, b store.Claimant) int { return int(a.Claim.Grant - b.Claim.Grant) })
	return found, nil
}

// runsOf names the first of a number of runs.
func runsOf(first []store.Claimant, of int) string {
	var names []string
	for i := range first {
		names = append(names, "run "+first[i].Run.String())
	}
	if more := of - len(first); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// QueueView is a queue and how full it is.
type QueueView struct {
	store.Queue
	Held    int64 // places taken
	Waiting int64 // runs in its lines
	Keys    int64 // keys with a run that waits, or with a queue slot in use
	// Of tasks, which are counted apart: places taken, how many more are wanted, and, when one queue is
	// read, by whom.
	TasksHeld    int64
	TasksWaiting int64
	Crews        []CrewView
}

// Queues lists the queues by name, after one.
func (e *Engine) Queues(ctx context.Context, after string, limit int) ([]QueueView, error) {
	page, err := e.store.Queues(ctx, after, limit)
	if err != nil {
		return nil, fromStore("list the queues", err)
	}
	return e.filled(ctx, page)
}

// QueueOf is one queue.
func (e *Engine) QueueOf(ctx context.Context, name string) (QueueView, error) {
	q, err := e.GetQueue(ctx, name)
	if err != nil {
		return QueueView{}, err
	}
	all, err := e.filled(ctx, []store.Queue{q})
	if err != nil {
		return QueueView{}, err
	}
	all[0].Crews, err = e.crewsIn(ctx, name)
	return all[0], err
}

// filled counts who is in queues.
func (e *Engine) filled(ctx context.Context, page []store.Queue) ([]QueueView, error) {
	now, err := e.store.Clock(ctx)
	if err != nil {
		return nil, fromStore("read the clock", err)
	}
	all, at := make([]QueueView, len(page)), map[string]int{}
	keys := map[string]bool{}
	for i := range page {
		all[i].Queue, at[page[i].Name] = page[i], i
		if all[i].State = effective(&page[i], now); all[i].State != page[i].State {
			all[i].Actor, all[i].Reason, all[i].Until = "", "", 0
		}
	}
	seen := func(queue, line string, waiting, held int64) {
		i, ok := at[queue]
		if !ok {
			return
		}
		all[i].Waiting += waiting
		if all[i].Held += held; !keys[line] {
			keys[line] = true
			all[i].Keys++
		}
	}
	lines, err := e.store.Lines(ctx)
	if err != nil {
		return nil, fromStore("read the lines", err)
	}
	for i := range lines {
		queue, _, _ := strings.Cut(lines[i].Name, "/")
		seen(queue, lines[i].Name, lines[i].Runs, 0)
	}
	held, err := e.holders(ctx, func(c *dag.Claim) bool { return c.Slot() })
	for i := range held {
		seen(held[i].Claim.Queue, held[i].Claim.Line(), 0, 1)
	}
	if err != nil {
		return nil, err
	}
	crews, err := e.crewsOf(ctx, func(s *dag.Share) bool { _, in := at[s.Queue]; return in })
	for i := range crews {
		s := &crews[i].share
		if v := &all[at[s.Queue]]; s.Has() > 0 || s.Wants() > 0 {
			v.TasksHeld += s.Has()
			v.TasksWaiting += s.Wants()
			seen(s.Queue, s.Line(), 0, 0)
		}
	}
	return all, err
}

// LockView is a lock that a run holds.
type LockView struct {
	Name  string
	Run   dag.RunID
	Token int64
	Since dag.Micros
}

// Locks lists the locks that are held, by name.
func (e *Engine) Locks(ctx context.Context) ([]LockView, error) {
	held, err := e.holders(ctx, func(c *dag.Claim) bool { return len(c.Locks) > 0 })
	if err != nil {
		return nil, err
	}
	var all []LockView
	for i := range held {
		for _, name := range held[i].Claim.Locks {
			all = append(all, LockView{Name: name, Run: held[i].Run, Token: held[i].Claim.Grant, Since: held[i].Claim.Granted})
		}
	}
	slices.SortStableFunc(all, func(a, b LockView) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
