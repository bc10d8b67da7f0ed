package metric

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// The buckets of every histogram are powers of two of a second, from expMin to expMax. A scraper that accepts
// native histograms gets all buckets. Any other scraper gets every second bucket.
const (
	expMin  = -13 // 0.12 ms
	expMax  = 20  // 12 days
	buckets = expMax - expMin + 1
)

// Histogram counts durations. The zero value is empty. It is not safe for concurrent use.
type Histogram struct {
	counts [buckets + 1]uint64 // the last one counts longer durations
	n      uint64
	sum    float64 // seconds
}

// Observe counts one duration. A negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	s := max(d, 0).Seconds()
	frac, exp := math.Frexp(s) // s = frac × 2^exp, 0.5 ≤ frac < 1
	switch frac {
	case 0:
		exp = expMin
	case 0.5:
		exp-- // an upper bound belongs to its bucket
	}
	h.counts[min(max(exp-expMin, 0), buckets)]++
	h.n++
	h.sum += s
}

// Add counts everything that another histogram has counted.
func (h *Histogram) Add(o *Histogram) {
	if o.n == 0 {
		return
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.sum += o.sum
}

// Count returns the number of durations.
func (h *Histogram) Count() uint64 { return h.n }

// shown is a histogram in the form that Prometheus reads.
type shown struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	h      Histogram
}

// Desc implements prometheus.Metric.
func (s *shown) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric: the same counts as classic and as native buckets of schema 0.
func (s *shown) Write(out *dto.Metric) error {
	out.Label = s.labels
	d := &dto.Histogram{SampleCount: new(s.h.n), SampleSum: new(s.h.sum)}
	below := uint64(0)
	for i, n := range s.h.counts[:buckets] {
		below += n
		if exp := expMin + i; exp%2 == 0 {
			d.Bucket = append(d.Bucket, &dto.Bucket{CumulativeCount: new(below), UpperBound: new(math.Ldexp(1, exp))})
		}
	}
	s.native(d)
	out.Histogram = d
	return nil
}

// native adds one span from the first to the last bucket that is not empty.
func (s *shown) native(d *dto.Histogram) {
	first, last := -1, -1
	for i, n := range s.h.counts {
		if n > 0 && first < 0 {
			first = i
		}
		if n > 0 {
			last = i
		}
	}
	d.Schema, d.ZeroThreshold, d.ZeroCount = new(int32(0)), new(math.Ldexp(1, expMin-1)), new(uint64(0))
	if first < 0 {
		d.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}}
		return
	}
	d.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32(expMin + first)), Length: new(uint32(last - first + 1))}}
	before := int64(0)
	for _, n := range s.h.counts[first : last+1] {
		d.PositiveDelta = append(d.PositiveDelta, int64(n)-before)
		before = int64(n)
	}
}
