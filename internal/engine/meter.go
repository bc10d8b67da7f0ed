package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

const (
	// topWorkflows bounds the workflows that have their own label values. topKinds bounds the kinds of tasks
	// that have them.
	topWorkflows, topKinds = 200, 50
	// topTurn is the interval at which the most used workflows are selected again.
	topTurn = 5 * time.Minute
)

// The reasons for a wait, as labels.
const (
	waitSlot = iota
	waitPlace
	waitQueue
	waitLock
	waitReasons
)

var waitNames = [waitReasons]string{"slot", "place", "queue", "lock"}

// Meter counts the effects of this engine's transactions, after their commit.
type Meter struct {
	showing sync.Mutex // held during a scrape

	mu        sync.Mutex // protects following fields
	workflows *metric.Top[dag.WorkflowID, workflowMeter]
	kinds     *metric.Top[string, map[end]int64]
	waits     [waitReasons]metric.Histogram
	fires     map[string]int64 // number of fires by outcome
	lag       metric.Histogram
	turned    time.Time
	names     map[dag.WorkflowID]string // the names of the workflows at the last scrape
}

// workflowMeter counts the ended runs of one workflow.
type workflowMeter struct {
	ended   map[end]int64
	seconds metric.Histogram
}

// end says how a run or an attempt ended.
type end struct {
	state string
	cause dag.Cause
}

// draft holds the counts of a transaction, which the meter adds after the commit.
type draft struct {
	plain    int64 // succeeded attempts that have no row of their own
	attempts map[attemptEnd]int64
	runs     []runEnd
	waits    [waitReasons]metric.Histogram
	waited   bool
	fires    map[string]int64
	lag      metric.Histogram
}

type attemptEnd struct {
	kind string
	end
}

type runEnd struct {
	workflow dag.WorkflowID
	end
	took time.Duration
}

func newDraft() draft { return draft{attempts: map[attemptEnd]int64{}, fires: map[string]int64{}} }

func (d *draft) reset() {
	clear(d.attempts)
	clear(d.fires)
	*d = draft{attempts: d.attempts, fires: d.fires, runs: d.runs[:0]}
}

// flushed counts the rows that one run adds to a transaction: the rows of c from the given indexes on.
func (d *draft) flushed(r *dag.Run, c *dag.Changes, inserts, updates, runs int) {
	for i := range c.AttemptInserts[inserts:] {
		if a := &c.AttemptInserts[inserts+i]; a.State.Ended() {
			d.attempt(r, a)
		}
	}
	for i := range c.AttemptUpdates[updates:] {
		if a := &c.AttemptUpdates[updates+i]; a.State.Ended() && !a.Was.Ended() {
			d.attempt(r, &a.AttemptRow)
		}
	}
	for i := range c.RunUpdates[runs:] {
		if u := &c.RunUpdates[runs+i]; u.Claimed != nil && u.Claim != nil && u.Claim.Stage == dag.ClaimGranted {
			d.granted(u.Claim, time.Duration(u.Claim.Granted-u.Claimed.Asked)*time.Microsecond)
		}
	}
	if r.State.Terminal() {
		from := r.StartedAt
		if from == 0 {
			from = r.Created
		}
		d.runs = append(d.runs, runEnd{r.Workflow, end{r.State.String(), r.Cause}, time.Duration(r.FinishedAt-from) * time.Microsecond})
	}
}

func (d *draft) attempt(r *dag.Run, a *dag.AttemptRow) {
	kind := dag.Work.String()
	switch {
	case a.Task == dag.LeaderTask:
		kind = "leader"
	case r.Graph == nil:
	case r.Graph.Logic(a.Task) != nil:
		kind = r.Graph.Kind(a.Task).String()
	default:
		if p := r.Graph.Policy(a.Task).Place; p != dag.Anywhere {
			if k := p.Kind(); k != "" {
				kind = k
			}
		}
	}
	if a.State == dag.AttemptSucceeded && kind == dag.Work.String() && a.Cause == "" {
		d.plain++
		return
	}
	d.attempts[attemptEnd{kind, end{a.State.String(), known(a.Cause)}}]++
}

// granted counts how long a run has waited for its queue or its locks.
func (d *draft) granted(c *dag.Claim, waited time.Duration) {
	why := waitLock
	if c.Queue != "" {
		why = waitQueue
	}
	d.waits[why].Observe(waited)
	d.waited = true
}

// assigned counts how long a task has waited for its slot.
func (d *draft) assigned(a *Assignment, waited time.Duration) {
	why := waitSlot
	switch {
	case a.Task == dag.LeaderTask:
		return
	case a.Graph != nil && a.Graph.Policy(a.Task).Queue != "":
		why = waitQueue
	case a.Place != dag.Anywhere:
		why = waitPlace
	}
	d.waits[why].Observe(waited)
	d.waited = true
}

// fired counts decided instants. at is 0 for an event.
func (d *draft) fired(l *store.Fire, now dag.Micros) {
	d.fires[l.Outcome] += l.Count
	if l.Key == "" && !l.Run.IsZero() {
		d.lag.Observe(time.Duration(now-l.At) * time.Microsecond)
	}
}

