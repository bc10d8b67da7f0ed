// Package cron computes the instants of schedules.
//
// A [Schedule] is a set of instants, which are whole seconds between 1970 and 2199. It returns the next
// instant, the previous one, and the number of instants in a span. A Schedule is made from cron text
// ([Parse]), from an interval ([Every]), from given instants ([At]), or from a plain form ([Daily], [Weekly],
// [Monthly], [Annually]). It can be restricted to a span ([Schedule.Between]) or to days of a calendar
// ([Schedule.On]), and several can be joined ([Union]). A Schedule never changes. No function of the package
// reads a clock: the present time is an argument.
//
// # Grammar
//
// A text has five fields (minute, hour, day of month, month, day of week), six (second first) or seven
// (second first, year last), which are separated by blanks:
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
// A field is a list, such as 1,15,20-25. A range may have a step: 10-40/10. */5 begins at the lowest value,
// and 5/15 goes from 5 to the highest value. Ranges of hours, months and days of the week may wrap: 22-2,
// nov-feb, fri-mon. H is a value that a hash of [Options.Seed] determines, so that many schedules with the
// same text do not fire at the same moment. Its forms are H, H/15, H(0-29) and H(0-29)/10. As a day of the
// month, H is 1–28. In the two day fields, ? means the same as *. The texts @yearly, @annually, @monthly,
// @weekly, @daily, @midnight, @hourly and @every 1h30m are also accepted. A zone may come first:
// CRON_TZ=Europe/Berlin 0 9 * * *.
//
// If day of month and day of week are both restricted, a day is selected if it matches either field.
// Otherwise a day must match both. As in Vixie cron, a field that begins with * or ? does not count as
// restricted, so "0 0 */2 * 1" selects the Mondays with an odd number.
//
// # Clock changes
//
// An expression whose hour is * or has a step, and every interval, follows elapsed time: it fires in both
// passes of a repeated hour, and not in a skipped hour. All other expressions name wall times, to which two
// policies apply. If a clock change skips a wall time ([Options.Gap]), the schedule fires at the first
// instant after the change ([RunAfter]), not at all ([SkipGap]), or at the last whole minute before the
// change, or the last second if the form has seconds ([RunBefore]). If a wall time occurs twice
// ([Options.Repeat]), the schedule fires at the first occurrence ([Once]), the second ([Second]), or both
// ([Both]). Instants are a set, so several wall times with the same instant fire once.
//
// The zone data are part of the program and not those of the machine: see zonedata.go.
package cron
