package dag

import (
	"encoding/binary"
	"fmt"
)

// Share counts the slots of one named queue that the tasks of a run have and want. Each slot lets one attempt
// at a time be with a handler. The admission owner grants slots to the run, and the run gives them to its
// best ready tasks. So the admission owner, on any shard, need not know tasks, and the rows show which task
// has a slot. All counts only rise. So a message that is repeated, late or out of order has no second effect.
type Share struct {
	// Queue is the stored name of the queue. While no such queue is known, it is the name in the definition.
	Queue string `json:"queue"`
	Key   string `json:"key,omitempty"` // the value that the queue's per_key computes for the run
	Life  int32  `json:"life"`          // the generation in which the run got the share; the share is void in later generations
	// Rev rises with every change that the admission owner must know.
	Rev  int64 `json:"rev"`
	Got  int64 `json:"got"`  // the number of slots that were granted so far
	Back int64 `json:"back"` // the number of granted slots that were returned
	Need int64 `json:"need"` // the total number of grants that the tasks need; after Balance it is at least Got
	// Asked is the time since which the share waits for the next slot.
	Asked Micros `json:"asked"`
	Limit int32  `json:"limit,omitempty"` // the limit of the queue at the newest grant; 0 means any number
}

// Has returns the number of queue slots that the share has.
func (s *Share) Has() int64 { return s.Got - s.Back }

// Wants returns the number of further queue slots for which the share waits.
func (s *Share) Wants() int64 { return max(s.Need-s.Got, 0) }

// Line returns the name of the line in which the tasks wait.
func (s *Share) Line() string { return QueueLine(s.Queue, s.Key) }

// Of reports whether the share belongs to the tasks whose definition names the given queue.
func (s *Share) Of(queue string) bool {
	if len(s.Queue) == len(queue) {
		return s.Queue == queue
	}
	_, name := CutName(s.Queue)
	return name == queue
}

// What describes the queue in words, for messages.
func (s *Share) What() string {
	if s.Key == "" {
		return "queue " + s.Queue
	}
	return "queue " + s.Queue + " for " + s.Key
}

// share is a Share in memory.
type share struct {
	Share
	keyed bool  // whether Key is known, as it always is for a stored share
	used  int64 // tasks that a handler has
	done  int64 // tasks that have left their handler since the last Balance; other tasks can use their slots
	ready int64 // tasks that wait for a queue slot, or that have one and wait for a worker
	lists []*spot
}

// spot holds the ready tasks of a share that have one placement.
type spot struct {
	place Place
	list  readyList
}

// free returns the number of queue slots that no task at a handler uses.
func (s *share) free() int64 { return max(s.Has()-s.used-s.done, 0) }

func (s *share) at(p Place, make bool) *spot {
	for _, l := range s.lists {
		if l.place == p {
			return l
		}
	}
	if !make {
		return nil
	}
	l := &spot{place: p}
	s.lists = append(s.lists, l)
	return l
}

// shareOf returns the share of a queue that tasks name, and makes it if it is missing.
func (r *Run) shareOf(queue string) *share {
	for _, s := range r.shares {
		if s.Of(queue) {
			return s
		}
	}
	s := &share{Share: Share{Queue: queue, Life: r.Generation}}
	r.shares = append(r.shares, s)
	return s
}

// tally updates the number of tasks at handlers in the share of a task that moves between two states.
func (r *Run) tally(t TaskID, from, to TaskState) {
	if !r.Graph.queued || from.Held() == to.Held() {
		return
	}
	q := r.Graph.Policy(t).Queue
	if q == "" {
		return
	}
	if s := r.shareOf(q); to.Held() {
		s.used++
	} else {
		s.used--
		s.done++
	}
}

// loadShares restores the shares from the row.
func (r *Run) loadShares(rows []Share) {
	r.shares = nil
	for i := range rows {
		r.shares = append(r.shares, &share{Share: rows[i], keyed: true})
	}
}

// Shares returns the shares as the row of the run stores them.
func (r *Run) Shares() []Share {
	if r.State.Terminal() {
		return nil
	}
	var all []Share
	for _, s := range r.shares {
		if s.Rev > 0 {
			all = append(all, s.Share)
		}
	}
	return all
}

// NewShares returns the queues that tasks name for the first time. The owner must set the queue and the key
// of each with PutKey. Until then, the tasks of the queue wait.
func (r *Run) NewShares() (queues []string) {
	for _, s := range r.shares {
		if !s.keyed && s.ready > 0 && !r.held() {
			queues = append(queues, s.Queue)
		}
	}
	return queues
}

// PutKey sets the queue and the key of the new share whose tasks name a queue. found is the stored name of
// that queue.
func (r *Run) PutKey(queue, found, key string) {
	s := r.shareOf(queue)
	s.Queue, s.Key, s.keyed = found, key, true
}

// PutShare adds granted slots. It returns false if the run no longer has such a share: then the grant is
// void.
func (r *Run) PutShare(given *Share) bool {
	for _, s := range r.shares {
		if s.Queue != given.Queue || s.Life != given.Life || r.State.Terminal() {
			continue
		}
		if given.Got > s.Got {
			s.Got, s.Asked, s.Limit = given.Got, given.Asked, given.Limit
			r.changed = true
		}
		return true
	}
	return false
}

