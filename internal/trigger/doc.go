// Package trigger knows what triggers mean: which instants of a schedule are due and what
// becomes of them, what a sensor makes of what it hears, which instants a backfill has,
// what a span of time will bring, and whether a ledger tells the truth.
//
// All of it is pure: the row, the clock and the event are arguments, a plan is the answer.
// [Planner] is what the engine asks; it transacts what the plan says. Two things here are
// services with a Run: [Watch], which looks into folders, and nothing else.
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
// Reading order: planner.go, declared.go, schedule.go; heard.go, again.go, absent.go; then
// watch.go, hook.go, expand.go, simulate.go and verify.go, which stand alone.
package trigger
