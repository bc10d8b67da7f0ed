// Package admission decides which runs and tasks get the locks and queue slots that they name. It is pure: no
// clock, no store, no goroutine. The owner of store.GateShard runs it (package engine); explanations apply
// its smaller rules to rows (package inspect), so the two cannot differ.
//
// A line is the order in which runs wait for one queue or one lock. A family is a run with all its
// descendants: the runs that it has started, and the runs that these have started. A crew is the tasks of one
// run in one queue. A window is the part of a line that a State keeps in memory: the runs that hold
// something, and the first waiting runs.
//
// # The shape
//
//	rows    AddQueue, Promise, Enroll, Adopt, AddLine
//	events  of runs: Ask, AskAgain, Leave, Lend
//	        of crews (the tasks of one run in one queue): Enroll, Dismiss
//	        of operators: SetQueue, DropQueue
//	        of the store: Fill, which brings waiting runs that only the store has
//	        of time: Tick
//	             |
//	             v
//	        State, with Serve and ServeTasks
//	             |
//	             v
//	        Shell: Grant, Deny, Give, Refuse, Paced
//
// An event only notes what it makes possible: a line in which a run may be admitted (open), a free lock
// (freed), or a wait list of tasks (dirty). Serve and ServeTasks examine only these. So the work of a
// transaction grows with its events and not with the number of waiting runs.
//
// The Shell carries out a decision at once, in the transaction that is being made: it writes the run's row,
// or a message to the owner of the run. A run that continues may end in the same transaction and leave, so
// the methods of the Shell may call the State again.
//
// # The rules
//
// A claim names locks, a queue, or both. A run first waits for all of its locks and takes them in one step.
// Then it waits for a queue slot. Meanwhile its locks are reserved for it in memory, and its row still says
// that it is queued. A run that waits for locks has none, and a run that has a queue slot waits for nothing.
// So there is no deadlock, with one exception: a run that another run has started uses the locks of its
// family. The function circle finds such a deadlock when it arises, and denies its youngest waiting run.
//
// A lock goes to the run that asked first (turn). A line is ordered by the time of asking. If the queue
// orders by priority, the better level is first, and a level improves while a run waits (Aged). Suspended
// runs that had a slot before come first. Crews take turns: a crew that got a slot moves behind the others.
//
// Slots of runs and slots of tasks are counted separately, each up to the limit.
//
//	queue is      a new run                a waiting run     a waiting task
//	active        waits or passes          passes            passes
//	paused        waits                    waits             waits
//	draining      is denied                passes            waits
//	removed       is denied                is denied         is refused
//
// If overflow of the queue is skip or fail, a run that would have to wait for a slot is denied. If
// lock_policy of the run is fail, a run that would have to wait for a lock is denied, too. A suspended run
// that wants a slot again always waits, and so does a task.
//
// # Invariants
//
//	I1  No run gets a slot while its line uses as many as the limit. Only after a lower limit are more in use.
//	I2  The holders of a lock are one family.
//	I3  A claimant is known (field of) from its Ask to its Leave or denial, or only the store keeps it. One
//	    that is not known changes nothing when it leaves again.
//	I4  If a run or task could pass, its line is in open, its lock in freed, or its list in dirty; or wake
//	    is the time at which it can.
//	I5  Grants rise: the number of the transaction, then the count in it.
//	I6  The state follows from the rows and from the messages on their way. So it may be dropped
//	    between two transactions.
//
// TestExhaustive plays the orders of events over small sets of runs and checks I1 to I6 after each one: I6 by
// Diff, I4 by a second state that is filled from the rows and must find nothing to do. It does not remove
// queues, move promised claims, or call the State from the Shell; tests of package engine do.
//
// # Memory
//
// A line may have a million waiting runs. A State has in memory the runs that hold something and, for each
// line, a window of its first waiting runs (window.go). Fill reads more when a window is thin. The number of
// runs in memory that wait for one lock is bounded, too, so that they do not hide the runs behind them.
//
// Reading order: state.go, claims.go (runs), tasks.go (crews), window.go, load.go, check.go; order.go and
// words.go are the rules that explanations share.
package admission
