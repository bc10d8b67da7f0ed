package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Clock is a time of day on a wall clock, from 00:00:00 to 23:59:59.
type Clock struct{ Hour, Minute, Second int }

// ParseClock reads "06:00", "6:00" or "06:00:30".
func ParseClock(s string) (Clock, error) {
	parts := strings.Split(strings.TrimSpace(s), ":")
	var c Clock
	into := []*int{&c.Hour, &c.Minute, &c.Second}
	if len(parts) < 2 || len(parts) > len(into) {
		return Clock{}, badClock(s)
	}
	for i, p := range parts {
		n, ok := number(p)
		if !ok || len(p) > 2 || i > 0 && len(p) != 2 {
			return Clock{}, badClock(s)
		}
		*into[i] = n
	}
	if !c.valid() {
		return Clock{}, badClock(s)
	}
	return c, nil
}

func badClock(s string) error {
	return bad("time of day", s, "is not a time of day", "write hours and minutes from 00:00 to 23:59, such as 06:30, or 06:30:15")
}

func (c Clock) valid() bool {
	return c.Hour >= 0 && c.Hour < 24 && c.Minute >= 0 && c.Minute < 60 && c.Second >= 0 && c.Second < 60
}

func (c Clock) seconds() int { return c.Hour*3600 + c.Minute*60 + c.Second }

func (c Clock) String() string {
	if c.Second != 0 {
		return fmt.Sprintf("%02d:%02d:%02d", c.Hour, c.Minute, c.Second)
	}
	return fmt.Sprintf("%02d:%02d", c.Hour, c.Minute)
}

func clockOf(ofDay int) Clock { return Clock{ofDay / 3600, ofDay / 60 % 60, ofDay % 60} }

// clocks is a set of times of day: every combination of three sets, or a list.
type clocks struct {
	hours   uint32
	minutes uint64
	seconds uint64
	list    []int // seconds of day, ascending, without duplicates; nil means the combinations
}

// total returns the number of times in a whole day.
func (c *clocks) total() int {
	if c.list != nil {
		return len(c.list)
	}
	return bits.OnesCount32(c.hours) * bits.OnesCount64(c.minutes) * bits.OnesCount64(c.seconds)
}

// first returns the first time of day that is not before a given second of the day. It returns -1 if there is
// none.
func (c *clocks) first(from int) int {
	if c.list != nil {
		i, _ := slices.BinarySearch(c.list, from)
		if i == len(c.list) {
			return -1
		}
		return c.list[i]
	}
	h, m, s := from/3600, from/60%60, from%60
	if c.hours>>h&1 != 0 {
		if c.minutes>>m&1 != 0 {
			if rest := c.seconds >> s; rest != 0 {
				return h*3600 + m*60 + s + bits.TrailingZeros64(rest)
			}
		}
		if rest := c.minutes >> m >> 1; rest != 0 {
			return h*3600 + (m+1+bits.TrailingZeros64(rest))*60 + bits.TrailingZeros64(c.seconds)
		}
	}
	rest := c.hours >> h >> 1
	if rest == 0 {
		return -1
	}
	return (h+1+bits.TrailingZeros32(rest))*3600 + bits.TrailingZeros64(c.minutes)*60 + bits.TrailingZeros64(c.seconds)
}

// last returns the last time of day before a given second of the day (1…86400). It returns -1 if there is
// none.
func (c *clocks) last(below int) int {
	if c.list != nil {
		i, _ := slices.BinarySearch(c.list, below)
		if i == 0 {
			return -1
		}
		return c.list[i-1]
	}
	top := below - 1
	h, m, s := top/3600, top/60%60, top%60
	if c.hours>>h&1 != 0 {
		if c.minutes>>m&1 != 0 {
			if rest := c.seconds & (2<<s - 1); rest != 0 {
				return h*3600 + m*60 + bits.Len64(rest) - 1
			}
		}
		if rest := c.minutes & (1<<m - 1); rest != 0 {
			return h*3600 + (bits.Len64(rest)-1)*60 + bits.Len64(c.seconds) - 1
		}
	}
	rest := c.hours & (1<<h - 1)
	if rest == 0 {
		return -1
	}
	return (bits.Len32(rest)-1)*3600 + (bits.Len64(c.minutes)-1)*60 + bits.Len64(c.seconds) - 1
}

// count returns the number of times of day before a given second of the day (0…86400).
func (c *clocks) count(below int) int {
	if c.list != nil {
		i, _ := slices.BinarySearch(c.list, below)
		return i
	}
	h, m, s := below/3600, below/60%60, below%60
	perMinute := bits.OnesCount64(c.seconds)
	n := bits.OnesCount32(c.hours&(1<<h-1)) * bits.OnesCount64(c.minutes) * perMinute
	if c.hours>>h&1 != 0 {
		n += bits.OnesCount64(c.minutes&(1<<m-1)) * perMinute
		if c.minutes>>m&1 != 0 {
			n += bits.OnesCount64(c.seconds & (1<<s - 1))
		}
	}
	return n
}

// dayBits marks the seconds of one day.
type dayBits [daySeconds/64 + 1]uint64

func (b *dayBits) set(sec int) { b[sec>>6] |= 1 << (sec & 63) }

// keep removes the marks outside of the seconds lo to hi. Both are included.
func (b *dayBits) keep(lo, hi int64) {
	for i := range b {
		first := int64(i) * 64
		if lo > first {
			b[i] &^= 1<<min(lo-first, 64) - 1
		}
		if hi < first+63 {
			b[i] &= 1<<max(hi+1-first, 0) - 1
		}
	}
}

func (b *dayBits) count() int64 {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return int64(n)
}

// mark sets in b the times of day in [lo, hi), shifted by shift seconds.
func (c *clocks) mark(b *dayBits, shift, lo, hi int) {
	if c.list != nil {
		for i, _ := slices.BinarySearch(c.list, lo); i < len(c.list) && c.list[i] < hi; i++ {
			b.set(c.list[i] + shift)
		}
		return
	}
	for hs := c.hours; hs != 0; hs &= hs - 1 {
		for ms := c.minutes; ms != 0; ms &= ms - 1 {
			at := bits.TrailingZeros32(hs)*3600 + bits.TrailingZeros64(ms)*60
			if at+60 <= lo || at >= hi {
				continue
			}
			pattern := c.seconds
			if at < lo {
				pattern = pattern >> (lo - at) << (lo - at)
			}
			if at+60 > hi {
				pattern &= 1<<(hi-at) - 1
			}
			// Nothing outside [lo, hi) is left, so a bit below the array is not set.
			for pattern != 0 && at+shift < 0 {
				b.set(at + shift + bits.TrailingZeros64(pattern))
				pattern &= pattern - 1
			}
			if pattern != 0 {
				word, bit := (at+shift)>>6, (at+shift)&63
				b[word] |= pattern << bit
				if over := pattern >> (63 - bit) >> 1; over != 0 {
					b[word+1] |= over
				}
			}
		}
	}
}
