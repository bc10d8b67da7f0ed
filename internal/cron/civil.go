package cron

import "time"

// The years whose days and instants exist for this package. The last year bounds every search. The tz
// database makes no statement about later years.
const (
	yearMin = 1970
	yearMax = 2199

	daySeconds = 86400
	dayMax     = 84006 // days from 1970-01-01 to 2200-01-01
	secondMax  = dayMax * daySeconds
)

// daysFrom returns the number of days from 1970-01-01 to a date of the Gregorian calendar. The algorithm is
// that of Howard Hinnant, "chrono-compatible low-level date algorithms". Its years begin in March, so that
// the leap day is the last day of a year.
func daysFrom(y, m, d int) int {
	if m <= 2 {
		y--
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	doy := (153*((m+9)%12)+2)/5 + d - 1
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

// civil computes the inverse of daysFrom.
func civil(day int) (y, m, d int) {
	day += 719468
	era := floorDiv(day, 146097)
	doe := day - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	y, m, d = yoe+era*400, mp+3, doy-(153*mp+2)/5+1
	if m > 12 {
		m -= 12
	}
	if m <= 2 {
		y++
	}
	return y, m, d
}

func leap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

// daysIn returns the length of a month.
func daysIn(y, m int) int {
	if m == 2 {
		if leap(y) {
			return 29
		}
		return 28
	}
	return 30 + (m+m>>3)&1
}

// weekday returns the weekday of a day that is counted from 1970-01-01, a Thursday. 0 is Sunday.
func weekday(day int) int { return floorMod(day+4, 7) }

// inYears reports whether a day is within the years of this package.
func inYears(day int) bool { return day >= 0 && day < dayMax }

// split divides seconds since 1970, on a wall clock or in UTC, into the day and the second of the day.
func split(sec int64) (day, ofDay int) {
	d := sec / daySeconds
	s := sec - d*daySeconds
	if s < 0 {
		d, s = d-1, s+daySeconds
	}
	return int(d), int(s)
}

func join(day, ofDay int) int64 { return int64(day)*daySeconds + int64(ofDay) }

func floorDiv[T int | int64](a, b T) T {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod[T int | int64](a, b T) T { return a - floorDiv(a, b)*b }

// floorSecond returns the last whole second that is not after t. ceilSecond returns the first whole second
// that is not before t. Both results are at most two days outside of the years of this package.
func floorSecond(t time.Time) int64 {
	return min(max(t.Unix(), -reach-1), secondMax+reach+1)
}

func ceilSecond(t time.Time) int64 {
	s := floorSecond(t)
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}
