package cron

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawZone draws an artificial zone with several clock changes within hours of each other, by up to a day.
// Its format is RFC 8536, version 1.
func drawZone(t *rapid.T, around int64) *time.Location {
	n := rapid.IntRange(1, 6).Draw(t, "changes")
	apart := rapid.SampledFrom([]int{100, 400, 1500}).Draw(t, "apart")
	var at []int64
	for range n {
		at = append(at, around+int64(rapid.IntRange(-apart, apart).Draw(t, "minute"))*60)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	steps := []int{15, 30, 60, 60, 90, 120, 1380, 1440}
	b := append([]byte("TZif"), make([]byte, 16)...)
	for _, count := range []int{0, 0, 0, len(at), len(at) + 1, 4} {
		b = binary.BigEndian.AppendUint32(b, uint32(count))
	}
	for _, x := range at {
		b = binary.BigEndian.AppendUint32(b, uint32(x))
	}
	for i := range at {
		b = append(b, byte(i+1))
	}
	off := 0
	for i := range len(at) + 1 {
		if i > 0 {
			step := rapid.SampledFrom(steps).Draw(t, "step")
			if off > 0 || off == 0 && rapid.Bool().Draw(t, "back") {
				step = -step
			}
			off += step
		}
		b = binary.BigEndian.AppendUint32(b, uint32(int32(off*60)))
		b = append(b, 0, 0)
	}
	b = append(b, "XXX\x00"...)
	loc, err := time.LoadLocationFromTZData("Test/Synthetic", b)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// TestCrowdedChanges compares the package with the oracle where gaps and repeats overlap. A wall time may
// occur three times, or may be skipped by one change and occur after another one.
func TestCrowdedChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := int64(1_800_000_000)/3600*3600 + int64(rapid.IntRange(0, 23).Draw(t, "hour"))*3600
		loc := drawZone(t, at)
		r := drawRule(t, false)
		p := drawPolicy(t)
		s, err := Parse(r.text, Options{Gap: Gap(p[0]), Repeat: Repeat(p[1])})
		if err != nil {
			t.Skip(err)
		}
		s.zone = loc
		s.parts[0].source.(*wall).zone.loc = loc
		lo, hi := at-2*86400, at+2*86400
		w := newWalk(loc, lo-2*86400, hi+2*86400, 60)
		want := w.fires(w.matching(r), r.elapsed, p, lo, hi)
		if len(want) > 500 {
			hi = want[500]
			want = want[:500]
		}
		if err := compare(s, want, lo, hi); err != nil {
			t.Fatalf("%s, %v, changes %v: %v", r.text, p, w.jumps, err)
		}
	})
}
