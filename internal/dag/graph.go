package dag

import (
	"fmt"
	"strings"
	"time"
)

// TasksMax is the default bound on the tasks of one graph.
const TasksMax = 100_000

// Priority orders runs and tasks. A smaller value goes first.
type Priority uint8

// The five levels, best first.
const (
	Highest Priority = iota
	High
	Medium
	Low
	Lowest
)

// Levels is the number of priorities.
const Levels = 5

var priorityNames = [Levels]string{"highest", "high", "medium", "low", "lowest"}

func (p Priority) String() string { return priorityNames[p] }

// ParsePriority reads the name of a level; "" is Medium.
func ParsePriority(s string) (Priority, bool) {
	if s == "" {
		return Medium, true
	}
	for i, n := range priorityNames {
		if n == s {
			return Priority(i), true
		}
	}
	return Medium, false
}

// Retry is the rule for trying a failed attempt again.
type Retry struct {
	Max      int32         // retries after the first attempt, ≥ 0
	Delay    time.Duration // the pause before the first retry
	Backoff  float64       // factor from one delay to the next; 0 means 1
	MaxDelay time.Duration // 0 if there is none
	Jitter   float64       // the part of the delay, 0…1, by which a hash lengthens or shortens it
	OnExit   []int32       // retry only these exit codes; empty means any failure
}

// Policy holds the rules for executing a task. Many tasks share one Policy.
type Policy struct {
	Retry         Retry
	Timeout       time.Duration // bound of the time of one attempt; 0 if there is none
	KillGrace     time.Duration // the time between the signals TERM and KILL
	WarnOnTimeout bool          // a timeout is only recorded, and the attempt continues
	OnLost        OnLost        // what happens to the task when its handler is lost
	StartDeadline time.Duration // the longest time from ready to the assignment; 0 means no limit
	Priority      Priority
	Place         Place // the workers on which the task may run
	// Queue is the named queue that limits the number of concurrent attempts of tasks that name it, in all
	// runs. "" means no queue.
	Queue string
	// Release says that an attempt may start work outside of its process and name the work by a handle. A
	// command of the task ends the work. Adopts says that after an attempt was lost, the next attempt
	// continues its work.
	Release, Adopts bool
	// ReleaseTimeout is the time after which a run no longer waits for the release of a handle. 0 means
	// ReleaseTimeoutDefault.
	ReleaseTimeout time.Duration
}

// TaskSpec is one task in the form in which the author of a graph gives it.
type TaskSpec struct {
	Name   string
	Needs  []string
	If     Condition // nil means success()
	Policy Policy
	Logic  *Logic // nil if a worker runs it
}

// GraphSpec is a whole graph in the form in which its author gives it.
type GraphSpec struct {
	Tasks        []TaskSpec
	EndOnFailure bool          // on_failure: end
	Timeout      time.Duration // bound of the time of the run; 0 if there is none
	TasksMax     int           // 0 means TasksMax
}

// Graph is a checked, immutable graph, which the runs of one version share. It takes about 60 bytes per task
// and 8 per edge, plus the names.
type Graph struct {
	EndOnFailure bool
	Timeout      time.Duration

	names    []string
	index    map[string]TaskID
	needs    adjacency
	deps     adjacency
	topo     []TaskID // every task after all of its needs
	policies []Policy // the distinct policies of the tasks
	policy   []uint32 // index in policies of each task's policy
	conds    map[TaskID]Condition
	kept     map[TaskID]bool // the tasks whose outputs conditions read
	params   bool            // a condition reads parameters
	logic    map[TaskID]*Logic
	switches map[TaskID][]TaskID // task → the switches that have it as a branch
	queued   bool                // a task names a queue
	named    bool                // a task names a group or a worker
	calling  bool                // a foreach task has calls as instances

	// The fields below describe the tasks that a run adds (see fan.go). The graph of a version has none.
	grown []instance // the added tasks; their numbers follow those of the version's tasks
	fans  map[TaskID]*fan
}

// adjacency is a compressed list of lists: the neighbours of t are ids[off[t]:off[t+1]].
type adjacency struct {
	off []int32
	ids []TaskID
}

func (a *adjacency) of(t TaskID) []TaskID {
	if int(t) >= len(a.off)-1 { // an instance
		return nil
	}
	return a.ids[a.off[t]:a.off[t+1]]
}

// Len returns the number of tasks.
func (g *Graph) Len() int { return len(g.names) + len(g.grown) }

