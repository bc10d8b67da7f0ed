package tally

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"skein.dev/skein/internal/dag"
)

const (
	// exactBelow is the number of microseconds below which a duration has a bucket of its own.
	exactBelow = 64
	// octave is the number of buckets between a duration and its double: the middle of a bucket is at most
	// 1/64 away from each of its durations.
	octave = 32
	// bucketsMax is the number of buckets. The last one has all durations from 100 days on.
	bucketsMax = exactBelow + 37*octave
)

// Hist counts durations in buckets. The zero value is empty. Histograms are merged without further error.
type Hist struct {
	N       int64
	Sum     dag.Micros
	Max     dag.Micros
	buckets []bucket // sorted by index
}

type bucket struct {
	index int32
	n     int64
}

// indexOf returns the index of the bucket for a duration.
func indexOf(d dag.Micros) int32 {
	v := uint64(max(d, 0))
	if v < exactBelow {
		return int32(v)
	}
	shift := bits.Len64(v) - 6
	return int32(min(exactBelow+uint64(shift-1)*octave+v>>shift-octave, bucketsMax-1))
}

// middleOf returns the duration in the middle of a bucket.
func middleOf(index int32) dag.Micros {
	if index < exactBelow {
		return dag.Micros(index)
	}
	shift := (index-exactBelow)/octave + 1
	return dag.Micros((octave+int64(index-exactBelow)%octave)<<shift + 1<<(shift-1))
}

// Add counts a duration.
func (h *Hist) Add(d dag.Micros) {
	d = max(d, 0)
	h.N, h.Sum, h.Max = h.N+1, h.Sum+d, max(h.Max, d)
	h.put(bucket{indexOf(d), 1})
}

func (h *Hist) put(b bucket) {
	i, there := slices.BinarySearchFunc(h.buckets, b.index, func(b bucket, index int32) int { return cmp.Compare(b.index, index) })
	if !there {
		h.buckets = slices.Insert(h.buckets, i, bucket{index: b.index})
	}
	h.buckets[i].n += b.n
}

// Merge adds all durations of another histogram.
func (h *Hist) Merge(other *Hist) {
	h.N, h.Sum, h.Max = h.N+other.N, h.Sum+other.Sum, max(h.Max, other.Max)
	for _, b := range other.buckets {
		h.put(b)
	}
}

// Quantile returns the duration that a share q of all durations does not exceed. It returns 0 if there are no
// durations.
func (h *Hist) Quantile(q float64) dag.Micros {
	rank := max(1, int64(math.Ceil(q*float64(h.N))))
	for _, b := range h.buckets {
		if rank -= b.n; rank <= 0 && b.index == bucketsMax-1 {
			return h.Max // the last bucket has no upper end, and therefore no middle
		} else if rank <= 0 {
			return min(middleOf(b.index), h.Max)
		}
	}
	return h.Max
}

// Mean returns the exact mean. It returns 0 if there are no durations.
func (h *Hist) Mean() dag.Micros {
	if h.N == 0 {
		return 0
	}
	return h.Sum / dag.Micros(h.N)
}

// pack appends the histogram: the sum, the maximum, the number of buckets, and for each bucket the distance
// from the previous one and the count.
func (h *Hist) pack(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(h.buckets)))
	if len(h.buckets) == 0 {
		return b
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(h.Sum)), uint64(h.Max))
	last := int32(0)
	for _, x := range h.buckets {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(x.index-last)), uint64(x.n))
		last = x.index
	}
	return b
}

func (h *Hist) unpack(u *unpacker) {
	n := u.uint()
	if n == 0 {
		return
	}
	if n > bucketsMax {
		u.bad = true
		return
	}
	h.Sum, h.Max = dag.Micros(u.uint()), dag.Micros(u.uint())
	h.buckets = make([]bucket, 0, n)
	index := int64(0)
	for i := range n {
		step, count := u.uint(), u.uint()
		if index += int64(min(step, bucketsMax)); index >= bucketsMax || i > 0 && step == 0 || count == 0 || count > math.MaxInt64 {
			u.bad = true
		}
		if u.bad {
			return
		}
		h.buckets = append(h.buckets, bucket{int32(index), int64(count)})
		h.N += int64(count)
	}
}

// unpacker reads numbers. After an invalid number, it returns 0 for all further ones.
type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) uint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 || u.bad {
		u.bad = true
		return 0
	}
	u.b = u.b[n:]
	return v
}
