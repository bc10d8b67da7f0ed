// Package metrictest reads metrics in tests.
package metrictest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"skein.dev/skein/internal/metric"
)

// Values are the numbers of one scrape, by name and labels as Prometheus writes them, without the prefix:
// runs_ended_total{workflow="default/w",state="failed",cause="task_failed"}. The value of a histogram is its
// count.
type Values map[string]float64

// Read scrapes sources.
func Read(t testing.TB, sources ...metric.Source) Values {
	t.Helper()
	return Gather(t, metric.Registry(sources...))
}

// Gather scrapes a registry.
func Gather(t testing.TB, r prometheus.Gatherer) Values {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := Values{}
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), metric.Prefix)
		if !ours {
			continue
		}
		of := metric.Find(name)
		if of == nil {
			t.Errorf("%s is not in the catalogue", f.GetName())
			continue
		}
		for _, m := range f.GetMetric() {
			values := map[string]string{}
			for _, l := range m.GetLabel() {
				values[l.GetName()] = l.GetValue()
			}
			var labels []string
			for _, l := range of.Labels {
				labels = append(labels, fmt.Sprintf("%s=%q", l, values[l]))
			}
			if len(values) != len(of.Labels) {
				t.Errorf("%s has the labels %v, the catalogue says %v", name, values, of.Labels)
			}
			key := name
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			all[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// Names returns the families that have a number.
func (v Values) Names() map[string]bool {
	all := map[string]bool{}
	for key := range v {
		name, _, _ := strings.Cut(key, "{")
		all[name] = true
	}
	return all
}
