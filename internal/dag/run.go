package dag

// Origin is the way in which a run was started.
type Origin string

// The origins.
const (
	OriginManual   Origin = "manual"
	OriginAPI      Origin = "api"
	OriginSchedule Origin = "schedule"
	OriginSensor   Origin = "sensor"
	OriginBackfill Origin = "backfill"
	OriginParent   Origin = "parent"
	OriginRecovery Origin = "recovery"
	// OriginEnqueue: the transaction of a program inserted the run's row. The row has the parameters as the
	// program gave them. They are completed when the run is split.
	OriginEnqueue Origin = "enqueue"
)

// Header holds the fields of a run that never change, except that OriginEnqueue parameters are completed.
type Header struct {
	ID       RunID
	Shard    ShardID
	Workflow WorkflowID
	Version  int32
	Priority Priority
	Origin   Origin
	User     string
	Key      string // idempotency key; "" if there is none
	KeyHash  []byte // the hash of the request that came with Key
	Params   []byte // a JSON object, or nil
	Fire     *Fire  // nil means a person or a program started it by hand
	Created  Micros
}

// Starter returns the user who started the run by hand, or by a backfill. For the run of a call, this is the
// starter of the first run that called. It is "" if a schedule, an event or a program in a database started
// the run.
func (h *Header) Starter() string {
	if h.Origin == OriginEnqueue || h.Origin == OriginRecovery {
		return ""
	}
	return h.User
}

// Run is one execution in memory, which the owner of its shard steps. Params is dropped from the header after
// the first flush unless conditions read it.
type Run struct {
	Header
	Graph *Graph // nil until split

	State      RunState
	Intent     Intent
	Generation int32
	Cause      Cause  // why the run is being stopped, or why it did not succeed
	Message    string // a sentence for people
	Claim      *Claim // the claim on a queue and locks; nil if the run names none; see PutClaim
	SplitAt    Micros
	StartedAt  Micros
	FinishedAt Micros
	Leader     HandlerID // the handler that split the run
	LeaderAt   Micros
	Kept       int64 // the bytes that its row adds to the stock of its namespace: see Weigh

	tasks []task
	// left is the number of tasks that are not terminal. Invariant: when it becomes 0, a split run without
	// handles ends in the same step.
	left   int32
	failed int32 // tasks failed or upstream_failed
	active int32 // attempts assigned or running, the Leader's included
	leader task  // the pseudo task of Leader work
	// base is the packed states that are kept from the previous generation. Invariant: an operator's
	// decision about a task is in base or in a row without a handler (mark.go).
	base        []byte
	own         []byte            // the packed graph, if it differs from the graph of the version
	outputs     map[TaskID][]byte // the outputs of succeeded tasks that conditions read
	outputsSize int               // the size of all outputs, in bytes
	weight      int64             // the bytes that its attempts keep, see Weigh
	gained      int64             // the part of weight that no row of the run's history contains yet
	frozen      int32             // tasks that failed, are upstream_failed or were stopped in an earlier generation, and keep this end
	late        []TaskID          // pending tasks whose needs have ended, and whose condition reads a task that has not ended
	limited     []TaskID          // tasks that became ready in this step and have a start deadline
	// The numbers of tasks that wait for a retry, for something outside the run, and for instances.
	retrying, deferred, fanning int32
	spreads                     map[TaskID]*spread // the counts of instances, by foreach task
	stirred                     []TaskID           // foreach tasks that this step has affected
	logical                     []TaskID           // ready logical tasks; they begin at the end of the step, unless the run is paused

	questions map[TaskID][]question // conditions that are evaluated outside of the steps
	asking    int32                 // the number of questions without a result
	fx        *Effects              // the effects of the present step or load
	clock     Micros                // the time of the present step or load

	ready  readyList // ready tasks without a placement
	placed []*line   // ready tasks with a placement
	shares []*share  // ready tasks that name queues, with any placement
	space  *Space    // the demands of the run's namespace on placements
	turns  []int32   // order in which each task became ready, if there was more than one list
	turn   int32     // the last value that turns received
	slots  []attempt // live attempts, those changed since the last flush, and those with handles
	free   []int32
	// handles are the slots of ended attempts with a handle that was not released: see handle.go.
	handles []int32

	// Gate belongs to the owner: the progress of the run through the limits.
	Gate uint8
	// Marks also belong to the owner: the last transactions that touched the run. There are two, because one
	// transaction may be in flight while the next one is made.
	Marks [2]uint64

	stored  bool     // the row exists
	was     RunState // the state in the row, as memory knows it
	claimed *Claim   // the claim in the row, if the run is queued
	changed bool     // the row differs from memory
	filled  bool     // the new parameters are not in the row yet
	dirty   []int32
	records []byte // packed: the history of this transaction
	seat    seat   // the position in a queue

	// For the board: the positions of the run in its lists by age, and the number of counted approvals.
	running, approving age
	approvalsSeen      int32
	approvals          int32  // tasks that wait for an approval
	approvalSince      Micros // the time since which an approval has been waiting
}

