package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// holdersShown bounds the number of holders that a reason names.
const holdersShown = 5

const (
	// positionMax bounds the number of runs that are counted before a run in its line, and also the number
	// behind it. Larger counts take too long.
	positionMax = 5_000
	// positionsMax bounds the same number for all runs of a page together.
	positionsMax = 20_000
)

// explainClaim explains a wait for something that all shards share. It names the queue or lock, its holder,
// the run's position, the time since which the run waits, and the event that ends the wait. It reads only
// rows, so any node can answer.
func (x *explaining) explainClaim(ctx context.Context) error {
	c := x.run.Claim
	since := c.Asked
	for _, name := range c.Locks {
		if c.Stage != dag.ClaimAsked {
			break
		}
		holders, n, err := x.rd.store.Holders(ctx, store.HolderQuery{Lock: name, First: holdersShown})
		if err != nil {
			return errkind.FromStore("read the holder of lock "+dag.LockName(name), err)
		}
		if n > 0 {
			who, err := x.runsOf(ctx, holders, n)
			if err != nil {
				return err
			}
			x.add(Reason{Kind: "lock", Code: "lock_held", Args: args{"lock": dag.LockName(name), "runs": n},
				What: "the run waits for lock " + dag.LockName(name), Holder: who, Since: since, Unblocks: "the end of " + who})
		}
	}
	if c.Queue != "" {
		if err := x.explainQueue(ctx); err != nil {
			return err
		}
	}
	if len(x.Reasons) == 0 {
		x.add(Reason{Kind: "lock", Code: "lock_asked", Args: args{"asks": c.What()},
			What: "the run asks for " + c.What() + "; other runs asked before", Since: since,
			Unblocks: "the end of these runs"})
	}
	return nil
}

func (x *explaining) explainQueue(ctx context.Context) error {
	c := x.run.Claim
	q, err := x.rd.store.Queue(ctx, c.Queue)
	if errors.Is(err, store.ErrNotFound) {
		x.add(Reason{Kind: "queue", Code: "queue_missing", Args: args{"queue": c.Queue},
			What: "there is no queue " + c.Queue, Since: c.Asked,
			Unblocks: "skein queue set " + c.Queue + " --limit N"})
		return nil
	}
	if err != nil {
		return errkind.FromStore("read queue "+c.Queue, err)
	}
	holders, held, err := x.rd.store.Holders(ctx, store.HolderQuery{Queue: c.Queue, Key: c.Key, First: holdersShown})
	if err != nil {
		return errkind.FromStore("read the holders of queue "+c.Queue, err)
	}
	now, err := x.rd.store.Clock(ctx)
	if err != nil {
		return errkind.FromStore("read the clock", err)
	}
	who, err := x.runsOf(ctx, holders, held)
	if err != nil {
		return err
	}
	where := "queue " + q.Name
	if c.Key != "" {
		where += " for " + c.Key
	}
	r := Reason{Kind: "queue", Code: "queue_turn",
		Args: args{"queue": q.Name, "key": c.Key, "limit": q.Limit, "held": held}, Since: c.Asked,
		Holder: who}
	switch state := admission.QueueState(&q, now); {
	case state == store.QueuePaused:
		r.What, r.Holder = where+" is paused"+admission.Because(q.Reason), q.Actor
		r.Code, r.Actions = "queue_paused", []Action{{Verb: "resume", Queue: q.Name}}
		r.Unblocks, r.Expected = "skein queue resume "+q.Name, q.Until
	case q.Limit > 0 && held >= int(q.Limit):
		r.Code = "queue_full"
		r.What, r.Unblocks = admission.Lets(where, q.Limit), "the end of a run that has a queue slot, or a higher limit: skein queue set "+q.Name+" --limit N"
	case q.Rate > 0 && q.Paced > now:
		r.Code = "queue_rate"
		r.What, r.Holder = admission.Paces(where, q.Rate, "run", q.Each), ""
		r.Unblocks, r.Expected = "the next grant of the queue", q.Paced // this applies to the first queued run
		if x.run.Place != nil && x.run.Place.Number > 1 {
			r.Expected += dag.Micros(x.run.Place.Number-1) * q.Each / dag.Micros(q.Rate)
		}
	default:
		r.What, r.Unblocks = "the run is queued in "+where, "the next free queue slot"
	}
	if place := x.run.Place; place != nil {
		switch more := map[bool]string{true: "more than "}[place.More]; {
		case place.Number > 0:
			r.Args["number"], r.Args["of"] = place.Number, place.Of
			r.What += fmt.Sprintf("; this run is number %d of %s%d in the queue", place.Number, more, place.Of)
		default:
			r.What += fmt.Sprintf("; %s%d runs are before it in the queue", more, place.Of)
		}
	} else {
		r.What += "; the run was suspended, and comes before new runs"
	}
	x.add(r)
	return nil
}

func seatOf(r *dag.RunRow) store.Seat {
	return store.Seat{Run: r.ID, Line: r.Claim.Line(), Level: r.Claim.Level, Asked: r.Claim.Asked}
}

