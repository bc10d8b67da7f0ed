package cron

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The oracle of this file walks real instants one by one and asks package time what the wall
// clock shows. It shares no code with the package: neither the civil arithmetic nor the
// parser (each rule comes with a predicate of its own), nor the handling of clock changes.

// shown is what a wall clock shows.
type shown struct{ y, mo, d, h, mi, s, wd int }

// rule is an expression with its meaning.
type rule struct {
	text    string
	elapsed bool
	match   func(shown) bool
}

// walk holds every instant of a span in one zone, one unit apart.
type walk struct {
	unit, from int64
	low        int64   // the wall time of the first label
	walls      []int64 // the wall time at each instant, as if it were UTC
	labels     []shown // every wall time from the first to the last, one unit apart
	images     [][]int // for each label, the indexes of the instants that show it
	jumps      []int   // instants at which the wall clock does not advance by one unit
}

func newWalk(loc *time.Location, from, to, unit int64) *walk {
	w := &walk{unit: unit, from: from}
	low, high := int64(1<<62), int64(-1<<62)
	w.walls = make([]int64, 0, (to-from)/unit+1)
	for t := from; t < to; t += unit {
		_, off := time.Unix(t, 0).In(loc).Zone()
		wall := t + int64(off)
		if n := len(w.walls); n > 0 && wall != w.walls[n-1]+unit {
			w.jumps = append(w.jumps, n)
		}
		w.walls = append(w.walls, wall)
		low, high = min(low, wall), max(high, wall)
	}
	w.labels = make([]shown, 0, (high-low)/unit+1)
	for at := low; at <= high; at += unit {
		u := time.Unix(at, 0).UTC()
		y, mo, d := u.Date()
		h, mi, s := u.Clock()
		w.labels = append(w.labels, shown{y, int(mo), d, h, mi, s, int(u.Weekday())})
	}
	w.low = low
	w.images = make([][]int, len(w.labels))
	room := make([]int, len(w.walls)) // most labels have one image, so this avoids an allocation for each
	for i, wall := range w.walls {
		at := (wall - low) / unit
		if w.images[at] == nil {
			w.images[at] = room[i : i : i+1]
		}
		w.images[at] = append(w.images[at], i)
	}
	return w
}

// passedOver calls do with each instant at which the clock jumped over a label.
func (w *walk) passedOver(label int, do func(int)) {
	at := w.low + int64(label)*w.unit
	for _, i := range w.jumps {
		if w.walls[i-1] < at && at < w.walls[i] {
			do(i)
		}
	}
}

// matching returns the labels that a rule names.
func (w *walk) matching(r rule) []int {
	var all []int
	for label, what := range w.labels {
		if r.match(what) {
			all = append(all, label)
		}
	}
	return all
}

