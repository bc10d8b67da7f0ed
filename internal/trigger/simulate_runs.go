package trigger

import (
	"container/heap"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// The simulation processes the runs three times: with all limits and the median duration, with all limits and
// the 95th percentile, and with the median duration without limits. The third pass shows how many slots would
// be needed. A run counts as one slot, because the number of its concurrent tasks is unknown.

// course is one of these passes.
type course struct {
	s        *simulation
	length   func(*PlannedWorkflow) time.Duration
	limited  bool
	until    dag.Micros
	now      dag.Micros
	active   int64
	peak     int64
	hours    []hourly
	triggers []gateSim // one for each trigger
	flows    []gateSim // one for each workflow
	slots    hits
	overlaps []overlaps // one for each trigger
	ends     endings
}

// hourly is one hour of a pass.
type hourly struct {
	fires int64
	most  int64
	sum   dag.Micros // the sum of the times for which runs were active
}

// gateSim is a concurrency limit.
type gateSim struct {
	active  int64
	peak    int64
	waiting []*simRun
	held    int64     // active and waiting runs of the trigger, for its limit
	members []*simRun // the active runs, and some ended runs if overlap is cancel_running
	hits    hits
}

type hits struct {
	count int64
	at    []dag.Micros // the first instants at which runs reached the limit
}

func (h *hits) note(at dag.Micros) {
	if h.count++; len(h.at) < examplesMax {
		h.at = append(h.at, at)
	}
}

type overlaps struct{ all, skipped, waiting, cancelled int64 }

// simRun is a run in a pass.
type simRun struct {
	end     dag.Micros
	trigger int32
	through bool // the limit of the trigger has admitted the run
	begun   bool
	over    bool
}

type endings []*simRun

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].end < e[j].end }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(*simRun)) }
func (e *endings) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// run processes the fires and reports the results.
func (s *simulation) run() {
	fires, until := s.fires()
	median := func(w *PlannedWorkflow) time.Duration { return w.Median }
	long := func(w *PlannedWorkflow) time.Duration { return max(w.P95, w.Median) }
	usual, slow, free := s.walk(fires, until, median, true), s.walk(fires, until, long, true), s.walk(fires, until, median, false)
	for i := range s.report.Triggers {
		r, o := &s.report.Triggers[i], &usual.overlaps[i]
		r.Overlaps, r.Skipped, r.Waiting, r.Cancelled = o.all, o.skipped, o.waiting, o.cancelled
	}
	first := s.in.From / hour
	for i, h := range usual.hours {
		if h.fires > 0 || h.most > 0 || slow.hours[i].most > 0 {
			s.report.Hours = append(s.report.Hours, HourReport{At: (first + dag.Micros(i)) * hour, Fires: h.fires,
				Active: h.most, Mean: float64(h.sum) / float64(hour), Long: slow.hours[i].most})
		}
	}
	s.limits(usual, slow, free)
}

func (s *simulation) walk(fires []fire, until dag.Micros, length func(*PlannedWorkflow) time.Duration, limited bool) *course {
	p := &course{s: s, length: length, limited: limited, until: until, now: s.in.From,
		hours:    make([]hourly, (s.in.To-1)/hour-s.in.From/hour+2),
		triggers: make([]gateSim, len(s.triggers)), flows: make([]gateSim, len(s.workflows)), overlaps: make([]overlaps, len(s.triggers))}
	for _, f := range fires {
		p.finish(f.at)
		p.pass(f.at)
		p.hour(f.at).fires++
		p.fire(f)
	}
	p.finish(until)
	p.pass(until)
	return p
}

func (p *course) hour(at dag.Micros) *hourly { return &p.hours[at/hour-p.s.in.From/hour] }

// pass advances the time while nothing changes.
func (p *course) pass(to dag.Micros) {
	for p.active > 0 && p.now < to {
		next := min(to, (p.now/hour+1)*hour)
		h := p.hour(p.now)
		h.most, h.sum = max(h.most, p.active), h.sum+dag.Micros(p.active)*(next-p.now)
		p.now = next
	}
	p.now = to
}

// finish ends the runs that are over at an instant. Runs that waited for them begin.
func (p *course) finish(by dag.Micros) {
	for len(p.ends) > 0 && p.ends[0].end <= by {
		r := heap.Pop(&p.ends).(*simRun)
		if !r.over {
			p.pass(r.end)
			p.leave(r)
		}
	}
}

// leave removes a run from its limits, and admits waiting runs.
func (p *course) leave(r *simRun) {
	r.over = true
	t, f := &p.triggers[r.trigger], &p.flows[p.s.triggers[r.trigger].workflow]
	if t.held--; r.through {
		t.active--
	}
	if r.begun {
		p.active--
		f.active--
	}
	for len(t.members) > 0 && t.members[0].over { // runs of a trigger end in the order in which they began
		t.members = t.members[1:]
	}
	p.admit(t, f)
}

