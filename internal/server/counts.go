package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"sort"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
	api "skein.dev/skein/sdk/api/v1"
)

const (
	// countsWorkflows and countsRows bound the workflows and the rows of the tally that one answer reads.
	countsWorkflows = 1000
	countsRows      = 100_000
	// countsByHour is the longest span whose buckets by workflow and state are made from hours.
	countsByHour = 48 * time.Hour
)

type countsIn struct {
	SystemFilter
	By        string `query:"by" enum:"day,hour,workflow,state" default:"day"`
	From      string `query:"from" doc:"RFC 3339: runs that ended in the day or hour of this instant or later. Absent: 30 days before to."`
	To        string `query:"to" doc:"RFC 3339: runs that ended before this instant, in whole days or hours. Absent: now."`
	Namespace string `query:"ns" doc:"Absent: all."`
	Workflow  string `query:"workflow" doc:"NAME or NAMESPACE/NAME. Absent: all."`
	Cursor    string `query:"cursor" maxLength:"1000" doc:"next of the answer before."`
}

// span returns the kind of the rows that are read, and the first and last period.
func (in *countsIn) span(now time.Time) (span store.TallySpan, first, last int32, err error) {
	days := statsIn{From: in.From, To: in.To, By: "day"}
	hours := statsIn{From: in.From, To: in.To, By: "hour"}
	if in.By == "hour" {
		return hours.bounds(now)
	}
	if span, first, last, err = hours.bounds(now); in.By != "day" && err == nil && time.Duration(last-first)*time.Hour < countsByHour {
		return span, first, last, nil
	}
	return days.bounds(now)
}

// runs counts the ended runs of all workflows, or of some.
func (x statistics) runs(ctx context.Context, in *countsIn) (*jsonOut[api.RunCounts], error) {
	span, first, last, err := in.span(time.Now())
	if err != nil {
		return nil, err
	}
	flows, next, err := x.countedFlows(ctx, in)
	if err != nil {
		return nil, err
	}
	length := int64(dayLength / time.Second)
	if span == store.TallyHour {
		length = int64(hourLength / time.Second)
	}
	begin := func(at int32) time.Time { return time.Unix(int64(at)*length, 0).UTC() }
	out := api.RunCounts{By: in.By, From: api.Time{Time: begin(first)}, To: api.Time{Time: begin(last + 1)}, Items: []api.RunCount{}, Counted: true}
	cells, rows := map[string]*tally.Cell{}, 0
	for i := range flows {
		w := &flows[i]
		if rows >= countsRows {
			next = flows[i-1].Namespace + "/" + flows[i-1].Name
			break
		}
		counted, err := x.s.engine.Tally(ctx, store.TallyQuery{Workflow: w.ID, Span: span, From: first, To: last}, func(r *store.TallyRow) error {
			rows++
			c, err := tally.Unpack(r)
			if errors.Is(err, store.ErrCorrupt) {
				out.Damaged++
				return nil
			}
			key := begin(r.At).Format(time.RFC3339)
			if in.By == "workflow" {
				key = w.Namespace + "/" + w.Name
			}
			if in.By == "state" {
				key = ""
			}
			if cells[key] == nil {
				cells[key] = &tally.Cell{}
			}
			cells[key].Merge(&c)
			return err
		})
		if err != nil {
			return nil, err
		}
		out.Counted = out.Counted && counted
	}
	if next != "" {
		out.Next = base64.RawURLEncoding.EncodeToString([]byte(next))
	}
	out.Items = countsOf(in.By, cells)
	return &jsonOut[api.RunCounts]{Body: out}, nil
}

// countedFlows returns the workflows of an answer, and the name after which the next answer begins.
func (x statistics) countedFlows(ctx context.Context, in *countsIn) (flows []store.Workflow, next string, err error) {
	if in.Workflow != "" {
		w, err := x.s.findWorkflow(ctx, in.Workflow)
		if err == nil && in.Namespace != "" && w.Namespace != in.Namespace {
			err = invalid("workflow %s is not in the namespace %s: leave out ns", in.Workflow, in.Namespace)
		}
		return []store.Workflow{w}, "", err
	}
	page := Page{Cursor: in.Cursor}
	after, err := page.after()
	if err != nil {
		return nil, "", err
	}
	q := store.WorkflowQuery{Namespace: in.Namespace, After: after, Limit: countsWorkflows + 1}
	if in.hides(in.Namespace, "") {
		q.Not = engine.SystemNamespace
	}
	if flows, err = x.s.engine.Workflows(ctx, q); err != nil || len(flows) <= countsWorkflows {
		return flows, "", err
	}
	flows = flows[:countsWorkflows]
	return flows, flows[len(flows)-1].Namespace + "/" + flows[len(flows)-1].Name, nil
}

// countsOf makes the buckets. If by is state, the only cell has the ends of all states.
func countsOf(by string, cells map[string]*tally.Cell) (items []api.RunCount) {
	items = []api.RunCount{}
	for key, c := range cells {
		if by != "state" {
			items = append(items, countOf(key, c))
			continue
		}
		for of, name := range tally.OutcomeNames() {
			one := tally.Cell{}
			one.Ends[of] = c.Ends[of]
			if of < len(one.Took) {
				one.Took[of] = c.Took[of]
			}
			if one.N() > 0 {
				items = append(items, countOf(name, &one))
			}
		}
	}
	sort.Slice(items, func(i, j int) bool {
		a, b := &items[i], &items[j]
		if by == "day" || by == "hour" {
			return a.Key < b.Key
		}
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Key, b.Key)) < 0
	})
	return items
}

func countOf(key string, c *tally.Cell) api.RunCount {
	n := api.RunCount{Key: key, N: c.N(), Succeeded: c.Ends[tally.Succeeded], Failed: c.Ends[tally.Failed], Stopped: c.Ends[tally.Stopped], Skipped: c.Ends[tally.Skipped]}
	took := c.All()
	if took.N == 0 {
		return n
	}
	seconds := func(d dag.Micros) *float64 {
		s := float64(d) / 1e6
		return &s
	}
	n.P50, n.P95, n.Max = seconds(took.Quantile(0.5)), seconds(took.Quantile(0.95)), seconds(took.Max)
	return n
}
