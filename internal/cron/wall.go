package cron

// Gap is the policy for a wall time that a clock change skips.
type Gap uint8

// The policies for a wall time that does not exist.
const (
	RunAfter  Gap = iota // run at the first instant after the change
	SkipGap              // the time is skipped
	RunBefore            // run at the last whole minute before the change, or second if the form has seconds
)

// gapNames and repeatNames are the names of the policies in the workflow file.
var (
	gapNames    = [...]string{"run_after", "skip", "run_before"}
	repeatNames = [...]string{"once", "second", "both"}
)

func (g Gap) String() string { return gapNames[g] }

// ParseGap reads "run_after" (or ""), "skip" or "run_before".
func ParseGap(s string) (Gap, error) {
	i, err := policy("gap", s, gapNames[:])
	return Gap(i), err
}

// Repeat is the policy for a wall time that occurs twice.
type Repeat uint8

// The policies for a wall time that occurs twice.
const (
	Once   Repeat = iota // the first pass
	Second               // the second pass
	Both                 // each pass
)

func (r Repeat) String() string { return repeatNames[r] }

// ParseRepeat reads "once" (or ""), "second" or "both".
func ParseRepeat(s string) (Repeat, error) {
	i, err := policy("repeat", s, repeatNames[:])
	return Repeat(i), err
}

func policy(field, s string, names []string) (int, error) {
	if s == "" {
		return 0, nil
	}
	for i, n := range names {
		if s == n {
			return i, nil
		}
	}
	return 0, bad(field, s, "is not a policy for clock changes", "write "+names[0]+", "+names[1]+" or "+names[2])
}

// wall is the source of every schedule with wall-clock times.
type wall struct {
	times  times
	zone   zone
	gap    Gap
	repeat Repeat
	grain  int64 // the step in seconds; 60 if the form has no seconds
	// elapsed is true if instants are compared with the wall clock. In that case no policy applies.
	elapsed bool
}

// piece is a part of a span that fires. The wall times are in walls, and off is their offset from UTC. If
// point is true, the piece is the single instant at, which replaces times that the clock skipped.
type piece struct {
	walls interval
	off   int64
	point bool
	at    int64
}

// pieces returns the parts of a span that fire, in the order of the instants and without duplicates.
func (w *wall) pieces(s span) []piece {
	walls := []interval{s.walls()}
	if w.elapsed {
		return []piece{{walls: walls[0], off: s.off}}
	}
	switch w.repeat {
	case Once:
		walls = w.zone.minusBefore(walls, s)
	case Second:
		walls = w.zone.minusAfter(walls, s)
	case Both:
	}
	all := make([]piece, 0, 3)
	if w.gap == RunAfter && s.start > always && w.times.any(w.zone.missing(w.zone.before(s), s)) {
		all = w.addPoint(all, walls, s.start, s.off)
	}
	for _, iv := range walls {
		all = append(all, piece{walls: iv, off: s.off})
	}
	if w.gap == RunBefore && s.end < never && w.times.any(w.zone.missing(s, w.zone.after(s))) {
		all = w.addPoint(all, walls, w.lastBefore(s), s.off)
	}
	return all
}

// addPoint adds an instant that replaces skipped wall times, unless the schedule also fires at that instant
// for another reason.
func (w *wall) addPoint(all []piece, walls []interval, at, off int64) []piece {
	for _, iv := range walls {
		if here := at + off; here >= iv.lo && here < iv.hi && w.times.has(here) {
			return all
		}
	}
	return append(all, piece{point: true, at: at})
}

// lastBefore returns the last whole minute or second of a span.
func (w *wall) lastBefore(s span) int64 {
	at := s.end - 1
	at -= floorMod(at+s.off, w.grain)
	return max(at, s.start)
}

// calm returns the part of a span that no clock change affects.
func (w *wall) calm(s span) interval {
	if w.elapsed {
		return interval{s.start, s.end}
	}
	return interval{s.start + reach, s.end - reach}
}

func (w *wall) next(after int64) (int64, bool) {
	for t := after + 1; ; {
		s := w.zone.at(t)
		if calm := w.calm(s); t >= calm.lo && t < calm.hi {
			if at, ok := w.times.first(t+s.off, calm.hi+s.off); ok {
				return at - s.off, true
			}
			t = calm.hi
		}
		if t < s.end {
			if at, ok := w.nextIn(s, t); ok {
				return at, true
			}
		}
		// The next instant comes from a wall time at most reach away. The search starts there, instead of going
		// through all spans.
		cause, ok := w.times.first(s.end-reach, secondMax)
		if !ok {
			return 0, false
		}
		t = max(s.end, cause-reach)
	}
}

// nextIn returns the first instant of a span that is not before t.
func (w *wall) nextIn(s span, t int64) (int64, bool) {
	for _, p := range w.pieces(s) {
		if p.point {
			if p.at >= t {
				return p.at, true
			}
			continue
		}
		if at, ok := w.times.first(max(p.walls.lo, t+p.off), p.walls.hi); ok {
			return at - p.off, true
		}
	}
	return 0, false
}

func (w *wall) prev(before int64) (int64, bool) {
	for t := before - 1; ; {
		s := w.zone.at(t)
		if calm := w.calm(s); t >= calm.lo && t < calm.hi {
			if at, ok := w.times.last(calm.lo+s.off, t+1+s.off); ok {
				return at - s.off, true
			}
			t = calm.lo - 1
		}
		if t >= s.start {
			if at, ok := w.prevIn(s, t); ok {
				return at, true
			}
		}
		cause, ok := w.times.last(0, s.start+reach)
		if !ok {
			return 0, false
		}
		t = min(s.start-1, cause+reach)
	}
}

// prevIn returns the last instant of a span that is not after t.
func (w *wall) prevIn(s span, t int64) (int64, bool) {
	all := w.pieces(s)
	for i := len(all) - 1; i >= 0; i-- {
		p := all[i]
		if p.point {
			if p.at <= t {
				return p.at, true
			}
			continue
		}
		if at, ok := w.times.last(p.walls.lo, min(p.walls.hi, t+1+p.off)); ok {
			return at - p.off, true
		}
	}
	return 0, false
}

// parts calls the function do with the pieces in [from, to), restricted to [from, to) and to their spans.
func (w *wall) parts(from, to int64, do func(piece)) {
	for t := from; t < to; {
		s := w.zone.at(t)
		for _, p := range w.pieces(s) {
			if p.point {
				if p.at >= t && p.at < to {
					do(p)
				}
				continue
			}
			p.walls.lo, p.walls.hi = max(p.walls.lo, t+p.off), min(p.walls.hi, to+p.off)
			if p.walls.lo < p.walls.hi {
				do(p)
			}
		}
		t = s.end
	}
}

func (w *wall) count(after, until int64) int64 {
	var n int64
	w.parts(after+1, until+1, func(p piece) {
		if p.point {
			n++
			return
		}
		n += w.times.count(p.walls.lo, p.walls.hi)
	})
	return n
}

func (w *wall) mark(b *dayBits, from int64) {
	w.parts(from, from+daySeconds, func(p piece) {
		if p.point {
			b.set(int(p.at - from))
			return
		}
		w.times.mark(b, p.walls.lo, p.walls.hi, from+p.off)
	})
}

func (w *wall) on(include, exclude Calendar) source {
	only := *w
	only.times.only = w.times.only.and(include, exclude)
	return &only
}
