package dag

import (
	"fmt"
	"strings"
)

// ClaimStage is the progress of a run's claim.
type ClaimStage uint8

// The stages. Their numbers are stored, so new ones are only appended.
const (
	ClaimNone    ClaimStage = iota // the run has no claim, and holds nothing
	ClaimAsked                     // the run is queued
	ClaimGranted                   // the run has all of its locks and its queue slot
	ClaimLent                      // the run is suspended: it keeps its locks, and has returned its queue slot
	ClaimAgain                     // the run has its locks, and waits for a queue slot again
	ClaimOver                      // the run has ended, and holds nothing
	claimStages
)

var claimStageNames = [claimStages]string{"none", "asked", "granted", "lent", "again", "over"}

func (s ClaimStage) String() string { return claimStageNames[s] }

// Bounds of a claim.
const (
	ClaimLocksMax = 16  // number of locks of one run
	ClaimNameMax  = 200 // bytes of the name of a lock without its namespace, and of a key
)

// Claim is the claim of a run on objects that all shards share: a slot of a named queue, and named locks. It
// is either open or granted. A Claim is never changed in place.
type Claim struct {
	Queue string   `json:"queue,omitempty"`
	Key   string   `json:"key,omitempty"`   // the value that the queue's per_key computes for the run
	Locks []string `json:"locks,omitempty"` // stored names, see OwnLock
	Fail  bool     `json:"fail,omitempty"`  // fail the run, instead of waiting, if another run has a lock
	Kept  bool     `json:"kept,omitempty"`  // the owner keeps the run in memory while it is queued
	Stage ClaimStage
	// Level is the run's level in its line. It is the run's priority, also while the queue ignores
	// priorities. It is 0 if the claim names no queue.
	Level Priority `json:"level,omitempty"`
	// Asked is the time of the request. Each request gets a new one.
	Asked Micros
	// Grant is the number of the grant. It is greater than the number of any earlier grant.
	Grant   int64  `json:"grant,omitempty"`
	Granted Micros `json:"granted,omitempty"`
	Limit   int32  `json:"limit,omitempty"` // the limit of the queue at the grant; 0 means any number
	// Family is the first ancestor of a run that another run started. A run may use the locks that its family
	// holds.
	Family RunID
}

// InLine reports whether the run waits for its locks or its first queue slot. It returns false for a nil
// claim.
func (c *Claim) InLine() bool { return c != nil && c.Stage == ClaimAsked }

// place returns the claim if it is queued, and nil otherwise.
func (c *Claim) place() *Claim {
	if c.InLine() {
		return c
	}
	return nil
}

// Holds reports whether the run holds locks or a queue slot for which other runs may wait.
func (c *Claim) Holds() bool {
	return c != nil && (c.Stage == ClaimGranted || c.Stage == ClaimLent || c.Stage == ClaimAgain)
}

// Slot reports whether the run has a slot of its queue.
func (c *Claim) Slot() bool { return c != nil && c.Queue != "" && c.Stage == ClaimGranted }

// Line returns the name of the line in which the run waits: the line of its queue and key, or the line of
// its first lock.
func (c *Claim) Line() string {
	if c.Queue == "" {
		return "/" + c.Locks[0]
	}
	return QueueLine(c.Queue, c.Key)
}

// What describes the claim for messages.
func (c *Claim) What() string {
	var parts []string
	if len(c.Locks) == 1 {
		parts = append(parts, "lock "+LockName(c.Locks[0]))
	} else if len(c.Locks) > 1 {
		parts = append(parts, "locks "+strings.Join(LockNames(c.Locks), ", "))
	}
	if c.Queue != "" {
		queue := "queue " + c.Queue
		if c.Key != "" {
			queue += " for " + c.Key
		}
		parts = append(parts, queue)
	}
	return strings.Join(parts, " and ")
}

// Aside reports whether the run is queued and its owner may drop it from memory until the grant.
func (c *Claim) Aside() bool { return c.InLine() && !c.Kept }

const (
	claimFail = 1 << iota
	claimKept
)

