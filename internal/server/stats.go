package server

import (
	"cmp"
	"context"
	"errors"
	"sort"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
	api "skein.dev/skein/sdk/api/v1"
)

const (
	// statsDays is the default number of days of statistics, and statsDaysMax the largest.
	statsDays    = 30
	statsDaysMax = 1100
	// statsHoursMax bounds the hours of an answer.
	statsHoursMax = 24 * 35
	// statsRows bounds the rows of the tally of an answer about one workflow. Only an answer by task can reach
	// it.
	statsRows  = 250_000
	hourLength = time.Hour
	dayLength  = 24 * time.Hour
)

type statsIn struct {
	WorkflowPath
	From string `query:"from" doc:"RFC 3339: runs that ended in the period of this instant or later. Absent: 30 days before to."`
	To   string `query:"to" doc:"RFC 3339: runs that ended before this instant, in whole periods. Absent: now."`
	By   string `query:"by" enum:"day,hour,task" default:"day" doc:"hour: kept for 35 days, and without tasks. task: on each day, the tasks beyond 2,000 names are summed as the task …"`
	Task string `query:"task" maxLength:"1000" doc:"Attempts of this task, by day. Absent: runs."`
}

// bounds returns the first and the last period.
func (in *statsIn) bounds(now time.Time) (span store.TallySpan, first, last int32, err error) {
	length, most := dayLength, statsDaysMax
	begin, err := instantOf("from", in.From)
	if err != nil {
		return 0, 0, 0, err
	}
	end, err := instantOf("to", in.To)
	if err != nil {
		return 0, 0, 0, err
	}
	to := end.Time()
	if in.To == "" {
		to = now
	}
	if in.By == "hour" {
		span, length, most = store.TallyHour, hourLength, statsHoursMax
	}
	from := begin.Time()
	if in.From == "" {
		from = to.Add(-statsDays * dayLength)
	}
	first, last = int32(from.Unix()/int64(length/time.Second)), int32((to.Unix()-1)/int64(length/time.Second))
	switch {
	case from.Unix() < 0 || to.Year() > 9999 || !from.Before(to):
		err = invalid("%s to %s is not a span within the years 1970 to 9999; give a from before to", from.Format(time.RFC3339), to.Format(time.RFC3339))
	case int(last-first) >= most:
		err = invalid("%d periods are too many for one answer; ask for at most %d", last-first+1, most)
	case in.Task != "" && in.By != "day":
		err = invalid("the attempts of a task are counted by day; leave out by=%s", in.By)
	}
	return span, first, last, err
}

// statsKey identifies what a row of an answer is about.
type statsKey struct {
	at   int32
	task string
}

// errManyRows ends the read of an answer that would be too large.
var errManyRows = errors.New("too many rows")

// statistics serves counts and durations of ended runs.
type statistics struct {
	s    *Server
	rows int // most rows of the tally of an answer about one workflow
}

