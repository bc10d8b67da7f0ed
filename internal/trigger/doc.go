// Package trigger defines the meaning of triggers: which instants of a schedule are due and
// how each is decided, how a sensor reacts to events, which instants a backfill has, a
// forecast of a span of time, and the check of a ledger.
//
// The package is pure: the row, the clock and the event are arguments, and a plan is the
// result. The engine asks [Planner] and writes the plan in its transaction. Only [Watch],
// which looks into folders, is a service with a Run of its own.
//
// # The decision of an instant
//
// An instant of a schedule is decided once, by the first plan whose clock has reached it:
//
//   - An instant found within [lateAfter] is started: outcome fired.
//   - An instant found later was missed while no process ran, and catchup decides. With none
//     it is missed. With latest all due instants are merged into one run, that of the newest.
//     With all the newest catchup_limit instants are started late, in their order, and the
//     older ones are missed.
//   - An instant older than delay_tolerance is missed, whatever catchup is.
//   - An instant of a paused trigger is skipped.
//
// After such a gap a schedule that fires several times a minute starts one run, not one
// for each instant of the last minute, unless catchup is all: an interval of a second that
// was down for a year is one line and one run.
//
// Equal outcomes without a run are one line, from its first to its last instant with their
// number, so a plan has at most a few lines and [startsMax] runs. The next plan continues
// with the rest: Decided is then before the clock, and Next is due already.
//
// # Order of decisions
//
// count comes first: a schedule that has started its last run ends with the next plan, and
// later instants are not its own. Decided instants never change: a plan for an earlier clock
// does nothing.
//
// Reading order: planner.go, declared.go, schedule.go; heard.go, again.go, absent.go; then
// watch.go, hook.go, expand.go, simulate.go and verify.go, which are independent of each other.
package trigger