// Pack returns the stored form. The form of nil is nil.
func (c *Claim) Pack() []byte {
	if c == nil {
		return nil
	}
	return c.appendTo(make([]byte, 0, len(c.Queue)+len(c.Key)+64))
}

// appendTo appends the stored form.
func (c *Claim) appendTo(b []byte) []byte {
	w := packer{b: b}
	w.byte(1) // the version of this form
	w.byte(byte(c.Stage))
	var flags byte
	if c.Fail {
		flags |= claimFail
	}
	if c.Kept {
		flags |= claimKept
	}
	w.byte(flags)
	w.byte(byte(c.Level))
	w.text(c.Queue)
	w.text(c.Key)
	w.uint(uint64(len(c.Locks)))
	for _, l := range c.Locks {
		w.text(l)
	}
	w.uint(uint64(c.Asked))
	w.uint(uint64(c.Grant))
	w.uint(uint64(c.Granted))
	w.uint(uint64(c.Limit))
	if !c.Family.IsZero() {
		w.b = append(w.b, c.Family[:]...)
	}
	return w.b
}

// PackNames packs names in the form that they have within a packed claim.
func PackNames(names ...string) []byte {
	var w packer
	for _, n := range names {
		w.text(n)
	}
	return w.b
}

// unpackClaim reads the form that Pack writes.
func unpackClaim(b []byte) (*Claim, error) {
	if len(b) == 0 {
		return nil, nil
	}
	u := unpacker{b: b}
	form := u.byte()
	c := &Claim{Stage: ClaimStage(u.byte())}
	flags := u.byte()
	c.Fail, c.Kept, c.Level = flags&claimFail != 0, flags&claimKept != 0, Priority(u.byte())
	c.Queue, c.Key = u.text(), u.text()
	if n := u.uint(); n <= ClaimLocksMax {
		for range n {
			c.Locks = append(c.Locks, u.text())
		}
	} else {
		u.bad = true
	}
	c.Asked, c.Grant, c.Granted, c.Limit = Micros(u.uint()), int64(u.uint()), Micros(u.uint()), int32(u.uint())
	if len(u.b) == len(c.Family) {
		copy(c.Family[:], u.b)
		u.b = nil
	}
	if u.bad || form != 1 || flags >= 2*claimKept || c.Stage >= claimStages || c.Level >= Levels || len(u.b) > 0 ||
		c.Queue == "" && len(c.Locks) == 0 {
		return nil, fmt.Errorf("claim of the run: %w", errPacked)
	}
	return c, nil
}

// PutClaim sets the claim of the run, with its progress. Afterwards the run owns the claim.
func (r *Run) PutClaim(c *Claim) {
	r.Claim, r.changed = c, true
}

// deny ends a waiting run whose claim was denied, or names an object that does not exist.
func (r *Run) deny(ev *Event, now Now) Verdict {
	if r.State != RunSubmitted && r.State != RunWaiting {
		return WrongState
	}
	if r.State == RunSubmitted {
		r.record(Record{Kind: RecSubmitted, Task: LeaderTask, Actor: r.User, Text: string(r.Origin)})
	}
	r.Cause, r.Message = ev.Cause, ev.Reason
	end, rest := RunFailed, Failed
	if ev.Skip {
		end, rest = RunSkipped, Skipped
	}
	r.endRest(rest)
	r.finalise(end, now)
	return Accepted
}

// await makes an admitted run wait again, for the reason that the event names.
func (r *Run) await(ev *Event) Verdict {
	for i := 0; i < len(r.stirred); i++ { // no task begins while the run waits, but a foreach task that was just decided ends its instances
		r.endWith(r.stirred[i])
	}
	r.record(Record{Kind: RecWaiting, Task: LeaderTask, Text: ev.Wait})
	return Accepted
}

// goOn continues an admitted run that was already split, in an earlier generation.
func (r *Run) goOn(now Now, fx *Effects) Verdict {
	r.moveRun(RunRunning)
	r.StartedAt = now.Wall
	if r.Graph.Timeout > 0 {
		fx.Timers = append(fx.Timers, r.runTimer(now.Mono+r.Graph.Timeout))
	}
	r.settleRun(now, fx)
	return Accepted
}
