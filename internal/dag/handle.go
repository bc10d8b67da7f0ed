package dag

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An attempt may start work outside of its process, such as a job of another system, and name the work by a
// handle. The handle is in the attempt's row. It ends in one of three ways. First, the attempt succeeds.
// Second, the next attempt continues the work (Policy.Adopts). Third, an errand releases the handle: an
// errand is a separate run that executes the task's release command. Until the errands for its handles have
// ended, a task is not assigned again, and its run does not end. After Policy.ReleaseTimeout the run stops
// waiting, and the handle is an orphan.

// HandleState says which party has to end the work that a handle names.
type HandleState string

// The states of a handle. A handle that was released, or that another attempt has taken over, is removed.
const (
	HandleHeld      HandleState = "held"      // the attempt, or a later attempt that adopts the work
	HandleReleasing HandleState = "releasing" // an errand
	HandleOrphan    HandleState = "orphan"    // a person
)

// HandleMax bounds a handle, in bytes.
const HandleMax = 4 << 10

// ReleaseTimeoutDefault is how long a run waits for the release of a handle.
const ReleaseTimeoutDefault = 10 * time.Minute

// Handle is the handle of an attempt, as its row keeps it.
type Handle struct {
	Text  string      `json:"handle"`
	State HandleState `json:"state"`
	Since Micros      `json:"since,omitempty"` // the time at which the errand began, or at which the run stopped waiting for it
	Why   string      `json:"why,omitempty"`   // HandleOrphan: why the handle was not released
	// Adopts says that the next attempt continues the work if this attempt is lost. Policy.Adopts sets this
	// for all attempts of a task, and a kind of task may set it for each handle.
	Adopts bool `json:"adopts,omitempty"`
}

// HandleOf returns the handle of an attempt that has not succeeded. The row of such an attempt stores the
// handle in place of outputs. HandleOf returns false if there is no handle.
func HandleOf(a *AttemptRow) (Handle, bool) {
	if a.State == AttemptSucceeded || a.State == AttemptDeferred {
		return Handle{}, false
	}
	h := unpackHandle(a.Outputs)
	return h, h.Text != ""
}

// unpackHandle returns the zero value if there is no handle.
func unpackHandle(b []byte) (h Handle) {
	if len(b) == 0 || json.Unmarshal(b, &h) != nil {
		return Handle{}
	}
	return h
}

// AnyReleasing reports whether an errand for the handle of one of these attempts is under way.
func AnyReleasing(attempts []AttemptRow) bool {
	return slices.ContainsFunc(attempts, func(a AttemptRow) bool {
		h, _ := HandleOf(&a)
		return h.State == HandleReleasing
	})
}

func (h *Handle) pack() []byte {
	b, err := json.Marshal(h)
	if err != nil {
		panic("dag: a handle is not JSON: " + err.Error())
	}
	return b
}

// outside groups the methods for the handles of a run.
type outside struct{ r *Run }

func handlesOf(r *Run) outside { return outside{r} }

// Errand requests the release of a handle. An errand is carried out by a run whose id is computed from the
// attempt.
type Errand struct {
	Attempt AttemptRow // only Run, Task, Token and Assigned are set
	Handle  string
}

// Orphan is a handle whose release a run no longer waits for.
type Orphan struct {
	Run    RunID
	Task   string // name of the task
	Token  Token
	Handle string
	Why    string
}

// allowed reports whether attempts of a task may have handles.
func (o outside) allowed(t TaskID) bool {
	return t >= 0 && o.r.Graph != nil && o.r.Graph.Policy(t).Handles()
}

// Handles reports whether attempts under the policy may have handles. Only the machine that runs a task of a
// kind can tell whether that kind has handles.
func (p *Policy) Handles() bool { return p.Release || p.Place.Kind() != "" }

// at returns the handle of the attempt in slot i.
func (o outside) at(i int32) Handle {
	h, _ := HandleOf(&o.r.slots[i].AttemptRow)
	return h
}

// keep stores the handle that the holder of an attempt reports. Only the first reported handle of an attempt
// is stored. keep reports whether the handle is new. If an earlier attempt has a handle with the same text,
// this attempt has taken it over.
func (o outside) keep(t TaskID, p *task, text string, adopts bool) bool {
	if text == "" || len(text) > HandleMax || !o.allowed(t) {
		return false
	}
	a := &o.r.slots[p.slot-1]
	if a.Outputs != nil {
		return false
	}
	a.Outputs = (&Handle{Text: text, State: HandleHeld, Adopts: adopts}).pack()
	o.r.touch(p.slot - 1)
	o.r.record(Record{Kind: RecHandle, Task: t, Token: a.Token, Handler: a.Handler, Text: text})
	for _, i := range slices.Clone(o.r.handles) {
		if h := o.at(i); o.r.slots[i].Task == t && h.State == HandleHeld && h.Text == text {
			o.drop(i)
		}
	}
	return true
}