// task is a task in memory: 32 bytes.
type task struct {
	state    TaskState
	losses   uint8  // losses in this generation
	revoked  bool   // the newest attempt was ended without its holder
	listed   bool   // the task is in the ready list
	own      bool   // the state is the state of the newest attempt, possibly kept from an earlier generation
	halted   bool   // a verb stopped this task alone, not its run; its dependents cannot run
	token    Token  // token of the newest attempt. It only rises. Invariant: only the holder of this token can report (fence)
	blockers int32  // while pending: the number of needs that are not settled; while listed: the next task of the list + 1
	slot     int32  // index in Run.slots + 1; 0 if there is none
	retries  int32  // retries in this generation
	since    uint32 // while listed: when the task became ready, in ms of the owner's clock, modulo 2^32
}

// attempt is an attempt whose row is not final, or not yet flushed.
type attempt struct {
	AttemptRow
	isNew bool // the row does not exist yet
	dirty bool // listed in Run.dirty
	// was is the state in the row, which is the guard of the next update.
	was AttemptState
}

// Raw reports whether the parameters are still as the program gave them, and not checked yet.
func (r *Run) Raw() bool { return r.Origin == OriginEnqueue && r.SplitAt == 0 }

// NewRun makes the run of a submission. Nothing is decided until Step gets EvSubmit.
func NewRun(h Header) *Run {
	return &Run{Header: h, State: RunSubmitted, Generation: 1}
}

// Task returns a task's state and newest token.
func (r *Run) Task(t TaskID) (TaskState, Token) {
	p := r.at(t)
	return p.state, p.token
}

func (r *Run) at(t TaskID) *task {
	if t == LeaderTask {
		return &r.leader
	}
	return &r.tasks[t]
}

// has reports whether t is a task of the run or the Leader's task.
func (r *Run) has(t TaskID) bool { return t >= LeaderTask && int(t) < len(r.tasks) }

// Active returns the number of attempts that are assigned or running, with that of the Leader.
func (r *Run) Active() int { return int(r.active) }

// Unsettled returns the number of tasks that have not ended.
func (r *Run) Unsettled() int { return int(r.left) }

// Holder returns the handler that holds the task's newest attempt, and its token. It returns false if no
// handler holds an attempt.
func (r *Run) Holder(t TaskID) (HandlerID, Token, bool) {
	if !r.has(t) {
		return 0, 0, false
	}
	p := r.at(t)
	if p.slot == 0 || !p.state.Held() {
		return 0, 0, false
	}
	return r.slots[p.slot-1].Handler, p.token, true
}

// Held calls f for every attempt that is assigned or running, the Leader's included, in
// the order of the tasks.
func (r *Run) Held(f func(a *AttemptRow)) {
	if r.active == 0 {
		return
	}
	if r.leader.state.Held() {
		f(&r.slots[r.leader.slot-1].AttemptRow)
	}
	for t := range r.tasks {
		if r.tasks[t].state.Held() {
			f(&r.slots[r.tasks[t].slot-1].AttemptRow)
		}
	}
}

// Views returns what memory knows about every task. It equals the result of Derive.
func (r *Run) Views() []TaskView {
	views := make([]TaskView, len(r.tasks))
	for t := range r.tasks {
		p := &r.tasks[t]
		views[t] = TaskView{State: p.state, Token: p.token, Retries: p.retries, Losses: int32(p.losses), Own: p.own, Halted: p.halted}
	}
	return views
}

// Open copies the task's open attempt, which may wait for something outside of the run. It returns false if
// the task has no open attempt.
func (r *Run) Open(t TaskID) (AttemptRow, bool) {
	if !r.has(t) || r.at(t).slot == 0 {
		return AttemptRow{}, false
	}
	return r.slots[r.at(t).slot-1].AttemptRow, true
}

// Unfinished reports whether the run has not ended. Its owner keeps it in memory.
func (r *Run) Unfinished() bool { return !r.State.Terminal() }

// hold opens an attempt for the task and adds it to the next flush.
func (r *Run) hold(t TaskID, p *task, h HandlerID, now Now) {
	i := r.slot()
	p.token = p.token.Next(now.Era)
	p.revoked, p.own = false, t != LeaderTask
	p.slot = i + 1
	r.slots[i] = attempt{isNew: true, AttemptRow: AttemptRow{
		Run: r.ID, Task: t, Token: p.token, Generation: r.Generation, Handler: h, State: AttemptAssigned, Assigned: now.Wall,
	}}
	r.active++
	r.weight += AttemptWeight
	r.touch(i)
}

// slot returns a free entry for an attempt.
func (r *Run) slot() int32 {
	if n := len(r.free); n > 0 {
		i := r.free[n-1]
		r.free = r.free[:n-1]
		return i
	}
	r.slots = append(r.slots, attempt{})
	return int32(len(r.slots) - 1)
}

func (r *Run) touch(i int32) {
	if a := &r.slots[i]; !a.dirty {
		a.dirty = true
		r.dirty = append(r.dirty, i)
	}
}

// end closes the attempt of p. The next flush frees its entry.
func (r *Run) end(p *task) *attempt {
	a := &r.slots[p.slot-1]
	r.touch(p.slot - 1)
	if a.Outputs != nil && handlesOf(r).allowed(a.Task) { // a handle
		r.handles = append(r.handles, p.slot-1)
	}
	p.slot = 0
	if a.State != AttemptDeferred {
		r.active--
	}
	return a
}

func (r *Run) record(rec Record) {
	if r.records == nil {
		r.records = make([]byte, 0, 48) // enough for the records that a run of one task writes in one transaction
	}
	r.records = appendRecord(r.records, &rec)
}