// fires returns the instants in [lo, hi) that follow from labels. policy holds the policies for gaps and
// repeats.
func (w *walk) fires(labels []int, elapsed bool, policy [2]int, lo, hi int64) []int64 {
	gap, repeat := Gap(policy[0]), Repeat(policy[1])
	var all []int64
	add := func(i int) {
		if at := w.from + int64(i)*w.unit; at >= lo && at < hi {
			all = append(all, at)
		}
	}
	for _, label := range labels {
		images := w.images[label]
		switch {
		case len(images) == 0:
			if elapsed || gap == SkipGap {
				break
			}
			w.passedOver(label, func(i int) {
				if gap == RunBefore {
					i--
				}
				add(i)
			})
		case elapsed || repeat == Both:
			for _, i := range images {
				add(i)
			}
		case repeat == Once:
			add(images[0])
		case repeat == Second:
			add(images[len(images)-1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var policies = func() (all [][2]int) {
	for g := range 3 {
		for r := range 3 {
			all = append(all, [2]int{g, r})
		}
	}
	return all
}()

// oracleRules are the expressions that are tried on every clock change of the world.
var oracleRules = []rule{
	{"30 2 * * *", false, func(t shown) bool { return t.mi == 30 && t.h == 2 }},
	{"0 0 * * *", false, func(t shown) bool { return t.mi == 0 && t.h == 0 }},
	{"15 0-4,23 * * *", false, func(t shown) bool { return t.mi == 15 && (t.h <= 4 || t.h == 23) }},
	{"59,0 22-3 * * *", false, func(t shown) bool { return (t.mi == 0 || t.mi == 59) && (t.h >= 22 || t.h <= 3) }},
	{"*/20 1 * * 0,6", false, func(t shown) bool { return t.mi%20 == 0 && t.h == 1 && (t.wd == 0 || t.wd == 6) }},
	{"45 1,2 1-15 * 0", false, func(t shown) bool {
		return t.mi == 45 && (t.h == 1 || t.h == 2) && (t.d <= 15 || t.wd == 0)
	}},
	{"10 */3 * * *", true, func(t shown) bool { return t.mi == 10 && t.h%3 == 0 }},
	{"7,37 * * * *", true, func(t shown) bool { return t.mi == 7 || t.mi == 37 }},
}

// changes lists the clock changes of a zone in the years 2000 to 2037.
func changes(loc *time.Location) []int64 {
	var all []int64
	end := time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC)
	for t := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).In(loc); t.Before(end); {
		_, next := t.ZoneBounds()
		if next.IsZero() {
			break
		}
		if !next.After(t) {
			next = t.Add(24 * time.Hour) // see zone.at about this property of package time
		}
		_, before := next.Add(-time.Second).Zone()
		if _, after := next.Zone(); after != before && next.Before(end) {
			all = append(all, next.Unix())
		}
		t = next
	}
	return all
}

// world returns each different zone once. It leaves out links such as Asia/Calcutta, which behave like their
// targets.
func world(t testing.TB) []*time.Location {
	t.Helper()
	seen := map[string]bool{}
	var all []*time.Location
	for _, name := range strings.Fields(zoneNames) {
		loc, err := LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		var sign strings.Builder
		_, off := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).In(loc).Zone()
		fmt.Fprint(&sign, off)
		for _, at := range changes(loc) {
			_, off := time.Unix(at, 0).In(loc).Zone()
			fmt.Fprint(&sign, " ", at, off)
		}
		if !seen[sign.String()] {
			seen[sign.String()] = true
			all = append(all, loc)
		}
	}
	return all
}

// TestEveryClockChange compares package and oracle around every clock change of every zone
// from 2000 to 2037, two days to either side, under all nine policies.
func TestEveryClockChange(t *testing.T) {
	zones := world(t)
	if len(zones) < 150 {
		t.Fatalf("only %d different zones: the list is not complete", len(zones))
	}
	var seen, compared atomic.Int64
	t.Run("zones", func(t *testing.T) {
		for _, loc := range zones {
			t.Run(loc.String(), func(t *testing.T) {
				t.Parallel()
				made := schedules(t, loc)
				for i, at := range changes(loc) {
					if testing.Short() && i%10 != 0 {
						continue
					}
					compared.Add(aroundChange(t, made, loc, at))
					seen.Add(1)
				}
			})
		}
	})
	t.Logf("%d zones, %d clock changes, %d instants compared", len(zones), seen.Load(), compared.Load())
}

func schedules(t *testing.T, loc *time.Location) [][]*Schedule {
	var made [][]*Schedule
	for _, r := range oracleRules {
		var of []*Schedule
		for _, p := range policies {
			s, err := Parse(r.text, Options{Zone: loc.String(), Gap: Gap(p[0]), Repeat: Repeat(p[1])})
			if err != nil {
				t.Fatal(err)
			}
			of = append(of, s)
		}
		made = append(made, of)
	}
	return made
}

func aroundChange(t *testing.T, made [][]*Schedule, loc *time.Location, at int64) (compared int64) {
	const day = 86400
	lo, hi := at-2*day, at+2*day
	w := newWalk(loc, at-3*day-day/4, at+3*day+day/4, 60) // a wall time is never farther from its instant than this
	for i, r := range oracleRules {
		labels := w.matching(r)
		for j, p := range policies {
			if r.elapsed && j > 0 {
				break // no policy applies
			}
			want := w.fires(labels, r.elapsed, p, lo, hi)
			compared += int64(len(want))
			if err := compare(made[i][j], want, lo, hi); err != nil {
				t.Fatalf("%s in %s, gap %s, repeat %s, change at %s: %v", r.text, loc, Gap(p[0]), Repeat(p[1]),
					time.Unix(at, 0).In(loc), err)
			}
		}
	}
	return compared
}

// compare checks that a schedule has exactly the wanted instants in [lo, hi). It walks forwards and
// backwards, and counts the whole range and the range from each instant to the end.
func compare(s *Schedule, want []int64, lo, hi int64) error {
	in := func(at int64) time.Time { return time.Unix(at, 0).In(s.zone) }
	at := in(lo - 1)
	for _, x := range want {
		got, ok := s.Next(at)
		if !ok || got.Unix() != x {
			return fmt.Errorf("Next(%s) = %s, %v; want %s", at, got, ok, in(x))
		}
		at = got
	}
	if got, ok := s.Next(at); ok && got.Unix() < hi {
		return fmt.Errorf("Next(%s) = %s; want none before %s", at, got, in(hi))
	}
	at = in(hi)
	for i := len(want) - 1; i >= 0; i-- {
		got, ok := s.Prev(at)
		if !ok || got.Unix() != want[i] {
			return fmt.Errorf("Prev(%s) = %s, %v; want %s", at, got, ok, in(want[i]))
		}
		at = got
	}
	if got, ok := s.Prev(at); ok && got.Unix() >= lo {
		return fmt.Errorf("Prev(%s) = %s; want none since %s", at, got, in(lo))
	}
	if n := s.Count(in(lo-1), in(hi-1)); n != int64(len(want)) {
		return fmt.Errorf("Count = %d from %s to %s; want %d", n, in(lo), in(hi), len(want))
	}
	if len(want) > 0 { // the range is also cut in the middle, at an instant
		mid := len(want) / 2
		if n := s.Count(in(want[mid]), in(hi-1)); n != int64(len(want)-mid-1) {
			return fmt.Errorf("Count after %s = %d; want %d", in(want[mid]), n, len(want)-mid-1)
		}
		if n := s.Count(in(lo-1), in(want[mid])); n != int64(mid+1) {
			return fmt.Errorf("Count until %s = %d; want %d", in(want[mid]), n, mid+1)
		}
	}
	return nil
}
