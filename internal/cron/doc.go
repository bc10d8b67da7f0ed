// Package cron computes the instants of schedules.
//
// A [Schedule] is a set of instants, whole seconds between 1970 and 2199, that can be asked
// three things: the next instant, the previous one, and the number in a span. It comes
// from cron text ([Parse]), from an interval ([Every]), from fixed instants ([At]) or from a
// plain form ([Daily], [Weekly], [Monthly], [Annually]); it can be cut to a span
// ([Schedule.Between]), to days of a calendar ([Schedule.On]), and joined ([Union]).
// Schedules never change and nothing here reads a clock: "now" is an argument.
//
// # Grammar
//
// Five fields (minute, hour, day of month, month, day of week), six (second first) or seven
// (second first, year last), divided by blanks:
//
//	second        0–59
//	minute        0–59
//	hour          0–23
//	day of month  1–31, L (last), L-3 (third before the last), LW (last Monday to Friday),
//	              15W (Monday to Friday nearest to the 15th, never in another month)
//	month         1–12 or jan–dec
//	day of week   0–7 or sun–sat (0 and 7 are Sunday, in every form), 5L (last Friday),
//	              5#3 (third Friday)
//	year          1970–2199
//
// A field is a list: 1,15,20-25. A range may have a step: 10-40/10, */5 from the lowest
// value, 5/15 from 5 to the highest. Ranges of hours, months and days of the week may wrap:
// 22-2, nov-feb, fri-mon. H is a value chosen by a hash of [Options.Seed], so that many
// schedules of the same text do not fire at the same moment: H, H/15, H(0-29), H(0-29)/10;
// as a day of the month it is 1–28. ? is another * for the two day fields. @yearly,
// @annually, @monthly, @weekly, @daily, @midnight, @hourly and @every 1h30m are accepted,
// and a zone in front: CRON_TZ=Europe/Berlin 0 9 * * *.
//
// If day of month and day of week are both restricted, a day that satisfies either is meant;
// otherwise both must hold. As in Vixie cron a field that begins with * or ? does not count as
// restricted, so "0 0 */2 * 1" is the Mondays with an odd number.
//
// # Clock changes
//
// An expression whose hour is * or has a step, and every interval, follows elapsed time: it
// fires in both passes of a repeated hour and has nothing in a missing one. All others name
// fixed hours, to which two policies apply. A wall time that a clock change leaves out
// ([Options.Gap]) fires at the first instant after the change ([RunAfter]), not at all
// ([SkipGap]), or at the last whole minute before the change, the last second if the form
// has seconds ([RunBefore]). A wall time that comes twice ([Options.Repeat]) fires at the
// first ([Once]), the second ([Second]) or at both ([Both]). Instants are a set: several wall
// times that fall on one instant are one firing.
//
// The zone data are those of the program, whatever the machine has: see zonedata.go.
package cron