// Order lists the tasks so that each comes after all of its needs. It does not contain instances, which have
// no needs of their own. The caller must not change the slice.
func (g *Graph) Order() []TaskID { return g.topo }

// Edges returns the number of needs.
func (g *Graph) Edges() int { return len(g.needs.ids) }

// Name returns the task's name.
func (g *Graph) Name(t TaskID) string {
	if t == LeaderTask {
		return "(leader)"
	}
	if int(t) >= len(g.names) {
		return g.instanceName(t)
	}
	return g.names[t]
}

// Find looks a task up by its name.
func (g *Graph) Find(name string) (TaskID, bool) {
	t, ok := g.index[name]
	if !ok && len(g.fans) > 0 {
		return g.findInstance(name)
	}
	return t, ok
}

// Needs lists the tasks that t waits for. The slice belongs to the graph.
func (g *Graph) Needs(t TaskID) []TaskID { return g.needs.of(t) }

// Dependents lists the tasks that wait for t. The slice belongs to the graph.
func (g *Graph) Dependents(t TaskID) []TaskID { return g.deps.of(t) }

// Policy returns the policy of t.
func (g *Graph) Policy(t TaskID) *Policy {
	if int(t) >= len(g.names) {
		t = g.grown[int(t)-len(g.names)].of
	}
	return &g.policies[g.policy[t]]
}

// Queued reports whether any task names a queue.
func (g *Graph) Queued() bool { return g.queued }

// Named reports whether any task names a group or a worker.
func (g *Graph) Named() bool { return g.named }

// Condition returns the task's condition; nil means success().
func (g *Graph) Condition(t TaskID) Condition { return g.conds[t] }

// handles reports whether t is decided only when all of its needs are terminal.
func (g *Graph) handles(t TaskID) bool {
	if len(g.conds) == 0 {
		return false
	}
	c := g.conds[t]
	return c != nil && c.Handles()
}

// ErrorKind is the kind of a fault in a graph.
type ErrorKind uint8

// The faults of a graph.
const (
	EmptyGraph ErrorKind = iota + 1
	TooManyTasks
	DuplicateTask
	UnknownNeed
	DuplicateNeed
	SelfLoop
	Cycle
	FarRead   // a condition that names a status reads a task that is not a direct need
	FarBranch // a switch names a task that does not need it
	BadLogic  // a logical task that is invalid
)

// GraphError is one fault of a graph. Task is the task with the fault. Other is the second name, if the
// fault has one. Path is a cycle from a task back to itself.
type GraphError struct {
	Kind  ErrorKind
	Task  string
	Other string
	Path  []string
	Count int
	Limit int
}

func (e *GraphError) Error() string {
	switch e.Kind {
	case EmptyGraph:
		return "the workflow has no tasks"
	case TooManyTasks:
		return fmt.Sprintf("the workflow has %d tasks, the limit is %d", e.Count, e.Limit)
	case DuplicateTask:
		return fmt.Sprintf("task %q is defined twice", e.Task)
	case UnknownNeed:
		return fmt.Sprintf("task %q needs %q, which does not exist", e.Task, e.Other)
	case DuplicateNeed:
		return fmt.Sprintf("task %q names %q twice in needs", e.Task, e.Other)
	case SelfLoop:
		return fmt.Sprintf("task %q needs itself", e.Task)
	case FarRead:
		return fmt.Sprintf("task %q looks at %q in its if, but does not need it directly; add it to needs", e.Task, e.Other)
	case FarBranch:
		return fmt.Sprintf("switch %q chooses %q, which does not need it; add it to the needs of %q", e.Task, e.Other, e.Other)
	case BadLogic:
		return fmt.Sprintf("task %q: %s", e.Task, e.Other)
	}
	return "the tasks wait for each other in a circle: " + circle(e.Path)
}

// circleMax bounds the tasks of a cycle that the message names. Path contains all of them.
const circleMax = 20

func circle(path []string) string {
	if len(path) <= circleMax {
		return strings.Join(path, " → ")
	}
	half := circleMax / 2
	return fmt.Sprintf("%s → (%d more) → %s", strings.Join(path[:half], " → "), len(path)-circleMax,
		strings.Join(path[len(path)-half:], " → "))
}

// GraphErrors contains every fault of a graph, in the order of its tasks.
type GraphErrors []*GraphError

func (es GraphErrors) Error() string {
	if len(es) == 1 {
		return es[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", es[0].Error(), len(es)-1)
}