// Balance requests slots for the ready tasks, and returns slots of ended tasks and unused slots. The owner
// calls it after every step. It does nothing if the step changed no share. A paused or waiting run keeps only
// the slots of its held attempts. So no run waits for slots of a run that is waiting itself.
//
// Balance returns the shares to send to the admission owner. If the run has ended, they return all of its
// slots, and the result over is true.
func (r *Run) Balance(now Micros) (told []Share, over bool) {
	if len(r.shares) == 0 {
		return nil, false
	}
	if r.State.Terminal() {
		for _, s := range r.shares {
			if s.Rev > 0 {
				told = append(told, s.Share)
			}
		}
		r.shares = nil
		return told, true
	}
	held := r.held()
	for _, s := range r.shares {
		use := s.used
		if !held {
			use += s.ready
		}
		next := s.Share
		next.Back = max(min(s.Back+s.done, s.Got), s.Got-use)
		s.done = 0
		next.Need = max(s.Got, next.Back+use)
		if next == s.Share || s.Rev == 0 && use == 0 || !s.keyed {
			continue
		}
		if next.Wants() > 0 && s.Wants() == 0 {
			next.Asked = now
		}
		next.Rev++
		s.Share, r.changed = next, true
		told = append(told, next)
	}
	return told, false
}

// denyTasks fails the tasks that wait for a slot of a queue that does not exist.
func (r *Run) denyTasks(ev *Event, now Now, fx *Effects) Verdict {
	var wait []TaskID
	for _, s := range r.shares {
		if s.Queue == ev.Queue {
			wait = s.waiting(r)
		}
	}
	if len(wait) == 0 {
		return Stale
	}
	for _, t := range wait {
		p := &r.tasks[t]
		if p.state != Ready { // the failure of an earlier task has ended this one, too
			continue
		}
		r.unlist(t)
		row := AttemptRow{Run: r.ID, Task: t, State: AttemptFailed, Cause: CauseQueue, Message: ev.Reason}
		r.put(&row, p, now)
		r.record(Record{Kind: RecMarked, Task: t, Token: p.token, State: Failed, Text: string(CauseQueue)})
		r.noteFailure(t, ev.Reason)
		r.failTask(t, ev.Reason)
	}
	r.settleRun(now, fx)
	return Accepted
}

// waiting lists the ready tasks of a share.
func (s *share) waiting(r *Run) (all []TaskID) {
	for _, l := range s.lists {
		for i := range l.list.levels {
			for at := l.list.levels[i].first; at != 0; at = r.tasks[at-1].blockers {
				all = append(all, TaskID(at-1))
			}
		}
	}
	return all
}

// PackClaims packs the claim of a run and the shares of its tasks.
func PackClaims(c *Claim, shares []Share) []byte {
	if len(shares) == 0 {
		return c.Pack()
	}
	w := packer{b: make([]byte, 0, 64)}
	w.byte(2) // the form; form 1 contains only a claim
	w.text(string(c.Pack()))
	w.uint(uint64(len(shares)))
	for i := range shares {
		s := &shares[i]
		w.text(s.Queue)
		w.text(s.Key)
		for _, v := range [...]int64{int64(s.Life), s.Rev, s.Got, s.Back, s.Need, int64(s.Asked), int64(s.Limit)} {
			w.uint(uint64(v))
		}
	}
	return w.b
}

// PackClaimsIn does the same as PackClaims, for a caller that needs the result only until its next call. The
// result may use the buffer room. The second result is the buffer to pass to the next call.
func PackClaimsIn(room []byte, c *Claim, shares []Share) (packed, next []byte) {
	if c == nil || len(shares) > 0 {
		return PackClaims(c, shares), room
	}
	packed = c.appendTo(room[:0])
	return packed, packed
}

// keptForm is the form of claims that begin with RunRow.Kept, in 8 bytes, the highest first. Statements of
// the databases read it, too.
const keptForm = 3

// PackKept puts RunRow.Kept before the claims of a run, as PackClaims has packed them. 0 adds nothing.
func PackKept(kept int64, claims []byte) []byte {
	if kept == 0 {
		return claims
	}
	b := append(make([]byte, 0, 9+len(claims)), keptForm)
	return append(binary.BigEndian.AppendUint64(b, uint64(kept)), claims...)
}

// UnpackKept reads what PackKept has written, and returns the claims.
func UnpackKept(b []byte) (kept int64, claims []byte) {
	if len(b) < 9 || b[0] != keptForm {
		return 0, b
	}
	return int64(binary.BigEndian.Uint64(b[1:])), b[9:]
}

// UnpackClaims reads the form that PackClaims writes. It ignores what PackKept has added.
func UnpackClaims(b []byte) (*Claim, []Share, error) {
	_, b = UnpackKept(b)
	if len(b) == 0 || b[0] != 2 {
		c, err := unpackClaim(b)
		return c, nil, err
	}
	u := unpacker{b: b[1:]}
	c, err := unpackClaim([]byte(u.text()))
	if err != nil {
		return nil, nil, err
	}
	shares := make([]Share, u.count(9))
	for i := range shares {
		s := &shares[i]
		s.Queue, s.Key = u.text(), u.text()
		var v [7]int64
		for j := range v {
			if v[j] = int64(u.uint()); v[j] < 0 {
				u.bad = true
			}
		}
		s.Life, s.Rev, s.Got, s.Back, s.Need, s.Asked, s.Limit = int32(v[0]), v[1], v[2], v[3], v[4], Micros(v[5]), int32(v[6])
		u.bad = u.bad || s.Queue == "" || s.Back > s.Got
	}
	if u.bad || len(u.b) > 0 || len(shares) == 0 {
		return nil, nil, fmt.Errorf("claims of the tasks of the run: %w", errPacked)
	}
	return c, shares, nil
}