// seat adds the positions of the queued runs of a page.
func (rd *Reader) seat(ctx context.Context, views []RunView) error {
	q := store.SeatQuery{Most: positionsMax, Ageing: dag.Micros(rd.cfg.Ageing.Microseconds())}
	var at []int
	ages := map[string]bool{} // the queues whose waiting runs rise by age
	for i := range views {
		v := &views[i]
		if !v.Claim.InLine() {
			continue
		}
		s := seatOf(&v.RunRow)
		if name := v.Claim.Queue; name != "" {
			is, known := ages[name]
			if !known {
				row, err := rd.store.Queue(ctx, name)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return errkind.FromStore("read queue "+name, err)
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
		now, err := rd.store.Clock(ctx)
		if err != nil {
			return errkind.FromStore("read the clock", err)
		}
		q.Now = now
	}
	places, err := rd.store.Places(ctx, &q)
	if err != nil {
		return errkind.FromStore("count the queued runs", err)
	}
	for i, p := range places {
		views[at[i]].Place = &p
	}
	return nil
}

// holders returns the runs that hold the slot or lock, in the order of their grants.
func (rd *Reader) holders(ctx context.Context, of func(*dag.Claim) bool) ([]store.Claimant, error) {
	var found []store.Claimant
	for after := (dag.RunID{}); ; {
		page, err := rd.store.Holding(ctx, after, pageRows)
		if err != nil {
			return nil, errkind.FromStore("read what runs hold", err)
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
	sort.Slice(found, func(i, j int) bool { return found[i].Claim.Grant < found[j].Claim.Grant })
	return found, nil
}

// runsOf names the first few of the runs.
func (x *explaining) runsOf(ctx context.Context, first []store.Claimant, of int) (string, error) {
	var names []string
	for i := range first {
		name, err := x.nameOf(ctx, first[i].Run, first[i].Workflow)
		if err != nil {
			return "", err
		}
		names = append(names, name)
	}
	if more := of - len(first); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", "), nil
}

// QueueView is a queue with its use.
type QueueView struct {
	store.Queue
	Held    int64 // the queue slots that runs use
	Waiting int64 // the runs that wait in its lines
	Keys    int64 // keys with a run that waits, or with a queue slot in use
	// The fields below count tasks, separately from runs: slots in use, slots requested and, if only one
	// queue is read, the runs of these tasks.
	TasksHeld    int64
	TasksWaiting int64
	Crews        []CrewView
}

// Queues lists the queues after a given name, ordered by name.
func (rd *Reader) Queues(ctx context.Context, after string, limit int) ([]QueueView, error) {
	page, err := rd.store.Queues(ctx, after, limit)
	if err != nil {
		return nil, errkind.FromStore("list the queues", err)
	}
	return rd.filled(ctx, page)
}

// GetQueue reads a queue.
func (rd *Reader) GetQueue(ctx context.Context, name string) (store.Queue, error) {
	q, err := rd.store.Queue(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return q, fmt.Errorf("queue %s: %w", name, errkind.ErrNotFound)
	}
	return q, errkind.FromStore("read queue "+name, err)
}

// QueueOf returns one queue.
func (rd *Reader) QueueOf(ctx context.Context, name string) (QueueView, error) {
	q, err := rd.GetQueue(ctx, name)
	if err != nil {
		return QueueView{}, err
	}
	all, err := rd.filled(ctx, []store.Queue{q})
	if err != nil {
		return QueueView{}, err
	}
	all[0].Crews, err = rd.crewsIn(ctx, name)
	return all[0], err
}

// filled adds the numbers of runs and tasks to queues.
func (rd *Reader) filled(ctx context.Context, page []store.Queue) ([]QueueView, error) {
	now, err := rd.store.Clock(ctx)
	if err != nil {
		return nil, errkind.FromStore("read the clock", err)
	}
	all, at := make([]QueueView, len(page)), map[string]int{}
	keys := map[string]bool{}
	for i := range page {
		all[i].Queue, at[page[i].Name] = page[i], i
		if all[i].State = admission.QueueState(&page[i], now); all[i].State != page[i].State {
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
	lines, err := rd.store.Lines(ctx)
	if err != nil {
		return nil, errkind.FromStore("read the lines", err)
	}
	for i := range lines {
		queue, _ := dag.CutLine(lines[i].Name)
		seen(queue, lines[i].Name, lines[i].Runs, 0)
	}
	held, err := rd.holders(ctx, func(c *dag.Claim) bool { return c.Slot() })
	for i := range held {
		seen(held[i].Claim.Queue, held[i].Claim.Line(), 0, 1)
	}
	if err != nil {
		return nil, err
	}
	crews, err := rd.crewsOf(ctx, func(s *dag.Share) bool { _, in := at[s.Queue]; return in })
	for i := range crews {
		s := &crews[i].Share
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
	Namespace string // "" means a shared lock
	Name      string
	Run       dag.RunID
	Token     int64
	Since     dag.Micros
}

// Locks lists the locks that are held, ordered by name.
func (rd *Reader) Locks(ctx context.Context) ([]LockView, error) {
	held, err := rd.holders(ctx, func(c *dag.Claim) bool { return len(c.Locks) > 0 })
	if err != nil {
		return nil, err
	}
	var all []LockView
	for i := range held {
		for _, name := range held[i].Claim.Locks {
			namespace, name := dag.CutLock(name)
			all = append(all, LockView{Namespace: namespace, Name: name, Run: held[i].Run, Token: held[i].Claim.Grant, Since: held[i].Claim.Granted})
		}
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Namespace, b.Namespace)) < 0
	})
	return all, nil
}