// drop removes a handle of an ended attempt: it was released, or another attempt has taken it over.
func (o outside) drop(i int32) {
	o.r.slots[i].Outputs = nil
	o.r.touch(i)
	o.r.handles = slices.DeleteFunc(o.r.handles, func(o int32) bool { return o == i })
}

// put changes the handle of an ended attempt.
func (o outside) put(i int32, h Handle) {
	o.r.slots[i].Outputs = h.pack()
	o.r.touch(i)
}

// takeOver ends the handles of a task that succeeds. These are the handle of the successful attempt, and
// those that it has taken over from lost attempts. An attempt without its own handle has taken over all of
// them.
func (o outside) takeOver(a *attempt, now Now, fx *Effects) {
	if o.r.handles == nil {
		return
	}
	own := unpackHandle(a.Outputs) // at this time, Outputs still holds the handle of the attempt
	for _, i := range slices.Clone(o.r.handles) {
		switch h := o.at(i); {
		case &o.r.slots[i] == a:
			o.drop(i)
		case o.r.slots[i].Task != a.Task || h.State != HandleHeld:
		case own.Text == "" || own.Text == h.Text:
			o.drop(i)
		default:
			o.begin(i, now, fx)
		}
	}
}

// release begins the errands for all handles that ended attempts of a task hold.
func (o outside) release(t TaskID, now Now, fx *Effects) {
	for _, i := range o.r.handles {
		if o.r.slots[i].Task == t && o.at(i).State == HandleHeld {
			o.begin(i, now, fx)
		}
	}
}

// tend begins the errands for handles that no attempt holds or can take over.
func (o outside) tend(now Now, fx *Effects) {
	if o.r.State.Terminal() {
		return
	}
	for _, i := range o.r.handles {
		if a := &o.r.slots[i]; o.at(i).State == HandleHeld && !o.adoptable(a) {
			o.begin(i, now, fx)
		}
	}
}

// adoptable reports whether an attempt holds, or may take over, the handle of an earlier attempt that was
// lost.
func (o outside) adoptable(a *attempt) bool {
	if a.State != AttemptLost || !o.adopts(a) {
		return false
	}
	state := o.r.tasks[a.Task].state
	return state.Held() || !state.Terminal() && o.r.Intent < IntentStop
}

// adopts reports whether the next attempt continues the work of this attempt if this attempt is lost.
func (o outside) adopts(a *attempt) bool {
	return o.r.Graph.Policy(a.Task).Adopts || unpackHandle(a.Outputs).Adopts
}

func (o outside) begin(i int32, now Now, fx *Effects) {
	a, h := &o.r.slots[i], o.at(i)
	h.State, h.Since = HandleReleasing, now.Wall
	o.put(i, h)
	o.send(&a.AttemptRow, h, fx)
	o.watch(a, now.Mono+o.timeout(a.Task), fx)
}

func (o outside) send(a *AttemptRow, h Handle, fx *Effects) {
	fx.Errands = append(fx.Errands, Errand{Handle: h.Text, Attempt: AttemptRow{Run: o.r.ID, Task: a.Task, Token: a.Token, Assigned: a.Assigned}})
}

func (o outside) watch(a *attempt, due time.Duration, fx *Effects) {
	fx.Timers = append(fx.Timers, Timer{Due: due, Run: o.r.ID, Kind: TimerRelease, Task: a.Task, Token: a.Token})
}

func (o outside) timeout(t TaskID) time.Duration {
	if d := o.r.Graph.Policy(t).ReleaseTimeout; d > 0 {
		return d
	}
	return ReleaseTimeoutDefault
}

// owes reports whether a task may not be assigned yet, because the work of an ended attempt has to be
// released first.
func (o outside) owes(t TaskID) bool {
	for _, i := range o.r.handles {
		if o.r.slots[i].Task != t {
			continue
		}
		if s := o.at(i).State; s == HandleReleasing || s == HandleHeld && !o.adopts(&o.r.slots[i]) {
			return true
		}
	}
	return false
}

// owing reports whether a handle that is not released prevents the end of the run.
func (o outside) owing() bool {
	return slices.ContainsFunc(o.r.handles, func(i int32) bool { return o.at(i).State != HandleOrphan })
}

// Releasing reports whether an errand for the handle of an attempt is under way.
func (r *Run) Releasing(t TaskID, token Token) bool {
	o := handlesOf(r)
	i, ok := o.find(t, token)
	return ok && o.at(i).State == HandleReleasing
}

// Errands returns ended attempts whose handles errands are releasing. It returns all such attempts of one
// task, which is the parameter of. It also returns such attempts of other tasks, up to the number most.
func (r *Run) Errands(of TaskID, most int) (all []AttemptRow) {
	for _, i := range r.handles {
		a := &r.slots[i]
		if handlesOf(r).at(i).State == HandleReleasing && (a.Task == of || len(all) < most) {
			all = append(all, a.AttemptRow)
		}
	}
	return all
}