func newMeter(now time.Time) *Meter {
	return &Meter{workflows: metric.NewTop[dag.WorkflowID, workflowMeter](topWorkflows), kinds: metric.NewTop[string, map[end]int64](topKinds),
		fires: map[string]int64{}, turned: now}
}

// take counts a transaction that has committed.
func (m *Meter) take(d *draft, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.turned) > topTurn {
		m.turned = now
		m.workflows.Turn()
		m.kinds.Turn()
	}
	if d.plain > 0 {
		addTo(m.kinds.Of(dag.Work.String()), end{dag.AttemptSucceeded.String(), ""}, d.plain)
	}
	for a, n := range d.attempts {
		addTo(m.kinds.Of(a.kind), a.end, n)
	}
	for i := range d.runs {
		r := &d.runs[i]
		of := m.workflows.Of(r.workflow)
		addTo(&of.ended, r.end, 1)
		of.seconds.Observe(r.took)
	}
	if d.waited {
		for i := range d.waits {
			m.waits[i].Add(&d.waits[i])
		}
	}
	for outcome, n := range d.fires {
		m.fires[outcome] += n
	}
	m.lag.Add(&d.lag)
}

func addTo(m *map[end]int64, e end, n int64) {
	if *m == nil {
		*m = map[end]int64{}
	}
	(*m)[e] += n
}

// causes holds the causes that have a label value of their own. Workers can report any cause, so all other
// causes share one value.
var causes = func() map[dag.Cause]bool {
	all := map[dag.Cause]bool{}
	for _, c := range dag.Causes() {
		all[c] = true
	}
	return all
}()

// known returns the label value of a cause.
func known(c dag.Cause) dag.Cause {
	if c == "" || causes[c] {
		return c
	}
	return metric.Other
}

// show writes the counts to a page. name finds the name of a workflow. It returns "" if it cannot find the
// name now.
func (m *Meter) show(p *metric.Page, name func(context.Context, dag.WorkflowID) string) {
	m.showing.Lock()
	defer m.showing.Unlock()
	m.find(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	// A deleted workflow and a new one can have the same name, but a page may contain each label only once.
	named := map[string]*workflowMeter{}
	m.workflows.Each(func(id dag.WorkflowID, of *workflowMeter) {
		if name := m.names[id]; name != "" { // a workflow whose first count came after find is shown on the next page
			named[name] = of.plus(named[name])
		}
	})
	for name, of := range named {
		of.show(p, name)
	}
	if m.workflows.Other.seconds.Count() > 0 {
		m.workflows.Other.show(p, metric.Other)
	}
	kind := func(label string, of *map[end]int64) {
		for e, n := range *of {
			p.Set("attempts_ended_total", float64(n), label, e.state, string(e.cause))
		}
	}
	m.kinds.Each(kind)
	kind(metric.Other, &m.kinds.Other)
	for i := range m.waits {
		p.Histogram("task_wait_seconds", &m.waits[i], waitNames[i])
	}
	for _, outcome := range store.Outcomes() {
		p.Set("fires_total", float64(m.fires[outcome]), outcome)
	}
	p.Histogram("fire_lag_seconds", &m.lag)
}

// plus returns the sum of two counts; o may be nil. It changes neither.
func (w *workflowMeter) plus(o *workflowMeter) *workflowMeter {
	if o == nil {
		return w
	}
	sum := &workflowMeter{seconds: w.seconds}
	for _, of := range []*workflowMeter{w, o} {
		for e, n := range of.ended {
			addTo(&sum.ended, e, n)
		}
	}
	sum.seconds.Add(&o.seconds)
	return sum
}

func (w *workflowMeter) show(p *metric.Page, label string) {
	for e, n := range w.ended {
		p.Set("runs_ended_total", float64(n), label, e.state, string(e.cause))
	}
	p.Histogram("run_seconds", &w.seconds, label)
}

// find looks up the names of the workflows on the page, for at most findMax. It does not hold mu meanwhile,
// because the writer waits for mu.
func (m *Meter) find(name func(context.Context, dag.WorkflowID) string) {
	m.mu.Lock()
	names := make(map[dag.WorkflowID]string, topWorkflows)
	m.workflows.Each(func(id dag.WorkflowID, _ *workflowMeter) { names[id] = m.names[id] })
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), findMax)
	defer cancel()
	for id, known := range names {
		if known != "" && known[0] != '#' {
			continue
		}
		if names[id] = fmt.Sprintf("#%d", id); ctx.Err() == nil {
			if found := name(ctx, id); found != "" {
				names[id] = found
			}
		}
	}
	m.mu.Lock()
	m.names = names
	m.mu.Unlock()
}

// findMax bounds the time for finding names of workflows during one scrape.
const findMax = time.Second

// Metrics writes the effects of this engine's transactions, and how its store answers. The names of workflows
// come from the store; each is read once.
func (s *Stats) Metrics(p *metric.Page) {
	s.meter.show(p, s.name)
	s.store(p)
}

// namer returns the function with which Stats finds the name of a workflow.
func namer(st store.Store) func(context.Context, dag.WorkflowID) string {
	return func(ctx context.Context, id dag.WorkflowID) string {
		wf, err := st.WorkflowByID(ctx, id)
		if err != nil {
			return ""
		}
		return wf.Namespace + "/" + wf.Name
	}
}
