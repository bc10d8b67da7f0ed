package tally

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestQuantileOfLongest: the last bucket has no end, so its percentile is the longest duration.
func TestQuantileOfLongest(t *testing.T) {
	h := Hist{}
	h.Add(1)
	for _, d := range []dag.Micros{200 * 24 * 3600 * 1e6, 400 * 24 * 3600 * 1e6} {
		h.Add(d)
		if q := h.Quantile(0.99); q != d {
			t.Errorf("the 99th percentile is %d, the longest %d", q, d)
		}
	}
}

// TestBuckets checks the error of every bucket: the middle is at most 1/64 away from its smallest and its
// largest duration.
func TestBuckets(t *testing.T) {
	last := int32(-1)
	for _, d := range []dag.Micros{0, 1, 63, 64, 65, 127, 128, 1000, 999_999, 1 << 30, 1<<43 - 2} {
		for _, v := range []dag.Micros{max(d-1, 0), d, d + 1} {
			i := indexOf(v)
			if i < 0 || i >= bucketsMax {
				t.Fatalf("%d µs: bucket %d", v, i)
			}
			if off := middleOf(i) - v; v < 1<<43 && max(off, -off)*64 > v {
				t.Errorf("%d µs are in the bucket of %d µs", v, middleOf(i))
			}
		}
	}
	for d := dag.Micros(0); d < 1<<43; d += d/100 + 1 {
		if i := indexOf(d); i < last || i > last+1 && d < exactBelow {
			t.Fatalf("%d µs: bucket %d follows %d", d, i, last)
		} else {
			last = i
		}
	}
	if indexOf(1<<62) != bucketsMax-1 || last != bucketsMax-1 {
		t.Errorf("the last bucket is %d, that of 100 days %d", indexOf(1<<62), last)
	}
}

// TestQuantiles compares percentiles with those of the sorted durations, also after a merge.
func TestQuantiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []dag.Micros
	var parts [3]Hist
	for i := range 5000 {
		d := dag.Micros(rnd.ExpFloat64() * 3e6)
		all = append(all, d)
		parts[i%3].Add(d)
	}
	h := Hist{}
	for i := range parts {
		h.Merge(&parts[i])
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.95, 0.99, 1} {
		exact := all[max(0, int(q*float64(len(all))+0.999999)-1)]
		if off := h.Quantile(q) - exact; float64(max(off, -off)) > 0.016*float64(exact)+1 {
			t.Errorf("quantile %v is %d, exactly %d", q, h.Quantile(q), exact)
		}
	}
	if h.N != 5000 || h.Max != all[4999] || h.Quantile(1) > h.Max {
		t.Errorf("n %d, max %d", h.N, h.Max)
	}
	if (&Hist{}).Quantile(0.5) != 0 || (&Hist{}).Mean() != 0 {
		t.Error("an empty histogram has durations")
	}
}

// TestPacked: a packed cell is read unchanged, and a cell with any damaged byte is refused.
func TestPacked(t *testing.T) {
	c := Cell{Ends: [outcomes]int64{3, 2, 1, 7}, Last: 99}
	for _, d := range []dag.Micros{5, 70, 70, 3_000_000, 1 << 45} {
		c.Took[Succeeded].Add(d)
		c.Wait.Add(d / 2)
	}
	c.Took[Stopped].Add(0)
	row := store.TallyRow{N: 13, Data: c.Pack()}
	back, err := Unpack(&row)
	if err != nil || !bytes.Equal(back.Pack(), row.Data) || back.Took[Succeeded].N != 5 {
		t.Fatalf("%+v, %v", back, err)
	}
	for i := range row.Data {
		bad := row
		bad.Data = bytes.Clone(row.Data)
		bad.Data[i] ^= 4
		if _, err := Unpack(&bad); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("byte %d: %v", i, err)
		}
		bad.Data = row.Data[:i]
		if _, err := Unpack(&bad); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
	row.N++
	if _, err := Unpack(&row); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("another count: %v", err)
	}
	full := Cell{}
	for i := range int32(bucketsMax) {
		full.Took[Succeeded].Add(middleOf(i))
	}
	if n := len(full.Pack()); n > 3000 {
		t.Errorf("a cell with every bucket has %d bytes", n)
	}
}