// Leaves reports whether the handle of an ended attempt is being released by an errand, or is an orphan.
func (r *Run) Leaves(t TaskID, token Token) bool {
	o := handlesOf(r)
	i, ok := o.find(t, token)
	return ok && o.at(i).State != HandleHeld
}

// find finds the handle of an ended attempt.
func (o outside) find(t TaskID, token Token) (int32, bool) {
	for _, i := range o.r.handles {
		if a := &o.r.slots[i]; a.Task == t && a.Token == token {
			return i, true
		}
	}
	return 0, false
}

// OrphansOf returns the ended attempts of a task whose handles are orphans.
func OrphansOf(r *Run, t TaskID) (all []AttemptRow) {
	for _, i := range r.handles {
		if a := &r.slots[i]; a.Task == t && handlesOf(r).at(i).State == HandleOrphan {
			all = append(all, a.AttemptRow)
		}
	}
	return all
}

// Outside returns the ended attempts of a run that have handles.
func Outside(r *Run) (all []AttemptRow) {
	for _, i := range r.handles {
		all = append(all, r.slots[i].AttemptRow)
	}
	return all
}

// released applies the end of an errand. If the errand ends after its handle became an orphan, the result is
// applied even if the run has ended. If the event has an actor, this operator has dismissed an orphan.
func (o outside) released(ev *Event, now Now, fx *Effects) Verdict {
	i, ok := o.find(ev.Task, ev.Token)
	if !ok {
		return Duplicate
	}
	h := o.at(i)
	switch {
	case ev.Actor != "" && h.State != HandleOrphan:
		return Stale
	case ev.Actor != "":
		o.drop(i)
		o.r.record(Record{Kind: RecReleased, Task: ev.Task, Token: ev.Token, Text: h.Text, Actor: ev.Actor, Reason: ev.Reason})
	case h.State == HandleHeld, h.State == HandleOrphan && ev.Reason != "":
		return Stale
	case ev.Reason != "":
		o.orphan(i, h, "its release failed: "+ev.Reason, now, fx)
	default:
		o.drop(i)
		o.r.record(Record{Kind: RecReleased, Task: ev.Task, Token: ev.Token, Text: h.Text})
	}
	o.goOn(ev.Task, now, fx)
	return Accepted
}

// late stops waiting for the release of a handle: the handle becomes an orphan.
func (o outside) late(ev *Event, now Now, fx *Effects) Verdict {
	i, ok := o.find(ev.Task, ev.Token)
	if !ok || o.at(i).State != HandleReleasing {
		return Stale
	}
	o.orphan(i, o.at(i), fmt.Sprintf("it was not released within %v", o.timeout(ev.Task)), now, fx)
	o.goOn(ev.Task, now, fx)
	return Accepted
}

func (o outside) orphan(i int32, h Handle, why string, now Now, fx *Effects) {
	a := &o.r.slots[i]
	h.State, h.Since, h.Why = HandleOrphan, now.Wall, why
	o.put(i, h)
	o.r.record(Record{Kind: RecOrphan, Task: a.Task, Token: a.Token, Text: h.Text, Reason: why})
	fx.Orphans = append(fx.Orphans, Orphan{Run: o.r.ID, Task: o.r.Graph.Name(a.Task), Token: a.Token, Handle: h.Text, Why: why})
}

// goOn continues after a release: it lets the task be assigned, or the run end, if only the release prevented
// it.
func (o outside) goOn(t TaskID, now Now, fx *Effects) {
	if o.r.State.Terminal() {
		return
	}
	if p := &o.r.tasks[t]; p.state == Ready && !p.listed && !o.owes(t) {
		o.r.list(t)
	}
	o.r.settleRun(now, fx)
}

// load restores the handles of ended attempts, before the tasks.
func (o outside) load(attempts []AttemptRow, now Now, fx *Effects) {
	for i := range attempts {
		a := &attempts[i]
		if a.Outputs == nil || !a.State.Ended() || !o.allowed(a.Task) {
			continue
		}
		h, ok := HandleOf(a)
		if !ok {
			continue
		}
		o.r.slots = append(o.r.slots, attempt{AttemptRow: *a, was: a.State})
		o.r.handles = append(o.r.handles, int32(len(o.r.slots)-1))
		if h.State == HandleReleasing {
			length := o.timeout(a.Task)
			left := clamp(h.Since+Micros(length.Microseconds())-now.Wall, length)
			o.watch(&o.r.slots[len(o.r.slots)-1], now.Mono+left, fx)
			o.send(a, h, fx) // the run of the errand has a fixed id, so a repeated start does not make a second run
		}
	}
}

// String describes the handles of ended attempts, for Diff.
func (o outside) String() string {
	var all []string
	for _, i := range o.r.handles {
		a := &o.r.slots[i]
		all = append(all, fmt.Sprintf("%d/%d %s", a.Task, a.Token, a.Outputs))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