// admit begins waiting runs, first by the limit of the trigger, then by that of the workflow.
func (p *course) admit(t, f *gateSim) {
	for len(t.waiting) > 0 {
		r := t.waiting[0]
		if limit := int64(p.s.triggers[r.trigger].MaxConcurrent); !r.over && t.active >= limit {
			break
		}
		t.waiting = t.waiting[1:]
		if !r.over {
			p.enter(r, t, f)
		}
	}
	for len(f.waiting) > 0 {
		r := f.waiting[0]
		if limit := int64(p.flow(r).MaxRuns); !r.over && f.active >= limit {
			break
		}
		f.waiting = f.waiting[1:]
		if !r.over {
			p.begin(r, f)
		}
	}
}

func (p *course) flow(r *simRun) *PlannedWorkflow {
	return &p.s.workflows[p.s.triggers[r.trigger].workflow]
}

// fire processes one instant by the rules of overlap.
func (p *course) fire(f fire) {
	decl := p.s.triggers[f.trigger]
	t, o := &p.triggers[f.trigger], &p.overlaps[f.trigger]
	r := &simRun{trigger: f.trigger}
	waits := false
	if limit := int64(decl.MaxConcurrent); p.limited && limit > 0 && t.held >= limit {
		o.all++
		t.hits.note(f.at)
		switch {
		case decl.Overlap == engine.OverlapSkip, decl.Overlap == engine.OverlapQueue && len(t.waiting) >= int(decl.QueueMax):
			o.skipped++
			return
		case decl.Overlap == engine.OverlapCancel:
			for _, m := range t.members {
				if !m.over {
					o.cancelled++
					p.leave(m)
				}
			}
			t.members = nil
		default:
			o.waiting++
			waits = true
		}
	}
	t.held++
	if decl.Overlap == engine.OverlapCancel {
		t.members = append(t.members, r)
	}
	if waits {
		t.waiting = append(t.waiting, r)
		return
	}
	p.enter(r, t, &p.flows[decl.workflow])
}

// enter moves a run from the limit of its trigger to the limit of its workflow.
func (p *course) enter(r *simRun, t, f *gateSim) {
	r.through = true
	t.active++
	t.peak = max(t.peak, t.active)
	if limit := int64(p.flow(r).MaxRuns); p.limited && limit > 0 && (f.active >= limit || len(f.waiting) > 0) {
		f.hits.note(p.now)
		f.waiting = append(f.waiting, r)
		return
	}
	p.begin(r, f)
}

func (p *course) begin(r *simRun, f *gateSim) {
	if slots := int64(p.s.in.Slots); slots > 0 && p.active >= slots {
		p.slots.note(p.now)
	}
	r.begun, r.end = true, p.now+micros(p.length(p.flow(r)))
	p.active++
	f.active++
	f.peak, p.peak = max(f.peak, f.active), max(p.peak, p.active)
	h := p.hour(p.now)
	h.most = max(h.most, p.active)
	heap.Push(&p.ends, r)
}

// limits reports which limits were reached, and how often.
func (s *simulation) limits(usual, slow, free *course) {
	add := func(l LimitReport, usually, slowly *hits, what string) {
		h, when := usually, ""
		if h.count == 0 {
			h, when = slowly, ", if they take as long as the slowest twentieth"
		}
		if h.count == 0 {
			return
		}
		l.Hits, l.First, l.Instants = h.count, h.at[0], h.at
		l.What = fmt.Sprintf("%s: %d runs %s%s, the first at %s", what, h.count, l.meets(), when, clock(l.First))
		s.report.Limits = append(s.report.Limits, l)
	}
	for i := range s.triggers {
		t := &s.triggers[i]
		l := LimitReport{Kind: LimitTrigger, Workflow: t.name, Trigger: t.Name, Limit: int64(t.MaxConcurrent), Peak: free.triggers[i].peak}
		add(l, &usual.triggers[i].hits, &slow.triggers[i].hits, fmt.Sprintf("max_concurrent_runs %d of trigger %s of %s, overlap: %s", l.Limit, l.Trigger, l.Workflow, t.Overlap))
	}
	for i := range s.workflows {
		w := &s.workflows[i]
		l := LimitReport{Kind: LimitWorkflow, Workflow: w.Name, Limit: int64(w.MaxRuns), Peak: free.flows[i].peak}
		add(l, &usual.flows[i].hits, &slow.flows[i].hits, fmt.Sprintf("max_concurrent_runs %d of %s", l.Limit, l.Workflow))
	}
	l := LimitReport{Kind: LimitSlots, Limit: int64(s.in.Slots), Peak: free.peak}
	add(l, &usual.slots, &slow.slots, fmt.Sprintf("%d slots", l.Limit))
}

func (l *LimitReport) meets() string {
	switch l.Kind {
	case LimitSlots:
		return "begin while as many others are active"
	case LimitTrigger:
		return "meet it"
	}
	return "wait for it"
}