func (x statistics) workflow(ctx context.Context, in *statsIn) (*jsonOut[api.WorkflowStats], error) {
	w, err := x.s.workflow(ctx, &in.WorkflowPath)
	if err != nil {
		return nil, err
	}
	span, first, last, err := in.bounds(time.Now())
	if err != nil {
		return nil, err
	}
	length := int64(dayLength / time.Second)
	if span == store.TallyHour {
		length = int64(hourLength / time.Second)
	}
	begin := func(at int32) api.Time { return api.Time{Time: time.Unix(int64(at)*length, 0).UTC()} }
	out := api.WorkflowStats{Workflow: w.Namespace + "/" + w.Name, By: in.By, From: begin(first), To: begin(last + 1), Items: []api.StatsRow{}}
	q := store.TallyQuery{Workflow: w.ID, Span: span, From: first, To: last, Task: in.Task, Tasks: in.By == "task"}
	cells, halves, total, rows := map[statsKey]*tally.Cell{}, map[string]*[2]tally.Hist{}, tally.Cell{}, 0
	out.Counted, err = x.s.engine.Tally(ctx, q, func(r *store.TallyRow) error {
		if rows++; rows > x.rows {
			return errManyRows
		}
		c, err := tally.Unpack(r)
		if errors.Is(err, store.ErrCorrupt) {
			out.Damaged++
			return nil
		}
		if r.Task == in.Task {
			total.Merge(&c)
		}
		k := statsKey{at: r.At}
		if in.By == "task" {
			if r.Task == "" {
				return nil
			}
			k = statsKey{task: r.Task}
			addHalf(halves, r.Task, r.At > first+(last-first)/2, c.All())
		}
		if cells[k] == nil {
			cells[k] = &tally.Cell{}
		}
		cells[k].Merge(&c)
		return err
	})
	if rows > x.rows {
		return nil, invalid("the tasks of workflow %s have more than %d counts in these %d days; ask for fewer days, or for one task", out.Workflow, x.rows, last-first+1)
	}
	if err != nil {
		return nil, err
	}
	out.Total = statsRow(&total)
	for k, c := range cells {
		row := statsRow(c)
		if in.By == "task" {
			row.Task = &k.task
			row.Trend = trend(halves[k.task])
		} else {
			at := begin(k.at)
			row.At = &at
		}
		if in.Task != "" {
			row.Task, out.Total.Task = &in.Task, &in.Task
		}
		out.Items = append(out.Items, row)
	}
	sortStats(out.Items)
	return &jsonOut[api.WorkflowStats]{Body: out}, nil
}

// sortStats sorts periods by time, and tasks by their p95, the greatest first.
func sortStats(rows []api.StatsRow) {
	sort.Slice(rows, func(i, j int) bool {
		a, b := &rows[i], &rows[j]
		if a.At != nil {
			return a.At.Before(b.At.Time)
		}
		p95 := func(r *api.StatsRow) float64 {
			if r.P95 == nil {
				return -1
			}
			return *r.P95
		}
		return cmp.Or(cmp.Compare(p95(b), p95(a)), cmp.Compare(*a.Task, *b.Task)) < 0
	})
}

// addHalf adds durations of a task to one half of a span.
func addHalf(halves map[string]*[2]tally.Hist, task string, second bool, took *tally.Hist) {
	if halves[task] == nil {
		halves[task] = &[2]tally.Hist{}
	}
	half := 0
	if second {
		half = 1
	}
	halves[task][half].Merge(took)
}

// trend compares the second half of the span with the first half.
func trend(halves *[2]tally.Hist) *float64 {
	before, after := halves[0].Quantile(0.95), halves[1].Quantile(0.95)
	if halves[0].N == 0 || halves[1].N == 0 || before == 0 {
		return nil
	}
	t := float64(after) / float64(before)
	return &t
}

func statsRow(c *tally.Cell) api.StatsRow {
	row := api.StatsRow{N: c.N(), Succeeded: c.Ends[tally.Succeeded], Failed: c.Ends[tally.Failed], Stopped: c.Ends[tally.Stopped],
		Skipped: c.Ends[tally.Skipped], Last: instantOrNull(c.Last)}
	seconds := func(h *tally.Hist, d dag.Micros) *float64 {
		if h.N == 0 {
			return nil
		}
		s := float64(d) / 1e6
		return &s
	}
	took := c.All()
	for q, to := range map[float64]**float64{0.5: &row.P50, 0.9: &row.P90, 0.95: &row.P95, 0.99: &row.P99} {
		*to = seconds(took, took.Quantile(q))
	}
	row.Mean, row.Max = seconds(took, took.Mean()), seconds(took, took.Max)
	row.WaitP50, row.WaitP95 = seconds(&c.Wait, c.Wait.Quantile(0.5)), seconds(&c.Wait, c.Wait.Quantile(0.95))
	return row
}
