package metric

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Prefix begins the name of every family.
const Prefix = "skein_"

// Source writes numbers to the page of one scrape. It must not wait longer than a second.
type Source func(*Page)

// Page receives the numbers of one scrape.
type Page struct{ out chan<- prometheus.Metric }

// Set shows a counter or a gauge. labels are the values of the family's labels, in the order of the
// catalogue. A name that is not in the catalogue makes the scrape fail.
func (p *Page) Set(name string, v float64, labels ...string) {
	f, desc := p.family(name, labels)
	if f == nil {
		return
	}
	kind := prometheus.GaugeValue
	if f.Type == Counter {
		kind = prometheus.CounterValue
	}
	p.out <- prometheus.MustNewConstMetric(desc, kind, v, labels...)
}

// Duration shows a gauge in seconds.
func (p *Page) Duration(name string, d time.Duration, labels ...string) {
	p.Set(name, d.Seconds(), labels...)
}

// Histogram shows a copy of a histogram.
func (p *Page) Histogram(name string, h *Histogram, labels ...string) {
	f, desc := p.family(name, labels)
	if f == nil {
		return
	}
	p.out <- &shown{desc: desc, labels: prometheus.MakeLabelPairs(desc, labels), h: *h}
}

func (p *Page) family(name string, labels []string) (*Family, *prometheus.Desc) {
	f := Find(name)
	if f == nil || len(labels) != len(f.Labels) {
		err := fmt.Errorf("metric %s with labels %q is not in the catalogue", name, labels)
		p.out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return nil, nil
	}
	return f, prometheus.NewDesc(Prefix+f.Name, f.Help, f.Labels, nil)
}

// all writes the metrics of all sources.
type all []Source

// Describe implements prometheus.Collector. The catalogue holds the descriptions.
func (all) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (a all) Collect(out chan<- prometheus.Metric) {
	p := &Page{out}
	for _, s := range a {
		s(p)
	}
}

// Registry returns a registry of its own for the sources, the Go runtime and the process.
func Registry(sources ...Source) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(all(sources), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// CounterVec returns a counter of the catalogue whose label values are set by its owner.
func CounterVec(name string) *prometheus.CounterVec {
	f := must(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: Prefix + f.Name, Help: f.Help}, f.Labels)
}

// HistogramVec does the same as CounterVec, for a histogram with buckets of its own.
func HistogramVec(name string, bounds []float64) *prometheus.HistogramVec {
	f := must(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: Prefix + f.Name, Help: f.Help, Buckets: bounds}, f.Labels)
}

// Plain returns a gauge of the catalogue without labels, which its owner sets.
func Plain(name string) prometheus.Gauge {
	f := must(name)
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: Prefix + f.Name, Help: f.Help})
}

// Bool returns 1 for true.
func Bool(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// must finds a family whose name is in the program.
func must(name string) *Family {
	f := Find(name)
	if f == nil {
		panic(errors.New("metric: " + name + " is not in the catalogue"))
	}
	return f
}

// Find returns a family of the catalogue by its name, without prefix. It returns nil if there is none.
func Find(name string) *Family {
	if i, in := byName[name]; in {
		return &catalogue[i]
	}
	return nil
}

// Families returns the catalogue in its order.
func Families() []Family { return slices.Clone(catalogue) }

var byName = func() map[string]int {
	m := make(map[string]int, len(catalogue))
	for i := range catalogue {
		m[catalogue[i].Name] = i
	}
	return m
}()
