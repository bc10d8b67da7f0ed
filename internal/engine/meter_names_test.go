package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/metric/metrictest"
)

// TestWorkflowDuringAScrape: a run of another workflow ends while a scrape looks for names. That workflow is
// shown on the next page, under its name.
func TestWorkflowDuringAScrape(t *testing.T) {
	m := newMeter(time.Now())
	end := func(w dag.WorkflowID) {
		d := newDraft()
		d.runs = []runEnd{{workflow: w, end: end{"succeeded", ""}}}
		m.take(&d, time.Now())
	}
	end(1)
	page := func() metrictest.Values {
		return metrictest.Read(t, func(p *metric.Page) {
			m.show(p, func(_ context.Context, id dag.WorkflowID) string {
				if id == 1 {
					end(2)
				}
				return fmt.Sprintf("test/w%d", id)
			})
		})
	}
	for name := range page() {
		if strings.Contains(name, `workflow=""`) {
			t.Errorf("%s has no workflow", name)
		}
	}
	if n := page()[`runs_ended_total{workflow="test/w2",state="succeeded",cause=""}`]; n != 1 {
		t.Errorf("the next page shows %v runs of the second workflow, want 1", n)
	}
}
