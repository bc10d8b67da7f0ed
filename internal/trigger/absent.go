package trigger

import (
	"slices"
	"sort"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// A trigger of kind absent starts a run if an expected event has not come. Its instants follow from the key
// by: a time of each day, one instant, or the end of a span without an arrival. Each instant covers the time
// since the previous one. If no expected event came in that time, a run starts. Otherwise the ledger gets a
// line that says that the event came. Arrivals before the declaration of the trigger are unknown.

const (
	// cameMax bounds the number of stored arrivals of one source. One arrival is stored for each undecided
	// interval, so more than a few are stored only while no node decides.
	cameMax = 16
	// judgedMax bounds the number of intervals that one plan judges one by one. Older intervals are missed,
	// in one line.
	judgedMax = 64
)

// fileSource is the key in memory.Came for arrivals of files.
const fileSource = "file"

// heardAbsent records an arrival.
func (d *declared) heardAbsent(t *store.Trigger, run *engine.Ended) (engine.Plan, error) {
	source := fileSource
	switch r := d.Absent.RunOf; {
	case run.Workflow == "" && d.Absent.File == nil, run.Workflow != "" && (r == nil || !qualifies(r, run)):
		return unchanged(t), nil
	case r != nil:
		source = run.Workflow
	}
	if run.Finished <= t.Since || d.when != nil && run.Finished <= d.last(t.Decided) {
		return unchanged(t), nil // the arrival is already stored, or its interval is decided
	}
	if run.Refused != "" { // the end of the run is no arrival
		return d.refused(t, run), nil
	}
	m, err := remembered(t)
	if err != nil {
		return engine.Plan{}, err
	}
	if m.Came == nil {
		m.Came = map[string][]dag.Micros{}
	}
	list := append(m.Came[source], run.Finished)
	slices.Sort(list)
	m.Came[source] = d.onePerInterval(slices.Compact(list))
	p := unchanged(t)
	p.Data = m.pack()
	if d.when == nil { // the key by is a duration, which starts again with each arrival
		p.Next = max(t.Next, d.deadline(t, &m))
	}
	return p, nil
}

// onePerInterval keeps only the newest arrival in each interval between instants.
func (d *declared) onePerInterval(list []dag.Micros) []dag.Micros {
	keep := list[:0]
	for i, at := range list {
		if i+1 < len(list) && (d.when == nil || d.judge(at) == d.judge(list[i+1])) {
			continue
		}
		keep = append(keep, at)
	}
	return keep[max(0, len(keep)-cameMax):]
}

// judge returns the instant at which an arrival is judged: the first one at or after the arrival.
func (d *declared) judge(at dag.Micros) dag.Micros { return d.next(at - 1) }

// came reports whether an expected event arrived within (after, until]; with All, whether each of them did.
func (d *declared) came(m *memory, after, until dag.Micros) bool {
	in := func(list []dag.Micros) bool {
		return slices.ContainsFunc(list, func(at dag.Micros) bool { return at > after && at <= until })
	}
	if r := d.Absent.RunOf; r != nil && r.All {
		return !slices.ContainsFunc(r.Workflows, func(name string) bool { return !in(m.Came[name]) })
	}
	for _, list := range m.Came {
		if in(list) {
			return true
		}
	}
	return false
}

// expected returns a reason about the expected events. more are the further values of its sentence.
func (d *declared) expected(code string, more ...string) store.Reason {
	if f := d.Absent.File; f != nil {
		return store.Because(code, append([]string{f.Pattern, f.Path, ""}, more...)...)
	}
	r := d.Absent.RunOf
	word := " or "
	if r.All {
		word = " and "
	}
	return store.Because(code, append([]string{"", "", strings.Join(r.Workflows, word)}, more...)...)
}

// deadline returns the end of a span without an arrival. The span begins with the newest arrival or, without
// an arrival, with the declaration.
func (d *declared) deadline(t *store.Trigger, m *memory) dag.Micros {
	length := max(micros(d.Absent.After()), second)
	from := t.Since
	if r := d.Absent.RunOf; r != nil && r.All {
		oldest := dag.Micros(0)
		for i, name := range r.Workflows {
			list := m.Came[name]
			if len(list) == 0 {
				return from + length
			}
			if last := list[len(list)-1]; i == 0 || last < oldest {
				oldest = last
			}
		}
		return max(from, oldest) + length
	}
	for _, list := range m.Came {
		if len(list) > 0 {
			from = max(from, list[len(list)-1])
		}
	}
	return from + length
}

func (d *declared) beginAbsent(t *store.Trigger, now dag.Micros) error {
	t.Data = nil
	if d.when != nil {
		d.beginSchedule(t, now)
		return nil
	}
	if t.State == store.TriggerActive {
		t.Next = d.deadline(t, &memory{})
	}
	return d.beginSensor(t, now)
}

func (d *declared) planAbsent(t *store.Trigger, now dag.Micros) (engine.Plan, error) {
	if now < t.Decided {
		return unchanged(t), nil
	}
	m, err := remembered(t)
	if err != nil {
		return engine.Plan{}, err
	}
	if d.when == nil {
		return d.planSpan(t, &m, now), nil
	}
	first := d.next(t.Decided)
	if first == 0 || first > now {
		return d.moved(engine.Plan{}, first, now), nil
	}
	p := planning{open: open{declared: d}, gap: d.gap(first, t.Decided, now)}
	after := d.newestInstants(t.Decided, now, judgedMax)
	p.line(t.Decided, after, store.OutcomeMissed, d.expected("absent_unchecked"))
	var lacking []dag.Micros
	for at := d.next(after); at != 0 && at <= now; at = d.next(at) {
		if d.came(&m, d.last(at-1), at) {
			p.line(at-1, at, store.OutcomeSkipped, d.expected("absent_came"))
			continue
		}
		lacking = append(lacking, at)
	}
	p.lacking(lacking)
	m.forget(d, now)
	p.Data = m.pack()
	return d.moved(p.Plan, d.next(now), now), nil
}

// newestInstants returns an instant in (after, until] that at most n instants follow.
func (d *declared) newestInstants(after, until dag.Micros, n int64) dag.Micros {
	if d.count(after, until) <= n {
		return after
	}
	at := until
	for range n {
		at = d.last(at) - 1
	}
	return at
}

// lacking decides instants without an arrival by the rules of catchup.
func (p *planning) lacking(list []dag.Micros) {
	for i, at := range list {
		late, newest := at <= p.missed, i == len(list)-1
		switch {
		case at <= p.expired:
			p.line(at-1, at, store.OutcomeMissed, store.Because("delay_tolerance", p.DelayTolerance.String()))
		case late && p.Catchup == catchupNone:
			p.line(at-1, at, store.OutcomeMissed, store.Because("catchup_none"))
		case late && p.Catchup != catchupAll && !newest:
			p.line(at-1, at, store.OutcomeMerged, store.Because("catchup_latest", clock(list[len(list)-1])))
		default:
			s := p.starting(at, "", p.expected("absent_by", clock(at)), nil)
			if s.Late = late; late {
				s.Reason = s.Reason.And("; ", store.Because("late", span(p.now-at)))
			}
			p.Starts = append(p.Starts, s)
		}
	}
	sort.SliceStable(p.Lines, func(i, j int) bool {
		a, b := &p.Lines[i], &p.Lines[j]
		return int(min(max(a.At-b.At, -1), 1)) < 0
	})
}

// forget removes arrivals that no later instant needs.
func (m *memory) forget(d *declared, now dag.Micros) {
	for source, list := range m.Came {
		last := d.last(now)
		list = slices.DeleteFunc(list, func(at dag.Micros) bool { return at <= last })
		if m.Came[source] = list; len(list) == 0 {
			delete(m.Came, source)
		}
	}
}

// planSpan decides the end of a span without an arrival. While no server runs, no arrival is noticed, so
// one run reports all spans that ended in that time.
func (d *declared) planSpan(t *store.Trigger, m *memory, now dag.Micros) engine.Plan {
	p := unchanged(t)
	p.Decided = now
	if t.Next == 0 {
		p.Next = max(d.deadline(t, m), now+1)
	}
	if t.Next == 0 || t.Next > now {
		return p
	}
	s := d.starting(t.Next, "", d.expected("absent_for", d.Absent.By), nil)
	if late := now - t.Next; late > lateAfter {
		s.Late = true
		s.Reason = s.Reason.And("; ", store.Because("late", span(late)))
	}
	p.Starts = []engine.Start{s}
	p.Next = now + max(micros(d.Absent.After()), second)
	return p
}

// passedAbsent implements Passed for absent.
func (d *declared) passedAbsent(t *store.Trigger, now dag.Micros, reason store.Reason) (engine.Plan, error) {
	if d.when != nil {
		return d.passedSchedule(t, now, reason), nil
	}
	length := max(micros(d.Absent.After()), second)
	return engine.Plan{Decided: max(now, t.Decided), Next: max(now, t.Decided) + length}, nil
}
