// Package trigger defines the meaning of triggers: which instants of a schedule are due and how each is
// decided, how a sensor reacts to events, which instants a backfill has, the forecast for a span of time, and
// the check of a ledger.
//
// The package is pure: row, clock and event are arguments, and a plan is the result. The engine calls
// [Planner], and writes the plan in its transaction. Only [Watch], which reads folders, is a service with a
// Run of its own.
//
// # The decision of an instant
//
// An instant of a schedule is decided once, by the first plan whose clock has reached it:
//
//   - An instant that is found within [lateAfter] is started. Its outcome is fired.
//   - An instant that is found later was missed because no process ran. The rule of catchup applies.
//     With none, the instant is missed. With latest, all due instants are merged into one run, which
//     has the newest instant. With all, the newest catchup_limit instants are started late, in their
//     order, and the older ones are missed.
//   - An instant older than delay_tolerance is missed with every catchup.
//   - An instant of a paused trigger is skipped.
//
// So after an outage, a schedule that fires several times a minute starts one run, unless catchup is all. An
// interval of one second that was down for a year causes one line and one run.
//
// Consecutive instants with the same outcome and without a run share one line, which has the first and the
// last instant and the number of instants. So a plan has at most a few lines and [startsMax] runs. If more
// runs are due, the next plan starts the rest: Decided is then before the clock, and Next is already due.
//
// # Order of decisions
//
// The key count is evaluated first. A schedule that has started its last run ends with the next plan, and
// later instants do not belong to it. Decided instants never change, so a plan for an earlier clock does
// nothing.
//
// Reading order: planner.go, declared.go, schedule.go; heard.go, again.go, absent.go; then watch.go, hook.go,
// expand.go, simulate.go and verify.go, which are independent of each other.
package trigger
