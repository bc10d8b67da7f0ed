// Package trigger knows what triggers mean: which instants of a schedule are due and what
// becomes of them, what a sensor makes of what it hears, which instants a backfill has,
// what a span of time will bring, and whether a ledger tells the truth.
//
// All of it is pure: the row, the clock and the event are arguments, a plan is the answer.
// [Planner] is what the engine asks; it transacts what the plan says. Only [Watch], which
// looks into folders, is a service with a Run of its own.
//
// # What becomes of an instant
//
// An instant of a schedule is decided once, by the first plan whose clock has reached it:
//
//   - Found within [lateAfter] it is started: outcome fired.
//   - Found later it was missed while nothing ran. catchup says what follows: with none it
//     is missed. With latest one run, that of the newest instant due, stands for all of
//     them: they are merged into it. With all each of the newest catchup_limit is started
//     late, in their order; the older ones are missed.
//   - Older than delay_tolerance it is missed, whatever catchup says.
//   - While the trigger was paused it is skipped.
//
// After such a gap a schedule that fires several times a minute starts one run, not one
// for each instant of the last minute, unless catchup is all: an interval of a second that
// was down for a year is one line and one run.
//
// Equal outcomes without a run are one line, from its first to its last instant with their
// number, so a plan is never longer than a few lines and [startsMax] runs. What is owed
// beyond that follows in the next plan: its Decided is then before the clock, its Next is
// due already.
//
// # Who decides
//
// count is looked at before anything else: a schedule that has started its last run ends
// with the next plan, and what comes after that run is no instant of it. The clock that a
// plan is given never matters for what is decided already: a plan for an earlier one
// changes nothing.
//
// Reading order: planner.go, declared.go, schedule.go; heard.go, again.go, absent.go; then
// watch.go, hook.go, expand.go, simulate.go and verify.go, which stand alone.
package trigger
