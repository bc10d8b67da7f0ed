// Package admission decides which runs and tasks get the locks and queue slots that they name. It is pure: no
// clock, no store, no goroutine. The owner of store.GateShard runs it (package engine); explanations apply
// its smaller rules to rows (package inspect), so the two cannot differ.
//
// A line is the order in which runs wait for one queue or one lock. A family is a run with all runs that it
// has started, and they with theirs. A crew is the tasks of one run in one queue. A window is what a State
// knows of a line: the runs that hold something, and the first waiting ones.
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
// An event only notes what it makes possible: a line in which a run may now get through (open), a lock that
// is free (freed), a wait list of tasks (dirty). Serve and ServeTasks look at these and at nothing else. So
// the work of a transaction grows with its events and not with the number of waiting runs.
//
// The Shell carries out a decision at once, in the transaction that is being made: it writes the run's row,
// or a message to the owner of the run. A run that continues may end in the same transaction and leave, so
// the methods of the Shell may call the State again.
//
// # The rules
//
// A claim names locks, a queue, or both. A run first waits for all of its locks and takes them in one step.
// Then it waits for a queue slot, with its locks set aside for it in memory; its row still says that it asks.
// A run that waits for locks has none, and a run that has a queue slot waits for nothing. So there is no
// deadlock, with one exception: a run that another run has started uses the locks of its family. Such a
// deadlock is found when it arises (circle), and its youngest waiting run is denied.
//
// A lock goes to the run that asked first (turn). A line goes by the time of asking; in a queue by priority
// the better level is first, and a level improves with the wait (Aged). Runs that had a slot before and were
// suspended come first. Crews take turns: one that got a slot moves behind the others.
//
// Slots of runs and slots of tasks are counted apart, each up to the limit.
//
//	queue is      a new run                a waiting run     a waiting task
//	active        waits or passes          passes            passes
//	paused        waits                    waits             waits
//	draining      is denied                passes            waits
//	removed       is denied                is denied         is refused
//
// If overflow of the queue is skip or fail, a run that would have to wait for a slot is denied. If
// lock_policy of the run is fail, so is one that would have to wait for a lock. A run that wants its slot
// back always waits, and so does a task.
//
// # Invariants
//
//	I1  No run gets a slot while its line uses as many as the limit lets. Only a lower limit leaves more.
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
// A line may have a million waiting runs. A State knows those that hold something and a window of each line's
// first ones (window.go); Fill reads more when a window is thin. Runs that wait for one crowded lock are
// known up to a bound, too, so they do not hide the runs behind them.
//
// Reading order: state.go, claims.go (runs), tasks.go (crews), window.go, load.go, check.go; order.go and
// words.go are the rules that explanations share.
package admission
